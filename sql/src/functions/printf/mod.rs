//! `format_string` and `printf`: Java's `Formatter` over the values of a row.

mod number;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Expr};
use weir_connectors::file::decode::parse::Zone;

use self::number::Number;
use super::coerce::is_integer;
use super::error::SparkError;
use super::kernel::{Call, Kernel};
use super::{Args, Resolver, text};

/// The family of formats.
pub(super) const FUNCTIONS: &[(&str, Resolver)] =
    &[("format_string", format_string), ("printf", format_string)];

fn format_string(args: Args<'_>) -> Result<Expr> {
    args.expect(1, usize::MAX)?;
    let mut values = args.exprs.clone();
    values[0] = args.string(0)?;
    Ok(Kernel::call(
        "format_string",
        DataType::Utf8,
        "",
        run,
        values,
    ))
}

fn run(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let formats = a[0].as_string::<i32>();
        let mut last: Option<(&str, Vec<Piece>)> = None;
        let mut rows = Vec::with_capacity(a[0].len());
        for row in 0..a[0].len() {
            if formats.is_null(row) {
                rows.push(None);
                continue;
            }
            let format = formats.value(row);
            if last.as_ref().is_none_or(|(known, _)| *known != format) {
                last = Some((format, pieces(format)?));
            }
            let pieces = last.as_ref().map(|(_, pieces)| pieces.as_slice());
            rows.push(Some(written(
                pieces.unwrap_or_default(),
                &a[1..],
                row,
                call.zone,
            )?));
        }
        Ok(Arc::new(StringArray::from(rows)) as ArrayRef)
    })
}

fn wrong(what: impl std::fmt::Display) -> DataFusionError {
    SparkError::external("INVALID_FORMAT", format!("format_string: {what}"))
}

/// A part of a format.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Value(Spec),
}

/// `%[index$][flags][width][.precision]conversion`.
#[derive(Debug, Clone, PartialEq)]
struct Spec {
    /// From 1; the next value without one.
    index: Option<usize>,
    flags: String,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

/// Widths and precisions are bounded, so that a format cannot ask for all memory.
const MOST_WIDTH: usize = 1 << 20;

fn pieces(format: &str) -> Result<Vec<Piece>> {
    let mut out = vec![];
    let mut letters = format.chars().peekable();
    let mut text = String::new();
    while let Some(c) = letters.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let number = |letters: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(d) = letters.next_if(char::is_ascii_digit) {
                digits.push(d);
            }
            digits
        };
        let mut flags = String::new();
        let mut index = None;
        while let Some(flag) = letters.next_if(|c| "-#+ 0,(".contains(*c)) {
            flags.push(flag);
        }
        let mut digits = number(&mut letters);
        if flags.is_empty() && !digits.is_empty() && letters.next_if_eq(&'$').is_some() {
            index = digits.parse().ok();
            while let Some(flag) = letters.next_if(|c| "-#+ 0,(".contains(*c)) {
                flags.push(flag);
            }
            digits = number(&mut letters);
        }
        let dot = letters.next_if_eq(&'.');
        let precision = dot.map(|_| number(&mut letters));
        let bounded = |digits: &str| match digits.parse::<usize>() {
            Ok(n) if n <= MOST_WIDTH => Ok(n),
            _ => Err(wrong(format!(
                "'{format}' has a width that is too large or missing"
            ))),
        };
        let Some(conversion) = letters.next() else {
            return Err(wrong(format!(
                "'{format}' ends in a conversion without a letter"
            )));
        };
        let spec = Spec {
            index,
            flags,
            width: if digits.is_empty() {
                0
            } else {
                bounded(&digits)?
            },
            precision: precision.as_deref().map(bounded).transpose()?,
            conversion,
        };
        match conversion {
            'n' => text.push('\n'),
            '%' => text.push_str(&spec.padded("%".to_owned())),
            's' | 'S' | 'd' | 'x' | 'X' | 'o' | 'f' | 'e' | 'E' | 'g' | 'G' | 'b' | 'B' | 'c'
            | 'C' | 'h' | 'H' => {
                if !text.is_empty() {
                    out.push(Piece::Text(std::mem::take(&mut text)));
                }
                out.push(Piece::Value(spec));
            }
            other => {
                return Err(wrong(format!(
                    "'{format}' has the unknown conversion '%{other}'"
                )));
            }
        }
    }
    if !text.is_empty() {
        out.push(Piece::Text(text));
    }
    Ok(out)
}

fn written(pieces: &[Piece], values: &[ArrayRef], row: usize, zone: Zone) -> Result<String> {
    let (mut out, mut next) = (String::new(), 0);
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Value(spec) => {
                let at = match spec.index {
                    Some(index) => index.checked_sub(1),
                    None => {
                        next += 1;
                        Some(next - 1)
                    }
                };
                let Some(value) = at.and_then(|at| values.get(at)) else {
                    return Err(wrong(format!("'%{}' has no value", spec.conversion)));
                };
                let text = spec.spelled(value, row, zone)?;
                out.push_str(&match spec.conversion.is_ascii_uppercase() {
                    true => text.to_uppercase(),
                    false => text,
                });
            }
        }
    }
    Ok(out)
}

impl Spec {
    fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// Blanks up to the width, which counts letters.
    fn padded(&self, text: String) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        match self.has('-') {
            true => text + &" ".repeat(missing),
            false => " ".repeat(missing) + &text,
        }
    }

    /// Text cut to the precision.
    fn plain(&self, text: &str) -> String {
        self.padded(match self.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text.to_owned(),
        })
    }

    /// A number's sign in front of its digits, zeros between them if they are asked for.
    fn signed(&self, negative: bool, digits: String) -> String {
        let (before, behind) = match (negative, self.has('(')) {
            (true, true) => ("(", ")"),
            (true, false) => ("-", ""),
            (false, _) if self.has('+') => ("+", ""),
            (false, _) if self.has(' ') => (" ", ""),
            (false, _) => ("", ""),
        };
        let length = before.len() + digits.len() + behind.len();
        let zeros = match self.has('0') {
            true => "0".repeat(self.width.saturating_sub(length)),
            false => String::new(),
        };
        self.padded(format!("{before}{zeros}{digits}{behind}"))
    }

    fn spelled(&self, value: &ArrayRef, row: usize, zone: Zone) -> Result<String> {
        let t = value.data_type();
        if value.is_null(row) || *t == DataType::Null {
            return Ok(match self.conversion {
                'b' | 'B' => self.plain("false"),
                _ => self.plain("null"),
            });
        }
        let refuse = || {
            let t = text::type_text(t);
            Err(wrong(format!("'%{}' does not take {t}", self.conversion)))
        };
        match self.conversion.to_ascii_lowercase() {
            's' => Ok(match t {
                // Spark hands over dates and times as their numbers of days and microseconds.
                DataType::Date32 => {
                    self.plain(&value.as_primitive::<Date32Type>().value(row).to_string())
                }
                DataType::Timestamp(_, _) => {
                    let micros = value.as_primitive::<TimestampMicrosecondType>().value(row);
                    self.plain(&micros.to_string())
                }
                _ => self.plain(&text::value_text(value, row, zone)?.unwrap_or_default()),
            }),
            'b' => Ok(match t {
                DataType::Boolean => self.plain(&value.as_boolean().value(row).to_string()),
                _ => self.plain("true"),
            }),
            'd' | 'x' | 'o' | 'c' if is_integer(t) => self.whole(value, row),
            'f' | 'e' | 'g' => match t {
                DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _) => {
                    self.fraction(value, row)
                }
                _ => refuse(),
            },
            _ => refuse(),
        }
    }

    fn whole(&self, value: &ArrayRef, row: usize) -> Result<String> {
        let wide = arrow::compute::cast(&value.slice(row, 1), &DataType::Int64)?;
        let v = wide.as_primitive::<Int64Type>().value(0);
        let bits = value.data_type().primitive_width().unwrap_or(8) * 8;
        // Smaller than 64 bits, the other bits are not part of the number.
        let raw = (v as u64) & (u64::MAX >> (64 - bits));
        Ok(match self.conversion.to_ascii_lowercase() {
            'c' => {
                let letter = u32::try_from(v).ok().and_then(char::from_u32);
                let Some(letter) = letter else {
                    return Err(wrong(format!("{v} is no letter")));
                };
                self.padded(letter.to_string())
            }
            'x' => {
                let prefix = if self.has('#') { "0x" } else { "" };
                self.unsigned(format!("{prefix}{raw:x}"))
            }
            'o' => {
                let prefix = if self.has('#') { "0" } else { "" };
                self.unsigned(format!("{prefix}{raw:o}"))
            }
            _ => self.signed(v < 0, self.grouped(v.unsigned_abs().to_string())),
        })
    }

    fn unsigned(&self, digits: String) -> String {
        match self.has('0') {
            true => format!(
                "{}{digits}",
                "0".repeat(self.width.saturating_sub(digits.len()))
            ),
            false => self.padded(digits),
        }
    }

    fn grouped(&self, digits: String) -> String {
        if !self.has(',') {
            return digits;
        }
        let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
        let mut out = String::new();
        for (i, c) in whole.chars().enumerate() {
            if i > 0 && (whole.len() - i).is_multiple_of(3) {
                out.push(',');
            }
            out.push(c);
        }
        out + rest
    }

    fn fraction(&self, value: &ArrayRef, row: usize) -> Result<String> {
        let number = match value.data_type() {
            DataType::Decimal128(_, scale) => {
                Number::of_decimal(value.as_primitive::<Decimal128Type>().value(row), *scale)
            }
            _ => {
                let wide = arrow::compute::cast(&value.slice(row, 1), &DataType::Float64)?;
                let v = wide.as_primitive::<Float64Type>().value(0);
                if !v.is_finite() {
                    let text = text::double_text(v);
                    let plus = if self.has('+') && v > 0.0 { "+" } else { "" };
                    return Ok(self.padded(format!("{plus}{text}")));
                }
                Number::of_double(&text::value_text(value, row, Zone::Utc)?.unwrap_or_default())
            }
        };
        let places = self.precision.unwrap_or(6);
        let digits = match self.conversion.to_ascii_lowercase() {
            'f' => number.fixed(places),
            'e' => number.scientific(places),
            _ => number.general(places.max(1)),
        };
        Ok(self.signed(number.negative, self.grouped(digits)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array, Int64Array};
    use proptest::prelude::*;

    use super::*;

    fn formatted(format: &str, values: &[ArrayRef]) -> std::result::Result<String, String> {
        let pieces = pieces(format).map_err(|e| e.to_string())?;
        written(&pieces, values, 0, Zone::Utc).map_err(|e| e.to_string())
    }

    fn long(v: i64) -> ArrayRef {
        Arc::new(Int64Array::from(vec![v]))
    }

    fn double(v: f64) -> ArrayRef {
        Arc::new(Float64Array::from(vec![v]))
    }

    fn text(v: Option<&str>) -> ArrayRef {
        Arc::new(StringArray::from(vec![v]))
    }

    #[test]
    fn values_are_spelled_as_java_spells_them() {
        for (format, values, expected) in [
            (
                "%05d|%,d|%+d|%(d",
                vec![long(-255), long(1_234_567), long(5), long(-3)],
                "-0255|1,234,567|+5|(3)",
            ),
            (
                "%x %X %o %#x",
                vec![long(255), long(-1), long(8), long(255)],
                "ff FFFFFFFFFFFFFFFF 10 0xff",
            ),
            (
                "%-6s|%3s|%.2s",
                vec![text(Some("€")), text(Some("ab")), text(Some("abc"))],
                "€     | ab|ab",
            ),
            (
                "%05d|%-6s|%.3f",
                vec![text(None), text(None), text(None)],
                " null|null  |nul",
            ),
            (
                "%.2f %.0f %f",
                vec![double(1.005), double(2.5), double(1e10)],
                "1.01 3 10000000000.000000",
            ),
            (
                "%e %.1E",
                vec![double(12345.678), double(0.000_99)],
                "1.234568e+04 9.9E-04",
            ),
            (
                "%g %g",
                vec![double(0.0001), double(123_456_789.0)],
                "0.000100000 1.23457e+08",
            ),
            (
                "%2$s %1$s%n%%",
                vec![text(Some("a")), text(Some("b"))],
                "b a\n%",
            ),
            (
                "%c%b%S",
                vec![
                    Arc::new(Int32Array::from(vec![65])) as ArrayRef,
                    text(Some("x")),
                    text(Some("up")),
                ],
                "AtrueUP",
            ),
        ] {
            assert_eq!(
                formatted(format, &values).as_deref(),
                Ok(expected),
                "{format}"
            );
        }
        for (format, values) in [
            ("%d", vec![text(Some("x"))]),
            ("%d", vec![]),
            ("%q", vec![long(1)]),
            ("%", vec![]),
        ] {
            assert!(formatted(format, &values).is_err(), "{format}");
        }
    }

    proptest! {
        #[test]
        fn any_format_is_written_or_an_error(format in "[%a-zA-Z0-9$.,+(# -]{0,16}", v in any::<f64>(), n in any::<i64>()) {
            let _text = formatted(&format, &[double(v), long(n), text(Some("x"))]);
        }

        #[test]
        fn doubles_in_scientific_digits_are_near(v in -1e12f64..1e12) {
            let text = formatted("%.15e", &[double(v)]).expect("good");
            let back: f64 = text.parse().expect("number");
            prop_assert!((back - v).abs() <= v.abs() * 1e-14);
        }
    }
}
