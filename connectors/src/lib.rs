//! Sources and sinks.

pub mod file;
