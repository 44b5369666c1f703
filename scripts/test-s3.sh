#!/usr/bin/env bash
# Tests against a server that speaks as S3 does: those whose names hold one of the words given, without a word all of them. The server
# is moto, fetched once from PyPI into ~/.cache/weir-moto (or WEIR_MOTO_DIR); it listens on 127.0.0.1 while the tests run, once as it is
# and once asking for keys that it knows.
set -euo pipefail
cd "$(dirname "$0")/.."

version=5.2.5
dir=${WEIR_MOTO_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/weir-moto}/$version

if ! { command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null; }; then
  sudo=""
  [[ $(id -u) == 0 ]] || sudo="sudo"
  $sudo apt-get update -q
  $sudo apt-get install -y -q --no-install-recommends python3-venv
fi

if [[ ! -e $dir/installed ]]; then
  rm -rf "$dir"
  mkdir -p "$(dirname "$dir")"
  python3 -m venv "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "moto[s3]==$version" flask==3.1.3 flask-cors==6.0.5
  touch "$dir/installed"
fi

# Built before the servers run, so that nobody waits for them in vain.
cargo test --workspace --test s3 --no-run

logs=$(mktemp -d)
started=()
stop() {
  ((${#started[@]})) && kill "${started[@]}" 2>/dev/null
  wait
  rm -rf "$logs"
}
trap stop EXIT

# Starts a server on a free port, with the variables given; the address is in $endpoint when it answers.
start() {
  local port log=$logs/$1
  shift
  for _ in 1 2 3; do
    port=$("$dir/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    env "$@" "$dir/bin/moto_server" -H 127.0.0.1 -p "$port" >"$log" 2>&1 &
    local pid=$!
    started+=("$pid")
    for _ in {1..300}; do
      kill -0 "$pid" 2>/dev/null || break
      if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        endpoint=http://127.0.0.1:$port
        return
      fi
      sleep 0.1
    done
  done
  cat "$log" >&2
  echo "moto does not answer" >&2
  exit 1
}

start open MOTO_CALL_RESET_API=false
export WEIR_S3_ENDPOINT=$endpoint
# The first four actions are for the tests to make a user.
start strict MOTO_CALL_RESET_API=false INITIAL_NO_AUTH_ACTION_COUNT=4
export WEIR_S3_STRICT_ENDPOINT=$endpoint
# Where keys of a machine come from: from nowhere here.
export AWS_METADATA_ENDPOINT=http://127.0.0.1:9
# Much of their time the tests wait for the server and for a lease to run out. All of them take a minute or two: after ten, one hangs.
timeout --kill-after=10 600 cargo test --workspace --test s3 -- --test-threads=8 "$@" &
started+=("$!")
wait "$!"
