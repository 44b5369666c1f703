//! What the text of a field means.

use super::*;

#[test]
fn values_of_every_type_are_read_and_limits_are_kept() {
    let columns =
        "a bool, b int, c long, d float, e double, f dec, g date, h ts, i ntz, j string, k binary";
    let line = b"TRUE,-2147483648,9223372036854775807,0.1,1e300,0.125,2024-02-29,2024-06-01T02:00:00+02:00,2024-06-01 00:00:00.5,text,bytes";
    assert_eq!(
        read(line, columns, &[]),
        [
            "true|-2147483648|9223372036854775807|0.1|1e300|0.13|2024-02-29|2024-06-01T00:00:00Z|2024-06-01T00:00:00.500|text|6279746573"
        ]
    );
    let line =
        b"yes,2147483648,9223372036854775808,x,y,1e40,2023-02-29,noon,2024-06-01T00:00:00Z,,";
    assert_eq!(read(line, columns, &[]), ["~|~|~|~|~|~|~|~|~|~|~"]);
}

#[test]
fn floats_know_the_words_of_java_and_of_the_options() {
    let file = b"NaN\nInfinity\n-Infinity\nInf\n-Inf\n 1.5 \nnan\n";
    assert_eq!(
        read(file, "x double", &[]),
        ["NaN", "inf", "-inf", "inf", "-inf", "1.5", "~"]
    );
    let given = [
        ("nanValue", "nan"),
        ("positiveInf", "up"),
        ("negativeInf", "down"),
    ];
    assert_eq!(
        read(b"nan\nup\ndown\nInf\n", "x double", &given),
        ["NaN", "inf", "-inf", "~"]
    );
}

#[test]
fn decimals_are_exact() {
    let file = b"d\n123456789012345678901234567890.12\n0.1\n0.125\n";
    let expected = ["123456789012345678901234567890.12", "0.10", "0.13"];
    assert_eq!(read(file, "d dec", HEADER), expected);
}

#[test]
fn timestamps_without_zone_are_read_in_the_session_zone() {
    let file = b"2024-06-01T00:00:00\n2024-06-01T00:00:00Z\n2024-06-01T00:00:00.123456789Z\n";
    let mut settings = settings("ts ts", ParseMode::Permissive);
    settings.time_zone = Zone::from_name("Europe/Rome").unwrap();
    let (batch, _) = try_read(file, 7, settings, &CsvOptions::default()).unwrap();
    let micros = batch
        .column(0)
        .as_primitive::<TimestampMicrosecondType>()
        .values()
        .to_vec();
    assert_eq!(
        micros,
        [
            1_717_192_800_000_000,
            1_717_200_000_000_000,
            1_717_200_000_123_456
        ]
    );
}

#[test]
fn conformance_separator_null_marker_and_trimmed_blanks() {
    let file = b"a;1;2026-01-02\n-;2;-\n b ; 3 ;2026-02-03\n'q;q';4;2026-03-04\n";
    let given = [
        ("sep", ";"),
        ("nullValue", "-"),
        ("ignoreLeadingWhiteSpace", "true"),
        ("ignoreTrailingWhiteSpace", "true"),
        ("quote", "'"),
    ];
    assert_eq!(
        read(file, "k string, v int, d date", &given),
        [
            "a|1|2026-01-02",
            "~|2|~",
            "b|3|2026-02-03",
            "q;q|4|2026-03-04"
        ]
    );
}

#[test]
fn conformance_bad_values_are_null_and_long_lines_lose_their_end() {
    let file = b"2026-01-01T00:00:01.5Z,1.5,true\n2026-01-01 00:00:01,x,TRUE\nbad,2,yes\n2026-01-01,3,false,extra";
    assert_eq!(
        read(file, "ts ts, x double, b bool", &[]),
        [
            "2026-01-01T00:00:01.500Z|1.5|true",
            "2026-01-01T00:00:01Z|~|true",
            "~|2.0|~",
            "2026-01-01T00:00:00Z|3.0|false"
        ]
    );
}

#[test]
fn empty_text_in_quotes_is_not_null() {
    let file = b"id,s\n1,\n2,\"\"\n3,x\n4,null\n";
    assert_eq!(
        read(file, "id long, s string", HEADER),
        ["1|~", "2|", "3|x", "4|null"]
    );
    let given = [
        ("emptyValue", "EMPTY"),
        ("nullValue", "null"),
        ("header", "true"),
    ];
    assert_eq!(
        read(file, "id long, s string", &given),
        ["1|~", "2|EMPTY", "3|x", "4|~"]
    );
    assert_eq!(read(b"\"\",\"\"\n", "id long, s string", &[]), ["~|"]);
}

#[test]
fn field_longer_than_allowed_is_bad() {
    let file = "äöü,1\näöüß,2\n".as_bytes();
    let given = [("maxCharsPerColumn", "3")];
    assert_eq!(read(file, "s string, n int", &given), ["äöü|1", "~|2"]);
}

#[test]
fn bytes_that_are_not_utf8_spoil_their_own_record_only() {
    let file = b"id,name,_corrupt_record\n1,a\n2,\xFF\n3,c\n";
    let settings = settings(
        "id long, name string, _corrupt_record string",
        ParseMode::Permissive,
    );
    let mut given = options(HEADER);
    given.header = false;
    let (batch, bad) = try_read(&file[24..], 3, settings, &given).unwrap();
    assert_eq!(rows(&batch), ["1|a|~", "2|~|2,\u{FFFD}", "3|c|~"]);
    assert_eq!((bad.count, bad.first.unwrap().line), (1, 2));
}
