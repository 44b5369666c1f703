#!/usr/bin/env bash
# Installs what a bare Debian 12 lacks to build and test Weir. Does nothing where everything is there.
set -euo pipefail

if ! command -v cargo >/dev/null; then
  echo "cargo is not installed: get Rust from https://rustup.rs, then run this again" >&2
  exit 1
fi

# RocksDB and librdkafka are compiled from source: a C++ compiler, make, pkg-config, OpenSSL and libclang for bindings.
missing=()
command -v c++ >/dev/null || missing+=(g++)
command -v make >/dev/null || missing+=(make)
command -v pkg-config >/dev/null || missing+=(pkg-config)
# libclang-cpp.so, which other packages bring, does not serve.
compgen -G '/usr/lib/*/libclang[.-][s0-9]*' >/dev/null || compgen -G '/usr/lib/llvm-*/lib/libclang[.-][s0-9]*' >/dev/null ||
  missing+=(libclang1-14 libclang-common-14-dev)
[[ -e /usr/include/openssl/ssl.h ]] || missing+=(libssl-dev)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
if ((${#missing[@]})); then
  sudo=""
  [[ $(id -u) == 0 ]] || sudo="sudo"
  $sudo apt-get update -q
  $sudo apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
