//! Files whose footers are made here, for what the writers at hand do not write: zones, calendars, Spark's marks, types out of order.

use orc_rust::proto::stream::Kind as StreamKind;
use orc_rust::proto::r#type::Kind;
use orc_rust::proto::{
    CalendarKind, ColumnEncoding, CompressionKind, Footer, PostScript, Stream, StringPair,
    StripeFooter, StripeInformation, Type, column_encoding,
};
use prost::Message;

use super::*;

/// A file of one column, uncompressed, as its parts say.
pub(super) struct Made {
    pub(super) types: Vec<Type>,
    pub(super) streams: Vec<(u32, StreamKind, Vec<u8>)>,
    pub(super) dictionary: u32,
    pub(super) zone: Option<&'static str>,
    pub(super) calendar: CalendarKind,
    pub(super) rows: u64,
}

impl Made {
    /// One row in a column `x` of this type.
    pub(super) fn one(x: Type, streams: Vec<(StreamKind, Vec<u8>)>) -> Self {
        Self {
            types: vec![structure(&[1]), x],
            streams: streams
                .into_iter()
                .map(|(kind, bytes)| (1, kind, bytes))
                .collect(),
            dictionary: 0,
            zone: None,
            calendar: CalendarKind::ProlepticGregorian,
            rows: 1,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut file = b"ORC".to_vec();
        for (.., bytes) in &self.streams {
            file.extend_from_slice(bytes);
        }
        let data_length = file.len() as u64 - 3;
        let encoding = ColumnEncoding {
            kind: Some(column_encoding::Kind::Direct.into()),
            dictionary_size: None,
            bloom_encoding: None,
        };
        let mut columns = vec![encoding; self.types.len()];
        if self.dictionary > 0 {
            columns[1].kind = Some(column_encoding::Kind::Dictionary.into());
            columns[1].dictionary_size = Some(self.dictionary);
        }
        let stripe = StripeFooter {
            streams: self
                .streams
                .iter()
                .map(|(column, kind, bytes)| Stream {
                    kind: Some((*kind).into()),
                    column: Some(*column),
                    length: Some(bytes.len() as u64),
                })
                .collect(),
            columns,
            writer_timezone: self.zone.map(str::to_owned),
            encryption: Vec::new(),
        }
        .encode_to_vec();
        file.extend_from_slice(&stripe);
        let footer = Footer {
            stripes: vec![StripeInformation {
                offset: Some(3),
                index_length: Some(0),
                data_length: Some(data_length),
                footer_length: Some(stripe.len() as u64),
                number_of_rows: Some(self.rows),
                ..StripeInformation::default()
            }],
            types: self.types.clone(),
            number_of_rows: Some(self.rows),
            calendar: Some(self.calendar.into()),
            ..Footer::default()
        }
        .encode_to_vec();
        file.extend_from_slice(&footer);
        let postscript = PostScript {
            footer_length: Some(footer.len() as u64),
            compression: Some(CompressionKind::None.into()),
            magic: Some("ORC".to_owned()),
            ..PostScript::default()
        }
        .encode_to_vec();
        file.extend_from_slice(&postscript);
        file.push(postscript.len() as u8);
        file
    }
}

pub(super) fn plain(kind: Kind) -> Type {
    Type {
        kind: Some(kind.into()),
        ..Type::default()
    }
}

pub(super) fn structure(fields: &[u32]) -> Type {
    Type {
        subtypes: fields.to_vec(),
        field_names: fields.iter().map(|_| "x".to_owned()).collect(),
        ..plain(Kind::Struct)
    }
}

/// One number as a run of the first version: a literal.
pub(super) fn literal(number: u64) -> Vec<u8> {
    let mut bytes = vec![0xFF];
    let mut rest = number;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

pub(super) fn signed(number: i64) -> Vec<u8> {
    literal(((number << 1) ^ (number >> 63)) as u64)
}

fn spark_mark(name: &str) -> StringPair {
    StringPair {
        key: Some("spark.sql.catalyst.type".to_owned()),
        value: Some(name.to_owned()),
    }
}

/// A time of `seconds` from 2015 and no fraction.
fn time(seconds: i64, mark: Option<&str>, zone: &'static str) -> Made {
    let attributes = mark.map(spark_mark).into_iter().collect();
    let t = Type {
        attributes,
        ..plain(Kind::Timestamp)
    };
    let streams = vec![
        (StreamKind::Data, signed(seconds)),
        (StreamKind::Secondary, literal(0)),
    ];
    Made {
        zone: Some(zone),
        ..Made::one(t, streams)
    }
}

fn read_in(made: &Made, wanted: DataType, session: &str) -> Answer<String> {
    let mut settings = settings(vec![("x", wanted)]);
    settings.time_zone = Zone::from_name(session).unwrap();
    let batch = read(&made.bytes(), &settings)?;
    Ok(json(&batch)[0]["x"].as_str().unwrap().to_owned())
}

#[test]
fn time_of_a_writer_elsewhere_is_what_its_clock_showed() {
    // Noon on the first day of 2015 in New York.
    let noon = time(12 * 3600, Some("timestamp"), "America/New_York");
    let read = |session| read_in(&noon, instant(), session).unwrap();
    assert_eq!(read("America/New_York"), "2015-01-01T17:00:00.000000");
    assert_eq!(read("UTC"), "2015-01-01T12:00:00.000000");
    assert_eq!(read("Asia/Tokyo"), "2015-01-01T03:00:00.000000");
    let error = read_in(&noon, wall(), "UTC").unwrap_err().to_string();
    assert!(
        error.contains("column \"x\""),
        "Spark says it has a zone: {error}"
    );
    let unmarked = time(12 * 3600, None, "GMT+09:00");
    assert_eq!(
        read_in(&unmarked, wall(), "UTC").unwrap(),
        "2015-01-01T12:00:00.000000"
    );
    assert_eq!(
        read_in(&unmarked, instant(), "+09:00").unwrap(),
        "2015-01-01T03:00:00.000000"
    );
}

#[test]
fn time_that_spark_marks_as_one_without_a_zone_is_a_clock_anywhere() {
    let mark = spark_mark("timestamp_ntz");
    let t = Type {
        attributes: vec![mark],
        ..plain(Kind::Long)
    };
    let made = Made {
        zone: Some("America/New_York"),
        ..Made::one(t, vec![(StreamKind::Data, signed(1_500_000))])
    };
    let schema = columns_of_file(file_of(&made.bytes())).unwrap();
    assert_eq!(schema.field(0).data_type(), &wall());
    for wanted in [wall(), instant()] {
        let read = read_in(&made, wanted, "Asia/Tokyo").unwrap();
        assert_eq!(read, "1970-01-01T00:00:01.500000");
    }
    let number = read(&made.bytes(), &settings(vec![("x", DataType::Int64)])).unwrap();
    assert_eq!(json(&number)[0]["x"], 1_500_000);
}

#[test]
fn times_that_no_timestamp_holds_and_zones_that_are_none_are_errors() {
    let late = time(i64::MAX / 1000, None, "UTC");
    let error = read_in(&late, instant(), "UTC").unwrap_err().to_string();
    assert!(error.contains("no TIMESTAMP holds"), "{error}");
    let error = read_in(&time(0, None, "Mars/Base"), instant(), "UTC").unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("Mars/Base") && error.contains("dir/f.orc"),
        "{error}"
    );
    // A column that nobody reads does no harm.
    let batch = read(
        &time(0, None, "Mars/Base").bytes(),
        &settings(vec![("y", DataType::Int32)]),
    );
    assert_eq!(batch.unwrap().num_rows(), 1);
}

#[test]
fn days_of_the_julian_calendar_keep_their_names() {
    // 1000-01-06 of the Gregorian calendar, 1000-01-01 of the Julian one.
    let day = signed(-354_280);
    let mut made = Made::one(plain(Kind::Date), vec![(StreamKind::Data, day)]);
    let read = |made: &Made| {
        json(&read(&made.bytes(), &settings(vec![("x", DataType::Date32)])).unwrap())[0]["x"]
            .clone()
    };
    let plain = read(&made);
    made.calendar = CalendarKind::JulianGregorian;
    assert_eq!(
        (plain, read(&made)),
        ("1000-01-06".into(), "1000-01-01".into())
    );
    made.calendar = CalendarKind::UnknownCalendar;
    assert_eq!(
        read(&made),
        "1000-01-01",
        "what writers had before they said"
    );
}

#[track_caller]
fn assert_refused(made: &Made, reason: &str) {
    let error = read(&made.bytes(), &settings(vec![("x", DataType::Utf8)])).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("dir/f.orc") && error.contains(reason),
        "{error}"
    );
}

#[test]
fn types_that_are_no_tree_are_an_error_and_not_a_full_stack() {
    let list = |child: u32| Type {
        subtypes: vec![child],
        ..plain(Kind::List)
    };
    let with = |types: Vec<Type>| Made {
        types,
        ..Made::one(plain(Kind::Int), Vec::new())
    };
    assert_refused(
        &with(vec![structure(&[1]), list(1)]),
        "type 1 has type 1 inside",
    );
    assert_refused(
        &with(vec![structure(&[1]), list(0)]),
        "type 1 has type 0 inside",
    );
    assert_refused(
        &with(vec![structure(&[1]), list(7)]),
        "type 1 has type 7 inside",
    );
    assert_refused(
        &with(vec![structure(&[1, 1]), list(2), plain(Kind::Int)]),
        "inside",
    );
    assert_refused(&with(vec![plain(Kind::Int)]), "its rows are no structs");
    assert_refused(
        &with(vec![structure(&[]), plain(Kind::Int)]),
        "belongs to nothing",
    );
    let mut deep: Vec<Type> = (1..200).map(list).collect();
    deep[0] = structure(&[1]);
    deep.push(plain(Kind::Int));
    assert_refused(&with(deep), "nested deeper");
    let decimal = Type {
        precision: Some(300),
        ..plain(Kind::Decimal)
    };
    assert_refused(
        &with(vec![structure(&[1]), decimal]),
        "is not what it can be",
    );
}

#[test]
fn lists_and_dictionaries_that_say_they_are_huge_are_an_error_and_not_an_allocation() {
    let list = Type {
        subtypes: vec![2],
        ..plain(Kind::List)
    };
    let mut made = Made {
        types: vec![structure(&[1]), list, plain(Kind::String)],
        streams: vec![(1, StreamKind::Length, literal(1 << 45))],
        ..Made::one(plain(Kind::Int), Vec::new())
    };
    let wanted = settings(vec![(
        "x",
        DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
    )]);
    let error = read(&made.bytes(), &wanted).unwrap_err().to_string();
    assert!(error.contains("35184372088832 values"), "{error}");
    made.types = vec![structure(&[1]), plain(Kind::String)];
    made.streams = vec![
        (1, StreamKind::Length, literal(1)),
        (1, StreamKind::DictionaryData, b"a".to_vec()),
        (1, StreamKind::Data, literal(0)),
    ];
    made.dictionary = u32::MAX;
    assert_refused(&made, "has 1 words, not 4294967295");
    made.dictionary = 1;
    let batch = read(&made.bytes(), &settings(vec![("x", DataType::Utf8)])).unwrap();
    assert_eq!(json(&batch)[0]["x"], "a");
}

#[test]
fn union_is_no_column_of_a_table_and_no_obstacle_to_the_others() {
    let union = Type {
        subtypes: vec![2, 3],
        ..plain(Kind::Union)
    };
    let mut root = structure(&[1, 4]);
    root.field_names[1] = "y".to_owned();
    let made = Made {
        types: vec![
            root,
            union,
            plain(Kind::Int),
            plain(Kind::String),
            plain(Kind::Int),
        ],
        streams: vec![(4, StreamKind::Data, signed(7))],
        ..Made::one(plain(Kind::Int), Vec::new())
    };
    let error = columns_of_file(file_of(&made.bytes())).unwrap_err();
    let error = error.into_error(&"dir/f.orc".into()).to_string();
    assert!(error.contains("UNION") && error.contains("'x'"), "{error}");
    let batch = read(&made.bytes(), &settings(vec![("y", DataType::Int32)])).unwrap();
    assert_eq!(json(&batch)[0]["y"], 7);
}
