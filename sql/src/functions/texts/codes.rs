//! Texts as bytes and bytes as texts, masks, words.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, ListBuilder, StringArray, StringBuilder,
};
use arrow::datatypes::{DataType, Int64Type};
use base64::Engine;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Case, ColumnarValue, Expr, lit};
use unicode_segmentation::UnicodeSegmentation;

use super::super::coerce::array_of;
use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel, KernelFn};
use super::super::{Args, Resolver, operators};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("encode", |a| {
        a.expect(2, 2)?;
        let values = vec![a.string(0)?, a.string(1)?];
        Ok(Kernel::call("encode", DataType::Binary, "", encode, values))
    }),
    ("decode", |a| match a.exprs.len() {
        0..=2 => {
            a.expect(2, 2)?;
            let values = vec![a.cast(0, &DataType::Binary)?, a.string(1)?];
            Ok(Kernel::call("decode", DataType::Utf8, "", decode, values))
        }
        _ => choose(a),
    }),
    ("to_binary", |a| to_binary(a, "to_binary")),
    ("try_to_binary", |a| to_binary(a, "try_to_binary")),
    ("unbase64", |a| {
        a.expect(1, 1)?;
        a.call("to_binary", vec![a.exprs[0].clone(), lit("base64")])
    }),
    ("is_valid_utf8", |a| {
        checked(a, DataType::Boolean, |c| {
            c.over_arrays(|a| {
                let texts = a[0].as_binary::<i32>().iter();
                let valid = texts.map(|v| v.map(|v| std::str::from_utf8(v).is_ok()));
                Ok(Arc::new(valid.collect::<BooleanArray>()) as ArrayRef)
            })
        })
    }),
    ("make_valid_utf8", |a| {
        checked(a, DataType::Utf8, |c| {
            c.over_arrays(|a| {
                let texts = a[0].as_binary::<i32>().iter();
                let valid = texts.map(|v| v.map(|v| String::from_utf8_lossy(v).into_owned()));
                Ok(Arc::new(valid.collect::<StringArray>()) as ArrayRef)
            })
        })
    }),
    ("validate_utf8", |a| {
        checked(a, DataType::Utf8, |c| validated(c, true))
    }),
    ("try_validate_utf8", |a| {
        checked(a, DataType::Utf8, |c| validated(c, false))
    }),
    ("char", letter),
    ("chr", letter),
    ("mask", mask),
    ("sentences", |a| {
        a.expect(1, 3)?;
        let t = array_of(array_of(DataType::Utf8));
        Ok(Kernel::call(
            "sentences",
            t,
            "",
            sentences,
            vec![a.string(0)?],
        ))
    }),
];

/// What `encode` and `decode` know.
#[derive(Clone, Copy)]
enum Charset {
    Ascii,
    Latin1,
    Utf8,
    /// Big end first; in front a mark of it, if there is one.
    Utf16 {
        big: bool,
        mark: bool,
    },
    Utf32,
}

impl Charset {
    fn named(name: &str) -> Result<Self> {
        Ok(match name.to_uppercase().as_str() {
            "US-ASCII" => Self::Ascii,
            "ISO-8859-1" => Self::Latin1,
            "UTF-8" => Self::Utf8,
            "UTF-16BE" => Self::Utf16 {
                big: true,
                mark: false,
            },
            "UTF-16LE" => Self::Utf16 {
                big: false,
                mark: false,
            },
            "UTF-16" => Self::Utf16 {
                big: true,
                mark: true,
            },
            "UTF-32" => Self::Utf32,
            _ => {
                let message = format!(
                    "'{name}' is no charset; allowed are US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE, UTF-16, UTF-32"
                );
                return Err(SparkError::external(
                    "INVALID_PARAMETER_VALUE.CHARSET",
                    message,
                ));
            }
        })
    }

    fn encode(self, text: &str) -> Option<Vec<u8>> {
        let narrow = |end: u32| {
            let bytes = text.chars().map(|c| {
                u8::try_from(u32::from(c))
                    .ok()
                    .filter(|b| u32::from(*b) < end)
            });
            bytes.collect::<Option<Vec<u8>>>()
        };
        match self {
            Self::Ascii => narrow(128),
            Self::Latin1 => narrow(256),
            Self::Utf8 => Some(text.as_bytes().to_vec()),
            Self::Utf16 { big, mark } => {
                let front = (mark && !text.is_empty()).then_some(0xFEFF);
                let units = front.into_iter().chain(text.encode_utf16());
                let bytes = |unit: u16| {
                    if big {
                        unit.to_be_bytes()
                    } else {
                        unit.to_le_bytes()
                    }
                };
                Some(units.flat_map(bytes).collect())
            }
            Self::Utf32 => Some(
                text.chars()
                    .flat_map(|c| u32::from(c).to_be_bytes())
                    .collect(),
            ),
        }
    }

    fn decode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Ascii => bytes
                .is_ascii()
                .then(|| String::from_utf8_lossy(bytes).into_owned()),
            Self::Latin1 => Some(bytes.iter().copied().map(char::from).collect()),
            Self::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Self::Utf16 { big, mark } => {
                let (big, bytes) = match bytes {
                    [0xFE, 0xFF, rest @ ..] if mark => (true, rest),
                    [0xFF, 0xFE, rest @ ..] if mark => (false, rest),
                    rest => (big, rest),
                };
                let (units, rest) = bytes.as_chunks::<2>();
                let unit = |b: &[u8; 2]| {
                    if big {
                        u16::from_be_bytes(*b)
                    } else {
                        u16::from_le_bytes(*b)
                    }
                };
                let units: Vec<u16> = units.iter().map(unit).collect();
                rest.is_empty()
                    .then(|| String::from_utf16(&units).ok())
                    .flatten()
            }
            Self::Utf32 => {
                let (units, rest) = bytes.as_chunks::<4>();
                let text = units.iter().map(|b| char::from_u32(u32::from_be_bytes(*b)));
                rest.is_empty().then(|| text.collect()).flatten()
            }
        }
    }
}

fn malformed(function: &str, charset: &str) -> DataFusionError {
    let message =
        format!("{function}: the value has what '{charset}' has no code for, or no such code");
    SparkError::external("MALFORMED_CHARACTER_CODING", message)
}

fn encode(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let rows = a[0].as_string::<i32>().iter().zip(a[1].as_string::<i32>());
        let rows = rows.map(|(text, name)| match (text, name) {
            (Some(text), Some(name)) => {
                let code = Charset::named(name)?.encode(text);
                code.map(Some).ok_or_else(|| malformed("encode", name))
            }
            _ => Ok(None),
        });
        Ok(Arc::new(rows.collect::<Result<BinaryArray>>()?) as ArrayRef)
    })
}

fn decode(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let rows = a[0].as_binary::<i32>().iter().zip(a[1].as_string::<i32>());
        let rows = rows.map(|(code, name)| match (code, name) {
            (Some(code), Some(name)) => {
                let text = Charset::named(name)?.decode(code);
                text.map(Some).ok_or_else(|| malformed("decode", name))
            }
            _ => Ok(None),
        });
        Ok(Arc::new(rows.collect::<Result<StringArray>>()?) as ArrayRef)
    })
}

/// `decode(x, a, A, b, B, …[, otherwise])`, which holds NULL equal to NULL.
fn choose(args: Args<'_>) -> Result<Expr> {
    let mut branches = vec![];
    let mut rest = args.exprs[1..].chunks_exact(2);
    for pair in &mut rest {
        let equal = operators::binary(
            datafusion::logical_expr::Operator::IsNotDistinctFrom,
            args.exprs[0].clone(),
            pair[0].clone(),
            args.schema,
        )?;
        branches.push((Box::new(equal), Box::new(pair[1].clone())));
    }
    let otherwise = rest.remainder().first().cloned().map(Box::new);
    operators::case(Case::new(None, branches, otherwise), args.schema)
}

/// `to_binary(text[, format])`: the formats are hex, utf-8, utf8 and base64.
fn to_binary(args: Args<'_>, name: &'static str) -> Result<Expr> {
    args.expect(1, 2)?;
    let format = match args.exprs.len() {
        2 => args.constant_text(1)?.to_lowercase(),
        _ => "hex".to_owned(),
    };
    if !["hex", "utf-8", "utf8", "base64"].contains(&format.as_str()) {
        let message =
            format!("{name}: '{format}' is no format; allowed are hex, utf-8, utf8, base64");
        return Err(SparkError::external(
            "DATATYPE_MISMATCH.INVALID_ARG_VALUE",
            message,
        ));
    }
    let code: KernelFn = |c| {
        let (name, format) = c.params.split_once(' ').unwrap_or_default();
        let strict = !name.starts_with("try_");
        c.over_arrays(|a| {
            let rows = a[0].as_string::<i32>().iter().map(|text| {
                let Some(text) = text else { return Ok(None) };
                match bytes_of(text, format) {
                    None if strict => {
                        let message = format!("{name}: the text '{text}' is not in the format {format}; use try_to_binary for NULL");
                        Err(SparkError::external("CONVERSION_INVALID_INPUT", message))
                    }
                    found => Ok(found),
                }
            });
            Ok(Arc::new(rows.collect::<Result<BinaryArray>>()?) as ArrayRef)
        })
    };
    let params = format!("{name} {format}");
    Ok(Kernel::call(
        name,
        DataType::Binary,
        params,
        code,
        vec![args.string(0)?],
    ))
}

fn bytes_of(text: &str, format: &str) -> Option<Vec<u8>> {
    match format {
        "hex" => {
            let digits = text
                .chars()
                .map(|c| c.to_digit(16))
                .collect::<Option<Vec<u32>>>()?;
            let odd = digits.len() % 2;
            let first = digits[..odd].iter().map(|d| *d as u8);
            let pairs = digits[odd..]
                .chunks(2)
                .map(|pair| (pair[0] * 16 + pair[1]) as u8);
            Some(first.chain(pairs).collect())
        }
        "base64" => {
            // Blanks and line ends between the digits are allowed.
            let digits: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            base64::engine::general_purpose::STANDARD
                .decode(digits)
                .ok()
        }
        _ => Some(text.as_bytes().to_vec()),
    }
}

fn checked(args: Args<'_>, returns: DataType, code: KernelFn) -> Result<Expr> {
    args.expect(1, 1)?;
    let name: &'static str = match (&returns, args.name) {
        (DataType::Boolean, _) => "is_valid_utf8",
        (_, "make_valid_utf8") => "make_valid_utf8",
        (_, "validate_utf8") => "validate_utf8",
        _ => "try_validate_utf8",
    };
    Ok(Kernel::call(
        name,
        returns,
        "",
        code,
        vec![args.cast(0, &DataType::Binary)?],
    ))
}

fn validated(call: &Call<'_>, strict: bool) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let rows = a[0].as_binary::<i32>().iter().map(|bytes| {
            let Some(bytes) = bytes else { return Ok(None) };
            match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) if !strict => Ok(None),
                Err(e) => {
                    let message = format!("validate_utf8: {e}; use try_validate_utf8 for NULL");
                    Err(SparkError::external("INVALID_UTF8_STRING", message))
                }
            }
        });
        Ok(Arc::new(rows.collect::<Result<StringArray>>()?) as ArrayRef)
    })
}

/// The letter of a number's last byte; an empty text for negative numbers.
fn letter(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 1)?;
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let letter = |n: i64| match n {
                ..0 => String::new(),
                n => char::from((n & 0xff) as u8).to_string(),
            };
            let rows = a[0].as_primitive::<Int64Type>().iter();
            let rows = rows.map(|n| n.map(letter));
            Ok(Arc::new(rows.collect::<StringArray>()) as ArrayRef)
        })
    };
    let number = vec![args.cast(0, &DataType::Int64)?];
    Ok(Kernel::call("chr", DataType::Utf8, "", code, number))
}

/// `mask(text[, upper[, lower[, digit[, other]]]])`: NULL keeps what is there.
fn mask(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 5)?;
    let usual = ["X", "x", "n"];
    let mut values = vec![args.string(0)?];
    for i in 1..5 {
        values.push(match (args.exprs.len() > i, usual.get(i - 1)) {
            (true, _) => args.string(i)?,
            (false, Some(letter)) => lit(*letter),
            (false, None) => lit(datafusion::scalar::ScalarValue::Utf8(None)),
        });
    }
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let texts = a[0].as_string::<i32>();
            let by = [1, 2, 3, 4].map(|i| a[i].as_string::<i32>());
            let rows = texts.iter().enumerate().map(|(row, text)| {
                use arrow::array::Array;
                let by = by.map(|column| {
                    column
                        .is_valid(row)
                        .then(|| column.value(row))
                        .and_then(|t| t.chars().next())
                });
                Some(text?.chars().map(|c| masked(c, by)).collect::<String>())
            });
            Ok(Arc::new(rows.collect::<StringArray>()) as ArrayRef)
        })
    };
    Ok(Kernel::call("mask", DataType::Utf8, "", code, values))
}

fn masked(c: char, [upper, lower, digit, other]: [Option<char>; 4]) -> char {
    let by = match c {
        c if c.is_uppercase() => upper,
        c if c.is_lowercase() => lower,
        c if c.is_numeric() => digit,
        _ => other,
    };
    by.unwrap_or(c)
}

/// The words of each sentence.
fn sentences(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let words = ListBuilder::new(StringBuilder::new());
        let mut out = ListBuilder::new(words);
        for text in a[0].as_string::<i32>().iter() {
            for sentence in text.iter().flat_map(|text| text.unicode_sentences()) {
                let mut any = false;
                for word in sentence.unicode_words() {
                    out.values().values().append_value(word);
                    any = true;
                }
                if any {
                    out.values().append(true);
                }
            }
            out.append(text.is_some());
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_come_back_from_every_unicode_charset(text in "\\PC{0,20}") {
            for name in ["UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "UTF-32"] {
                let charset = Charset::named(name).expect("known");
                let code = charset.encode(&text).expect("unicode");
                prop_assert_eq!(charset.decode(&code), Some(text.clone()));
            }
        }

        #[test]
        fn bytes_of_any_kind_are_text_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..24), text in "\\PC{0,16}") {
            for name in ["US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16", "UTF-32"] {
                let _text = Charset::named(name).expect("known").decode(&bytes);
            }
            for format in ["hex", "base64"] {
                let _bytes = bytes_of(&text, format);
            }
        }
    }
}
