//! Reading the value at the cursor into a column: which token fits which type, by Spark's rules.
//!
//! A whole-number column takes only whole numbers, a boolean only `true` and `false`, text takes anything; a token that
//! does not fit is passed over and reported as bad, and its neighbours are kept.

use std::sync::Arc;

use arrow::datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Field};

use super::{
    super::TimePatterns,
    super::parse::{Zone, decode_base64, parse_decimal, parse_f32, parse_f64, parse_i32},
    column::{BytesColumn, Column, ListColumn, MapColumn, NumberColumn},
    cursor::{Cursor, Syntax, Text},
    number::{Number, special_text, starts_number},
    object::ObjectColumn,
    skip::Scratch,
};

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// One row was appended.
    Done,
    /// One row was appended, with something bad inside that became null.
    Partial,
    /// The value does not fit; it was passed over and nothing was appended.
    Bad,
}

/// The first value of a record that did not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    /// Name of the innermost field.
    pub(super) field: String,
    /// Its type.
    pub(super) data_type: DataType,
    /// The value in the text of the record.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What reading needs besides the cursor and the column.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) scratch: Scratch,
    pub(super) zone: Zone,
    pub(super) patterns: Arc<TimePatterns>,
    pub(super) misfit: Option<Misfit>,
}

impl Context {
    #[cold]
    fn note(&mut self, field: &Field, start: usize, end: usize) {
        if self.misfit.is_none() {
            let (field, data_type) = (field.name().clone(), field.data_type().clone());
            self.misfit = Some(Misfit {
                field,
                data_type,
                start,
                end,
            });
        }
    }
}

type Outcome = Result<Read, Syntax>;

impl Column {
    /// Reads the value at the cursor.
    #[inline]
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Outcome {
        let byte = cursor.token()?;
        match self {
            _ if byte == b'n' => {
                cursor.word(b"null")?;
                self.append_null();
                Ok(Read::Done)
            }
            Self::Int64(column) => whole(cursor, context, byte, column, Some),
            Self::Text(column) => text(cursor, context, byte, column),
            Self::Timestamp(column) => {
                let zone = context.zone;
                match byte {
                    b'0'..=b'9' | b'-' => whole(cursor, context, byte, column, |seconds| {
                        seconds.checked_mul(1_000_000)
                    }),
                    _ => quoted(cursor, context, byte, column, |patterns, text| {
                        patterns.timestamp(text, zone)
                    }),
                }
            }
            _ => self.read_other(cursor, context, byte),
        }
    }

    /// The kinds that are rarer in files.
    fn read_other(&mut self, cursor: &mut Cursor<'_>, context: &mut Context, byte: u8) -> Outcome {
        match self {
            Self::Boolean(column) => {
                let value = match byte {
                    b't' => true,
                    b'f' => false,
                    _ => return bad(cursor, context),
                };
                cursor.word(if value { b"true" } else { b"false" })?;
                column.append(value);
                Ok(Read::Done)
            }
            // Jackson takes a byte as signed or unsigned: 128..=255 wrap around.
            Self::Int8(column) => whole(cursor, context, byte, column, |value| {
                (-128..256).contains(&value).then_some(value as i8)
            }),
            Self::Int16(column) => {
                whole(cursor, context, byte, column, |value| value.try_into().ok())
            }
            Self::Int32(column) => {
                whole(cursor, context, byte, column, |value| value.try_into().ok())
            }
            Self::Float32(column) => float(cursor, context, byte, column, parse_f32, |value| {
                value as f32
            }),
            Self::Float64(column) => float(cursor, context, byte, column, parse_f64, |value| value),
            Self::Decimal(column, precision, scale) => {
                let (precision, scale) = (*precision, *scale);
                decimal(cursor, context, byte, column, |text| {
                    parse_decimal(text, precision, scale)
                })
            }
            Self::Date(column) => quoted(cursor, context, byte, column, date),
            Self::TimestampNtz(column) => {
                quoted(cursor, context, byte, column, TimePatterns::local)
            }
            Self::Binary(column) => binary(cursor, context, byte, column),
            Self::Object(column) if byte == b'{' => object(column, cursor, context),
            Self::List(column) if byte == b'[' => list(column, cursor, context),
            Self::Map(column) if byte == b'{' => map(column, cursor, context),
            Self::Null(length, false) => {
                cursor.skip(&mut context.scratch)?;
                *length += 1;
                Ok(Read::Done)
            }
            _ => bad(cursor, context),
        }
    }
}

/// Passes a value that does not fit.
#[cold]
fn bad(cursor: &mut Cursor<'_>, context: &mut Context) -> Outcome {
    cursor.skip(&mut context.scratch)?;
    Ok(Read::Bad)
}

#[inline]
fn append<T: ArrowPrimitiveType>(column: &mut NumberColumn<T>, value: Option<T::Native>) -> Read {
    match value {
        Some(value) => {
            column.append(value);
            Read::Done
        }
        None => Read::Bad,
    }
}

#[inline]
fn whole<T: ArrowPrimitiveType>(
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    byte: u8,
    column: &mut NumberColumn<T>,
    narrow: impl FnOnce(i64) -> Option<T::Native>,
) -> Outcome {
    if !byte.is_ascii_digit() && byte != b'-' {
        return bad(cursor, context);
    }
    let value = cursor.whole_number()?;
    Ok(append(column, value.and_then(narrow)))
}

fn float<T: ArrowPrimitiveType>(
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    byte: u8,
    column: &mut NumberColumn<T>,
    parse: fn(&[u8]) -> Option<T::Native>,
    special: fn(f64) -> T::Native,
) -> Outcome {
    let value = if starts_number(byte) {
        match cursor.number()? {
            Number::Whole(text) | Number::Fractional(text) => parse(text),
            Number::Special(value) => Some(special(value)),
        }
    } else if cursor.is_quote(byte) && cursor.options.allow_non_numeric_numbers {
        let text = cursor.string(byte, &mut context.scratch.text)?;
        special_text(text.bytes(&context.scratch.text)).map(special)
    } else {
        return bad(cursor, context);
    };
    Ok(append(column, value))
}

/// Decimals also come as text, where commas between digits are taken out first (Spark's parser for its default locale).
fn decimal(
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    byte: u8,
    column: &mut NumberColumn<Decimal128Type>,
    parse: impl Fn(&[u8]) -> Option<i128>,
) -> Outcome {
    if starts_number(byte) {
        let value = match cursor.number()? {
            Number::Whole(text) | Number::Fractional(text) => parse(text),
            Number::Special(_) => None,
        };
        return Ok(append(column, value));
    }
    quoted(cursor, context, byte, column, |_, text| {
        if !text.contains(&b',') {
            return parse(text);
        }
        let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != b',').collect();
        parse(&digits)
    })
}

/// A value that is written as text.
#[inline]
fn quoted<T: ArrowPrimitiveType>(
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    byte: u8,
    column: &mut NumberColumn<T>,
    parse: impl FnOnce(&TimePatterns, &[u8]) -> Option<T::Native>,
) -> Outcome {
    if !cursor.is_quote(byte) {
        return bad(cursor, context);
    }
    let text = cursor.string(byte, &mut context.scratch.text)?;
    let text = text.bytes(&context.scratch.text);
    Ok(append(column, parse(&context.patterns, text)))
}

/// A date in one of the spellings of dates, or (as Spark still reads where there is no pattern) a number of days since 1970-01-01
/// as text, from the beginning of the Gregorian calendar on.
fn date(patterns: &TimePatterns, text: &[u8]) -> Option<i32> {
    const GREGORIAN_START: i32 = -141_427;
    let days = || parse_i32(text).filter(|days| *days >= GREGORIAN_START);
    patterns
        .date(text)
        .or_else(|| patterns.date.is_none().then(days).flatten())
}

#[inline]
fn text(
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    byte: u8,
    column: &mut BytesColumn,
) -> Outcome {
    if cursor.is_quote(byte) {
        match cursor.string(byte, &mut context.scratch.text)? {
            Text::Plain(bytes) => column.append(bytes)?,
            Text::Resolved => column.append(&context.scratch.text)?,
        }
        return Ok(Read::Done);
    }
    text_of_other(cursor, context, column)
}

/// A number, literal, object or array as text.
fn text_of_other(
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    column: &mut BytesColumn,
) -> Outcome {
    if cursor.options.exact_text {
        let start = cursor.pos;
        cursor.skip(&mut context.scratch)?;
        column.append(&cursor.text[start..cursor.pos])?;
    } else {
        cursor.walk(&mut context.scratch, &mut column.data)?;
        column.end_row()?;
    }
    Ok(Read::Done)
}

fn binary(
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    byte: u8,
    column: &mut BytesColumn,
) -> Outcome {
    if !cursor.is_quote(byte) {
        return bad(cursor, context);
    }
    let text = cursor.string(byte, &mut context.scratch.text)?;
    if decode_base64(text.bytes(&context.scratch.text), &mut column.data).is_none() {
        return Ok(Read::Bad);
    }
    column.end_row()?;
    Ok(Read::Done)
}

/// The object at the cursor as one row. Unknown names are passed over; of a name that comes twice the last good value
/// counts; bad values are null.
pub(super) fn object(
    object: &mut ObjectColumn,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Outcome {
    cursor.enter()?;
    let row = object.len();
    // Columns from `unseen` on have no value yet in this row.
    let (mut appended, mut expected, mut unseen) = (0, 0, 0);
    let mut outcome = Read::Done;
    let mut more = !cursor.empty(b'}')?;
    while more {
        match object.field_at(cursor, expected, &mut context.scratch.text)? {
            None => cursor.skip(&mut context.scratch)?,
            Some(index) => {
                expected = index + 1;
                let again = index < unseen && object.columns[index].len() > row;
                unseen = unseen.max(expected);
                let (start, column) = (cursor.pos, &mut object.columns[index]);
                let read = if again {
                    read_again(column, row, cursor, context)?
                } else {
                    column.read(cursor, context)?
                };
                if read != Read::Bad {
                    appended += usize::from(!again);
                } else {
                    context.note(&object.fields()[index], start, cursor.pos);
                }
                if read != Read::Done {
                    outcome = Read::Partial;
                }
            }
        }
        more = cursor.more(b'}')?;
    }
    cursor.depth -= 1;
    object.end_row(appended);
    Ok(outcome)
}

/// Another value for a column that has one in this row: it replaces the first unless it is bad.
#[cold]
fn read_again(
    column: &mut Column,
    row: usize,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Outcome {
    let start = cursor.pos;
    let read = column.read(cursor, context)?;
    if read != Read::Bad {
        column.truncate(row);
        cursor.pos = start;
        column.read(cursor, context)?;
    }
    Ok(read)
}

/// The array at the cursor. One bad element makes the whole array bad.
fn list(list: &mut ListColumn, cursor: &mut Cursor<'_>, context: &mut Context) -> Outcome {
    cursor.enter()?;
    let row = list.len();
    let mut outcome = Read::Done;
    let mut more = !cursor.empty(b']')?;
    while more {
        let read = match outcome {
            Read::Bad => bad(cursor, context)?,
            _ => list.element.read(cursor, context)?,
        };
        outcome = worse(outcome, read);
        more = cursor.more(b']')?;
    }
    cursor.depth -= 1;
    if outcome == Read::Bad {
        list.truncate(row);
    } else {
        list.end_row()?;
    }
    Ok(outcome)
}

/// The object at the cursor as a map. One bad value makes the whole map bad; a key that comes twice is there twice.
fn map(map: &mut MapColumn, cursor: &mut Cursor<'_>, context: &mut Context) -> Outcome {
    cursor.enter()?;
    let row = map.len();
    let mut outcome = Read::Done;
    let mut more = !cursor.empty(b'}')?;
    while more {
        let key = cursor.name(&mut context.scratch.text)?;
        map.keys.append(key.bytes(&context.scratch.text))?;
        cursor.colon()?;
        let read = match outcome {
            Read::Bad => bad(cursor, context)?,
            _ => map.values.read(cursor, context)?,
        };
        outcome = worse(outcome, read);
        more = cursor.more(b'}')?;
    }
    cursor.depth -= 1;
    if outcome == Read::Bad {
        map.truncate(row);
    } else {
        map.end_row()?;
    }
    Ok(outcome)
}

fn worse(one: Read, other: Read) -> Read {
    match (one, other) {
        (Read::Bad, _) | (_, Read::Bad) => Read::Bad,
        (Read::Partial, _) | (_, Read::Partial) => Read::Partial,
        _ => Read::Done,
    }
}
