//! Parts of texts and bytes, and where they are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, lit};

use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel, KernelFn};
use super::super::{Args, Resolver};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("substr", substring),
    ("substring", substring),
    ("left", |a| {
        a.expect(2, 2)?;
        let args = vec![a.exprs[0].clone(), lit(1i32), a.exprs[1].clone()];
        a.call("substring", args)
    }),
    ("right", |a| {
        a.expect(2, 2)?;
        let values = vec![a.string(0)?, a.cast(1, &DataType::Int32)?];
        Ok(Kernel::call("right", DataType::Utf8, "", right, values))
    }),
    ("overlay", overlay),
    ("locate", |a| {
        a.expect(2, 3)?;
        find(&a, 1, 0, 2)
    }),
    ("position", |a| {
        a.expect(2, 3)?;
        find(&a, 1, 0, 2)
    }),
    ("charindex", |a| {
        a.expect(2, 3)?;
        find(&a, 1, 0, 2)
    }),
    ("instr", instr),
    ("contains", |a| {
        test(a, "contains", |c| {
            holds(c, |t, part| found(t, part).is_some())
        })
    }),
    ("startswith", |a| {
        test(a, "startswith", |c| holds(c, <[u8]>::starts_with))
    }),
    ("endswith", |a| {
        test(a, "endswith", |c| holds(c, <[u8]>::ends_with))
    }),
    ("split_part", |a| {
        a.expect(3, 3)?;
        let values = vec![a.string(0)?, a.string(1)?, a.cast(2, &DataType::Int32)?];
        Ok(Kernel::call(
            "split_part",
            DataType::Utf8,
            "",
            split_part,
            values,
        ))
    }),
    ("levenshtein", |a| {
        a.expect(2, 3)?;
        let limit = match a.exprs.len() {
            3 => a.cast(2, &DataType::Int32)?,
            _ => lit(i32::MAX),
        };
        let values = vec![a.string(0)?, a.string(1)?, limit];
        Ok(Kernel::call(
            "levenshtein",
            DataType::Int32,
            "",
            levenshtein,
            values,
        ))
    }),
    ("lpad", |a| pad(a, "lpad", |c| padded(c, true))),
    ("rpad", |a| pad(a, "rpad", |c| padded(c, false))),
    ("reverse", |a| match a.types.first() {
        Some(DataType::List(_)) => a.call("array_reverse", a.exprs.clone()),
        _ => {
            a.expect(1, 1)?;
            let (t, values) = bytes_or_text(&a, &[0])?;
            Ok(Kernel::call("reverse", t, "", reverse, values))
        }
    }),
];

/// The arguments as BINARY if all of them are, else as STRING.
fn bytes_or_text(args: &Args<'_>, of: &[usize]) -> Result<(DataType, Vec<Expr>)> {
    let binary = of.iter().all(|i| args.types[*i] == DataType::Binary);
    let t = if binary {
        DataType::Binary
    } else {
        DataType::Utf8
    };
    let values = of.iter().map(|i| args.cast(*i, &t));
    Ok((t.clone(), values.collect::<Result<_>>()?))
}

/// The bytes of a column of texts or bytes at `row`.
fn bytes(column: &ArrayRef, row: usize) -> &[u8] {
    match column.data_type() {
        DataType::Binary => column.as_binary::<i32>().value(row),
        _ => column.as_string::<i32>().value(row).as_bytes(),
    }
}

/// A column of type BINARY or STRING.
fn column_of(t: &DataType, rows: Vec<Option<Vec<u8>>>) -> ArrayRef {
    match t {
        DataType::Binary => Arc::new(rows.into_iter().collect::<BinaryArray>()),
        _ => {
            let texts = rows.into_iter().map(|row| {
                let text = String::from_utf8(row?);
                Some(text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
            });
            Arc::new(texts.collect::<StringArray>())
        }
    }
}

fn ints(column: &ArrayRef) -> &Int32Array {
    column.as_primitive::<Int32Type>()
}

fn whole(a: &[ArrayRef], row: usize) -> bool {
    a.iter().all(|column| column.is_valid(row))
}

/// `f` over every row without NULL.
fn each<T>(a: &[ArrayRef], mut f: impl FnMut(usize) -> Result<T>) -> Result<Vec<Option<T>>> {
    let rows = 0..a[0].len();
    rows.map(|row| whole(a, row).then(|| f(row)).transpose())
        .collect()
}

/// The part from a place on: places count from 1, or from -1 backwards; what lies outside is left out.
fn part(count: usize, place: i32, length: i32) -> std::ops::Range<usize> {
    let count = count as i64;
    let start = match i64::from(place) {
        0 => 0,
        place if place > 0 => place - 1,
        place => count + place,
    };
    let end = start.saturating_add(i64::from(length)).clamp(0, count);
    let start = start.clamp(0, end);
    start as usize..end as usize
}

/// The letters of `text` in a range.
fn letters(text: &str, range: std::ops::Range<usize>) -> &str {
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(i, _)| i);
    match text.is_ascii() {
        true => &text[range],
        false => &text[at(range.start)..at(range.end)],
    }
}

fn substring(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let (t, mut values) = bytes_or_text(&args, &[0])?;
    values.push(args.cast(1, &DataType::Int32)?);
    values.push(match args.exprs.len() {
        3 => args.cast(2, &DataType::Int32)?,
        _ => lit(i32::MAX),
    });
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let (places, lengths) = (ints(&a[1]), ints(&a[2]));
            let rows = each(a, |row| {
                let (place, length) = (places.value(row), lengths.value(row));
                Ok(match c.returns {
                    DataType::Binary => {
                        let bytes = bytes(&a[0], row);
                        bytes[part(bytes.len(), place, length)].to_vec()
                    }
                    _ => {
                        let text = a[0].as_string::<i32>().value(row);
                        let range = part(text.chars().count(), place, length);
                        letters(text, range).as_bytes().to_vec()
                    }
                })
            })?;
            Ok(column_of(c.returns, rows))
        })
    };
    Ok(Kernel::call("substring", t, "", code, values))
}

fn right(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let texts = a[0].as_string::<i32>();
        let rows = each(a, |row| {
            let text = texts.value(row);
            let count = text.chars().count();
            let wanted = usize::try_from(ints(&a[1]).value(row)).unwrap_or(0);
            Ok(letters(text, count - wanted.min(count)..count).to_owned())
        })?;
        Ok(Arc::new(StringArray::from(rows)) as ArrayRef)
    })
}

/// `overlay(text, by, place[, length])`: without a length as many letters are replaced as come in.
fn overlay(args: Args<'_>) -> Result<Expr> {
    args.expect(3, 4)?;
    let (t, mut values) = bytes_or_text(&args, &[0, 1])?;
    values.push(args.cast(2, &DataType::Int32)?);
    values.push(match args.exprs.len() {
        4 => args.cast(3, &DataType::Int32)?,
        _ => lit(-1i32),
    });
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let rows = each(a, |row| {
                let (place, length) = (ints(&a[2]).value(row), ints(&a[3]).value(row));
                let (old, by) = (bytes(&a[0], row), bytes(&a[1], row));
                Ok(
                    match (c.returns, std::str::from_utf8(old), std::str::from_utf8(by)) {
                        (DataType::Utf8, Ok(old), Ok(by)) => {
                            let (count, new) = (old.chars().count(), by.chars().count());
                            let (before, after) = around(count, new, place, length);
                            let text = [letters(old, before), by, letters(old, after)].concat();
                            text.into_bytes()
                        }
                        _ => {
                            let (before, after) = around(old.len(), by.len(), place, length);
                            [&old[before], by, &old[after]].concat()
                        }
                    },
                )
            })?;
            Ok(column_of(c.returns, rows))
        })
    };
    Ok(Kernel::call("overlay", t, "", code, values))
}

type Ranges = (std::ops::Range<usize>, std::ops::Range<usize>);

/// What stays in front of and behind the part that is replaced.
fn around(count: usize, new: usize, place: i32, length: i32) -> Ranges {
    let length = if length < 0 {
        new as i64
    } else {
        length.into()
    };
    let before = part(count, 1, place.saturating_sub(1).max(0));
    let rest = (i64::from(place) + length).clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    (before, part(count, rest as i32, i32::MAX))
}

/// The call that finds argument `part` in argument `text` from the place in argument `from` on.
fn find(args: &Args<'_>, text: usize, part: usize, from: usize) -> Result<Expr> {
    let from = match args.exprs.len() > from {
        true => args.cast(from, &DataType::Int32)?,
        false => lit(1i32),
    };
    let values = vec![args.string(text)?, args.string(part)?, from, lit(1i32)];
    Ok(Kernel::call(
        "locate",
        DataType::Int32,
        "",
        place_of,
        values,
    ))
}

/// `instr(text, part[, place[, occurrence]])`; a negative place is searched from backwards.
fn instr(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 4)?;
    let number = |i: usize| match args.exprs.len() > i {
        true => args.cast(i, &DataType::Int32),
        false => Ok(lit(1i32)),
    };
    let values = vec![args.string(0)?, args.string(1)?, number(2)?, number(3)?];
    Ok(Kernel::call("instr", DataType::Int32, "", place_of, values))
}

/// Places of letters, from 1; 0 where the part is not found or the place is 0.
fn place_of(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let (texts, parts) = (a[0].as_string::<i32>(), a[1].as_string::<i32>());
        let rows = each(a, |row| {
            let (from, nth) = (ints(&a[2]).value(row), ints(&a[3]).value(row));
            Ok(located(texts.value(row), parts.value(row), from, nth))
        })?;
        Ok(Arc::new(Int32Array::from(rows)) as ArrayRef)
    })
}

fn located(text: &str, part: &str, from: i32, nth: i32) -> i32 {
    let Some(nth) = usize::try_from(nth).ok().and_then(|n| n.checked_sub(1)) else {
        return 0;
    };
    if part.is_empty() && from > 0 && nth == 0 {
        return 1;
    }
    let starts: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
    let end = starts.len();
    let at = |n: &usize| {
        let byte = starts.get(*n).copied().unwrap_or(text.len());
        text[byte..].starts_with(part)
    };
    let found = match from {
        0 => None,
        1.. => (from as usize - 1..=end).filter(at).nth(nth),
        _ => {
            let last = (end as i64 + i64::from(from)).max(-1) + 1;
            (0..last as usize).rev().filter(at).nth(nth)
        }
    };
    found.map_or(0, |n| n as i32 + 1)
}

fn test(args: Args<'_>, name: &'static str, code: KernelFn) -> Result<Expr> {
    args.expect(2, 2)?;
    let (_, values) = bytes_or_text(&args, &[0, 1])?;
    Ok(Kernel::call(name, DataType::Boolean, "", code, values))
}

fn holds(call: &Call<'_>, f: fn(&[u8], &[u8]) -> bool) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let rows = each(a, |row| Ok(f(bytes(&a[0], row), bytes(&a[1], row))))?;
        Ok(Arc::new(BooleanArray::from(rows)) as ArrayRef)
    })
}

fn found(text: &[u8], part: &[u8]) -> Option<usize> {
    match part.is_empty() {
        true => Some(0),
        false => text.windows(part.len()).position(|window| window == part),
    }
}

/// The piece of this number, from 1, or from -1 backwards; an empty text if there is none.
fn split_part(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let (texts, between) = (a[0].as_string::<i32>(), a[1].as_string::<i32>());
        let rows = each(a, |row| {
            let number = ints(&a[2]).value(row);
            let pieces: Vec<&str> = match between.value(row) {
                "" => vec![texts.value(row)],
                between => texts.value(row).split(between).collect(),
            };
            let place = match number {
                0 => {
                    return Err(SparkError::external(
                        "INVALID_INDEX_OF_ZERO",
                        "split_part: there is no piece 0; pieces count from 1, or from -1 backwards",
                    ));
                }
                1.. => Some(number as usize - 1),
                _ => pieces.len().checked_sub(number.unsigned_abs() as usize),
            };
            let piece = place.and_then(|place| pieces.get(place));
            Ok(piece.copied().unwrap_or_default().to_owned())
        })?;
        Ok(Arc::new(StringArray::from(rows)) as ArrayRef)
    })
}

/// How many letters have to be changed, added or left out; -1 if more than the limit.
fn levenshtein(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let (x, y) = (a[0].as_string::<i32>(), a[1].as_string::<i32>());
        let rows = each(a, |row| {
            let distance = distance(x.value(row), y.value(row));
            Ok(if distance > i64::from(ints(&a[2]).value(row)) {
                -1
            } else {
                distance as i32
            })
        })?;
        Ok(Arc::new(Int32Array::from(rows)) as ArrayRef)
    })
}

fn distance(x: &str, y: &str) -> i64 {
    let y: Vec<char> = y.chars().collect();
    let mut costs: Vec<i64> = (0..=y.len() as i64).collect();
    for (i, a) in x.chars().enumerate() {
        let mut diagonal = costs[0];
        costs[0] = i as i64 + 1;
        for (j, b) in y.iter().enumerate() {
            let change = diagonal + i64::from(a != *b);
            diagonal = costs[j + 1];
            costs[j + 1] = change.min(costs[j] + 1).min(diagonal + 1);
        }
    }
    costs[y.len()]
}

/// `lpad(text, length[, with])`, and the same over bytes, which are filled with zeros.
fn pad(args: Args<'_>, name: &'static str, code: KernelFn) -> Result<Expr> {
    args.expect(2, 3)?;
    let of: &[usize] = if args.exprs.len() == 3 { &[0, 2] } else { &[0] };
    let (t, mut values) = bytes_or_text(&args, of)?;
    if values.len() == 1 {
        values.push(match t {
            DataType::Binary => lit(datafusion::scalar::ScalarValue::Binary(Some(vec![0]))),
            _ => lit(" "),
        });
    }
    values.push(args.cast(1, &DataType::Int32)?);
    Ok(Kernel::call(name, t, "", code, values))
}

fn padded(call: &Call<'_>, in_front: bool) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let rows = each(a, |row| {
            let wanted = usize::try_from(ints(&a[2]).value(row)).unwrap_or(0);
            super::super::arrays::check_size(wanted, "lpad and rpad")?;
            Ok(match call.returns {
                DataType::Binary => {
                    let (own, with) = (bytes(&a[0], row), bytes(&a[1], row));
                    filled(own.to_vec(), with, wanted, in_front)
                }
                _ => {
                    let texts = [0, 1].map(|i| a[i].as_string::<i32>().value(row));
                    let [own, with] = texts.map(|text| text.chars().collect::<Vec<char>>());
                    let text: String = filled(own, &with, wanted, in_front).into_iter().collect();
                    text.into_bytes()
                }
            })
        })?;
        Ok(column_of(call.returns, rows))
    })
}

fn filled<T: Clone>(mut own: Vec<T>, with: &[T], wanted: usize, in_front: bool) -> Vec<T> {
    own.truncate(wanted);
    let missing = wanted - own.len();
    let fill = with
        .iter()
        .cycle()
        .take(if with.is_empty() { 0 } else { missing })
        .cloned();
    match in_front {
        true => fill.chain(own).collect(),
        false => own.into_iter().chain(fill).collect(),
    }
}

fn reverse(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let rows = each(a, |row| {
            Ok(match call.returns {
                DataType::Binary => bytes(&a[0], row).iter().rev().copied().collect(),
                _ => {
                    let text: String = a[0].as_string::<i32>().value(row).chars().rev().collect();
                    text.into_bytes()
                }
            })
        })?;
        Ok(column_of(call.returns, rows))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_from_both_ends_and_stay_inside() {
        assert_eq!(part(3, 0, 2), 0..2);
        assert_eq!(part(3, -5, 3), 0..1);
        assert_eq!(part(3, -2, 1), 1..2);
        assert_eq!(part(3, 2, i32::MAX), 1..3);
        assert_eq!(part(3, 9, 2), 3..3);
        assert!(part(3, 2, -1).is_empty());
        assert_eq!(letters("aé€b", 1..3), "é€");
    }

    #[test]
    fn places_are_those_of_letters() {
        assert_eq!(located("foobarbar", "bar", 5, 1), 7);
        assert_eq!(located("ééa", "a", 1, 1), 3);
        assert_eq!(located("abc", "", 1, 1), 1);
        assert_eq!(located("abcabc", "b", 1, 2), 5);
        assert_eq!(located("abcabc", "b", -1, 1), 5);
        assert_eq!(located("abc", "a", 0, 1), 0);
    }
}
