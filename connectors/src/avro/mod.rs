//! Avro: schemas, and values of a writer's schema read as those of a reader's. What files and the functions of payloads share.
//!
//! [`Shape`] is a schema, `resolve` decides how a writer's data become a reader's, `check` proves each value sound, [`Reader`]
//! lets the Avro library read the sound ones, and `convert` makes Spark's columns of what it made. [`Writer`] is the way back.

mod check;
mod convert;
mod decode;
mod defaults;
mod encode;
mod resolve;
mod schema;
mod types;

pub use decode::{Reader, gathered};
pub use encode::{NotWritten, Writer};
pub use schema::{Field, Long, Name, Shape, Symbols, Unit};
pub use types::{Naming, column_type, is_plain};
