#!/usr/bin/env bash
# Everything that has to hold before a change lands: format, lints, docs, unit, integration, conformance and doc tests, examples.
# Packages are always selected with --workspace, so that features unify once and nothing is built twice.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

step() { printf '\n== %s\n' "$*"; }

step "format";    cargo fmt --all --check
step "lints";     cargo clippy --workspace --all-targets -- -D warnings
                  cargo clippy --workspace --test kafka --test spark --test s3 -- -D warnings
step "docs";      RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
step "tests";     cargo test --workspace --lib --bins --tests --examples --no-fail-fast
step "kafka";     scripts/test-kafka.sh
step "spark";     scripts/test-spark-exchange.sh
step "s3";        scripts/test-s3.sh
step "doc tests"; cargo test --workspace --doc
step "benches compile and run once"; cargo test --workspace --bench '*' --quiet
step "examples";  scripts/run-examples.sh
step "a crate outside the workspace"; scripts/test-outside.sh
step "conformance"; cargo test --workspace --test conformance
