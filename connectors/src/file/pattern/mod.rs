//! Dates and times by a pattern of the user: the letters of Java's `DateTimeFormatter`, as Spark's options take them.
//!
//! | letters | field |
//! | --- | --- |
//! | `y` `u` | year; two letters are the years 2000 to 2099 |
//! | `M` `L`, `d`, `D` | month (three letters `Jan`, four `January`), day of the month, day of the year |
//! | `H` `k`, `h` `K`, `a` | hour from 0, from 1; half-day hour from 1, from 0; `AM` or `PM` |
//! | `m`, `s`, `S` | minute, second, digits behind the second |
//! | `X` `x` `Z` `O`, `V` `z` | offset of the zone, zone by name |
//! | `E`, `Q` `q`, `G` | weekday, quarter, era; for writing only |
//! | `'text'`, `''`, `[…]` | text, a quote, a part that may be missing |
//!
//! One letter is a number of any width, more are a number of that width. When reading, any number of digits up to that of the `S`
//! may follow the second; digits beyond microseconds are cut off.

mod parse;
#[cfg(test)]
mod tests;
mod write;

pub use write::Moment;

/// Longest run of one letter.
const MAX_WIDTH: usize = 19;

/// A pattern, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimePattern {
    text: String,
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Text(Vec<u8>),
    Field(Field, usize),
    Optional(Vec<Item>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Year,
    Month,
    Day,
    DayOfYear,
    Hour,
    HourFrom1,
    HalfHourFrom1,
    HalfHour,
    HalfDay,
    Minute,
    Second,
    Fraction,
    /// `X`: an offset, `Z` for none.
    OffsetOrZ,
    /// `x`: an offset.
    Offset,
    /// `Z`: an offset without a colon.
    PlainOffset,
    /// `O`: an offset behind `GMT`.
    LocalOffset,
    ZoneId,
    ZoneName,
    Weekday,
    Quarter,
    Era,
}

impl Field {
    fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'y' | 'u' => Self::Year,
            'M' | 'L' => Self::Month,
            'd' => Self::Day,
            'D' => Self::DayOfYear,
            'H' => Self::Hour,
            'k' => Self::HourFrom1,
            'h' => Self::HalfHourFrom1,
            'K' => Self::HalfHour,
            'a' => Self::HalfDay,
            'm' => Self::Minute,
            's' => Self::Second,
            'S' => Self::Fraction,
            'X' => Self::OffsetOrZ,
            'x' => Self::Offset,
            'Z' => Self::PlainOffset,
            'O' => Self::LocalOffset,
            'V' => Self::ZoneId,
            'z' => Self::ZoneName,
            'E' => Self::Weekday,
            'Q' | 'q' => Self::Quarter,
            'G' => Self::Era,
            _ => return None,
        })
    }

    fn is_of_a_zone(self) -> bool {
        matches!(
            self,
            Self::OffsetOrZ
                | Self::Offset
                | Self::PlainOffset
                | Self::LocalOffset
                | Self::ZoneId
                | Self::ZoneName
        )
    }

    fn is_of_a_day(self) -> bool {
        matches!(
            self,
            Self::Year
                | Self::Month
                | Self::Day
                | Self::DayOfYear
                | Self::Weekday
                | Self::Quarter
                | Self::Era
        )
    }
}

impl TimePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// One phrase that says what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut letters = text.chars().peekable();
        let items = items(&mut letters, 0)?;
        Ok(Self {
            text: text.to_owned(),
            items,
        })
    }

    /// A pattern for reading: without weekdays, quarters and eras, which follow from the date.
    ///
    /// # Errors
    /// As [`TimePattern::new`].
    pub fn for_reading(text: &str) -> Result<Self, String> {
        let pattern = Self::new(text)?;
        match pattern.any(|field| matches!(field, Field::Weekday | Field::Quarter | Field::Era)) {
            true => Err("'E', 'Q', 'q' and 'G' are for writing only".to_owned()),
            false => Ok(pattern),
        }
    }

    /// A pattern that writes DATE: without the time of day.
    ///
    /// # Errors
    /// As [`TimePattern::new`].
    pub fn for_writing_dates(text: &str) -> Result<Self, String> {
        let pattern = Self::new(text)?;
        match pattern.any(|field| !field.is_of_a_day()) {
            true => Err("a date has no time of day and no zone".to_owned()),
            false => Ok(pattern),
        }
    }

    /// A pattern that writes TIMESTAMP_NTZ: a zone may only stand in brackets, and is left out.
    ///
    /// # Errors
    /// As [`TimePattern::new`].
    pub fn for_writing_local_times(text: &str) -> Result<Self, String> {
        let pattern = Self::new(text)?;
        let needs_zone =
            |item: &Item| matches!(item, Item::Field(field, _) if field.is_of_a_zone());
        match pattern.items.iter().any(needs_zone) {
            true => Err("a TIMESTAMP_NTZ has no zone".to_owned()),
            false => Ok(pattern),
        }
    }

    /// The pattern as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn any(&self, test: impl Fn(Field) -> bool + Copy) -> bool {
        any(&self.items, test)
    }
}

fn any(items: &[Item], test: impl Fn(Field) -> bool + Copy) -> bool {
    items.iter().any(|item| match item {
        Item::Text(_) => false,
        Item::Field(field, _) => test(*field),
        Item::Optional(items) => any(items, test),
    })
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Items up to the end, or up to the bracket that closes a part `depth` deep.
fn items(letters: &mut Letters<'_>, depth: usize) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => push_text(&mut items, &quoted(letters)?),
            '[' if depth < 8 => items.push(Item::Optional(self::items(letters, depth + 1)?)),
            '[' => return Err("its brackets are nested too deeply".to_owned()),
            ']' if depth > 0 => return Ok(items),
            ']' => return Err("a bracket is closed that was not opened".to_owned()),
            '{' | '}' | '#' => return Err(format!("'{letter}' is reserved, quote it: '{letter}'")),
            _ if letter.is_ascii_alphabetic() => items.push(field(letter, letters)?),
            _ => push_text(&mut items, letter.encode_utf8(&mut [0; 4])),
        }
    }
    match depth {
        0 => Ok(items),
        _ => Err("a bracket is not closed".to_owned()),
    }
}

fn field(letter: char, letters: &mut Letters<'_>) -> Result<Item, String> {
    let field = Field::of(letter).ok_or_else(|| format!("it has the unknown letter '{letter}'"))?;
    let mut width = 1;
    while letters.next_if_eq(&letter).is_some() {
        width += 1;
    }
    let most = match field {
        Field::Year => MAX_WIDTH,
        Field::Fraction => 9,
        Field::Month | Field::Weekday | Field::Quarter | Field::Era | Field::ZoneName => 4,
        Field::DayOfYear => 3,
        Field::OffsetOrZ | Field::Offset | Field::PlainOffset => 5,
        Field::LocalOffset => 4,
        Field::HalfDay => 1,
        _ => 2,
    };
    match width <= most {
        true => Ok(Item::Field(field, width)),
        false => Err(format!("it has more than {most} of '{letter}' in a row")),
    }
}

/// Text behind an opening quote; two quotes are one.
fn quoted(letters: &mut Letters<'_>) -> Result<String, String> {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        if letter != '\'' {
            text.push(letter);
        } else if letters.next_if_eq(&'\'').is_some() {
            text.push('\'');
        } else {
            return Ok(if text.is_empty() {
                "'".to_owned()
            } else {
                text
            });
        }
    }
    Err("a quote is not closed".to_owned())
}

fn push_text(items: &mut Vec<Item>, text: &str) {
    match items.last_mut() {
        Some(Item::Text(before)) => before.extend_from_slice(text.as_bytes()),
        _ => items.push(Item::Text(text.as_bytes().to_vec())),
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
