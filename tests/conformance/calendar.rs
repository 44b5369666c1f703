//! Dates, times and intervals as text, in the spelling of the case files.
//!
//! Own arithmetic because results may lie outside of the years that date libraries cover.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// `2026-01-31`; years beyond 9999 with a `+`, years before 0 with a `-`.
pub(crate) fn date(days_since_1970: i64) -> String {
    let (year, month, day) = civil(days_since_1970);
    let sign = match year {
        ..0 => "-",
        0..=9999 => "",
        _ => "+",
    };
    format!("{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())
}

/// `2026-01-01T00:00:07.000001`, without a zone.
pub(crate) fn timestamp(micros_since_1970: i64) -> String {
    let day = micros_since_1970.div_euclid(MICROS_PER_DAY);
    let time = time_of_day(micros_since_1970.rem_euclid(MICROS_PER_DAY));
    format!("{}T{time}", date(day))
}

/// A watermark, `2026-01-01T00:00:07.001Z`.
pub(crate) fn watermark(millis_since_1970: i64) -> String {
    let micros = millis_since_1970 * 1_000;
    let text = timestamp(micros);
    format!("{}Z", &text[..text.len() - 3])
}

/// `07:08:09.000001`.
pub(crate) fn time_of_day(micros: i64) -> String {
    let seconds = micros / MICROS_PER_SECOND;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!(
        "{hour:02}:{minute:02}:{second:02}.{:06}",
        micros % MICROS_PER_SECOND
    )
}

/// Units of a day-time interval, largest first, and their size in microseconds.
const DAY_TIME: [(&str, u64); 4] = [
    ("DAY", 86_400_000_000),
    ("HOUR", 3_600_000_000),
    ("MINUTE", 60_000_000),
    ("SECOND", 1_000_000),
];

/// `INTERVAL '1 02:03:04.5' DAY TO SECOND`; `fields` is what the type names, such as `DAY` or `HOUR TO SECOND`.
pub(crate) fn day_time_interval(micros: i64, fields: &str) -> String {
    let (first, last) = fields.split_once(" TO ").unwrap_or((fields, fields));
    let unit = |name: &str| {
        DAY_TIME
            .iter()
            .position(|(unit, _)| *unit == name)
            .unwrap_or(3)
    };
    let (first, last) = (unit(first), unit(last));
    let mut rest = micros.unsigned_abs();
    let mut text = String::from(if micros < 0 { "-" } else { "" });
    for (at, (_, size)) in DAY_TIME.iter().enumerate().take(last + 1).skip(first) {
        let between = match at {
            _ if at == first => "",
            1 => " ",
            _ => ":",
        };
        let count = rest / size;
        rest %= size;
        // Only days are not filled up to two digits.
        text += &if at == 0 {
            format!("{count}")
        } else {
            format!("{between}{count:02}")
        };
    }
    if last == 3 {
        text += &fraction(rest);
    }
    format!("INTERVAL '{text}' {fields}")
}

/// `INTERVAL '1-2' YEAR TO MONTH`; `fields` is what the type names, such as `MONTH`.
pub(crate) fn year_month_interval(months: i32, fields: &str) -> String {
    let sign = if months < 0 { "-" } else { "" };
    let size = months.unsigned_abs();
    let text = match fields {
        "YEAR" => format!("{}", size / 12),
        "MONTH" => format!("{size}"),
        _ => format!("{}-{}", size / 12, size % 12),
    };
    format!("INTERVAL '{sign}{text}' {fields}")
}

/// Spark's text of an interval of mixed units, `1 years 2 days 3.5 seconds`.
pub(crate) fn mixed_interval(months: i32, days: i32, nanos: i64) -> String {
    let micros = nanos / 1_000;
    let seconds = micros / MICROS_PER_SECOND;
    let mut parts = Vec::new();
    for (count, unit) in [
        (i64::from(months / 12), "years"),
        (i64::from(months % 12), "months"),
        (i64::from(days), "days"),
        (seconds / 3_600, "hours"),
        (seconds / 60 % 60, "minutes"),
    ] {
        if count != 0 {
            parts.push(format!("{count} {unit}"));
        }
    }
    let rest = micros % (60 * MICROS_PER_SECOND);
    if rest != 0 || parts.is_empty() {
        let sign = if rest < 0 { "-" } else { "" };
        let (whole, part) = (
            rest.unsigned_abs() / 1_000_000,
            rest.unsigned_abs() % 1_000_000,
        );
        parts.push(format!("{sign}{whole}{} seconds", fraction(part)));
    }
    parts.join(" ")
}

/// `.5` for half a second, nothing for none.
fn fraction(micros: u64) -> String {
    let digits = format!(".{micros:06}");
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// Year, month and day of the proleptic Gregorian calendar, counting in eras of 400 years from 0000-03-01.
fn civil(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}
