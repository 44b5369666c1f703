//! [`Options`]: the string options of a connector, read without regard to case, as users of Spark write them.
//!
//! An option nobody knows is an error that lists those that exist: a misspelt limit must not be a silent no-op.

use std::collections::BTreeMap;
use std::str::FromStr;

use weir_runtime::{Result, WeirError};

/// The options given to one connector, checked against the names it knows.
pub(crate) struct Options<'a> {
    known: &'static [&'static str],
    /// Value by known name.
    values: BTreeMap<&'static str, &'a str>,
}

impl<'a> Options<'a> {
    /// Takes the options of `owner`, such as `source 'rate'`.
    ///
    /// # Errors
    /// An unknown name, or one name in two spellings.
    pub(crate) fn new(
        owner: &str,
        known: &'static [&'static str],
        given: &'a BTreeMap<String, String>,
    ) -> Result<Self> {
        let mut values = BTreeMap::new();
        for (name, value) in given {
            let found = known.iter().find(|known| known.eq_ignore_ascii_case(name));
            let found = found.ok_or_else(|| WeirError::unknown_option(owner, name, known))?;
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

    /// The value of an option as `read` understands it.
    ///
    /// # Errors
    /// A text for which `read` gives `None`.
    pub(crate) fn parse_with<T>(
        &self,
        name: &'static str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match read(text.trim()) {
            Some(value) => Ok(Some(value)),
            None => Err(WeirError::invalid_option(name, text, allowed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["numRows", "truncate"];

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn options_in_any_case_are_found() {
        let given = given(&[("NUMROWS", " 7 ")]);
        let options = Options::new("sink 'console'", KNOWN, &given).expect("known");
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
        let unknown = Options::new("sink 'console'", KNOWN, &given(&[("rows", "1")])).err();
        assert_eq!(
            unknown.expect("refused").message(),
            "sink 'console' has no option 'rows', known options: numRows, truncate"
        );
        assert!(Options::new("x", KNOWN, &given(&[("numrows", "1"), ("numRows", "1")])).is_err());
        let given = given(&[("numRows", "many")]);
        let options = Options::new("sink 'console'", KNOWN, &given).expect("known");
        let error = options
            .parse::<u32>("numRows", "a whole number")
            .expect_err("malformed");
        assert_eq!(
            error.message(),
            "option 'numRows' has the value 'many', allowed: a whole number"
        );
    }
}
