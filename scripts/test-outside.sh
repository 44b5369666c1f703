#!/usr/bin/env bash
# Builds and tests a crate that is not part of the workspace against the public API.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test --manifest-path tests/outside/Cargo.toml
