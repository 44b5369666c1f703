//! Dates and times to text, by a pattern.

use chrono::{DateTime, TimeZone};
use chrono_tz::OffsetName;

use super::{Field, Item, MONTHS, TimePattern, WEEKDAYS};
use crate::calendar::{civil, days_since_1970, offset_seconds, push_padded};
use crate::file::decode::parse::Zone;

const SECONDS_PER_DAY: i64 = 86_400;

/// A moment taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    days: i64,
    second_of_day: u64,
    micros: u64,
    /// Zone, its offset in seconds at that moment, and the moment as microseconds since 1970.
    zone: Option<(Zone, i64, i64)>,
}

impl Moment {
    /// A DATE.
    pub fn date(days: i64) -> Self {
        Self {
            days,
            second_of_day: 0,
            micros: 0,
            zone: None,
        }
    }

    /// A TIMESTAMP shown in `zone`, or a TIMESTAMP_NTZ without one.
    pub fn timestamp(micros: i64, zone: Option<Zone>) -> Self {
        let offset = zone.map_or(0, |zone| offset_seconds(zone, micros));
        let seconds = micros.div_euclid(1_000_000) + offset;
        Self {
            days: seconds.div_euclid(SECONDS_PER_DAY),
            second_of_day: seconds.rem_euclid(SECONDS_PER_DAY).unsigned_abs(),
            micros: micros.rem_euclid(1_000_000).unsigned_abs(),
            zone: zone.map(|zone| (zone, offset, micros)),
        }
    }
}

impl TimePattern {
    /// Appends the moment.
    pub fn write(&self, out: &mut Vec<u8>, moment: Moment) {
        write_items(out, &self.items, moment);
    }
}

fn write_items(out: &mut Vec<u8>, items: &[Item], moment: Moment) {
    for item in items {
        match item {
            Item::Text(text) => out.extend_from_slice(text),
            Item::Field(field, width) => write_field(out, *field, *width, moment),
            Item::Optional(items) => {
                let of_zone =
                    |item: &Item| matches!(item, Item::Field(field, _) if field.is_of_a_zone());
                if moment.zone.is_some() || !items.iter().any(of_zone) {
                    write_items(out, items, moment);
                }
            }
        }
    }
}

fn write_field(out: &mut Vec<u8>, field: Field, width: usize, moment: Moment) {
    let (year, month, day) = civil(moment.days);
    let (hour, minute) = (moment.second_of_day / 3600, moment.second_of_day / 60 % 60);
    match field {
        Field::Year => write_year(out, year, width),
        Field::Month if width > 2 => write_name(out, MONTHS[month as usize - 1], width == 3),
        Field::Month => push_padded(out, month, width),
        Field::Day => push_padded(out, day, width),
        Field::DayOfYear => {
            let first = days_since_1970(year, 1, 1).unwrap_or(moment.days);
            push_padded(out, (moment.days - first + 1).unsigned_abs(), width);
        }
        Field::Hour => push_padded(out, hour, width),
        Field::HourFrom1 => push_padded(out, if hour == 0 { 24 } else { hour }, width),
        Field::HalfHour => push_padded(out, hour % 12, width),
        Field::HalfHourFrom1 => {
            push_padded(out, if hour % 12 == 0 { 12 } else { hour % 12 }, width);
        }
        Field::HalfDay => out.extend_from_slice(if hour < 12 { b"AM" } else { b"PM" }),
        Field::Minute => push_padded(out, minute, width),
        Field::Second => push_padded(out, moment.second_of_day % 60, width),
        Field::Fraction => {
            let at = out.len();
            push_padded(out, moment.micros, 6);
            out.resize(at + width, b'0');
        }
        Field::Weekday => {
            // 1970-01-01 was a Thursday.
            let day = (moment.days + 3).rem_euclid(7);
            write_name(out, WEEKDAYS[day.unsigned_abs() as usize], width < 4);
        }
        Field::Quarter => write_quarter(out, (month - 1) / 3, width),
        Field::Era => out.extend_from_slice(match (year > 0, width) {
            (true, 4) => b"Anno Domini".as_slice(),
            (false, 4) => b"Before Christ",
            (true, _) => b"AD",
            (false, _) => b"BC",
        }),
        zone => write_zone(out, zone, width, moment),
    }
}

fn write_year(out: &mut Vec<u8>, year: i64, width: usize) {
    if width == 2 {
        return push_padded(out, year.unsigned_abs() % 100, 2);
    }
    if year < 0 {
        out.push(b'-');
    } else if width >= 4 && year.unsigned_abs() >= 10_u64.saturating_pow(width as u32) {
        out.push(b'+');
    }
    push_padded(out, year.unsigned_abs(), width);
}

fn write_name(out: &mut Vec<u8>, name: &str, short: bool) {
    let name = name.as_bytes();
    out.extend_from_slice(if short { &name[..3] } else { name });
}

fn write_quarter(out: &mut Vec<u8>, quarter: u64, width: usize) {
    const LONG: [&str; 4] = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"];
    match width {
        1 | 2 => push_padded(out, quarter + 1, width),
        3 => {
            out.push(b'Q');
            push_padded(out, quarter + 1, 1);
        }
        _ => out.extend_from_slice(LONG[quarter as usize % 4].as_bytes()),
    }
}

fn write_zone(out: &mut Vec<u8>, field: Field, width: usize, moment: Moment) {
    let Some((zone, offset, micros)) = moment.zone else {
        return;
    };
    let colon = match (field, width) {
        (Field::OffsetOrZ | Field::Offset, width) => width == 3 || width == 5,
        (_, width) => width == 5,
    };
    match field {
        Field::ZoneId => match zone {
            Zone::Utc => out.extend_from_slice(b"UTC"),
            Zone::Offset(_) => write_offset(out, offset, true, 3),
            Zone::Region(region) => out.extend_from_slice(region.name().as_bytes()),
        },
        Field::ZoneName => write_zone_name(out, zone, offset, micros),
        Field::LocalOffset => write_local_offset(out, offset, width),
        Field::PlainOffset if width == 4 => write_local_offset(out, offset, 4),
        Field::OffsetOrZ if offset == 0 => out.push(b'Z'),
        Field::PlainOffset if width == 5 && offset == 0 => out.push(b'Z'),
        Field::PlainOffset => write_offset(out, offset, colon, width.max(2)),
        _ => write_offset(out, offset, colon, width),
    }
}

fn write_zone_name(out: &mut Vec<u8>, zone: Zone, offset: i64, micros: i64) {
    match (zone, DateTime::from_timestamp_micros(micros)) {
        (Zone::Utc, _) => out.extend_from_slice(b"UTC"),
        (Zone::Region(region), Some(moment)) => {
            let at = region.offset_from_utc_datetime(&moment.naive_utc());
            out.extend_from_slice(at.abbreviation().unwrap_or_default().as_bytes());
        }
        _ => write_offset(out, offset, true, 3),
    }
}

/// `GMT`, `GMT+2`, and with four letters `GMT+02:00`.
fn write_local_offset(out: &mut Vec<u8>, offset: i64, width: usize) {
    out.extend_from_slice(b"GMT");
    if offset == 0 {
        return;
    }
    if width == 4 {
        return write_offset(out, offset, true, 3);
    }
    out.push(if offset < 0 { b'-' } else { b'+' });
    push_padded(out, offset.unsigned_abs() / 3600, 1);
    if !offset.unsigned_abs().is_multiple_of(3600) {
        out.push(b':');
        push_padded(out, offset.unsigned_abs() / 60 % 60, 2);
    }
}

/// `+02`, `+0200`, `+02:00`; seconds where the zone has them and the width is four or five.
fn write_offset(out: &mut Vec<u8>, offset: i64, colon: bool, width: usize) {
    let seconds = offset.unsigned_abs();
    out.push(if offset < 0 { b'-' } else { b'+' });
    push_padded(out, seconds / 3600, 2);
    let minutes = seconds / 60 % 60;
    if width > 1 || minutes > 0 {
        if colon {
            out.push(b':');
        }
        push_padded(out, minutes, 2);
    }
    if width > 3 && !seconds.is_multiple_of(60) {
        if colon {
            out.push(b':');
        }
        push_padded(out, seconds % 60, 2);
    }
}
