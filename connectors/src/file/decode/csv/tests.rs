//! Rules of the CSV reader, one by one, and that the way a file is cut changes nothing.

#![allow(clippy::unwrap_used)]

mod quotes;
mod records;
mod values;

use std::collections::BTreeMap;
use std::io::Read;

use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit, TimestampMicrosecondType};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;

use super::*;
use crate::file::decode::parse::Zone;
use crate::file::options::source_options;
use crate::options::Options;

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

fn try_options(options: &[(&str, &str)]) -> weir_runtime::Result<CsvOptions> {
    let options: BTreeMap<String, String> = options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let table = source_options("csv").unwrap();
    CsvOptions::of(&Options::new("x", &table, &options)?)
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
        ("sep", "\\q"),
        ("charToEscapeQuoteEscaping", "||"),
        ("header", "yes"),
        ("maxCharsPerColumn", "many"),
        ("lineSep", "--"),
    ] {
        let message = try_options(&[(option, value)]).unwrap_err().to_string();
        assert!(
            message.contains(option) && message.contains(value),
            "{message}"
        );
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
