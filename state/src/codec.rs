//! The one module that knows bincode: small records as bytes, with a version byte in front.
//!
//! Used inside snapshots. To change the layout of a record, raise its version and decode the old ones by
//! their own type.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Result, StateError};

/// Largest record, in bytes; a damaged length must not ask for more memory than this.
pub const RECORD_BYTES_MAX: usize = 256 << 20;

type Config = Configuration<LittleEndian, Fixint, Limit<RECORD_BYTES_MAX>>;

fn config() -> Config {
    bincode::config::standard()
        .with_fixed_int_encoding()
        .with_limit::<RECORD_BYTES_MAX>()
}

/// Encodes `value` as the version byte and its bincode form.
///
/// # Errors
/// [`StateError::Codec`] naming `what` when the value has a form bincode cannot write.
pub fn encode<T: Serialize>(what: &str, version: u8, value: &T) -> Result<Vec<u8>> {
    let mut bytes = vec![version];
    bincode::serde::encode_into_std_write(value, &mut bytes, config())
        .map_err(|e| error(what, e.to_string()))?;
    Ok(bytes)
}

/// The version byte of an encoded record, to choose the type to decode by.
///
/// # Errors
/// [`StateError::Codec`] naming `what` when there are no bytes.
pub fn version(what: &str, bytes: &[u8]) -> Result<u8> {
    bytes
        .first()
        .copied()
        .ok_or_else(|| error(what, "the record is empty".to_string()))
}

/// Decodes a record of exactly this version; bytes left over are an error.
///
/// # Errors
/// [`StateError::Codec`] naming `what`.
pub fn decode<T: DeserializeOwned>(what: &str, version: u8, bytes: &[u8]) -> Result<T> {
    let found = self::version(what, bytes)?;
    if found != version {
        let reason = format!("the record has version {found}, expected version {version}");
        return Err(error(what, reason));
    }
    let body = &bytes[1..];
    let (value, used) = bincode::serde::decode_from_slice(body, config())
        .map_err(|e| error(what, e.to_string()))?;
    if used != body.len() {
        let reason = format!("{} bytes are left over", body.len() - used);
        return Err(error(what, reason));
    }
    Ok(value)
}

fn error(what: &str, reason: String) -> StateError {
    StateError::Codec {
        what: what.to_string(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        name: String,
        count: u64,
        tags: Vec<Option<i32>>,
    }

    fn record() -> Record {
        Record {
            name: "città".into(),
            count: u64::MAX,
            tags: vec![Some(-1), None],
        }
    }

    #[test]
    fn codec_round_trip_keeps_the_value() {
        let bytes = encode("record", 3, &record()).expect("encode");
        assert_eq!(version("record", &bytes).expect("version"), 3);
        assert_eq!(
            decode::<Record>("record", 3, &bytes).expect("decode"),
            record()
        );
    }

    #[test]
    fn codec_other_version_is_an_error_naming_both() {
        let bytes = encode("record", 3, &record()).expect("encode");
        let text = decode::<Record>("record", 2, &bytes)
            .expect_err("other version")
            .to_string();
        assert_eq!(
            text,
            "cannot encode or decode record: the record has version 3, expected version 2"
        );
    }

    #[test]
    fn codec_truncated_or_extended_anywhere_is_an_error() {
        let mut bytes = encode("record", 1, &record()).expect("encode");
        for len in 0..bytes.len() {
            assert!(
                decode::<Record>("record", 1, &bytes[..len]).is_err(),
                "{len}"
            );
        }
        bytes.push(0);
        assert!(decode::<Record>("record", 1, &bytes).is_err());
    }

    #[test]
    fn codec_absurd_length_is_an_error_not_an_allocation() {
        let mut bytes = vec![1];
        bytes.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(decode::<String>("text", 1, &bytes).is_err());
        assert!(decode::<Vec<u64>>("numbers", 1, &bytes).is_err());
    }
}
