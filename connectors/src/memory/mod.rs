//! Tables in memory: a stream that code of the same process adds to, and a sink that can be looked into. For tests,
//! examples and small live views; nothing of either survives the process.
//!
//! - [`MemoryStream`] and its [`MemorySource`]: Spark's `MemoryStream`.
//! - [`MemorySink`] and its [`MemoryTable`]: Spark's sink format `memory`.

mod buffer;
mod sink;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use buffer::{Buffer, Feed};
pub use sink::{MemorySink, MemoryTable};
pub use stream::{MemorySource, MemoryStream};
