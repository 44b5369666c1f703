#!/usr/bin/env bash
# Installs what a bare Debian 12 lacks to build and test Weir. Does nothing where everything is there.
set -euo pipefail

if ! command -v cargo >/dev/null; then
  echo "cargo is not installed: get Rust from https://rustup.rs, then run this again" >&2
  exit 1
fi

missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v git >/dev/null || missing+=(git)
if ((${#missing[@]})); then
  sudo=""
  [[ $(id -u) == 0 ]] || sudo="sudo"
  $sudo apt-get update -q
  $sudo apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
