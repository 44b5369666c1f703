//! [`Epoch`]: the number of one micro-batch, the same thing Spark calls a batch id.
//!
//! A type of its own so that an epoch is never mixed up with a generation, an offset or a count.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of an epoch: consecutive from 0, never reused with other data.
///
/// Serialised as the bare number; the decimal text is also the name of its plan and its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The first epoch of a query.
    pub const FIRST: Epoch = Epoch(0);

    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0.saturating_add(1))
    }

    /// The epoch before this one, `None` for the first.
    #[must_use]
    pub fn previous(self) -> Option<Epoch> {
        self.0.checked_sub(1).map(Epoch)
    }

    /// Reads the name of a log file: canonical decimal digits only (`7`, not `07`, `+7` or `7.tmp`).
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Epoch> {
        let canonical =
            name == "0" || (!name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit()));
        canonical.then(|| name.parse().ok().map(Epoch)).flatten()
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_next_and_previous_are_inverse() {
        assert_eq!(Epoch::FIRST.next(), Epoch(1));
        assert_eq!(Epoch(1).previous(), Some(Epoch::FIRST));
        assert_eq!(Epoch::FIRST.previous(), None);
    }

    #[test]
    fn epoch_serialised_is_the_bare_number() {
        assert_eq!(serde_json::to_string(&Epoch(7)).expect("json"), "7");
        assert_eq!(serde_json::from_str::<Epoch>("7").expect("json"), Epoch(7));
    }

    #[test]
    fn epoch_file_name_only_canonical_digits_are_accepted() {
        for (name, expected) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("00", None),
            ("07", None),
            ("+7", None),
            ("-7", None),
            ("7.tmp", None),
            (".7.crc", None),
            ("seven", None),
        ] {
            assert_eq!(
                Epoch::from_file_name(name),
                expected.map(Epoch),
                "name `{name}`"
            );
        }
    }
}
