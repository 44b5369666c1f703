//! Numbers as text by a pattern and back: `to_number`, `to_char`, `format_number`, `conv`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, StringArray};
use arrow::datatypes::{DataType, Decimal128Type, Int32Type};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Expr, lit};

use super::coerce::{is_number, is_text};
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::number_pattern::NumberPattern;
use super::{Args, Resolver};

/// The family of number patterns.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("to_number", |a| {
        to_number(a, "to_number", |c| read(c, true))
    }),
    ("try_to_number", |a| {
        to_number(a, "try_to_number", |c| read(c, false))
    }),
    ("to_char", to_char),
    ("to_varchar", to_char),
    ("format_number", format_number),
    ("conv", |a| {
        a.expect(3, 3)?;
        let values = vec![
            a.string(0)?,
            a.cast(1, &DataType::Int32)?,
            a.cast(2, &DataType::Int32)?,
        ];
        Ok(Kernel::call("conv", DataType::Utf8, "", conv, values))
    }),
];

fn pattern_of(args: &Args<'_>) -> Result<(String, NumberPattern)> {
    let text = args.constant_text(1)?;
    match NumberPattern::parse(&text) {
        Some(pattern) => Ok((text, pattern)),
        None => {
            let message = format!(
                "{}: '{text}' is no number pattern; it has 9, 0, a comma or G between digits, one point or D, $, and S, MI or PR",
                args.name
            );
            Err(SparkError::external("INVALID_FORMAT", message))
        }
    }
}

fn to_number(args: Args<'_>, name: &'static str, code: KernelFn) -> Result<Expr> {
    args.expect(2, 2)?;
    let (text, pattern) = pattern_of(&args)?;
    let (precision, scale) = pattern.decimal();
    let returns = DataType::Decimal128(precision, scale);
    Ok(Kernel::call(
        name,
        returns,
        text,
        code,
        vec![args.string(0)?],
    ))
}

fn read(call: &Call<'_>, strict: bool) -> Result<ColumnarValue> {
    let pattern = NumberPattern::parse(call.params).ok_or_else(|| damaged(call))?;
    call.over_arrays(|a| {
        let rows = a[0].as_string::<i32>().iter().map(|text| {
            let Some(text) = text else { return Ok(None) };
            match pattern.read(text) {
                None if strict => {
                    let message = format!(
                        "the text '{text}' does not match the pattern '{}'; use try_to_number for NULL",
                        call.params
                    );
                    Err(SparkError::external("INVALID_FORMAT.MISMATCH_INPUT", message))
                }
                found => Ok(found),
            }
        });
        let out: PrimitiveArray<Decimal128Type> = rows.collect::<Result<_>>()?;
        Ok(Arc::new(out.with_data_type(call.returns.clone())) as ArrayRef)
    })
}

fn damaged(call: &Call<'_>) -> DataFusionError {
    SparkError::external("INVALID_FORMAT", format!("'{}' is no pattern", call.params))
}

/// `to_char(x, pattern)` of numbers, dates and times, and binaries.
fn to_char(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    match &args.types[0] {
        DataType::Date32 | DataType::Timestamp(_, _) => {
            args.call("date_format", args.exprs.clone())
        }
        DataType::Binary => match args.constant_text(1)?.to_lowercase().as_str() {
            "hex" => args.call("hex", vec![args.exprs[0].clone()]),
            "base64" => args.call("base64", vec![args.exprs[0].clone()]),
            "utf-8" => args.call("decode", vec![args.exprs[0].clone(), lit("UTF-8")]),
            other => {
                let message = format!(
                    "to_char: '{other}' is no format of bytes; allowed are hex, base64, utf-8"
                );
                Err(SparkError::external(
                    "DATATYPE_MISMATCH.INVALID_ARG_VALUE",
                    message,
                ))
            }
        },
        t if is_number(t) || is_text(t) || *t == DataType::Null => {
            let (text, _) = pattern_of(&args)?;
            let decimal = match t {
                DataType::Decimal128(_, _) => args.exprs[0].clone(),
                DataType::Float32 => args.cast(0, &DataType::Decimal128(14, 7))?,
                t if super::coerce::is_integer(t) => args.cast(0, &DataType::Decimal128(20, 0))?,
                _ => args.cast(0, &DataType::Decimal128(30, 15))?,
            };
            Ok(Kernel::call(
                "to_char",
                DataType::Utf8,
                text,
                write,
                vec![decimal],
            ))
        }
        _ => args.refuse(),
    }
}

fn write(call: &Call<'_>) -> Result<ColumnarValue> {
    let pattern = NumberPattern::parse(call.params).ok_or_else(|| damaged(call))?;
    call.over_arrays(|a| {
        let decimals = a[0].as_primitive::<Decimal128Type>();
        let scale = decimals.scale();
        let texts = decimals.iter().map(|v| v.map(|v| pattern.write(v, scale)));
        Ok(Arc::new(texts.collect::<StringArray>()) as ArrayRef)
    })
}

/// `format_number(x, digits)`, and `format_number(x, pattern)` with a pattern such as `#,##0.00`.
fn format_number(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let value = match &args.types[0] {
        t if is_number(t) => args.exprs[0].clone(),
        _ => args.cast(0, &DataType::Float64)?,
    };
    let shape = match is_text(&args.types[1]) {
        true => args.string(1)?,
        false => args.cast(1, &DataType::Int32)?,
    };
    Ok(Kernel::call(
        "format_number",
        DataType::Utf8,
        "",
        formatted,
        vec![value, shape],
    ))
}

fn formatted(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let row = |row: usize| -> Result<Option<String>> {
            if a[0].is_null(row) || a[1].is_null(row) {
                return Ok(None);
            }
            let shape = match a[1].as_primitive_opt::<Int32Type>() {
                Some(digits) => match usize::try_from(digits.value(row)) {
                    Ok(digits) => Shape::digits(digits.min(350)),
                    Err(_) => return Ok(None),
                },
                None => {
                    let text = a[1].as_string::<i32>().value(row);
                    Shape::of_pattern(text).ok_or_else(|| {
                        let message =
                            format!("format_number: '{text}' is no pattern such as #,##0.00");
                        SparkError::external("INVALID_FORMAT", message)
                    })?
                }
            };
            let Some(rounded) = rounded(&a[0], row, shape.most)? else {
                return Ok(None);
            };
            Ok(Some(shape.write(&rounded)))
        };
        Ok(Arc::new((0..a[0].len()).map(row).collect::<Result<StringArray>>()?) as ArrayRef)
    })
}

/// A number in plain digits, rounded to so many behind the point, half to even.
fn rounded(column: &ArrayRef, row: usize, digits: usize) -> Result<Option<String>> {
    if let DataType::Float32 | DataType::Float64 = column.data_type() {
        let wide = arrow::compute::cast(&column.slice(row, 1), &DataType::Float64)?;
        let value = wide
            .as_primitive::<arrow::datatypes::Float64Type>()
            .value(0);
        return Ok(Some(format!("{value:.digits$}")));
    }
    let Some(text) = super::text::value_text(column, row, Default::default())? else {
        return Ok(None);
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    if fraction.len() <= digits {
        let point = if digits > 0 { "." } else { "" };
        return Ok(Some(format!("{whole}{point}{fraction:0<digits$}")));
    }
    let (kept, cut) = fraction.split_at(digits);
    let (negative, whole) = match whole.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, whole),
    };
    let number: u128 = format!("{whole}{kept}").parse().unwrap_or(0);
    let half = format!("5{}", "0".repeat(cut.len() - 1));
    let up = cut > half.as_str() || (cut == half && number % 2 == 1);
    let all = format!("{:0>width$}", number + u128::from(up), width = digits + 1);
    let (whole, fraction) = all.split_at(all.len() - digits);
    let point = if digits > 0 { "." } else { "" };
    Ok(Some(format!(
        "{}{whole}{point}{fraction}",
        if negative { "-" } else { "" }
    )))
}

/// How `format_number` spells: Java's `DecimalFormat`.
struct Shape {
    before: String,
    behind: String,
    /// Digits in front of the point at least.
    whole: usize,
    /// Digits between two commas; 0 for none.
    group: usize,
    /// Digits behind the point at least and at most.
    least: usize,
    most: usize,
}

impl Shape {
    fn digits(digits: usize) -> Self {
        Self {
            before: String::new(),
            behind: String::new(),
            whole: 1,
            group: 3,
            least: digits,
            most: digits,
        }
    }

    fn of_pattern(text: &str) -> Option<Self> {
        let digit = |c: char| matches!(c, '#' | '0' | ',' | '.');
        let start = text.find(digit)?;
        let length = text[start..]
            .find(|c| !digit(c))
            .unwrap_or(text.len() - start);
        let (body, behind) = text[start..].split_at(length);
        let outside =
            |c: char| digit(c) || matches!(c, '%' | 'E' | ';' | '\u{2030}' | '\u{a4}' | '\'');
        if behind.contains(outside) || text[..start].contains(outside) {
            return None;
        }
        let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
        if fraction.contains(['.', ',']) || fraction.contains("#0") || whole.contains("0#") {
            return None;
        }
        let zeros = |text: &str| text.bytes().filter(|b| *b == b'0').count();
        let group = whole.rsplit_once(',').map_or(0, |(_, last)| last.len());
        Some(Self {
            before: text[..start].to_owned(),
            behind: behind.to_owned(),
            whole: match zeros(whole) {
                0 if fraction.is_empty() || !whole.is_empty() => 1,
                zeros => zeros,
            },
            group,
            least: zeros(fraction),
            most: fraction.len(),
        })
    }

    fn write(&self, plain: &str) -> String {
        match plain {
            "NaN" => return plain.to_owned(),
            "inf" => return format!("{}\u{221e}{}", self.before, self.behind),
            "-inf" => return format!("-{}\u{221e}{}", self.before, self.behind),
            _ => {}
        }
        let (sign, plain) = match plain.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", plain),
        };
        let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
        let whole = whole.trim_start_matches('0');
        let whole = format!("{whole:0>width$}", width = self.whole);
        let mut grouped = String::new();
        for (i, c) in whole.chars().enumerate() {
            if self.group > 0 && i > 0 && (whole.len() - i).is_multiple_of(self.group) {
                grouped.push(',');
            }
            grouped.push(c);
        }
        let kept = fraction.trim_end_matches('0').len().max(self.least);
        let fraction = &fraction[..kept.min(fraction.len())];
        let point = if fraction.is_empty() { "" } else { "." };
        format!(
            "{sign}{}{grouped}{point}{fraction}{}",
            self.before, self.behind
        )
    }
}

/// `conv(text, from, to)`: a whole number from one base to another; a negative base to gives a sign instead of 64 bits.
fn conv(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let texts = a[0].as_string::<i32>();
        let bases = [1, 2].map(|i| a[i].as_primitive::<Int32Type>());
        let rows = texts.iter().enumerate().map(|(row, text)| match text {
            Some(text) if bases.iter().all(|b| b.is_valid(row)) => {
                let [from, to] = bases.map(|b| b.value(row));
                converted(text, from, to)
            }
            _ => Ok(None),
        });
        Ok(Arc::new(rows.collect::<Result<StringArray>>()?) as ArrayRef)
    })
}

fn converted(text: &str, from: i32, to: i32) -> Result<Option<String>> {
    let base = |n: i32| (2..=36).contains(&n.abs()).then_some(n.unsigned_abs());
    let (Some(base_from), Some(base_to)) = (base(from).filter(|_| from > 0), base(to)) else {
        return Ok(None);
    };
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return Ok(None);
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut value = 0u64;
    for digit in digits.chars().map_while(|c| c.to_digit(base_from)) {
        value = value
            .checked_mul(base_from.into())
            .and_then(|v| v.checked_add(digit.into()))
            .ok_or_else(|| {
                let message = format!("conv: '{text}' does not fit 64 bits");
                SparkError::external("ARITHMETIC_OVERFLOW", message)
            })?;
    }
    if negative {
        value = match to > 0 && (value as i64) < 0 {
            true => u64::MAX,
            false => value.wrapping_neg(),
        };
    }
    let (sign, mut rest) = match to < 0 && (value as i64) < 0 {
        true => ("-", value.wrapping_neg()),
        false => ("", value),
    };
    let mut digits = vec![];
    loop {
        let digit = (rest % u64::from(base_to)) as u32;
        digits.push(
            char::from_digit(digit, 36)
                .unwrap_or('0')
                .to_ascii_uppercase(),
        );
        rest /= u64::from(base_to);
        if rest == 0 {
            break;
        }
    }
    Ok(Some(sign.chars().chain(digits.into_iter().rev()).collect()))
}
