//! Golden tables against Spark's layout, and the sink by direct calls.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use arrow::array::Int64Builder;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float64Array, Int32Array, Int64Array, ListArray, MapBuilder, NullArray, RecordBatch,
    StringArray, StringBuilder, StructArray, TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use weir_runtime::{CommitOutcome, Delivery, Fault, OutputMode, Sink};

use super::*;
use crate::test_context::{Generation, changes, numbers_schema, rows, sink_context};

fn table(columns: Vec<(&str, ArrayRef)>, options: &ShowOptions) -> String {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    show_string(batch.schema_ref(), std::slice::from_ref(&batch), options).unwrap()
}

/// The one value of a column, not truncated.
fn value(array: ArrayRef) -> String {
    let options = ShowOptions {
        truncate: 0,
        ..ShowOptions::default()
    };
    let text = table(vec![("v", array)], &options);
    text.lines()
        .nth(3)
        .unwrap()
        .trim_matches('|')
        .trim_end()
        .to_owned()
}

#[test]
fn show_truncating_aligns_right_and_cuts_long_cells() {
    let names = StringArray::from(vec![
        Some("short"),
        None,
        Some("a text of more than twenty"),
    ]);
    let text = table(
        vec![
            ("id", Arc::new(Int64Array::from(vec![1, 20, 300]))),
            ("name", Arc::new(names)),
            ("amount", Arc::new(Float64Array::from(vec![1.5, 1e7, -0.0]))),
        ],
        &ShowOptions::default(),
    );
    assert_eq!(
        text,
        "\
+---+--------------------+------+
| id|                name|amount|
+---+--------------------+------+
|  1|               short|   1.5|
| 20|                NULL| 1.0E7|
|300|a text of more th...|  -0.0|
+---+--------------------+------+
"
    );
}

#[test]
fn show_without_truncating_aligns_left() {
    let names = StringArray::from(vec!["short", "a text of more than twenty"]);
    let options = ShowOptions {
        truncate: 0,
        ..ShowOptions::default()
    };
    assert_eq!(
        table(
            vec![
                ("n", Arc::new(Int64Array::from(vec![1, 2]))),
                ("name", Arc::new(names))
            ],
            &options
        ),
        "\
+---+--------------------------+
|n  |name                      |
+---+--------------------------+
|1  |short                     |
|2  |a text of more than twenty|
+---+--------------------------+
"
    );
}

#[test]
fn show_of_more_rows_than_asked_for_says_so_on_a_last_line() {
    let column = || Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
    let options = |num_rows| ShowOptions {
        num_rows,
        ..ShowOptions::default()
    };
    let two = table(vec![("v", column())], &options(2));
    assert!(
        two.ends_with("|  2|\n+---+\nonly showing top 2 rows"),
        "{two}"
    );
    let one = table(vec![("v", column())], &options(1));
    assert!(one.ends_with("only showing top 1 row"), "{one}");
    let none = table(vec![("v", column())], &options(0));
    assert_eq!(none, "+---+\n|  v|\n+---+\n+---+\nonly showing top 0 rows");
    assert!(!table(vec![("v", column())], &options(3)).contains("only"));
}

#[test]
fn show_short_limits_cut_without_dots_and_wide_characters_count_two() {
    let names: ArrayRef = Arc::new(StringArray::from(vec!["abcdef", "東京", "x\ty\n"]));
    let options = |truncate| ShowOptions {
        truncate,
        ..ShowOptions::default()
    };
    assert_eq!(
        table(vec![("s", Arc::clone(&names))], &options(3)),
        "+----+\n|   s|\n+----+\n| abc|\n|東京|\n| x\\t|\n+----+\n"
    );
    assert_eq!(
        table(vec![("s", names)], &options(5)),
        "+-----+\n|    s|\n+-----+\n|ab...|\n| 東京|\n|x\\...|\n+-----+\n"
    );
    // A character outside of the basic plane is never cut in half.
    let faces: ArrayRef = Arc::new(StringArray::from(vec!["ab😀😀"]));
    assert!(table(vec![("s", faces)], &options(3)).contains("| ab|"));
}

#[test]
fn show_without_rows_or_columns_is_an_empty_table() {
    let empty = show_string(&numbers_schema(), &[], &ShowOptions::default()).unwrap();
    assert_eq!(empty, "+---+\n|  v|\n+---+\n+---+\n");
    let nothing = show_string(&Schema::empty(), &[], &ShowOptions::default()).unwrap();
    assert_eq!(nothing, "++\n||\n++\n++\n");
}

#[test]
fn show_vertical_prints_a_line_per_value() {
    let options = ShowOptions {
        vertical: true,
        ..ShowOptions::default()
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2]))),
        ("name", Arc::new(StringArray::from(vec!["x", "long"]))),
    ];
    assert_eq!(
        table(columns, &options),
        "\
-RECORD 0----
 id   | 1    
 name | x    
-RECORD 1----
 id   | 2    
 name | long 
"
    );
    assert_eq!(
        show_string(&numbers_schema(), &[], &options).unwrap(),
        "(0 rows)\n"
    );
}

#[test]
fn values_of_simple_types_are_spelt_as_spark_spells_them() {
    assert_eq!(value(Arc::new(BooleanArray::from(vec![true]))), "true");
    assert_eq!(value(Arc::new(NullArray::new(1))), "NULL");
    assert_eq!(
        value(Arc::new(Date32Array::from(vec![20_454]))),
        "2026-01-01"
    );
    assert_eq!(
        value(Arc::new(BinaryArray::from(vec![b"ab\xff".as_slice()]))),
        "[61 62 FF]"
    );
    assert_eq!(
        value(Arc::new(BinaryArray::from(vec![b"".as_slice()]))),
        "[]"
    );
    let decimal = Decimal128Array::from(vec![12_000])
        .with_precision_and_scale(10, 2)
        .unwrap();
    assert_eq!(value(Arc::new(decimal)), "120.00");
    let dictionary: DictionaryArray<Int32Type> = vec!["a", "b"].into_iter().skip(1).collect();
    assert_eq!(value(Arc::new(dictionary)), "b");
}

#[test]
fn timestamps_are_shown_in_the_zone_and_ntz_as_they_are() {
    let micros = 1_767_225_607_500_000;
    let zoned: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC"));
    let plain: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![micros / 1000]));
    let rome = ShowOptions {
        truncate: 0,
        ..ShowOptions::default()
    }
    .with_time_zone("Europe/Rome")
    .unwrap();
    let text = table(vec![("z", Arc::clone(&zoned)), ("n", plain)], &rome);
    assert!(
        text.contains("|2026-01-01 01:00:07.5|2026-01-01 00:00:07.5|"),
        "{text}"
    );
    assert_eq!(value(zoned), "2026-01-01 00:00:07.5");
    let unknown = ShowOptions::default()
        .with_time_zone("Mars/Base")
        .unwrap_err();
    assert!(
        unknown
            .message()
            .starts_with("time zone 'Mars/Base' is unknown")
    );
}

#[test]
fn nested_values_are_shown_with_their_nulls() {
    let list =
        ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None, Some(2)])]);
    assert_eq!(value(Arc::new(list)), "[1, NULL, 2]");
    let fields = vec![
        (
            Arc::new(Field::new("a", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![1])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("b", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["x"])),
        ),
        (
            Arc::new(Field::new("c", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![None::<&str>])),
        ),
    ];
    assert_eq!(value(Arc::new(StructArray::from(fields))), "{1, x, NULL}");
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    map.keys().append_value("k");
    map.values().append_value(1);
    map.keys().append_value("l");
    map.values().append_null();
    map.append(true).unwrap();
    assert_eq!(value(Arc::new(map.finish())), "{k -> 1, l -> NULL}");
}

/// An output that can be read afterwards.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn console_sink_prints_each_epoch_as_spark_does() {
    let paper = Paper::default();
    let sink = ConsoleSink::new().num_rows(2).output(paper.clone());
    let context = sink_context(1, 1, OutputMode::Append, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    let epoch = vec![(0, rows(0, 1, 0, &[7])), (1, rows(0, 0, 0, &[5]))];
    generation.epoch(0, epoch).await.unwrap();
    generation
        .epoch(1, vec![(0, rows(1, 0, 0, &[1, 2, 3]))])
        .await
        .unwrap();
    generation.epoch(2, vec![]).await.unwrap();
    assert_eq!(
        paper.text(),
        "\
-------------------------------------------
Batch: 0
-------------------------------------------
+---+
|  v|
+---+
|  5|
|  7|
+---+

-------------------------------------------
Batch: 1
-------------------------------------------
+---+
|  v|
+---+
|  1|
|  2|
+---+
only showing top 2 rows
-------------------------------------------
Batch: 2
-------------------------------------------
+---+
|  v|
+---+
+---+

"
    );
}

#[tokio::test]
async fn console_sink_shows_what_is_taken_back() {
    let paper = Paper::default();
    let sink = ConsoleSink::new().output(paper.clone());
    let context = sink_context(1, 1, OutputMode::Update, None);
    let mut generation = Generation::open(&sink, &context).await.unwrap();
    generation
        .epoch(0, vec![(0, changes(0, &[1, 2], &[0, 2]))])
        .await
        .unwrap();
    generation
        .epoch(
            1,
            vec![(0, changes(1, &[2, 3], &[1, 2])), (0, rows(1, 0, 0, &[9]))],
        )
        .await
        .unwrap();
    let text = paper.text();
    assert!(text.contains("|  v|\n+---+\n|  1|\n|  2|\n"), "{text}");
    assert!(
        text.contains("| op|  v|\n+---+---+\n| -U|  2|\n| +U|  3|\n| +I|  9|\n"),
        "{text}"
    );
}

#[tokio::test]
async fn console_sink_replayed_in_one_process_prints_once_and_in_another_again() {
    let paper = Paper::default();
    let sink = ConsoleSink::new().output(paper.clone());
    let mut outcomes = Vec::new();
    for (sink, generation) in [
        (&sink, 1),
        (&sink, 2),
        (&ConsoleSink::new().output(paper.clone()), 3),
    ] {
        let context = sink_context(1, generation, OutputMode::Append, None);
        let mut generation = Generation::open(sink, &context).await.unwrap();
        outcomes.push(
            generation
                .epoch(0, vec![(0, rows(0, 0, 0, &[1]))])
                .await
                .unwrap(),
        );
    }
    let (new, old) = (CommitOutcome::Committed, CommitOutcome::AlreadyCommitted);
    assert_eq!(outcomes, [new, old, new]);
    assert_eq!(paper.text().matches("Batch: 0").count(), 2);
}

#[test]
fn console_options_are_read_and_checked() {
    let options = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let describe = |pairs: &[(&str, &str)]| {
        ConsoleSink::from_options(&options(pairs))
            .unwrap()
            .description()
    };
    assert_eq!(describe(&[]), "ConsoleSink[numRows=20, truncate=true]");
    assert_eq!(
        describe(&[("NUMROWS", "5"), ("Truncate", "FALSE")]),
        "ConsoleSink[numRows=5, truncate=false]"
    );
    assert_eq!(
        describe(&[("truncate", "7")]),
        "ConsoleSink[numRows=20, truncate=7]"
    );
    for bad in [("numRows", "-1"), ("truncate", "perhaps"), ("rows", "1")] {
        let error = ConsoleSink::from_options(&options(&[bad])).unwrap_err();
        assert_eq!(error.fault(), Fault::Config, "{bad:?}");
    }
    let sink = ConsoleSink::new();
    assert!(!sink.needs_checkpoint() && sink.supports(OutputMode::Complete));
    assert_eq!(sink.delivery(), Delivery::AtLeastOnce);
}
