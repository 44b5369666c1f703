//! Names of partition directories, `column=value`, escaped letter by letter as Spark and Hive do it.

use std::fmt::Write as _;

/// What stands for NULL and for the empty text, which has no directory name of its own.
pub(crate) const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// `column=value`; `None` is NULL.
pub(crate) fn directory(column: &str, value: Option<&str>) -> String {
    let mut name = escape(column);
    name.push('=');
    match value {
        None | Some("") => name.push_str(NULL),
        Some(value) => name.push_str(&escape(value)),
    }
    name
}

/// Every character that is special in a path becomes `%` and two digits; blanks and letters of any script stay.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if needs_escape(c) {
            write!(escaped, "%{:02X}", u32::from(c))
                .expect("invariant: writing to a string cannot fail");
        } else {
            escaped.push(c);
        }
    }
    escaped
}

fn needs_escape(c: char) -> bool {
    c.is_ascii_control()
        || matches!(
            c,
            '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '[' | ']' | '^'
        )
}

/// What [`escape`] was given; a `%` that no two digits follow stays.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        let code = rest
            .get(at + 1..at + 3)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &rest[at + 3..];
            }
            None => {
                plain.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_spelt_as_spark_spells_it() {
        for (value, expected) in [
            (Some("a/b"), "k=a%2Fb"),
            (Some("a=b"), "k=a%3Db"),
            (Some("100%"), "k=100%25"),
            (Some("t:1"), "k=t%3A1"),
            (Some("x y"), "k=x y"),
            (Some(".."), "k=.."),
            (Some("città"), "k=città"),
            (Some("a\u{7f}\n"), "k=a%7F%0A"),
            (Some(""), "k=__HIVE_DEFAULT_PARTITION__"),
            (None, "k=__HIVE_DEFAULT_PARTITION__"),
        ] {
            assert_eq!(directory("k", value), expected);
        }
        assert_eq!(directory("a:b", Some("1")), "a%3Ab=1");
    }

    #[test]
    fn escape_and_unescape_are_inverse() {
        for text in [
            "",
            "plain",
            "100%",
            "%2F",
            "%",
            "a%zz",
            "\u{0}\u{1f}",
            "é漢字",
            "{[]}^'\"\\?*#",
        ] {
            assert_eq!(unescape(&escape(text)), text);
        }
    }
}
