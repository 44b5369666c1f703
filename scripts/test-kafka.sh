#!/usr/bin/env bash
# Tests against a real Kafka, which they start: those whose names hold one of the words given; without a word all of them, which takes
# a quarter of an hour on two cores, and then the examples that need a Kafka.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/kafka/broker install
cargo test --workspace --test kafka -- "$@"
(($#)) && exit
for file in examples/kafka_*.rs; do
  name=$(basename "$file" .rs)
  echo "-- $name"
  cargo run --quiet --example "$name" </dev/null
done
