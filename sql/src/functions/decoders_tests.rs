//! Everything that reads text of users, over a corpus of odd texts and pieces of them put together: it answers or says no, it never
//! panics, and what it answers is never much larger than what it read.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use weir_connectors::file::decode::parse::Zone;

use super::cast::{How, convert};
use super::coerce::{timestamp, timestamp_ntz};
use super::json::{JsonDecoder, ParseMode, RecordDecoder};
use super::json_path::JsonPath;
use super::number_pattern::NumberPattern;
use super::regex::Pattern;
use super::{intervals, parse};
use crate::types::parse_schema;

const CORPUS: &str = include_str!("corpus/texts.txt");

/// Two lines of the corpus cut anywhere and put together, with anything between them.
fn texts() -> impl Strategy<Value = String> {
    let lines: Vec<&'static str> = CORPUS.lines().collect();
    let line = || (select(lines.clone()), any::<Index>());
    (line(), "\\PC{0,4}", line()).prop_map(|((first, at), between, (second, from))| {
        let cut = |text: &str, at: Index| -> usize {
            let places: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            if places.is_empty() {
                0
            } else {
                places[at.index(places.len())]
            }
        };
        let (front, back) = (cut(first, at), cut(second, from));
        format!("{}{between}{}", &first[..front], &second[back..])
    })
}

fn column(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![Some(text), None]))
}

/// Every type that text is cast to.
fn targets() -> Vec<DataType> {
    vec![
        DataType::Int8,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 18),
        DataType::Decimal128(5, 2),
        DataType::Boolean,
        DataType::Date32,
        timestamp(),
        timestamp_ntz(),
        DataType::Duration(TimeUnit::Microsecond),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Binary,
    ]
}

fn casts(text: &str) {
    let rome = Zone::from_name("Europe/Rome").expect("zone");
    for t in targets() {
        for how in [How::lenient(rome), How::strict(Zone::Utc)] {
            if let Ok(cast) = convert(&column(text), &t, how) {
                assert_eq!(cast.len(), 2, "{text} as {t}");
                assert!(cast.is_null(1), "{text} as {t}");
            }
        }
    }
}

fn reads_json(text: &str) {
    let schema = "id BIGINT, name STRING, a STRUCT<b: ARRAY<STRING>>, t TIMESTAMP, d DATE, x DOUBLE, m MAP<STRING, STRING>, _corrupt_record STRING";
    let fields = parse_schema(schema).expect("schema").fields().clone();
    let texts = StringArray::from(vec![Some(text), Some(r#"{"id":7}"#), None]);
    let read = RecordDecoder
        .decode(&texts, &fields, ParseMode::Permissive, "_corrupt_record")
        .expect("permissive");
    // The neighbour is read whatever the record is.
    assert_eq!(read.len(), 3);
    let id = arrow::array::AsArray::as_struct(&read).column(0);
    let id = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(id);
    assert_eq!(id.value(1), 7, "{text}");
    let bytes = read.get_array_memory_size();
    assert!(
        bytes < 64 * 1024 + 64 * text.len(),
        "{bytes} bytes of {text}"
    );
    let _failed = RecordDecoder.decode(&texts, &fields, ParseMode::FailFast, "_corrupt_record");
}

fn reads_the_rest(text: &str, other: &str) {
    let _interval = intervals::parse_interval(text);
    let _micros = intervals::decimal_micros(text);
    let _number = (
        parse::integer(text),
        parse::double(text),
        parse::boolean(text),
    );
    let _decimal = parse::decimal(text, 38, 10);
    if let Some(path) = JsonPath::parse(text) {
        let _found = path.find(other);
    }
    if let Some(found) = JsonPath::parse("$.a").and_then(|path| path.find(text)) {
        assert!(found.len() <= 6 * text.len());
    }
    if let Some(pattern) = NumberPattern::parse(text) {
        let _number = pattern.read(other);
    }
    if let Ok(pattern) = Pattern::new(text) {
        let _found = pattern.is_match(other);
    }
    let _type = crate::types::parse_type(text);
}

#[test]
fn corpus_is_read_or_refused() {
    for text in CORPUS.lines() {
        casts(text);
        reads_json(text);
        CORPUS.lines().for_each(|other| reads_the_rest(text, other));
    }
}

proptest! {
    #[test]
    fn pieces_of_the_corpus_are_cast_or_refused(text in texts()) {
        casts(&text);
    }

    #[test]
    fn pieces_of_the_corpus_are_json_or_bad_records(text in texts()) {
        reads_json(&text);
    }

    #[test]
    fn pieces_of_the_corpus_are_patterns_paths_and_intervals_or_none(text in texts(), other in texts()) {
        reads_the_rest(&text, &other);
    }
}
