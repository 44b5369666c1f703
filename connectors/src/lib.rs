//! Sources and sinks: one folder per connector.

pub mod actor;
pub mod avro;
pub mod collect;
pub mod console;
pub mod file;
pub mod foreach;
pub mod foreach_batch;
pub mod kafka;
pub mod memory;
pub mod noop;
pub mod rate;
pub mod socket;

mod calendar;
pub mod options;
#[cfg(test)]
mod test_context;
