//! Answers of Spark 4.3 to the JSON functions' options and odd records.

use arrow::array::AsArray;

use super::testing::{column, error, session};

/// The first row of `SELECT call` as text.
async fn answer(call: &str) -> String {
    let ctx = session(&[Some(vec![])], 1);
    let sql = format!("SELECT to_json(array({call})) FROM t");
    let (_, values) = column(&ctx, &sql)
        .await
        .unwrap_or_else(|e| panic!("{call}: {e}"));
    values.as_string::<i32>().value(0).to_owned()
}

async fn condition(call: &str) -> (String, String) {
    error(&[Some(vec![])], call).await
}

#[tokio::test]
async fn schemas_are_inferred_as_in_spark() {
    let cases = [
        (r#"{"a":1}"#, "STRUCT<a: BIGINT>"),
        ("[]", "ARRAY<STRING>"),
        ("{}", "STRUCT<>"),
        (r#"{"a":null}"#, "STRUCT<a: STRING>"),
        (
            r#"[{"a":1},{"b":2.5}]"#,
            "ARRAY<STRUCT<a: BIGINT, b: DOUBLE>>",
        ),
        (r#"{"a":[1,2.5]}"#, "STRUCT<a: ARRAY<DOUBLE>>"),
        (r#"{"a":[1,"x"]}"#, "STRUCT<a: ARRAY<STRING>>"),
        ("1", "BIGINT"),
        (r#""x""#, "STRING"),
        ("null", "STRING"),
        ("true", "BOOLEAN"),
        (r#"{"d":"2020-01-01"}"#, "STRUCT<d: STRING>"),
        (
            r#"{"x":{"y":[[1],[null]]}}"#,
            "STRUCT<x: STRUCT<y: ARRAY<ARRAY<BIGINT>>>>",
        ),
        (
            r#"{"big":12345678901234567890}"#,
            "STRUCT<big: DECIMAL(20,0)>",
        ),
        (r#"{"f":1e400}"#, "STRUCT<f: DOUBLE>"),
        (r#"{"a b":1}"#, "STRUCT<`a b`: BIGINT>"),
        (r#"{"a":1,"a":"x"}"#, "STRUCT<a: BIGINT, a: STRING>"),
        ("[1,null]", "ARRAY<BIGINT>"),
        (r#"[{"a":1},{"a":"x"}]"#, "ARRAY<STRUCT<a: STRING>>"),
        (r#"{"a":{}}"#, "STRUCT<>"),
        (
            r#"{"a":1234567890123456789012345678901234567890}"#,
            "STRUCT<a: DOUBLE>",
        ),
    ];
    for (json, expected) in cases {
        let found = answer(&format!("schema_of_json('{json}')")).await;
        assert_eq!(found, format!("[\"{expected}\"]"), "{json}");
    }
    let found = answer(r#"schema_of_json('{"a":1}', map('primitivesAsString', 'true'))"#).await;
    assert_eq!(found, r#"["STRUCT<a: STRING>"]"#);
    let found = answer(r#"schema_of_json('{"a":1.5}', map('prefersDecimal', 'true'))"#).await;
    assert_eq!(found, r#"["STRUCT<a: DECIMAL(2,1)>"]"#);
    let found = answer(r#"from_json('{"a":1}', schema_of_json('{"a":7}'))"#).await;
    assert_eq!(found, r#"[{"a":1}]"#);
}

#[tokio::test]
async fn samples_that_are_none_are_refused() {
    let cases = [
        ("schema_of_json('{a')", "MALFORMED_RECORD_IN_PARSING"),
        ("schema_of_json(NULL)", "DATATYPE_MISMATCH.UNEXPECTED_NULL"),
        (
            "schema_of_json(CAST(b AS STRING))",
            "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT",
        ),
    ];
    for (call, expected) in cases {
        let (found, message) = condition(call).await;
        assert_eq!(found, expected, "{call}: {message}");
    }
}

#[tokio::test]
async fn bytes_and_numbers_are_no_json_text() {
    for call in ["from_json(b, 'a INT')", "from_json(1, 'a INT')"] {
        let (found, message) = condition(call).await;
        assert_eq!(found, "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE");
        assert!(message.contains("reads STRING"), "{message}");
    }
}

#[tokio::test]
async fn bad_records_follow_the_mode() {
    let (found, message) =
        condition(r#"from_json('{"a":"x"}', 'a INT', map('mode', 'failfast'))"#).await;
    assert_eq!(found, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION");
    assert!(message.contains("row 0 of the batch"), "{message}");
    let (found, _) = condition("from_json('x', 'a INT', map('mode', 'DROPMALFORMED'))").await;
    assert_eq!(found, "PARSE_MODE_UNSUPPORTED");
    let kept = answer(
        r#"from_json('{"a":"x"}', 'a INT, c STRING', map('columnNameOfCorruptRecord', 'c'))"#,
    )
    .await;
    assert_eq!(kept, r#"[{"c":"{\"a\":\"x\"}"}]"#);
    let (found, _) = condition("from_json('{}', 'a INT, _corrupt_record INT')").await;
    assert_eq!(found, "INVALID_CORRUPT_RECORD_TYPE");
    assert_eq!(
        answer(r#"from_json('[1,"x"]', 'array<int>')"#).await,
        "[[1,null]]"
    );
}

#[tokio::test]
async fn p095_nothing_stays_nothing_and_is_no_bad_record() {
    let call = "from_json(CAST(nullif(1, 1) AS STRING), 'a INT', map('mode', 'FAILFAST'))";
    assert_eq!(answer(call).await, "[null]");
    assert_eq!(answer("from_json('', 'a INT')").await, "[null]");
    assert_eq!(answer("from_json('  ', 'a INT')").await, "[null]");
}

#[tokio::test]
async fn an_object_stands_for_an_array_of_it_but_no_array_for_an_object() {
    let one = answer(r#"from_json('{"a":1}', 'array<struct<a:int>>')"#).await;
    assert_eq!(one, r#"[[{"a":1}]]"#);
    let many = answer(r#"from_json('[{"a":1},{"a":2}]', 'a INT')"#).await;
    assert_eq!(many, "[{}]");
}

#[tokio::test]
async fn required_fields_of_a_schema_may_still_be_missing() {
    assert_eq!(answer("from_json('{}', 'a INT NOT NULL')").await, "[{}]");
}

#[tokio::test]
async fn dates_and_times_are_spelled_as_the_options_say() {
    let read = r#"from_json('{"d":"26/08/2015","t":"26/08/2015 07:08"}', 'd DATE, t TIMESTAMP', map('dateFormat', 'dd/MM/yyyy', 'timestampFormat', 'dd/MM/yyyy HH:mm'))"#;
    assert_eq!(
        answer(read).await,
        r#"[{"d":"2015-08-26","t":"2015-08-26T07:08:00.000Z"}]"#
    );
    let ctx = session(&[Some(vec![])], 1);
    let sql = "SELECT to_json(named_struct('d', DATE'2015-08-26', 't', TIMESTAMP'2015-08-26 07:08:00', 'n', CAST(NULL AS INT)), map('dateFormat', 'dd/MM/yyyy', 'timestampFormat', 'dd/MM/yyyy HH:mm', 'ignoreNullFields', 'false')) FROM t";
    let (_, values) = column(&ctx, sql).await.expect("row");
    assert_eq!(
        values.as_string::<i32>().value(0),
        r#"{"d":"26/08/2015","t":"26/08/2015 07:08","n":null}"#
    );
}

#[tokio::test]
async fn options_that_would_change_the_result_and_are_not_done_are_refused() {
    let cases = [
        "from_json('{}', 'a INT', map('allowSingleQuotes', 'true'))",
        "to_json(named_struct('a', 1), map('pretty', 'true'))",
        "schema_of_json('{}', map('allowComments', 'true'))",
    ];
    for call in cases {
        let (found, message) = condition(call).await;
        assert_eq!(found, "INVALID_OPTIONS.UNKNOWN", "{message}");
        assert!(message.contains("allowed are"), "{message}");
    }
}

#[tokio::test]
async fn values_are_written_as_in_spark() {
    let call = "named_struct('a', X'010203', 'd', 1e0, 'f', 1e20, 'dec', 1.10, 'dt', DATE'2020-01-01', 'ntz', CAST('2020-01-01 00:00:00.123456' AS TIMESTAMP_NTZ))";
    let expected = r#"[{"a":"AQID","d":1.0,"f":1.0E20,"dec":1.10,"dt":"2020-01-01","ntz":"2020-01-01T00:00:00.123"}]"#;
    assert_eq!(answer(call).await, expected);
}

#[tokio::test]
async fn columns_are_called_after_the_value_alone() {
    let ctx = session(&[], 1);
    let sql = "SELECT from_json(CAST(b AS STRING), 'a INT', map('mode', 'FAILFAST')) FROM t";
    let plan = crate::plan_query(&ctx, sql).await.expect("plan");
    assert_eq!(
        plan.schema().field(0).name(),
        "from_json(CAST(b AS STRING))"
    );
}
