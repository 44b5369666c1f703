#!/usr/bin/env bash
# The main job on embedded defaults: JSON files -> purchases over 100 -> Parquet, exactly once, in a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
exec cargo run --example purchases -- "$@"
