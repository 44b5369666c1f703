//! Files read in another schema than their own, and types that the library reads otherwise than Spark.

use std::collections::BTreeMap;

use arrow::util::pretty::pretty_format_batches;

use super::*;
use crate::file::options::source_options;
use crate::options::Options;

const SYNC: [u8; 16] = [7; 16];

/// The schema that `written` writes in, given as the one to read in.
pub(super) fn as_written() -> AvroOptions {
    let schema = r#"{"type": "record", "name": "topLevelRecord", "fields": [
        {"name": "more", "type": "string", "default": "x"},
        {"name": "id", "type": ["null", "long"]}]}"#;
    AvroOptions {
        schema: Some(schema.to_owned()),
        ..AvroOptions::default()
    }
}

fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7F).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap());
}

fn text(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    long(i64::try_from(text.len()).unwrap(), &mut out);
    out.extend_from_slice(text.as_bytes());
    out
}

/// A file of one block of these records, made by hand.
fn file(schema: &str, records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = b"Obj\x01".to_vec();
    long(1, &mut out);
    out.extend(text("avro.schema"));
    out.extend(text(schema));
    long(0, &mut out);
    out.extend(SYNC);
    let data = records.concat();
    long(i64::try_from(records.len()).unwrap(), &mut out);
    long(i64::try_from(data.len()).unwrap(), &mut out);
    out.extend(data);
    out.extend(SYNC);
    out
}

fn record(fields: &str) -> String {
    format!(r#"{{"type": "record", "name": "r", "fields": [{fields}]}}"#)
}

fn options(given: &[(&str, &str)]) -> weir_runtime::Result<AvroOptions> {
    let given: BTreeMap<String, String> = given
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    AvroOptions::of(&Options::new(
        "x",
        &source_options("avro").unwrap(),
        &given,
    )?)
}

/// Rows of a file with these columns, those of `avroSchema` where there are none, values joined by "|".
fn rows(
    bytes: &[u8],
    schema: Option<Schema>,
    given: &[(&str, &str)],
) -> Result<Vec<String>, DecodeError> {
    let options = options(given).unwrap();
    let schema = schema.unwrap_or_else(|| {
        let columns = options.columns().unwrap();
        columns.unwrap().as_ref().clone()
    });
    let mut reader = reader(bytes, &schema, &options)?;
    let mut rows = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        let table = pretty_format_batches(&[batch]).unwrap().to_string();
        let lines = table.lines().skip(3).filter(|line| line.starts_with('|'));
        rows.extend(lines.map(|line| {
            let values: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            values.join("|")
        }));
    }
    Ok(rows)
}

#[test]
fn avro_schema_takes_fields_by_name_or_alias_and_fills_in_defaults() {
    let written = record(
        r#"{"name": "id", "type": "int"}, {"name": "old", "type": "string"}, {"name": "gone", "type": "long"},
           {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}"#,
    );
    let mut one = vec![2];
    one.extend(text("a"));
    one.push(6);
    long(1_500, &mut one);
    let bytes = file(&written, &[one]);
    let wanted = record(
        r#"{"name": "extra", "type": "double", "default": 2.5}, {"name": "name", "type": "string", "aliases": ["old"]},
           {"name": "id", "type": "long"}, {"name": "none", "type": ["null", "int"], "default": null},
           {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}"#,
    );
    let given = [("avroSchema", wanted.as_str())];
    assert_eq!(
        rows(&bytes, None, &given).unwrap(),
        ["2.5|a|1||1970-01-01T00:00:01.500Z"]
    );
    let columns = Schema::new(vec![
        Field::new("ID", DataType::Float64, true),
        Field::new("gone", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]);
    assert_eq!(
        rows(&bytes, Some(columns), &given).unwrap_err().to_string(),
        "file \"f.avro\", column \"ID\": it has type Int64, which cannot be read as Float64 (only types that hold every value of \
         the file's type are allowed; declare that type and cast)"
    );
    let columns = Schema::new(vec![
        Field::new("gone", DataType::Int64, true),
        Field::new("NAME", DataType::Utf8, true),
    ]);
    assert_eq!(rows(&bytes, Some(columns), &given).unwrap(), ["|a"]);
    let strict = record(r#"{"name": "id", "type": "int"}, {"name": "other", "type": "int"}"#);
    let error = rows(&bytes, None, &[("avroSchema", strict.as_str())]).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("f.avro") && error.contains("r.other"),
        "{error}"
    );
}

#[test]
fn avro_schema_reads_blocks_of_every_compression() {
    for compression in [
        AvroCompression::None,
        AvroCompression::Snappy,
        AvroCompression::Deflate,
        AvroCompression::Zstd,
    ] {
        let bytes = written(3, compression);
        let ids = read_with(&bytes, &as_written()).unwrap();
        assert_eq!(ids, (0..30).collect::<Vec<i64>>(), "{compression:?}");
    }
    let mut damaged = written(3, AvroCompression::Snappy);
    let checksum = damaged.len() - SYNC.len() - 1;
    damaged[checksum] ^= 1;
    let error = read_with(&damaged, &as_written()).unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn avro_value_that_the_wanted_schema_has_no_place_for_is_an_error_with_its_row() {
    let written =
        record(r#"{"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}}"#);
    let bytes = file(&written, &[vec![0], vec![2]]);
    let narrower =
        record(r#"{"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A"]}}"#);
    let error = rows(&bytes, None, &[("avroSchema", narrower.as_str())]).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("f.avro") && error.contains("row 2 of 2"),
        "{error}"
    );
    let with_default = narrower.replace(r#"["A"]"#, r#"["A"], "default": "A""#);
    assert_eq!(
        rows(&bytes, None, &[("avroSchema", with_default.as_str())]).unwrap(),
        ["A", "A"]
    );
    let columns = Schema::new(vec![Field::new("e", DataType::Utf8, true)]);
    assert_eq!(rows(&bytes, Some(columns), &[]).unwrap(), ["A", "B"]);
}

#[test]
fn avro_union_becomes_a_struct_with_names_by_place_or_by_type() {
    let written = record(
        r#"{"name": "u", "type": ["null", "int", "string"]}, {"name": "w", "type": ["int", "long"]}"#,
    );
    let mut texts = vec![4];
    texts.extend(text("x"));
    texts.extend([0, 6]);
    let bytes = file(&written, &[vec![2, 10, 2, 8], texts, vec![0, 0, 2]]);
    let columns = |names: [&str; 2]| {
        let [int, string] = names;
        let members = vec![
            Field::new(int, DataType::Int32, true),
            Field::new(string, DataType::Utf8, true),
        ];
        Schema::new(vec![
            Field::new("u", DataType::Struct(members.into()), true),
            Field::new("w", DataType::Int64, true),
        ])
    };
    for (names, given) in [
        (["member0", "member1"], &[][..]),
        (
            ["member_int", "member_string"],
            &[("enableStableIdentifiersForUnionType", "true")],
        ),
        (
            ["is_int", "is_string"],
            &[
                ("enableStableIdentifiersForUnionType", "true"),
                ("stableIdentifierPrefixForUnionType", "is_"),
            ],
        ),
    ] {
        let [int, string] = names;
        assert_eq!(
            rows(&bytes, Some(columns(names)), given).unwrap(),
            [
                format!("{{{int}: 5, {string}: }}|4"),
                format!("{{{int}: , {string}: x}}|3"),
                "|1".to_owned()
            ],
            "{given:?}"
        );
    }
}

#[test]
fn avro_types_the_library_has_other_columns_for_are_read_as_spark_reads_them() {
    let written = record(
        r#"{"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
           {"name": "t", "type": {"type": "int", "logicalType": "time-millis"}}"#,
    );
    let id = "6f1c9c3e-8a3b-4a58-9a3e-0d6f0d6f0d6f";
    let mut one = text(id);
    one.push(20);
    let columns = Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("t", DataType::Int32, true),
    ]);
    let found = rows(&file(&written, &[one]), Some(columns), &[]).unwrap();
    assert_eq!(found, [format!("{id}|10")]);
}

#[test]
fn avro_columns_are_taken_by_position_at_every_depth() {
    let written = record(
        r#"{"name": "a", "type": "int"},
           {"name": "b", "type": {"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]}},
           {"name": "c", "type": "int"}"#,
    );
    let mut one = vec![2, 4];
    one.extend(text("t"));
    one.push(6);
    let bytes = file(&written, &[one]);
    let inner = vec![Field::new("c", DataType::Int64, true)];
    let columns = Schema::new(vec![
        Field::new("b", DataType::Int32, true),
        Field::new("s", DataType::Struct(inner.into()), true),
    ]);
    let given = [("positionalFieldMatching", "true")];
    assert_eq!(
        rows(&bytes, Some(columns.clone()), &given).unwrap(),
        ["1|{c: 2}"]
    );
    assert!(rows(&bytes, Some(columns), &[]).is_err(), "by name");
    let longer = ["p", "q", "r", "s"].map(|name| match name {
        "q" => Field::new(
            name,
            DataType::Struct(vec![Field::new("y", DataType::Int32, true)].into()),
            true,
        ),
        _ => Field::new(name, DataType::Int32, true),
    });
    let longer = Schema::new(longer.to_vec());
    assert_eq!(rows(&bytes, Some(longer), &given).unwrap(), ["1|{y: 2}|3|"]);
}

#[test]
fn avro_options_that_cannot_be_followed_are_refused() {
    for (name, value, part) in [
        ("avroSchema", "{", "no JSON"),
        ("avroSchema", "\"int\"", "allowed: a record"),
        ("avroSchemaUrl", "/no/such/file.avsc", "cannot be read"),
        ("avroSchemaUrl", "s3://bucket/file.avsc", "avroSchemaUrl"),
        ("recursiveFieldMaxDepth", "3", "contain themselves"),
        ("datetimeRebaseMode", "LEGACY", "CORRECTED"),
        ("mode", "LENIENT", "FAILFAST"),
    ] {
        let error = options(&[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), record(r#"{"name": "a", "type": "int"}"#)).unwrap();
    let path = file.path().to_str().unwrap();
    let columns = options(&[("avroSchemaUrl", path)]).unwrap().columns();
    assert_eq!(columns.unwrap().unwrap().field(0).name(), "a");
    assert!(
        !options(&[("ignoreExtension", "false")])
            .unwrap()
            .takes(path.as_ref())
    );
}
