//! Files as a source and as a sink.
//!
//! Three layers: [`decode`] and [`encode`] turn the bytes of one file into Arrow batches and back; [`source`] finds files and
//! remembers which ones were read; [`sink`] publishes finished files, each epoch all at once. What users may set stands in
//! one table, [`options`].

pub mod charset;
pub mod codec;
pub mod decode;
pub mod encode;
pub mod logs;
pub mod options;
pub mod pattern;
pub(crate) mod remote;
#[cfg(test)]
mod round_trip;
pub mod sink;
pub mod source;
pub(crate) mod store;
pub(crate) mod uri;
