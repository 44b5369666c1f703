//! Files as source and sink.

pub mod encode;
