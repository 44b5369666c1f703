//! Apache Kafka in and out, against real brokers: topics as streams and tables, and the results of queries in topics.
#![allow(missing_docs, clippy::unwrap_used)]

mod backlog;
mod batch;
mod columns;
mod fetching;
mod gaps;
mod limits;
mod loss;
mod outage;
mod partitions;
mod payloads;
mod progress;
mod refusals;
mod restart;
mod security;
mod sink;
mod starting;
mod support;

#[path = "../support/kafka_broker.rs"]
mod kafka_broker;
#[path = "../support/moments.rs"]
mod moments;
