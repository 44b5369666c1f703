//! Names inside a checkpoint: which are well formed, which are temporary, how a uid becomes one.

use std::fmt::Write as _;

use crate::error::{Result, StateError};

/// Suffix of files that are being written; with a leading dot they are invisible to every listing.
pub(crate) const TEMP_SUFFIX: &str = ".tmp";

/// True for names a listing must not show: temporary, hidden, checksum side files.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name.ends_with(".crc") || name.ends_with(TEMP_SUFFIX)
}

/// True for a temporary file this crate made (`.<name>.<uuid>.tmp`).
pub(crate) fn is_own_temp(name: &str) -> bool {
    let Some(inner) = name
        .strip_prefix('.')
        .and_then(|rest| rest.strip_suffix(TEMP_SUFFIX))
    else {
        return false;
    };
    inner
        .rsplit_once('.')
        .is_some_and(|(_, id)| uuid::Uuid::try_parse(id).is_ok())
}

/// Refuses names that would leave the checkpoint or that a listing would hide.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad_segment = |s: &str| s.is_empty() || is_hidden(s) || s.chars().any(char::is_control);
    if name.split('/').any(bad_segment) {
        return Err(StateError::InvalidName {
            name: name.to_string(),
        });
    }
    Ok(())
}

/// A uid as one path segment: letters, digits, `_` and `-` stay, every other byte becomes `%XX`.
pub(crate) fn segment(uid: &str) -> String {
    let mut out = String::with_capacity(uid.len());
    for byte in uid.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("invariant: writing to a string cannot fail");
        }
    }
    if out.is_empty() { "%".to_string() } else { out }
}

/// A uuid in JSON: its hyphenated text.
pub(crate) mod uuid_text {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use uuid::Uuid;

    pub(crate) fn serialize<S: Serializer>(id: &Uuid, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        Uuid::try_parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_of_distinct_uids_is_distinct_and_safe() {
        let uids = [
            "", "%", "a", "A", "a/b", "a%2Fb", ".", "..", "über", "a b", "x.tmp",
        ];
        let segments: std::collections::BTreeSet<String> = uids.map(segment).into();
        assert_eq!(segments.len(), uids.len());
        for s in &segments {
            check_name(s).expect("a segment is a valid name");
        }
        assert_eq!(segment("window_1-a"), "window_1-a");
    }

    #[test]
    fn check_name_leaving_the_checkpoint_is_refused() {
        for name in [
            "", "/a", "a/", "a//b", "..", "a/../b", ".hidden", "a/x.tmp", "a\nb",
        ] {
            assert!(check_name(name).is_err(), "name {name:?}");
        }
        check_name("offsets/1").expect("valid");
    }

    #[test]
    fn own_temp_only_with_uuid() {
        assert!(is_own_temp(".7.0b5c6ae5-f4e5-4f81-9286-fab0160ea24d.tmp"));
        for other in ["7", ".7.tmp", "x.tmp", ".DS_Store", ".7.abc.tmp"] {
            assert!(!is_own_temp(other), "{other}");
        }
    }
}
