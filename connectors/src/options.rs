//! [`OptionSpec`]: the options of a connector as one table, and [`Options`]: those a program gives, read by that table.
//!
//! The table is what a program may write, what an error lists and what `docs/options.md` is made from ([`reference()`]). Names are
//! found in any letter case, as users of Spark write them. An option nobody knows is an error that lists those that exist: a
//! misspelt limit must not be a silent no-op.

mod reference;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use weir_runtime::{Result, WeirError};

pub use reference::reference;

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name, as Spark spells it.
    pub name: &'static str,
    /// What holds where it is not given; empty text where nothing does.
    pub default: &'static str,
    /// What it does, one phrase.
    pub meaning: &'static str,
}

/// One row of a table.
pub(crate) const fn spec(
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> OptionSpec {
    OptionSpec {
        name,
        default,
        meaning,
    }
}

/// The options given to one connector, checked against its table.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    known: Vec<&'static str>,
    /// Value by known name.
    values: BTreeMap<&'static str, &'a str>,
}

impl<'a> Options<'a> {
    /// Takes the options of `owner`, such as `source 'rate'`, which are those of `table`.
    ///
    /// # Errors
    /// An unknown name, or one name in two spellings.
    pub(crate) fn new(
        owner: &str,
        table: &[OptionSpec],
        given: &'a BTreeMap<String, String>,
    ) -> Result<Self> {
        let known: Vec<&'static str> = table.iter().map(|spec| spec.name).collect();
        let mut values = BTreeMap::new();
        for (name, value) in given {
            let found = known.iter().find(|known| known.eq_ignore_ascii_case(name));
            let found = found.ok_or_else(|| {
                let mut names = known.clone();
                names.sort_unstable();
                WeirError::unknown_option(owner, name, &names)
            })?;
            if values.insert(*found, value.as_str()).is_some() {
                return Err(WeirError::config(format!(
                    "option '{found}' of {owner} is given more than once, in different spellings"
                )));
            }
        }
        Ok(Self { known, values })
    }

    /// The text of an option.
    pub(crate) fn text(&self, name: &'static str) -> Option<&'a str> {
        debug_assert!(
            self.known.contains(&name),
            "option '{name}' is not declared"
        );
        self.values.get(name).copied()
    }

    /// The value of an option; `allowed` says in words what [`FromStr`] takes.
    ///
    /// # Errors
    /// A text that does not parse.
    pub(crate) fn parse<T: FromStr>(&self, name: &'static str, allowed: &str) -> Result<Option<T>> {
        self.parse_with(name, allowed, |text| text.parse().ok())
    }

    /// The value of an option as `read` understands it, blanks around it left out.
    ///
    /// # Errors
    /// A text for which `read` gives `None`.
    pub(crate) fn parse_with<T>(
        &self,
        name: &'static str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        self.parse_exactly(name, allowed, |text| read(text.trim()))
    }

    /// The value of an option as `read` understands it, letter by letter.
    ///
    /// # Errors
    /// A text for which `read` gives `None`.
    pub(crate) fn parse_exactly<T>(
        &self,
        name: &'static str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(WeirError::invalid_option(name, text, allowed)),
        }
    }

    /// `true` or `false` in any letter case.
    pub(crate) fn flag(&self, name: &'static str) -> Result<Option<bool>> {
        self.parse_exactly(name, "true, false", |text| {
            match text.to_ascii_lowercase().as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            }
        })
    }

    /// A whole number above 0, digits only, as Spark wants it (`1k` is none).
    pub(crate) fn positive(&self, name: &'static str) -> Result<Option<u64>> {
        self.parse_exactly(name, "a whole number above 0, digits only", |text| {
            digits(text).filter(|number| *number > 0)
        })
    }

    /// A whole number, digits only.
    pub(crate) fn natural(&self, name: &'static str) -> Result<Option<u64>> {
        self.parse_exactly(name, "a whole number, digits only", digits)
    }

    /// A span of time such as `7d`.
    pub(crate) fn duration(&self, name: &'static str) -> Result<Option<Duration>> {
        self.parse_exactly(
            name,
            "a number with a unit: us, ms, s, m, min, h or d",
            duration,
        )
    }

    /// One ASCII character; `\t` and `\\` are spelt so.
    pub(crate) fn byte(&self, name: &'static str) -> Result<Option<u8>> {
        self.parse_exactly(
            name,
            "one ASCII character, or \\t for a tab",
            |text| match text.as_bytes() {
                b"\\t" => Some(b'\t'),
                b"\\\\" => Some(b'\\'),
                [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Some(*byte),
                _ => None,
            },
        )
    }

    /// As [`Options::byte`], where the empty text means none.
    pub(crate) fn byte_or_none(
        &self,
        name: &'static str,
        default: Option<u8>,
    ) -> Result<Option<u8>> {
        match self.text(name) {
            None => Ok(default),
            Some("") => Ok(None),
            Some(_) => self.byte(name),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// A number and a unit, as Spark writes time in options; a number alone is milliseconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().ok()?;
    let micros = match unit.trim() {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[OptionSpec] = &[
        spec("numRows", "20", "rows shown"),
        spec("truncate", "true", "cut long values"),
        spec("maxFileAge", "7d", "age"),
    ];

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn options_in_any_case_are_found() {
        let given = given(&[("NUMROWS", " 7 ")]);
        let options = Options::new("sink 'console'", TABLE, &given).expect("known");
        assert_eq!(
            options
                .parse::<u32>("numRows", "a whole number")
                .expect("parses"),
            Some(7)
        );
        assert_eq!(options.text("truncate"), None);
    }

    #[test]
    fn options_unknown_twice_or_malformed_are_refused() {
        let unknown = Options::new("sink 'console'", &TABLE[..2], &given(&[("rows", "1")])).err();
        assert_eq!(
            unknown.expect("refused").message(),
            "sink 'console' has no option 'rows', known options: numRows, truncate"
        );
        let twice = given(&[("numrows", "1"), ("numRows", "1")]);
        assert!(Options::new("x", TABLE, &twice).is_err());
        let given = given(&[("numRows", "many")]);
        let options = Options::new("sink 'console'", TABLE, &given).expect("known");
        let error = options
            .parse::<u32>("numRows", "a whole number")
            .expect_err("malformed");
        assert_eq!(
            error.message(),
            "option 'numRows' has the value 'many', allowed: a whole number"
        );
    }

    #[test]
    fn options_numbers_are_validated_as_spark_does() {
        for bad in ["0", "-1", "abc", "1k", "", "1.5", "+1", " 1"] {
            let given = given(&[("NUMROWS", bad)]);
            let options = Options::new("x", TABLE, &given).expect("known");
            let error = options.positive("numRows").expect_err(bad);
            assert!(
                error.message().contains("numRows") && error.message().contains(bad),
                "{error}"
            );
        }
        let given = given(&[("NUMROWS", "10")]);
        let options = Options::new("x", TABLE, &given).expect("known");
        assert_eq!(options.positive("numRows").expect("good"), Some(10));
    }

    #[test]
    fn options_durations_have_sparks_units() {
        let seconds = |text| duration(text).map(|d| d.as_secs_f64());
        assert_eq!(seconds("7d"), Some(604_800.0));
        assert_eq!(seconds("2H"), Some(7_200.0));
        assert_eq!(seconds("5min"), Some(300.0));
        assert_eq!(seconds("1500"), Some(1.5));
        for bad in ["", "d", "7 weeks", "-1s", "1.5h", "99999999999999999999d"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
