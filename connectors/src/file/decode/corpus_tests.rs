//! The decoders of text over a corpus of odd records, pieces of them put together, and bytes that are no text at all: nothing
//! panics, no row depends on how the bytes come, no neighbour is lost, and no record fills memory.

#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::lines_tests::Dribble;
use super::*;

const JSON: &str = include_str!("corpus/json.txt");
const CSV: &str = include_str!("corpus/csv.txt");
const MODES: [ParseMode; 3] = [
    ParseMode::Permissive,
    ParseMode::DropMalformed,
    ParseMode::FailFast,
];

#[derive(Debug, Clone, Copy)]
enum Format {
    Json,
    Csv,
    CsvOverLines,
}
use Format::{Csv, CsvOverLines, Json};

impl Format {
    /// A record that fits.
    fn good(self) -> &'static str {
        match self {
            Json => r#"{"id":7,"name":"n","x":1.5,"ts":"2026-01-02T03:04:05Z"}"#,
            Csv | CsvOverLines => "7,n,1.5,2026-01-02T03:04:05Z",
        }
    }

    fn corpus(self) -> &'static str {
        match self {
            Json => JSON,
            Csv | CsvOverLines => CSV,
        }
    }

    fn open(
        self,
        input: impl Read + Send + 'static,
        given: DecodeSettings,
    ) -> Box<dyn BatchReader> {
        let input = Box::new(input);
        let csv = |multi_line| CsvOptions {
            multi_line,
            ..CsvOptions::default()
        };
        match self {
            Json => Box::new(JsonReader::new(input, "f", given, JsonOptions::default()).unwrap()),
            Csv => Box::new(CsvReader::new(input, "f", given, csv(None)).unwrap()),
            CsvOverLines => Box::new(CsvReader::new(input, "f", given, csv(Some(true))).unwrap()),
        }
    }

    /// The rows as text and the number of bad records, or the error.
    fn read(
        self,
        bytes: &[u8],
        step: usize,
        given: DecodeSettings,
    ) -> Result<(Vec<String>, u64), String> {
        let bytes = bytes.to_vec();
        let mut reader = self.open(Dribble { bytes, at: 0, step }, given);
        let mut rows = Vec::new();
        while let Some(batch) = reader.next_batch().map_err(|error| error.to_string())? {
            rows.extend(texts(&batch));
        }
        Ok((rows, reader.bad_records().count))
    }
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let row = |row| {
        let values: Vec<String> = columns
            .iter()
            .map(|column| column.value(row).to_string())
            .collect();
        values.join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

fn settings(mode: ParseMode) -> DecodeSettings {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let columns = [
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("x", DataType::Float64),
        ("ts", timestamp),
        ("_corrupt_record", DataType::Utf8),
    ];
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type, true));
    DecodeSettings {
        mode,
        ..DecodeSettings::new(&Schema::new(fields.to_vec()))
    }
}

/// Two lines of the corpus cut anywhere, also inside of a letter, and put together, with anything but line ends between them.
fn odd(format: Format) -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<&'static str> = format.corpus().lines().collect();
    let line = move || (select(lines.clone()), any::<Index>());
    (line(), vec(any::<u8>(), 0..4), line()).prop_map(|((first, at), between, (second, from))| {
        let (first, second) = (first.as_bytes(), second.as_bytes());
        let front = &first[..at.index(first.len() + 1)];
        let back = &second[from.index(second.len() + 1)..];
        let mut bytes = [front, &between, back].concat();
        bytes.retain(|byte| !matches!(byte, b'\n' | b'\r'));
        bytes
    })
}

fn lines() -> impl Strategy<Value = (Format, Vec<Vec<u8>>)> {
    select(vec![Json, Csv, CsvOverLines])
        .prop_flat_map(|format| (Just(format), vec(odd(format), 0..6)))
}

/// A good row before and behind these lines, and what is in the middle.
fn between_good_rows(format: Format, lines: &[Vec<u8>]) -> Result<Vec<String>, String> {
    let good = format.good().as_bytes().to_vec();
    let file: Vec<Vec<u8>> = [good.clone()]
        .into_iter()
        .chain(lines.iter().cloned())
        .chain([good])
        .collect();
    let (rows, _) = format.read(
        &file.join(&b'\n'),
        usize::MAX,
        settings(ParseMode::Permissive),
    )?;
    Ok(rows)
}

const GOOD_ROW: &str = "7|n|1.5|2026-01-02T03:04:05Z|null";

#[test]
fn no_line_of_the_corpus_costs_its_neighbours_anything() {
    for format in [Json, Csv, CsvOverLines] {
        for line in format.corpus().lines() {
            let rows = between_good_rows(format, &[line.as_bytes().to_vec()]).unwrap();
            assert_eq!(rows[0], GOOD_ROW, "{format:?} {line}");
            assert_eq!(rows[rows.len() - 1], GOOD_ROW, "{format:?} {line}");
            assert!(rows.len() >= 2, "{format:?} {line}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn neighbours_of_odd_lines_are_kept((format, lines) in lines()) {
        let rows = between_good_rows(format, &lines).unwrap();
        prop_assert_eq!(&rows[0], GOOD_ROW);
        prop_assert_eq!(&rows[rows.len() - 1], GOOD_ROW);
        prop_assert!(rows.len() >= 2);
    }

    #[test]
    fn odd_lines_read_alike_however_they_come(
        (format, lines) in lines(), step in 1_usize..40, batch_rows in 1_usize..5, max_record_bytes in 20_usize..200,
    ) {
        let file = lines.join(&b"\r\n"[..]);
        for mode in MODES {
            let whole = format.read(&file, usize::MAX, settings(mode));
            let cut = format.read(&file, step, DecodeSettings { batch_rows, ..settings(mode) });
            prop_assert_eq!(&cut, &whole);
            // Whether a line is too long depends on the line alone where lines are found first.
            if let Json = format {
                let limited = |step| format.read(&file, step, DecodeSettings { max_record_bytes, ..settings(mode) });
                prop_assert_eq!(limited(step), limited(usize::MAX));
            }
        }
    }

    #[test]
    fn every_line_of_text_is_a_row(bytes in vec(prop_oneof![3 => select(b"ab\n\r".to_vec()), 1 => any::<u8>()], 0..80), step in 1_usize..20) {
        let schema = Schema::new(vec![Field::new("value", DataType::Utf8, true)]);
        let input = Box::new(Dribble { bytes: bytes.clone(), at: 0, step });
        let mut reader = TextReader::new(input, "f", DecodeSettings::new(&schema), &TextOptions::default()).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = reader.next_batch().unwrap() {
            rows.extend(texts(&batch));
        }
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
        let ended = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
        let lines: Vec<&str> = ended.strip_suffix('\n').unwrap_or(&ended).split('\n').collect();
        let expected = if ended.is_empty() { Vec::new() } else { lines };
        prop_assert_eq!(rows, expected);
    }
}

/// Bytes without a line end, and the most that was asked for at once.
struct Endless {
    left: usize,
    asked: Arc<AtomicUsize>,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.asked.fetch_max(out.len(), Ordering::Relaxed);
        let count = out.len().min(self.left);
        out[..count].fill(b'x');
        self.left -= count;
        Ok(count)
    }
}

#[test]
fn a_record_without_an_end_is_one_bad_record_and_does_not_fill_memory() {
    const SIZE: usize = 64 << 20;
    for format in [Json, Csv, CsvOverLines] {
        let asked = Arc::new(AtomicUsize::new(0));
        let input = Endless {
            left: SIZE,
            asked: Arc::clone(&asked),
        };
        let limited = DecodeSettings {
            max_record_bytes: 1 << 20,
            ..settings(ParseMode::Permissive)
        };
        let mut reader = format.open(input, limited);
        let batch = reader.next_batch().unwrap().unwrap();
        assert!(batch.get_array_memory_size() < 4 << 20, "{format:?}");
        assert!(reader.next_batch().unwrap().is_none());
        let bad = reader.bad_records();
        let reason = &bad.first.as_ref().unwrap().reason;
        assert_eq!(bad.count, 1, "{format:?}");
        assert!(reason.contains(&SIZE.to_string()), "{format:?}: {reason}");
        assert!(asked.load(Ordering::Relaxed) <= 4 << 20, "{format:?}");
    }
}
