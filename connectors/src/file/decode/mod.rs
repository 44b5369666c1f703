//! Bytes of one file -> Arrow batches, with Spark's rules for bad records.

pub mod parse;
