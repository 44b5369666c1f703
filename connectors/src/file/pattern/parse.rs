//! Text to dates and times, by a pattern.

use super::{Field, Item, MONTHS, TimePattern};
use crate::calendar::days_since_1970;
use crate::file::decode::parse::Zone;

const DAY_MICROS: i64 = 86_400_000_000;

/// The fields found in a text; what is missing is the beginning of 1970.
#[derive(Debug, Clone, Copy, Default)]
struct Found<'a> {
    year: Option<i64>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    hour: Option<u32>,
    half_hour: Option<u32>,
    afternoon: Option<bool>,
    minute: Option<u32>,
    second: Option<u32>,
    micros: Option<u32>,
    zone: Option<&'a [u8]>,
}

impl TimePattern {
    /// Days since 1970-01-01; a time of day in the text is left out.
    pub fn parse_date(&self, text: &[u8]) -> Option<i32> {
        i32::try_from(self.find(text)?.days()?).ok()
    }

    /// Microseconds since the epoch. A time without a zone is one of `session`.
    pub fn parse_timestamp(&self, text: &[u8], session: Zone) -> Option<i64> {
        let found = self.find(text)?;
        let zone = match found.zone {
            Some(zone) => Zone::parse(zone)?,
            None => session,
        };
        zone.local_to_utc(found.local_micros()?)
    }

    /// Microseconds on the wall clock; a zone in the text is an error.
    pub fn parse_timestamp_ntz(&self, text: &[u8]) -> Option<i64> {
        let found = self.find(text)?;
        match found.zone {
            Some(_) => None,
            None => found.local_micros(),
        }
    }

    fn find<'a>(&self, text: &'a [u8]) -> Option<Found<'a>> {
        let mut found = Found::default();
        let rest = found.read(&self.items, text)?;
        rest.is_empty().then_some(found)
    }
}

impl<'a> Found<'a> {
    /// Reads the items off the front of a text; answers what is left.
    fn read(&mut self, items: &[Item], text: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = text;
        for item in items {
            rest = match item {
                Item::Text(text) => rest.strip_prefix(text.as_slice())?,
                Item::Field(field, width) => self.field(*field, *width, rest)?,
                Item::Optional(items) => {
                    let mut with = *self;
                    match with.read(items, rest) {
                        Some(after) => {
                            *self = with;
                            after
                        }
                        None => rest,
                    }
                }
            };
        }
        Some(rest)
    }

    fn field(&mut self, field: Field, width: usize, text: &'a [u8]) -> Option<&'a [u8]> {
        match field {
            Field::Year => {
                let (year, rest) = year(text, width)?;
                self.year = Some(year);
                Some(rest)
            }
            Field::Month if width > 2 => {
                let (month, rest) = name(text, width == 3)?;
                self.month = Some(month);
                Some(rest)
            }
            Field::Fraction => {
                let digits = text
                    .iter()
                    .take(width)
                    .take_while(|b| b.is_ascii_digit())
                    .count();
                let micros = text.get(..digits).filter(|digits| !digits.is_empty())?;
                let used = micros.len().min(6);
                let value = number(&micros[..used])?;
                self.micros = Some(value * 10_u32.pow(6 - used as u32));
                Some(&text[digits..])
            }
            Field::HalfDay => {
                let (word, rest) = text.split_at_checked(2)?;
                self.afternoon = Some(match word.to_ascii_uppercase().as_slice() {
                    b"AM" => false,
                    b"PM" => true,
                    _ => return None,
                });
                Some(rest)
            }
            zone if zone.is_of_a_zone() => {
                let (zone, rest) = zone_text(text, field)?;
                self.zone = Some(zone);
                Some(rest)
            }
            _ => self.number(field, width, text),
        }
    }

    fn number(&mut self, field: Field, width: usize, text: &'a [u8]) -> Option<&'a [u8]> {
        let most = match (width, field) {
            (1, Field::DayOfYear) => 3,
            (1, _) => 2,
            (width, _) => width,
        };
        let digits = text
            .iter()
            .take(most)
            .take_while(|b| b.is_ascii_digit())
            .count();
        if digits < width {
            return None;
        }
        let value = number(&text[..digits])?;
        let (place, range) = match field {
            Field::Month => (&mut self.month, 1..=12),
            Field::Day => (&mut self.day, 1..=31),
            Field::DayOfYear => (&mut self.day_of_year, 1..=366),
            Field::Hour => (&mut self.hour, 0..=23),
            Field::HourFrom1 => (&mut self.hour, 1..=24),
            Field::HalfHourFrom1 => (&mut self.half_hour, 1..=12),
            Field::HalfHour => (&mut self.half_hour, 0..=11),
            Field::Minute => (&mut self.minute, 0..=59),
            Field::Second => (&mut self.second, 0..=59),
            _ => return None,
        };
        if !range.contains(&value) {
            return None;
        }
        // Hour 24 of the clock from 1 is hour 0, hour 12 of the half day too.
        let value = match field {
            Field::HourFrom1 => value % 24,
            Field::HalfHourFrom1 => value % 12,
            _ => value,
        };
        *place = Some(value);
        Some(&text[digits..])
    }

    fn days(&self) -> Option<i64> {
        let year = self.year.unwrap_or(1970);
        match self.day_of_year {
            None => days_since_1970(year, self.month.unwrap_or(1), self.day.unwrap_or(1)),
            Some(day) => {
                let first = days_since_1970(year, 1, 1)?;
                let days = first + i64::from(day) - 1;
                let next = days_since_1970(year + 1, 1, 1)?;
                (days < next).then_some(days)
            }
        }
    }

    fn local_micros(&self) -> Option<i64> {
        let hour = match (self.hour, self.half_hour, self.afternoon) {
            (Some(hour), _, _) => hour,
            (None, Some(hour), afternoon) => hour + 12 * u32::from(afternoon.unwrap_or(false)),
            (None, None, _) => 0,
        };
        let seconds = hour * 3600 + self.minute.unwrap_or(0) * 60 + self.second.unwrap_or(0);
        let of_day = i64::from(seconds) * 1_000_000 + i64::from(self.micros.unwrap_or(0));
        self.days()?.checked_mul(DAY_MICROS)?.checked_add(of_day)
    }
}

/// `yy` is of this century; otherwise as many digits as letters, more only behind a sign.
fn year(text: &[u8], width: usize) -> Option<(i64, &[u8])> {
    let (sign, digits_from) = match text.first()? {
        b'-' => (-1, 1),
        b'+' => (1, 1),
        _ => (1, 0),
    };
    let body = &text[digits_from..];
    let have = body
        .iter()
        .take(9)
        .take_while(|b| b.is_ascii_digit())
        .count();
    let take = match (width, digits_from) {
        (2, 0) => 2,
        (2, _) => return None,
        (1, _) => have,
        (width, 0) => width,
        (_, _) => have,
    };
    if take == 0 || have < take || take < width {
        return None;
    }
    let value = i64::from(number(&body[..take])?);
    let year = if width == 2 {
        2000 + value
    } else {
        sign * value
    };
    Some((year, &body[take..]))
}

/// The number of a month called by its name, in any letter case.
fn name(text: &[u8], short: bool) -> Option<(u32, &[u8])> {
    let same = |name: &str| {
        let name = if short {
            &name.as_bytes()[..3]
        } else {
            name.as_bytes()
        };
        text.split_at_checked(name.len())
            .filter(|(word, _)| word.eq_ignore_ascii_case(name))
            .map(|(_, rest)| rest)
    };
    (1..)
        .zip(MONTHS)
        .find_map(|(month, name)| same(name).map(|rest| (month, rest)))
}

/// The text of a zone and what follows it.
fn zone_text(text: &[u8], field: Field) -> Option<(&[u8], &[u8])> {
    let is_part = |byte: &u8| match field {
        Field::ZoneId | Field::ZoneName | Field::LocalOffset => {
            byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'+' | b'-' | b':')
        }
        _ => byte.is_ascii_digit() || *byte == b':',
    };
    let begin = match (field, text.first()?) {
        (Field::OffsetOrZ | Field::PlainOffset, b'Z') => return Some(text.split_at(1)),
        (Field::OffsetOrZ | Field::Offset | Field::PlainOffset, b'+' | b'-') => 1,
        (Field::OffsetOrZ | Field::Offset | Field::PlainOffset, _) => return None,
        _ => 0,
    };
    let length = begin
        + text[begin..]
            .iter()
            .take_while(|byte| is_part(byte))
            .count();
    (length > 0).then(|| text.split_at(length))
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |value, digit| {
        value.checked_mul(10)?.checked_add(u32::from(digit - b'0'))
    })
}
