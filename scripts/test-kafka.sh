#!/usr/bin/env bash
# Tests against a real Kafka, which they start: those whose names hold one of the words given; without a word all of them, which takes
# about ten minutes on two cores, and then the examples that need a Kafka.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/kafka/broker install
# Much of their time the tests wait for brokers, so more of them run than there are cores.
cargo test --workspace --test kafka -- --test-threads=4 "$@"
(($#)) && exit
for file in examples/kafka_*.rs; do
  name=$(basename "$file" .rs)
  echo "-- $name"
  cargo run --quiet --example "$name" </dev/null
done
