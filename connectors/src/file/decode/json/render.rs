//! Writing a value back as compact JSON, the way Spark's `from_json` fills STRING fields: no blanks, floating-point
//! numbers as Java prints them, escapes only where JSON needs them.

use std::io::Write;

use super::{
    super::parse::{parse_f64, parse_i64},
    number::Number,
};

/// Takes the pieces of a value in order; `()` ignores them.
pub(super) trait Sink {
    /// An object or array begins; `close` is the bracket that will end it.
    fn open(&mut self, _close: u8) {}
    /// It ends.
    fn close(&mut self, _close: u8) {}
    /// Another member follows.
    fn comma(&mut self) {}
    /// The name of a member.
    fn name(&mut self, _name: &[u8]) {}
    /// A string, escapes resolved.
    fn string(&mut self, _text: &[u8]) {}
    /// A number.
    fn number(&mut self, _number: Number<'_>) {}
    /// `true`, `false` or `null`.
    fn literal(&mut self, _word: &[u8]) {}
}

impl Sink for () {}

/// Appends compact JSON.
impl Sink for Vec<u8> {
    fn open(&mut self, close: u8) {
        self.push(if close == b'}' { b'{' } else { b'[' });
    }

    fn close(&mut self, close: u8) {
        self.push(close);
    }

    fn comma(&mut self) {
        self.push(b',');
    }

    fn name(&mut self, name: &[u8]) {
        self.string(name);
        self.push(b':');
    }

    fn string(&mut self, text: &[u8]) {
        self.push(b'"');
        for &byte in text {
            match byte {
                b'"' | b'\\' => self.extend([b'\\', byte]),
                0x08 => self.extend(b"\\b"),
                0x0C => self.extend(b"\\f"),
                b'\n' => self.extend(b"\\n"),
                b'\r' => self.extend(b"\\r"),
                b'\t' => self.extend(b"\\t"),
                0..0x20 => write_all(self, format_args!("\\u{byte:04X}")),
                _ => self.push(byte),
            }
        }
        self.push(b'"');
    }

    fn number(&mut self, number: Number<'_>) {
        match number {
            Number::Whole(digits) => match parse_i64(digits) {
                Some(value) => write_all(self, format_args!("{value}")),
                None => self.extend_from_slice(digits),
            },
            Number::Fractional(text) => write_double(self, parse_f64(text).unwrap_or(f64::NAN)),
            Number::Special(value) if value.is_nan() => self.extend(b"\"NaN\""),
            Number::Special(value) if value > 0.0 => self.extend(b"\"Infinity\""),
            Number::Special(_) => self.extend(b"\"-Infinity\""),
        }
    }

    fn literal(&mut self, word: &[u8]) {
        self.extend_from_slice(word);
    }
}

fn write_all(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("invariant: writing to memory does not fail");
}

/// As Java's `Double.toString`: shortest digits that read back; a point always; an exponent outside 10^-3..10^7.
fn write_double(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        let word = if value.is_nan() { "NaN" } else { "Infinity" };
        let sign = if value < 0.0 { "-" } else { "" };
        return write_all(out, format_args!("\"{sign}{word}\""));
    }
    let magnitude = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return write_all(out, format_args!("{value:?}"));
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    write_all(out, format_args!("{digits}{point}E{exponent}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_java_does() {
        for (value, expected) in [
            (1.5, "1.5"),
            (1000.0, "1000.0"),
            (1e7, "1.0E7"),
            (1.25e-5, "1.25E-5"),
            (0.001, "0.001"),
            (-0.0, "-0.0"),
            (1.7976931348623157e308, "1.7976931348623157E308"),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            let mut out = Vec::new();
            write_double(&mut out, value);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn strings_are_escaped_only_where_needed() {
        let mut out = Vec::new();
        out.string("a\"\\/\n\u{1}é".as_bytes());
        assert_eq!(String::from_utf8_lossy(&out), "\"a\\\"\\\\/\\n\\u0001é\"");
    }
}
