//! Values written as Avro: the bytes that Spark writes, and values without a place in the schema.

use arrow::array::AsArray;

use super::super::testing::{column, error, hex, session, unhex};

fn some(payloads: &[&str]) -> Vec<Option<Vec<u8>>> {
    payloads.iter().map(|p| Some(unhex(p))).collect()
}

#[tokio::test]
async fn values_are_written_as_spark_writes_them() {
    // Payloads as Spark 4.3 with spark-avro 4.2 writes them.
    let cases = [
        ("to_avro(1L)", "02"),
        ("to_avro(nullif(1L, 0L))", "0002"),
        (
            "to_avro(CAST('1.28' AS DECIMAL(5,2)), '{\"type\":\"fixed\",\"name\":\"f\",\"size\":3,\"logicalType\":\"decimal\",\"precision\":5,\"scale\":2}')",
            "000080",
        ),
        (
            "to_avro(TIMESTAMP'1970-01-01 00:00:01', '\"long\"')",
            "d00f",
        ),
        (
            "to_avro(TIMESTAMP'1970-01-01 00:00:01', '{\"type\":\"long\",\"logicalType\":\"timestamp-micros\"}')",
            "80897a",
        ),
        (
            "to_avro('B', '{\"type\":\"enum\",\"name\":\"e\",\"symbols\":[\"A\",\"B\"]}')",
            "02",
        ),
        (
            "to_avro(named_struct('a', 1), '{\"type\":\"record\",\"name\":\"r\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"},{\"name\":\"b\",\"type\":[\"null\",\"int\"]}]}')",
            "0200",
        ),
        (
            "to_avro(map('a', 1), '{\"type\":\"map\",\"values\":\"int\"}')",
            "0202610200",
        ),
        (
            "to_avro(array(1, null), '{\"type\":\"array\",\"items\":[\"int\",\"null\"]}')",
            "0400020200",
        ),
    ];
    for (call, expected) in cases {
        let ctx = session(&some(&[""]), 1);
        let (_, values) = column(&ctx, &format!("SELECT {call} FROM t"))
            .await
            .unwrap_or_else(|e| panic!("{call}: {e}"));
        assert_eq!(hex(values.as_binary::<i32>().value(0)), expected, "{call}");
    }
}

#[tokio::test]
async fn values_without_a_place_in_the_schema_are_refused() {
    let enumeration = r#"{"type":"enum","name":"e","symbols":["A","B"]}"#;
    let one = r#"{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}"#;
    let cases = [
        (
            format!("to_avro('C', '{enumeration}')"),
            "row 0 of the batch (from 0): the value is 'C', the enum's symbols are A, B",
        ),
        (
            format!("to_avro(named_struct('a', nullif(1L, 1L)), '{one}')"),
            "field a is NULL",
        ),
        (
            "to_avro(1, '\"long\"')".into(),
            "the value is INT, it cannot be written as long",
        ),
        (
            format!("to_avro(named_struct('a', 1L, 'z', 2), '{one}')"),
            "no field for z",
        ),
        (
            format!("to_avro(named_struct('z', 2), '{one}')"),
            "no field for z",
        ),
        (
            "to_avro(X'00', '{\"type\":\"fixed\",\"name\":\"f\",\"size\":2}')".into(),
            "has 1 bytes, the schema wants 2",
        ),
        (
            "to_avro(1, '[\"null\",\"int\",\"string\"]')".into(),
            "only unions of null and one other type",
        ),
    ];
    for (call, reason) in cases {
        let (_, message) = error(&some(&[""]), &call).await;
        assert!(message.contains(reason), "{call}: {message}");
    }
}

#[tokio::test]
async fn nulls_deep_inside_are_written_where_they_are_allowed() {
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"s","type":["null",{"type":"record","name":"s","fields":[{"name":"x","type":"int"},{"name":"e","type":{"type":"enum","name":"e","symbols":["A"]}},{"name":"l","type":{"type":"array","items":"string"}}]}]}]}"#;
    let inner = "named_struct('x', 1, 'e', 'A', 'l', array('q'))";
    let sql = format!(
        "SELECT to_avro(named_struct('s', if(b = X'01', {inner}, NULL)), '{schema}') FROM t"
    );
    let (_, values) = column(&session(&some(&["00", "01", "00"]), 8), &sql)
        .await
        .expect("rows");
    let written: Vec<_> = values
        .as_binary::<i32>()
        .iter()
        .map(|v| v.map(hex))
        .collect();
    assert_eq!(
        written,
        [
            Some("00".into()),
            Some("02020002027100".into()),
            Some("00".into())
        ]
    );
}
