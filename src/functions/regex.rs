//! Regular expressions. The engine is Rust's: no look-around and no back references, which a pattern is refused for.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int32Array, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, lit};
use regex::Regex;

use super::coerce::array_of;
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::{Args, Resolver};

/// The family of patterns.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("split", split),
    ("rlike", regex_match),
    ("regexp", regex_match),
    ("regexp_like", regex_match),
    ("regexp_extract", |a| {
        extract(a, "regexp_extract", DataType::Utf8, first_group)
    }),
    ("regexp_extract_all", |a| {
        extract(
            a,
            "regexp_extract_all",
            array_of(DataType::Utf8),
            all_groups,
        )
    }),
    ("regexp_substr", |a| {
        extract(a, "regexp_substr", DataType::Utf8, |c| {
            rows(c, |r, t, _| Ok(r.find(t).map(|m| m.as_str().to_owned())))
        })
    }),
    ("regexp_count", |a| {
        extract(a, "regexp_count", DataType::Int32, |c| {
            numbers(c, |r, t| r.find_iter(t).count())
        })
    }),
    ("regexp_instr", |a| {
        extract(a, "regexp_instr", DataType::Int32, |c| {
            numbers(c, |r, t| {
                r.find(t).map_or(0, |m| t[..m.start()].chars().count() + 1)
            })
        })
    }),
    ("regexp_replace", |a| {
        a.expect(3, 4)?;
        let from = if a.exprs.len() > 3 {
            a.cast(3, &DataType::Int32)?
        } else {
            lit(1i32)
        };
        let args = vec![a.string(0)?, a.string(1)?, from, a.string(2)?];
        Ok(Kernel::call(
            "regexp_replace",
            DataType::Utf8,
            "",
            replace,
            args,
        ))
    }),
];

/// Text, pattern, and a number (a group; 1 without one).
fn extract(args: Args<'_>, name: &'static str, returns: DataType, code: KernelFn) -> Result<Expr> {
    args.expect(2, 3)?;
    check_constant(&args.exprs[1])?;
    let group = if args.exprs.len() > 2 {
        args.cast(2, &DataType::Int32)?
    } else {
        lit(1i32)
    };
    Ok(Kernel::call(
        name,
        returns,
        "",
        code,
        vec![args.string(0)?, args.string(1)?, group],
    ))
}

fn check_constant(e: &Expr) -> Result<()> {
    match e {
        Expr::Literal(ScalarValue::Utf8(Some(p)), _) => pattern(p).map(|_| ()),
        _ => Ok(()),
    }
}

/// Applies `f` to the pattern, text and number of every row without a NULL; a constant pattern is compiled once.
fn each<T>(
    call: &Call<'_>,
    f: impl Fn(&Regex, &str, i32, usize) -> Result<Option<T>>,
) -> Result<Vec<Option<T>>> {
    let fixed = match &call.args[1] {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(p))) => Some(pattern(p)?),
        _ => None,
    };
    let (a, _) = call.arrays()?;
    let (texts, patterns, numbers) = (
        a[0].as_string::<i32>(),
        a[1].as_string::<i32>(),
        a[2].as_primitive::<Int32Type>(),
    );
    let one = |row: usize| {
        if texts.is_null(row) || patterns.is_null(row) || numbers.is_null(row) {
            return Ok(None);
        }
        match &fixed {
            Some(regex) => f(regex, texts.value(row), numbers.value(row), row),
            None => f(
                &pattern(patterns.value(row))?,
                texts.value(row),
                numbers.value(row),
                row,
            ),
        }
    };
    (0..texts.len()).map(one).collect()
}

fn wrapped(call: &Call<'_>, array: arrow::array::ArrayRef) -> Result<ColumnarValue> {
    call.over_arrays(|_| Ok(array))
}

fn rows(
    call: &Call<'_>,
    f: impl Fn(&Regex, &str, i32) -> Result<Option<String>>,
) -> Result<ColumnarValue> {
    let out = each(call, |r, t, n, _| f(r, t, n))?;
    wrapped(call, Arc::new(StringArray::from(out)))
}

fn numbers(call: &Call<'_>, f: impl Fn(&Regex, &str) -> usize) -> Result<ColumnarValue> {
    let out = each(call, |r, t, _, _| Ok(i32::try_from(f(r, t)).ok()))?;
    wrapped(call, Arc::new(Int32Array::from(out)))
}

fn group_of(r: &Regex, n: i32) -> Result<usize> {
    let groups = r.captures_len() - 1;
    usize::try_from(n)
        .ok()
        .filter(|n| *n <= groups)
        .ok_or_else(|| {
            SparkError::external(
                "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX",
                format!("group {n} of '{r}', which has {groups} groups"),
            )
        })
}

/// The group of the first match; an empty text if nothing matches.
fn first_group(call: &Call<'_>) -> Result<ColumnarValue> {
    rows(call, |r, t, n| {
        let n = group_of(r, n)?;
        let found = r
            .captures(t)
            .and_then(|c| c.get(n))
            .map_or("", |m| m.as_str());
        Ok(Some(found.to_owned()))
    })
}

fn all_groups(call: &Call<'_>) -> Result<ColumnarValue> {
    let found = each(call, |r, t, n, _| {
        let n = group_of(r, n)?;
        let groups = r
            .captures_iter(t)
            .map(|c| c.get(n).map_or("", |m| m.as_str()).to_owned());
        Ok(Some(groups.collect::<Vec<_>>()))
    })?;
    let mut out = ListBuilder::new(StringBuilder::new());
    for groups in found {
        groups
            .iter()
            .flatten()
            .for_each(|g| out.values().append_value(g));
        out.append(groups.is_some());
    }
    wrapped(call, Arc::new(out.finish()))
}

/// Every match from a position on, `$1` standing for a group.
fn replace(call: &Call<'_>) -> Result<ColumnarValue> {
    let (a, _) = call.arrays()?;
    let with = a[3].as_string::<i32>();
    let out = each(call, |r, t, from, row| {
        if with.is_null(row) {
            return Ok(None);
        }
        let skip = usize::try_from(from - 1).unwrap_or(0);
        let at = t.char_indices().nth(skip).map_or(t.len(), |(i, _)| i);
        let with = java_replacement(with.value(row));
        Ok(Some(format!(
            "{}{}",
            &t[..at],
            r.replace_all(&t[at..], with.as_str())
        )))
    })?;
    wrapped(call, Arc::new(StringArray::from(out)))
}

/// Java ends a group number at the first non-digit, Rust wants braces for that; a backslash quotes.
fn java_replacement(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('$') => out.push_str("$$"),
                Some(other) => out.push(other),
                None => {}
            },
            '$' if chars.peek().is_some_and(char::is_ascii_digit) => {
                out.push_str("${");
                while let Some(d) = chars.next_if(char::is_ascii_digit) {
                    out.push(d);
                }
                out.push('}');
            }
            '$' if chars.peek() != Some(&'{') => out.push_str("$$"),
            other => out.push(other),
        }
    }
    out
}

/// A pattern as Rust's regex engine reads it. Look-around and back references, which Java has, are refused.
pub(super) fn pattern(text: &str) -> Result<Regex> {
    Regex::new(text).map_err(|e| {
        SparkError::external(
            "INVALID_PARAMETER_VALUE.PATTERN",
            format!("the pattern '{text}' is not understood: {e}"),
        )
    })
}

fn regex_match(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    if let Expr::Literal(ScalarValue::Utf8(Some(p)), _) = &args.exprs[1] {
        pattern(p)?;
    }
    args.library_with("regexp_like", vec![args.string(0)?, args.string(1)?])
}

/// `split(text, regex[, limit])`: a positive limit bounds the pieces; without one, trailing empty pieces stay.
fn split(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let limit = if args.exprs.len() > 2 {
        args.cast(2, &DataType::Int32)?
    } else {
        lit(-1i32)
    };
    let t = array_of(DataType::Utf8);
    Ok(Kernel::call(
        "split",
        t,
        "",
        split_rows,
        vec![args.string(0)?, args.string(1)?, limit],
    ))
}

fn split_rows(call: &Call<'_>) -> Result<ColumnarValue> {
    let fixed = match &call.args[1] {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(p))) => Some(pattern(p)?),
        _ => None,
    };
    call.over_arrays(|a| {
        let (text, patterns, limits) = (
            a[0].as_string::<i32>(),
            a[1].as_string::<i32>(),
            a[2].as_primitive::<Int32Type>(),
        );
        let mut out = ListBuilder::new(StringBuilder::new());
        for row in 0..text.len() {
            if text.is_null(row) || patterns.is_null(row) || limits.is_null(row) {
                out.append_null();
                continue;
            }
            let own;
            let regex = match &fixed {
                Some(regex) => regex,
                None => {
                    own = pattern(patterns.value(row))?;
                    &own
                }
            };
            for piece in pieces(text.value(row), regex, limits.value(row)) {
                out.values().append_value(piece);
            }
            out.append(true);
        }
        Ok(Arc::new(out.finish()) as _)
    })
}

/// Java's `String.split`: a match of no width at the start makes no leading empty piece.
fn pieces<'t>(text: &'t str, regex: &Regex, limit: i32) -> Vec<&'t str> {
    let mut out = vec![];
    let mut from = 0;
    for m in regex.find_iter(text) {
        if limit > 0 && out.len() + 1 >= limit as usize {
            break;
        }
        if m.end() == 0 || (m.is_empty() && m.start() == text.len()) {
            continue;
        }
        out.push(&text[from..m.start()]);
        from = m.end();
    }
    out.push(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn split_keeps_trailing_empty_pieces() {
        let comma = Regex::new(",").unwrap();
        assert_eq!(pieces("a,b,,", &comma, -1), ["a", "b", "", ""]);
        assert_eq!(pieces("a,b,c", &comma, 2), ["a", "b,c"]);
        assert_eq!(pieces("", &comma, -1), [""]);
        assert_eq!(pieces("abc", &Regex::new("").unwrap(), -1), ["a", "b", "c"]);
    }
}
