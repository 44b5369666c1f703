//! Regular expressions: Java's, as Spark has them.

mod java;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListBuilder, StringArray, StringBuilder,
};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, lit};

pub(super) use self::java::Pattern;
use super::coerce::array_of;
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::{Args, Resolver};

/// The family of patterns.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("split", |a| {
        let limit = match a.exprs.len() {
            3 => a.cast(2, &DataType::Int32)?,
            _ => lit(-1i32),
        };
        a.expect(2, 3)?;
        call(&a, "split", array_of(DataType::Utf8), split, limit)
    }),
    ("rlike", matching),
    ("regexp", matching),
    ("regexp_like", matching),
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
        a.expect(2, 2)?;
        extract(a, "regexp_substr", DataType::Utf8, |c| {
            let found = each(c, |p, t, _, _| {
                Ok(p.find(t)?.map(|m| m.as_str().to_owned()))
            })?;
            wrapped(c, Arc::new(StringArray::from(found)))
        })
    }),
    ("regexp_count", |a| {
        a.expect(2, 2)?;
        extract(a, "regexp_count", DataType::Int32, |c| {
            numbers(c, |p, t| Ok(p.find_all(t)?.len()))
        })
    }),
    ("regexp_instr", |a| {
        extract(a, "regexp_instr", DataType::Int32, |c| {
            numbers(c, |p, t| {
                let found = p.find(t)?;
                Ok(found.map_or(0, |m| t[..m.start()].chars().count() + 1))
            })
        })
    }),
    ("regexp_replace", |a| {
        a.expect(3, 4)?;
        let from = match a.exprs.len() {
            4 => a.cast(3, &DataType::Int32)?,
            _ => lit(1i32),
        };
        check_constant(&a.exprs[1])?;
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

/// A call over text, pattern, and a number.
fn call(
    args: &Args<'_>,
    name: &'static str,
    returns: DataType,
    code: KernelFn,
    number: Expr,
) -> Result<Expr> {
    check_constant(&args.exprs[1])?;
    let values = vec![args.string(0)?, args.string(1)?, number];
    Ok(Kernel::call(name, returns, "", code, values))
}

/// A call whose number is a group; 1 without one.
fn extract(args: Args<'_>, name: &'static str, returns: DataType, code: KernelFn) -> Result<Expr> {
    args.expect(2, 3)?;
    let group = match args.exprs.len() {
        3 => args.cast(2, &DataType::Int32)?,
        _ => lit(1i32),
    };
    call(&args, name, returns, code, group)
}

/// Refuses a constant that is no pattern when the query is planned.
fn check_constant(e: &Expr) -> Result<()> {
    match e {
        Expr::Literal(ScalarValue::Utf8(Some(p)), _) => Pattern::new(p).map(|_| ()),
        _ => Ok(()),
    }
}

/// Compiles the patterns of a column; one that comes again is not compiled again.
#[derive(Default)]
pub(super) struct Patterns(Option<Pattern>);

impl Patterns {
    pub(super) fn get(&mut self, text: &str) -> Result<&Pattern> {
        if self.0.as_ref().is_none_or(|last| last.text() != text) {
            self.0 = None;
        }
        match &mut self.0 {
            Some(known) => Ok(known),
            none => Ok(none.insert(Pattern::new(text)?)),
        }
    }
}

/// Applies `f` to the pattern, text and number of every row without a NULL.
fn each<T>(
    call: &Call<'_>,
    f: impl Fn(&Pattern, &str, i32, usize) -> Result<Option<T>>,
) -> Result<Vec<Option<T>>> {
    let (a, _) = call.arrays()?;
    let (texts, patterns, numbers) = (
        a[0].as_string::<i32>(),
        a[1].as_string::<i32>(),
        a[2].as_primitive::<Int32Type>(),
    );
    let mut compiled = Patterns::default();
    let one = |row: usize| {
        if texts.is_null(row) || patterns.is_null(row) || numbers.is_null(row) {
            return Ok(None);
        }
        let pattern = compiled.get(patterns.value(row))?;
        f(pattern, texts.value(row), numbers.value(row), row)
    };
    (0..texts.len()).map(one).collect()
}

fn wrapped(call: &Call<'_>, array: ArrayRef) -> Result<ColumnarValue> {
    call.over_arrays(|_| Ok(array))
}

fn numbers(call: &Call<'_>, f: impl Fn(&Pattern, &str) -> Result<usize>) -> Result<ColumnarValue> {
    let out = each(call, |p, t, _, _| Ok(i32::try_from(f(p, t)?).ok()))?;
    wrapped(call, Arc::new(Int32Array::from(out)))
}

fn group_of(pattern: &Pattern, n: i32) -> Result<usize> {
    let groups = pattern.groups();
    let wanted = usize::try_from(n).ok().filter(|n| *n <= groups);
    wanted.ok_or_else(|| {
        SparkError::external(
            "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX",
            format!(
                "group {n} of '{}', which has {groups} groups",
                pattern.text()
            ),
        )
    })
}

/// The group of the first match; an empty text if nothing matches.
fn first_group(call: &Call<'_>) -> Result<ColumnarValue> {
    let found = each(call, |pattern, text, n, _| {
        let n = group_of(pattern, n)?;
        let first = pattern.captures_all(text).next().transpose()?;
        let group = first
            .and_then(|groups| groups.get(n))
            .map_or("", |m| m.as_str());
        Ok(Some(group.to_owned()))
    })?;
    wrapped(call, Arc::new(StringArray::from(found)))
}

fn all_groups(call: &Call<'_>) -> Result<ColumnarValue> {
    let found = each(call, |pattern, text, n, _| {
        let n = group_of(pattern, n)?;
        let groups = pattern
            .captures_all(text)
            .map(|groups| Ok(groups?.get(n).map_or("", |m| m.as_str()).to_owned()));
        Ok(Some(groups.collect::<Result<Vec<String>>>()?))
    })?;
    wrapped(call, lists(found))
}

fn lists<T: AsRef<str>>(rows: Vec<Option<Vec<T>>>) -> ArrayRef {
    let mut out = ListBuilder::new(StringBuilder::new());
    for pieces in rows {
        let whole = pieces.is_some();
        pieces
            .iter()
            .flatten()
            .for_each(|piece| out.values().append_value(piece));
        out.append(whole);
    }
    Arc::new(out.finish())
}

/// Every match from a position on, `$1` standing for a group.
fn replace(call: &Call<'_>) -> Result<ColumnarValue> {
    let (a, _) = call.arrays()?;
    let with = a[3].as_string::<i32>();
    let out = each(call, |pattern, text, from, row| {
        if with.is_null(row) {
            return Ok(None);
        }
        if from < 1 {
            return Err(SparkError::external(
                "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
                format!("regexp_replace: the position {from} is none; positions count from 1"),
            ));
        }
        let skip = usize::try_from(from - 1).unwrap_or(0);
        let at = text.char_indices().nth(skip).map_or(text.len(), |(i, _)| i);
        replaced(pattern, &text[at..], with.value(row))
            .map(|rest| Some(format!("{}{rest}", &text[..at])))
    })?;
    wrapped(call, Arc::new(StringArray::from(out)))
}

fn replaced(pattern: &Pattern, text: &str, with: &str) -> Result<String> {
    let (mut out, mut last) = (String::with_capacity(text.len()), 0);
    for groups in pattern.captures_all(text) {
        let groups = groups?;
        let Some(whole) = groups.get(0) else { continue };
        out.push_str(&text[last..whole.start()]);
        substitute(&mut out, pattern, &groups, with)?;
        last = whole.end();
    }
    out.push_str(&text[last..]);
    Ok(out)
}

/// Java's replacements: `$1` and `${name}` are groups (of more digits as many as there are groups), a backslash quotes.
fn substitute(
    out: &mut String,
    pattern: &Pattern,
    groups: &fancy_regex::Captures<'_>,
    with: &str,
) -> Result<()> {
    let wrong = |why: String| {
        let message = format!("regexp_replace: the replacement '{with}' is not understood: {why}");
        SparkError::external("INVALID_PARAMETER_VALUE.PATTERN", message)
    };
    let mut letters = with.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '\\' => out.push(
                letters
                    .next()
                    .ok_or_else(|| wrong("a backslash stands at its end".into()))?,
            ),
            '$' if letters.next_if_eq(&'{').is_some() => {
                let name: String = letters.by_ref().take_while(|c| *c != '}').collect();
                let group = groups.name(&name).map_or("", |m| m.as_str());
                out.push_str(group);
            }
            '$' => {
                let first = letters.next().and_then(|c| c.to_digit(10));
                let Some(mut n) = first.map(|n| n as usize) else {
                    return Err(wrong("a dollar sign stands without a group".into()));
                };
                while let Some(digit) = letters.peek().and_then(|c| c.to_digit(10)) {
                    let more = n * 10 + digit as usize;
                    if more > pattern.groups() {
                        break;
                    }
                    letters.next();
                    n = more;
                }
                if n > pattern.groups() {
                    return Err(wrong(format!("there is no group {n}")));
                }
                out.push_str(groups.get(n).map_or("", |m| m.as_str()));
            }
            other => out.push(other),
        }
    }
    Ok(())
}

fn matching(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    call(&args, "rlike", DataType::Boolean, matches, lit(0i32))
}

fn matches(call: &Call<'_>) -> Result<ColumnarValue> {
    let found = each(call, |pattern, text, _, _| pattern.is_match(text).map(Some))?;
    wrapped(call, Arc::new(BooleanArray::from(found)))
}

/// `split(text, pattern[, limit])`: a positive limit bounds the pieces; without one, empty pieces at the end stay.
fn split(call: &Call<'_>) -> Result<ColumnarValue> {
    let found = each(call, |pattern, text, limit, _| {
        let pieces = pieces(text, pattern, limit)?;
        Ok(Some(
            pieces.into_iter().map(str::to_owned).collect::<Vec<_>>(),
        ))
    })?;
    wrapped(call, lists(found))
}

/// Java's `String.split`: a match of no width at the start makes no empty piece in front.
pub(super) fn pieces<'t>(text: &'t str, pattern: &Pattern, limit: i32) -> Result<Vec<&'t str>> {
    let mut out = vec![];
    let mut from = 0;
    for m in pattern.find_all(text)? {
        if limit > 0 && out.len() + 1 >= limit as usize {
            break;
        }
        if m.end() == 0 || (m.start() == m.end() && m.start() == text.len()) {
            continue;
        }
        out.push(&text[from..m.start()]);
        from = m.end();
    }
    out.push(&text[from..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_keeps_trailing_empty_pieces() {
        let split = |text, pattern: &str, limit| {
            let pattern = Pattern::new(pattern).expect("good");
            pieces(text, &pattern, limit).expect("pieces")
        };
        assert_eq!(split("a,b,,", ",", -1), ["a", "b", "", ""]);
        assert_eq!(split("a,b,c", ",", 2), ["a", "b,c"]);
        assert_eq!(split("", ",", -1), [""]);
        assert_eq!(split("abc", "", -1), ["a", "b", "c"]);
    }

    #[test]
    fn replacements_know_groups_by_number_and_name_and_quotes() {
        let replace = |pattern: &str, text, with| {
            replaced(&Pattern::new(pattern).expect("good"), text, with).map_err(|e| e.to_string())
        };
        assert_eq!(replace("(a)(b)", "xaby", "$2$1"), Ok("xbay".into()));
        assert_eq!(replace("(a)", "a", "$12"), Ok("a2".into()));
        assert_eq!(replace("(?<l>a)", "a", "<${l}>"), Ok("<a>".into()));
        assert_eq!(replace("a", "a", "\\$1"), Ok("$1".into()));
        assert!(replace("a", "a", "$1").is_err());
        assert!(replace("a", "a", "$").is_err());
    }
}
