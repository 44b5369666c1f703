//! Files as a source and as a sink.
//!
//! What lives here turns the bytes of one file into Arrow batches ([`decode`]) and batches into the bytes of one file
//! ([`encode`]); finding files, remembering which ones were read and publishing finished ones are siblings of it.

pub mod decode;
pub mod encode;

#[cfg(test)]
mod round_trip;
