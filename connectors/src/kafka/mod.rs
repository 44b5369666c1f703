//! Apache Kafka: a source that reads exact offset ranges, a sink that writes each epoch in one transaction, and what their clients share.

pub mod client;
pub mod sink;
pub mod source;
