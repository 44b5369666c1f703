//! Sources, sinks, tables and checkpoints in buckets of a server that speaks as S3 does, by `scripts/test-s3.sh`.
#![allow(missing_docs, clippy::unwrap_used)]

mod bucket;
mod checkpoint;
mod crash;
mod credentials;
mod kill;
mod lost_answers;
mod proxy;
mod refusals;
mod secrets;
mod sink;
mod source;
mod stages;

#[path = "../support/moments.rs"]
mod moments;
#[path = "../support/texts.rs"]
mod texts;
