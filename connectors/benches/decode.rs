//! Rows per second and core of the file decoders, beside Arrow's own JSON and CSV readers on the same records.
//!
//! The records are bids of an auction site: eight columns, about 184 bytes, integers, hexadecimal text and a timestamp.

use std::{fmt::Write, hint::black_box, io::Cursor, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weir_connectors::file::decode::{
    BatchReader, CsvOptions, CsvReader, DecodeSettings, JsonOptions, JsonReader, TextOptions,
    TextReader,
};

const ROWS: u64 = 100_000;

fn schema() -> SchemaRef {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let columns = [
        ("bid_id", DataType::Int64),
        ("auction", DataType::Int64),
        ("bidder", DataType::Int64),
        ("price", DataType::Int64),
        ("channel", DataType::Utf8),
        ("url", DataType::Utf8),
        ("date_time", timestamp),
        ("extra", DataType::Utf8),
    ];
    let fields: Vec<Field> = columns
        .into_iter()
        .map(|(name, data_type)| Field::new(name, data_type, true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// A well-spread number for each row and column.
fn mixed(row: u64, column: u64) -> u64 {
    let mut bits = row
        .wrapping_mul(8)
        .wrapping_add(column)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

fn records() -> Vec<u8> {
    let channels = ["Google", "Facebook", "Baidu", "Apple"];
    let mut text = String::new();
    for row in 0..ROWS {
        let second = row / 9_200;
        let milli = mixed(row, 1) % 1000;
        writeln!(
            text,
            "{{\"bid_id\":{row},\"auction\":{},\"bidder\":{},\"price\":{},\"channel\":\"{}\",\"url\":\"{:016x}\",\
             \"date_time\":\"2026-01-01T00:{:02}:{:02}.{milli:03}Z\",\"extra\":\"{:016x}{:08x}\"}}",
            mixed(row, 2) % 1_000_000,
            mixed(row, 3) % 1_500_000,
            100 + mixed(row, 4) % 1_000_000,
            channels[(mixed(row, 5) % 4) as usize],
            mixed(row, 6),
            second / 60,
            second % 60,
            mixed(row, 7),
            mixed(row, 8) as u32,
        )
        .expect("writing to memory does not fail");
    }
    text.into_bytes()
}

/// The same records in CSV.
fn comma_separated() -> Vec<u8> {
    let text = String::from_utf8(records()).expect("text");
    let mut out = String::new();
    for line in text.lines() {
        let fields = line.trim_matches(['{', '}']).split(',');
        let values = fields.map(|field| field.split_once(':').map_or("", |(_, value)| value));
        let values: Vec<&str> = values.map(|value| value.trim_matches('"')).collect();
        writeln!(out, "{}", values.join(",")).expect("writing to memory does not fail");
    }
    out.into_bytes()
}

fn weir_csv(text: &[u8], settings: DecodeSettings) -> usize {
    let input = Box::new(Cursor::new(text.to_vec()));
    count(
        CsvReader::new(input, "bids", settings, CsvOptions::default()).expect("a schema it reads"),
    )
}

fn arrow_csv(text: &[u8], schema: &SchemaRef) -> usize {
    let input = Cursor::new(text.to_vec());
    let reader = arrow::csv::ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(8192)
        .build(input);
    reader
        .expect("a schema it reads")
        .map(|batch| black_box(batch.expect("good records")).num_rows())
        .sum()
}

fn decode_csv(criterion: &mut Criterion) {
    let text = comma_separated();
    let schema = schema();
    let settings = DecodeSettings::new(&schema);
    assert_eq!(weir_csv(&text, settings.clone()), arrow_csv(&text, &schema));
    let mut group = criterion.benchmark_group("csv_bids");
    group.throughput(Throughput::Elements(ROWS)).sample_size(20);
    group.bench_function("arrow", |bench| bench.iter(|| arrow_csv(&text, &schema)));
    group.bench_function("weir", |bench| {
        bench.iter(|| weir_csv(&text, settings.clone()));
    });
    group.finish();
}

fn count(mut reader: impl BatchReader) -> usize {
    let mut rows = 0;
    while let Some(batch) = reader.next_batch().expect("good records") {
        rows += black_box(batch).num_rows();
    }
    assert_eq!(reader.bad_records().count, 0);
    rows
}

fn weir_json(text: &[u8], settings: DecodeSettings) -> usize {
    let input = Box::new(Cursor::new(text.to_vec()));
    count(
        JsonReader::new(input, "bids", settings, JsonOptions::default())
            .expect("a schema it reads"),
    )
}

fn arrow_json(text: &[u8], schema: &SchemaRef, batch_rows: usize) -> usize {
    let input = Cursor::new(text.to_vec());
    let reader = arrow::json::ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(batch_rows)
        .build(input);
    reader
        .expect("a schema it reads")
        .map(|batch| black_box(batch.expect("good records")).num_rows())
        .sum()
}

fn decode(criterion: &mut Criterion) {
    let text = records();
    let schema = schema();
    let settings = DecodeSettings::new(&schema);
    assert_eq!(
        weir_json(&text, settings.clone()),
        arrow_json(&text, &schema, 8192)
    );

    let mut group = criterion.benchmark_group("json_bids");
    group.throughput(Throughput::Elements(ROWS)).sample_size(20);
    group.bench_function("arrow", |bench| {
        bench.iter(|| arrow_json(&text, &schema, 8192))
    });
    for batch_rows in [4096, 8192, 16_384, 32_768] {
        let settings = DecodeSettings {
            batch_rows,
            ..settings.clone()
        };
        group.bench_with_input(
            BenchmarkId::new("weir", batch_rows),
            &settings,
            |bench, settings| {
                bench.iter(|| weir_json(&text, settings.clone()));
            },
        );
    }
    let some = Arc::new(schema.project(&[2, 3, 6]).expect("columns of it"));
    let pruned = DecodeSettings::new(&some);
    group.bench_function("weir_three_columns", |bench| {
        bench.iter(|| weir_json(&text, pruned.clone()))
    });
    let none = DecodeSettings::new(&Schema::empty());
    group.bench_function("weir_no_columns", |bench| {
        bench.iter(|| weir_json(&text, none.clone()))
    });
    group.bench_function("lines_only", |bench| {
        bench.iter(|| {
            let input = Box::new(Cursor::new(text.clone()));
            count(
                TextReader::new(input, "bids", none.clone(), &TextOptions::default())
                    .expect("no columns"),
            )
        });
    });
    group.finish();
}

criterion_group!(benches, decode, decode_csv);
criterion_main!(benches);
