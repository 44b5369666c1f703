//! Text -> typed values, shared by every text format (JSON, CSV).
//!
//! All functions take the bytes of one value, never allocate, never panic and answer `None` for text Spark would not
//! accept; the caller decides what a bad value means (null field, dropped record, error). Formats differ in which
//! *tokens* they hand over (JSON gives only digits to an integer column), not in how the text is read.

mod base64;
mod decimal;
mod number;
mod time;
pub(super) mod words;
mod zone;

pub use base64::decode_base64;
pub use decimal::parse_decimal;
pub use number::{parse_bool, parse_f32, parse_f64, parse_i8, parse_i16, parse_i32, parse_i64};
pub use time::{parse_date, parse_timestamp, parse_timestamp_ntz};
pub use zone::{Zone, ZoneError};
