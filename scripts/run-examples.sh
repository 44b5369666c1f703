#!/usr/bin/env bash
# Runs every example as a reader of it would; each checks its own outcome.
set -euo pipefail
cd "$(dirname "$0")/.."
# The bench, which needs data, is a directory and not among them.
for file in examples/*.rs; do
  name=$(basename "$file" .rs)
  echo "-- $name"
  cargo run --quiet --example "$name" </dev/null
done
