//! Patterns as Java's `DateTimeFormatter` reads and writes them.

use proptest::prelude::*;

use super::*;
use crate::file::decode::parse::{Zone, parse_timestamp};

/// Microseconds of an ISO timestamp.
fn at(iso: &str) -> i64 {
    parse_timestamp(iso.as_bytes(), Zone::Utc).expect("a timestamp")
}

fn read(pattern: &str, text: &str) -> Option<i64> {
    TimePattern::for_reading(pattern)
        .expect(pattern)
        .parse_timestamp(text.as_bytes(), Zone::Utc)
}

fn written(pattern: &str, iso: &str, zone: Zone) -> String {
    let mut out = Vec::new();
    let pattern = TimePattern::new(pattern).expect(pattern);
    pattern.write(&mut out, Moment::timestamp(at(iso), Some(zone)));
    String::from_utf8(out).expect("text")
}

/// Pattern, text, and what Java reads from it.
const READ: &[(&str, &str, &str)] = &[
    (
        "dd/MM/yyyy HH:mm:ss",
        "02/01/2026 03:04:05",
        "2026-01-02T03:04:05Z",
    ),
    ("d/M/y H:m:s", "2/1/2026 3:4:5", "2026-01-02T03:04:05Z"),
    ("yyyyMMddHHmmss", "20260102030405", "2026-01-02T03:04:05Z"),
    (
        "yyyyMMddHHmmssSSS",
        "20260102030405678",
        "2026-01-02T03:04:05.678Z",
    ),
    (
        "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
        "2026-01-02T03:04:05.12",
        "2026-01-02T03:04:05.12Z",
    ),
    (
        "yyyy-MM-dd HH:mm:ss.SSSSSSSSS",
        "2026-01-02 03:04:05.123456789",
        "2026-01-02T03:04:05.123456Z",
    ),
    (
        "yyyy-MM-dd[ HH:mm[:ss]]",
        "2026-01-02",
        "2026-01-02T00:00:00Z",
    ),
    (
        "yyyy-MM-dd[ HH:mm[:ss]]",
        "2026-01-02 03:04",
        "2026-01-02T03:04:00Z",
    ),
    (
        "yyyy-MM-dd[ HH:mm[:ss]]",
        "2026-01-02 03:04:05",
        "2026-01-02T03:04:05Z",
    ),
    (
        "MMM d, yyyy h:mm a",
        "JAN 2, 2026 12:04 am",
        "2026-01-02T00:04:00Z",
    ),
    (
        "MMMM d yyyy hh 'o''clock' a",
        "January 2 2026 03 o'clock PM",
        "2026-01-02T15:00:00Z",
    ),
    ("yy-MM-dd kk", "26-01-02 24", "2026-01-02T00:00:00Z"),
    ("yyyy-DDD", "2026-002", "2026-01-02T00:00:00Z"),
    (
        "yyyy-MM-dd'T'HH:mm:ssXXX",
        "2026-01-02T05:04:05+02:00",
        "2026-01-02T03:04:05Z",
    ),
    (
        "yyyy-MM-dd'T'HH:mm:ssXXX",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z",
    ),
    (
        "yyyy-MM-dd HH:mm:ss Z",
        "2026-01-02 05:04:05 +0200",
        "2026-01-02T03:04:05Z",
    ),
    (
        "yyyy-MM-dd HH:mm:ss VV",
        "2026-01-02 04:04:05 Europe/Rome",
        "2026-01-02T03:04:05Z",
    ),
    (
        "yyyy-MM-dd HH:mm z",
        "2026-01-02 03:04 UTC",
        "2026-01-02T03:04:00Z",
    ),
    ("HH:mm", "03:04", "1970-01-01T03:04:00Z"),
    ("yyyy年MM月dd日", "2026年01月02日", "2026-01-02T00:00:00Z"),
    ("yyyy-MM-dd", "-0001-12-31", "-0001-12-31T00:00:00Z"),
];

#[test]
fn pattern_reads_what_java_reads() {
    for (pattern, text, expected) in READ {
        assert_eq!(read(pattern, text), Some(at(expected)), "{pattern} {text}");
    }
}

#[test]
fn pattern_refuses_what_java_refuses() {
    for (pattern, text) in [
        ("dd/MM/yyyy", "2/1/2026"),
        ("dd/MM/yyyy", "32/01/2026"),
        ("dd/MM/yyyy", "31/02/2026"),
        ("dd/MM/yyyy", "02/13/2026"),
        ("dd/MM/yyyy", "02/01/2026 "),
        ("dd/MM/yyyy", "02-01-2026"),
        ("dd/MM/yyyy", "02/01/12026"),
        ("yyyy-MM-dd HH:mm", "2026-01-02 24:00"),
        ("yyyy-DDD", "2026-366"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2026-01-02T03:04:05.1234"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2026-01-02T03:04:05."),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-01-02T03:04:05"),
        ("MMM d yyyy", "Foo 2 2026"),
        ("hh:mm a", "13:04 PM"),
        ("VV", "Nowhere/City"),
        ("yyyy-MM-dd", ""),
    ] {
        assert_eq!(read(pattern, text), None, "{pattern} {text}");
    }
    let local = TimePattern::for_reading("yyyy-MM-dd HH:mm[XXX]").expect("good");
    assert!(local.parse_timestamp_ntz(b"2026-01-02 03:04").is_some());
    assert_eq!(local.parse_timestamp_ntz(b"2026-01-02 03:04Z"), None);
    assert_eq!(local.parse_date(b"2026-01-02 03:04"), Some(20_455));
}

#[test]
fn pattern_writes_what_java_writes() {
    let rome = Zone::from_name("Europe/Rome").expect("zone");
    let iso = "2026-07-05T13:04:05.006Z";
    for (pattern, zone, expected) in [
        ("dd/MM/yy HH:mm:ss.SSS", Zone::Utc, "05/07/26 13:04:05.006"),
        ("d.M.y h:m a", Zone::Utc, "5.7.2026 1:4 PM"),
        (
            "EEE, d MMM yyyy HH:mm:ss Z",
            Zone::Utc,
            "Sun, 5 Jul 2026 13:04:05 +0000",
        ),
        ("EEEE MMMM", Zone::Utc, "Sunday July"),
        (
            "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]",
            rome,
            "2026-07-05T15:04:05.006+02:00",
        ),
        ("HH X XX XXX x xxx", Zone::Utc, "13 Z Z Z +00 +00:00"),
        (
            "HH X XX O OOOO VV z",
            rome,
            "15 +02 +0200 GMT+2 GMT+02:00 Europe/Rome CEST",
        ),
        (
            "D DDD Q QQQ QQQQ G",
            Zone::Utc,
            "186 186 3 Q3 3rd quarter AD",
        ),
        ("K k SSSSSSSSS", Zone::Utc, "1 13 006000000"),
        ("'at' ''yyyy''", Zone::Utc, "at '2026'"),
    ] {
        assert_eq!(written(pattern, iso, zone), expected, "{pattern}");
    }
    let mut out = Vec::new();
    let pattern = TimePattern::for_writing_local_times("yyyy-MM-dd HH:mm[XXX]").expect("good");
    pattern.write(&mut out, Moment::timestamp(at(iso), None));
    assert_eq!(out, b"2026-07-05 13:04");
}

#[test]
fn pattern_that_is_none_is_refused_with_the_reason() {
    for (pattern, reason) in [
        ("yyyy-MM-dd'T", "a quote is not closed"),
        ("yyyy[-MM", "a bracket is not closed"),
        ("yyyy]", "a bracket is closed that was not opened"),
        ("YYYY-ww", "it has the unknown letter 'Y'"),
        ("HHH", "it has more than 2 of 'H' in a row"),
        ("yyyy#", "'#' is reserved, quote it: '#'"),
    ] {
        assert_eq!(TimePattern::new(pattern).expect_err(pattern), reason);
    }
    assert!(TimePattern::for_reading("E dd MM yyyy").is_err());
    assert!(TimePattern::for_writing_dates("yyyy-MM-dd HH").is_err());
    assert!(TimePattern::for_writing_local_times("HH:mm XXX").is_err());
}

proptest! {
    #[test]
    fn pattern_reads_back_what_it_writes(micros in -62_135_596_800_000_000_i64..253_402_300_799_000_000) {
        for text in [
            "yyyyMMddHHmmssSSSSSS",
            "d MMMM yyyy hh:mm:ss.SSSSSS a XXX",
            "yyyy-DDD'T'kk:mm:ss.SSSSSSSSS VV",
        ] {
            let pattern = TimePattern::for_reading(text).expect("good");
            let mut out = Vec::new();
            pattern.write(&mut out, Moment::timestamp(micros, Some(Zone::Utc)));
            prop_assert_eq!(pattern.parse_timestamp(&out, Zone::Utc), Some(micros));
        }
    }

    #[test]
    fn pattern_never_panics(pattern in "[yMdHhmsSaXxZVzEQD\\[\\]' :,-]{0,12}", text in "\\PC{0,20}") {
        if let Ok(pattern) = TimePattern::new(&pattern) {
            let _read = pattern.parse_timestamp(text.as_bytes(), Zone::Utc);
            let mut out = Vec::new();
            pattern.write(&mut out, Moment::timestamp(i64::MAX, Some(Zone::Utc)));
        }
    }
}
