#!/usr/bin/env bash
# Directories that Spark and Weir exchange: each reads what the other's streams wrote. Apache Spark is fetched once, from PyPI, into
# ~/.cache/weir-pyspark (or WEIR_PYSPARK_DIR); Java 17 is fetched by apt-get where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.3.0
dir=${WEIR_PYSPARK_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/weir-pyspark}/$version

missing=()
command -v java >/dev/null || missing+=(openjdk-17-jre-headless)
command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
if ((${#missing[@]})); then
  sudo=""
  [[ $(id -u) == 0 ]] || sudo="sudo"
  $sudo apt-get update -q
  $sudo apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

if [[ ! -e $dir/installed ]]; then
  rm -rf "$dir"
  mkdir -p "$(dirname "$dir")"
  python3 -m venv "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "pyspark==$version"
  touch "$dir/installed"
fi

WEIR_SPARK_PYTHON=$dir/bin/python exec cargo test --workspace --test spark -- "$@"
