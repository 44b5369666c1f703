//! Files as a source and as a sink.
//!
//! What lives here turns the bytes of one file into Arrow batches ([`decode`]); finding files, remembering which ones
//! were read and publishing finished ones are siblings of it.

pub mod decode;
