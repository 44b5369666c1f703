//! Rules of the CSV reader, one by one, and that the way a file is cut changes nothing.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Read;

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit, TimestampMicrosecondType};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;

use super::*;
use crate::file::decode::parse::Zone;

/// Hands out at most `step` bytes at a time.
struct Dribble {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
}

impl Read for Dribble {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.step.min(out.len()).min(self.bytes.len() - self.at);
        out[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// `id long, x string`: a schema in few words.
fn schema(columns: &str) -> Schema {
    let fields = columns.split(", ").map(|column| {
        let (name, data_type) = column.split_once(' ').unwrap();
        let data_type = match data_type {
            "string" => DataType::Utf8,
            "binary" => DataType::Binary,
            "bool" => DataType::Boolean,
            "int" => DataType::Int32,
            "long" => DataType::Int64,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "date" => DataType::Date32,
            "dec" => DataType::Decimal128(38, 2),
            "ts" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            "ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => panic!("{other}"),
        };
        Field::new(name, data_type, true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

fn options(options: &[(&str, &str)]) -> CsvOptions {
    try_options(options).unwrap()
}

fn try_options(options: &[(&str, &str)]) -> Result<CsvOptions, DecodeError> {
    let options: BTreeMap<String, String> = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    CsvOptions::from_options(&options)
}

/// All rows of a file and the account of its bad records.
fn try_read(
    bytes: &[u8],
    step: usize,
    settings: DecodeSettings,
    options: &CsvOptions,
) -> Result<(RecordBatch, BadRecords), DecodeError> {
    let input = Dribble {
        bytes: bytes.to_vec(),
        at: 0,
        step,
    };
    let schema = Arc::clone(&settings.schema);
    let most = settings.batch_rows;
    let mut reader = CsvReader::new(Box::new(input), "dir/f.csv", settings, options.clone())?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        assert!((1..=most).contains(&batch.num_rows()));
        batches.push(batch);
    }
    Ok((
        concat_batches(&schema, &batches).unwrap(),
        reader.bad_records().clone(),
    ))
}

fn settings(columns: &str, mode: ParseMode) -> DecodeSettings {
    DecodeSettings {
        mode,
        ..DecodeSettings::new(&schema(columns))
    }
}

/// Rows as text: values with a bar between, `~` for NULL.
fn rows(batch: &RecordBatch) -> Vec<String> {
    (0..batch.num_rows())
        .map(|row| {
            let value = |column: &ArrayRef| {
                if column.is_null(row) {
                    "~".to_owned()
                } else {
                    array_value_to_string(column, row).unwrap()
                }
            };
            batch
                .columns()
                .iter()
                .map(value)
                .collect::<Vec<_>>()
                .join("|")
        })
        .collect()
}

/// The rows of a file in PERMISSIVE mode.
fn read(bytes: &[u8], columns: &str, given: &[(&str, &str)]) -> Vec<String> {
    let settings = settings(columns, ParseMode::Permissive);
    rows(
        &try_read(bytes, usize::MAX, settings, &options(given))
            .unwrap()
            .0,
    )
}

fn error(bytes: &[u8], columns: &str, mode: ParseMode, given: &[(&str, &str)]) -> String {
    let result = try_read(bytes, usize::MAX, settings(columns, mode), &options(given));
    result.err().unwrap().to_string()
}

const HEADER: &[(&str, &str)] = &[("header", "true")];

// --- values ------------------------------------------------------------------------------------

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

// --- records -----------------------------------------------------------------------------------

#[test]
fn byte_order_mark_is_not_part_of_the_first_name() {
    for file in [
        &b"\xEF\xBB\xBFid,name\n1,a\n"[..],
        b"\xEF\xBB\xBF\"id\",\"name\"\n1,a\n",
    ] {
        assert_eq!(read(file, "id long, name string", HEADER), ["1|a"]);
    }
    assert!(read(b"\xEF\xBB\xBF", "id long, name string", HEADER).is_empty());
}

#[test]
fn line_ends_of_every_kind_are_understood_and_kept_inside_quotes() {
    let file = b"id,s,p\r\n1,\"A\r\nB\",x\r\n2,plain,y\r\n";
    for step in 1..=64 {
        let settings = settings("id long, s string, p string", ParseMode::FailFast);
        let given = options(&[("header", "true"), ("multiLine", "true")]);
        let (batch, _) = try_read(file, step, settings, &given).unwrap();
        assert_eq!(rows(&batch), ["1|A\r\nB|x", "2|plain|y"]);
    }
    assert_eq!(
        read(b"1,a\r2,b\n3,c\r\n\r\n4,d", "id long, s string", &[]),
        ["1|a", "2|b", "3|c", "4|d"]
    );
    assert_eq!(
        read(b"1,a\n|2,b|", "id long, s string", &[("lineSep", "|")]),
        ["1|a\n", "2|b"]
    );
}

#[test]
fn doubled_and_escaped_quotes_are_both_understood() {
    let file = b"x,s\n1,\"new\nline, \"\"quoted\"\"\"\n2,\"with space\"\n3,\"\"\n";
    for multi_line in [
        &[("header", "true")][..],
        &[("header", "true"), ("multiLine", "true")],
    ] {
        assert_eq!(
            read(file, "x long, s string", multi_line),
            ["1|new\nline, \"quoted\"", "2|with space", "3|"]
        );
    }
    let spark =
        b"\"he said \\\"hi\\\"\"\n\"C:\\\\dir\\\\\"\nC:\\dir\\\n\"a\\\\\\\"b\"\n\"a\\nb\"\n";
    assert_eq!(
        read(spark, "s string", &[]),
        [
            "he said \"hi\"",
            "C:\\dir\\",
            "C:\\dir\\",
            "a\\\"b",
            "a\\nb"
        ]
    );
    let rfc = b"\"C:\\dir\\\",\"\"\"\"\n";
    assert_eq!(
        read(rfc, "a string, b string", &[("escape", "\"")]),
        ["C:\\dir\\|\""]
    );
}

#[test]
fn quoted_line_end_is_one_bad_record_when_multi_line_is_off() {
    let file = b"1,\"new\nline, \"\"quoted\"\"\"\n2,b\n";
    let settings = settings(
        "x long, s string, _corrupt_record string",
        ParseMode::Permissive,
    );
    let (batch, bad) = try_read(file, 1, settings, &options(&[("multiLine", "false")])).unwrap();
    let rows = rows(&batch);
    assert_eq!((rows.len(), bad.count), (2, 1));
    assert!(
        rows[0].ends_with("|1,\"new\nline, \"\"quoted\"\"\""),
        "{}",
        rows[0]
    );
    assert_eq!(rows[1], "2|b|~");
}

#[test]
fn quote_that_is_never_closed_costs_its_own_line_only() {
    for (file, good) in [
        (&b"1,\"abc\n2,def\n3,\"g\"\n"[..], 3),
        (b"1,\"abc\n2,\"def\"\n3,g\n", 3),
        (b"1,\"a\"\"\n2,b\n3,c", 3),
        (b"1,\"abc", 1),
    ] {
        for multi_line in ["true", "false"] {
            let settings = settings("id long, s string", ParseMode::Permissive);
            let given = options(&[("multiLine", multi_line)]);
            let (batch, bad) = try_read(file, 2, settings, &given).unwrap();
            assert_eq!(batch.num_rows(), good, "{}", String::from_utf8_lossy(file));
            let first = bad.first.unwrap();
            assert_eq!((bad.count, first.line), (1, 1));
            assert!(first.reason.contains("not closed"));
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 1);
        }
    }
}

#[test]
fn stray_quotes_do_not_make_one_record_of_two() {
    let file = b"1,\"a,x\n2,b\",y\n3,c,z\n";
    assert_eq!(read(file, "id long, s string, t string", &[]).len(), 3);
}

#[test]
fn text_after_a_closing_quote_makes_the_field_a_plain_one() {
    assert_eq!(
        read(b"\"a\"b,1\n\"a\" ,2\nx\"y\",3\n", "s string, n int", &[]),
        ["\"a\"b|1", "a|2", "x\"y\"|3"]
    );
}

#[test]
fn blank_lines_and_comments_are_no_records() {
    assert_eq!(
        read(
            b"id,name\n\n1,a\n\n   \n2,b\n\n",
            "id long, name string",
            HEADER
        ),
        ["1|a", "2|b"]
    );
    let given = [("header", "true"), ("sep", ";"), ("comment", "#")];
    assert_eq!(
        read(
            b"# first\nid;name\n\n#x;y\n1;a\n2;#b",
            "id long, name string",
            &given
        ),
        ["1|a", "2|#b"]
    );
    assert_eq!(read(b"\n\nx\n\n", "s string", &[]), ["x"]);
    assert_eq!(
        read(b"\t\t\n1\t2\t3", "a int, b int, c int", &[("sep", "\\t")]),
        ["~|~|~", "1|2|3"]
    );
}

#[test]
fn quotes_can_be_switched_off() {
    assert_eq!(
        read(b"\"a,b\"\n", "x string, y string", &[("quote", "")]),
        ["\"a|b\""]
    );
}

#[test]
fn record_longer_than_the_limit_is_an_error_that_names_its_line() {
    let file = [&b"1,a\n2,\""[..], &vec![b'x'; 3 << 20], b"\"\n"].concat();
    let mut settings = settings("id long, s string", ParseMode::Permissive);
    settings.max_record_bytes = 1 << 20;
    let error = try_read(&file, usize::MAX, settings, &CsvOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "file \"dir/f.csv\", line 2: record longer than the allowed 1048576 bytes"
    );
    let rows = read(&file, "id long, s string", &[]);
    assert_eq!(rows[1].len(), 2 + (3 << 20));
}

#[test]
fn very_many_fields_are_counted_without_being_kept() {
    let file = vec![b','; 1 << 22];
    let settings = settings("a string, b string", ParseMode::FailFast);
    let error = try_read(&file, usize::MAX, settings, &CsvOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("4194305 fields instead of 2"),
        "{error}"
    );
}

// --- bad records -------------------------------------------------------------------------------

#[test]
fn ragged_rows_follow_the_mode() {
    let file = b"id,x,y\n1,a\n2,b,c\n3,d,e,EXTRA\n";
    let columns = "id long, x string, y string, _corrupt string";
    let with = |mode| {
        let mut settings = settings(columns, mode);
        settings.corrupt_column = "_corrupt".to_owned();
        try_read(file, 4, settings, &options(HEADER))
    };
    let (batch, bad) = with(ParseMode::Permissive).unwrap();
    assert_eq!(rows(&batch), ["1|a|~|1,a", "2|b|c|~", "3|d|e|3,d,e,EXTRA"]);
    assert_eq!(bad.count, 2);
    let (batch, bad) = with(ParseMode::DropMalformed).unwrap();
    assert_eq!((rows(&batch), bad.count), (vec!["2|b|c|~".to_owned()], 2));
    assert_eq!(
        with(ParseMode::FailFast).unwrap_err().to_string(),
        "file \"dir/f.csv\", line 2: malformed record in FAILFAST mode: 2 fields instead of 3 \
         (mode PERMISSIVE makes bad fields null, DROPMALFORMED leaves the record out)"
    );
}

#[test]
fn file_of_bad_records_only_ends_without_a_batch_when_they_are_dropped() {
    let settings = DecodeSettings {
        batch_rows: 2,
        ..settings("n int", ParseMode::DropMalformed)
    };
    let (batch, bad) = try_read(b"a\nb\nc\nd\ne\n", 1, settings, &CsvOptions::default()).unwrap();
    assert_eq!((batch.num_rows(), bad.count), (0, 5));
}

#[test]
fn failfast_counts_lines_inside_quotes_and_names_column_and_value() {
    let message = error(
        b"1,\"a\nb\"\n\n# x\nz,c\n",
        "id long, s string",
        ParseMode::FailFast,
        &[("comment", "#")],
    );
    assert!(
        message.contains("line 5: ")
            && message.contains("column \"id\": \"z\" is not of type Int64"),
        "{message}"
    );
}

// --- columns -----------------------------------------------------------------------------------

#[test]
fn columns_are_found_by_name() {
    let columns = "name string, age string";
    assert_eq!(
        read(b"name,age\nAnna,31\nBruno,45\n", columns, HEADER),
        ["Anna|31", "Bruno|45"]
    );
    assert_eq!(read(b"age,name\n54,Carla\n", columns, HEADER), ["Carla|54"]);
    assert_eq!(read(b"name,agee\nDario,7\n", columns, HEADER), ["Dario|~"]);
    assert_eq!(read(b"AGE, Name \n1,E\n", columns, HEADER), ["E|1"]);
    assert_eq!(read(b"first,second\nF,2\n", columns, HEADER), ["F|2"]);
}

#[test]
fn header_that_cannot_be_used_is_an_error_that_names_the_file() {
    let columns = "name string, age string";
    for (file, part) in [
        (&b"name,name\na,b\n"[..], "names column \"name\" twice"),
        (
            b"NAME,Name\na,b\n",
            "column \"name\" could be its \"NAME\" or its \"Name\"",
        ),
        (b"name,\"age\na,b\n", "a quote is not closed"),
    ] {
        let message = error(file, columns, ParseMode::Permissive, HEADER);
        assert!(
            message.contains(part) && message.contains("dir/f.csv"),
            "{message}"
        );
    }
    let strict = [("header", "true"), ("enforceSchema", "false")];
    let message = error(
        b"age,name\n54,Carla\n",
        columns,
        ParseMode::Permissive,
        &strict,
    );
    assert!(
        message.contains("\"age, name\"") && message.contains("\"name, age\""),
        "{message}"
    );
    assert_eq!(read(b"Name,AGE\nF,2\n", columns, &strict), ["F|2"]);
    let few = [("header", "true"), ("maxColumns", "3")];
    let message = error(b"a,b,c,d\n", columns, ParseMode::Permissive, &few);
    assert!(
        message.contains("4 columns, and maxColumns is 3"),
        "{message}"
    );
}

#[test]
fn pruned_columns_keep_their_places() {
    let mut given = options(&[]);
    given.file_schema = Some(Arc::new(schema("id long, x string, y string")));
    let (batch, bad) = try_read(
        b"1,a,b\nx,c,d\n2,e\n",
        1,
        settings("y string", ParseMode::Permissive),
        &given,
    )
    .unwrap();
    assert_eq!(
        (rows(&batch), bad.count),
        (vec!["b".to_owned(), "d".to_owned(), "~".to_owned()], 1)
    );
    let settings = DecodeSettings::new(&Schema::empty());
    let (batch, bad) = try_read(b"1,a,b\n2,c,d\n", 1, settings, &given).unwrap();
    assert_eq!((batch.num_rows(), bad.count), (2, 0));
}

#[test]
fn unsupported_type_and_options_are_refused_by_name() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
    let settings = DecodeSettings::new(&Schema::new(vec![Field::new("l", list, true)]));
    let error = try_read(b"", 1, settings, &CsvOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"l\"") && error.contains("csv"), "{error}");
    for (option, value) in [
        ("timestampFormat", "dd/MM/yyyy HH:mm"),
        ("dateFormat", "dd/MM/yyyy"),
        ("sep", "||"),
        ("header", "yes"),
        ("encoding", "UTF-16"),
        ("maxCharsPerColumn", "many"),
        ("lineSep", "--"),
    ] {
        let message = try_options(&[(option, value)]).unwrap_err().to_string();
        assert!(
            message.contains(option) && message.contains(value),
            "{message}"
        );
        assert!(CsvOptions::NAMES.contains(&option));
    }
}

#[test]
fn file_without_rows_gives_no_batch() {
    for file in [&b""[..], b"\n\n", b"id,name\n", b"id,name"] {
        assert!(read(file, "id long, name string", HEADER).is_empty());
    }
}

// --- cutting -----------------------------------------------------------------------------------

fn dialects() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    prop::sample::select(vec![
        vec![],
        vec![("multiLine", "true")],
        vec![("multiLine", "false"), ("escape", "\"")],
        vec![
            ("header", "true"),
            ("comment", "#"),
            ("ignoreLeadingWhiteSpace", "true"),
        ],
        vec![("lineSep", "b"), ("quote", "a")],
    ])
}

proptest! {
    #[test]
    fn any_text_reads_alike_however_it_is_cut(
        text in "[ab,\"\\\\\r\n# 1]{0,60}",
        given in dialects(),
        step in 1_usize..9,
        batch_rows in 1_usize..5,
    ) {
        let read = |step, batch_rows| {
            let settings = DecodeSettings {
                batch_rows,
                ..settings("a string, b int, _corrupt_record string", ParseMode::Permissive)
            };
            try_read(text.as_bytes(), step, settings, &options(&given))
                .map(|(batch, bad)| (rows(&batch), bad))
                .map_err(|error| error.to_string())
        };
        prop_assert_eq!(read(step, batch_rows), read(usize::MAX, 8192));
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        given in dialects(),
    ) {
        for mode in [ParseMode::Permissive, ParseMode::DropMalformed, ParseMode::FailFast] {
            let settings = settings("a string, b ts, c dec, d double", mode);
            drop(try_read(&bytes, 5, settings, &options(&given)));
        }
    }
}
