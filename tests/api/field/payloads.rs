//! JSON inside of messages, by `from_json` and its kin: P075, P076, P077, P079, P080, P081, P083, P084, P085, P086.

use super::stage::{Do, Stage};

/// What a query over messages gives, one text a row.
async fn rows(query: &'static str, messages: &[&str]) -> Vec<String> {
    let stage = Stage::new("n BIGINT, j STRING", &[Do::Sql(query)], "append");
    let lines: Vec<String> = messages
        .iter()
        .enumerate()
        .map(|(n, message)| serde_json::json!({"n": n, "j": message}).to_string())
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    stage.run(&[&lines], false).await;
    stage.rows()
}

const IDS: &str = "SELECT n, r.id AS id, r._corrupt_record AS bad FROM (SELECT n, from_json(j, 'id BIGINT, _corrupt_record STRING') AS r FROM t)";

#[tokio::test]
async fn p075_whole_numbers_are_exact_and_those_that_do_not_fit_are_bad() {
    let found = rows(
        IDS,
        &[
            r#"{"id":9007199254740993}"#,
            r#"{"id":9223372036854775807}"#,
            r#"{"id":-9223372036854775808}"#,
            r#"{"id":9223372036854775808}"#,
            r#"{"id":1.5}"#,
            r#"{"id":1e3}"#,
        ],
    )
    .await;
    assert_eq!(
        found,
        [
            "0|9007199254740993|null",
            "1|9223372036854775807|null",
            "2|-9223372036854775808|null",
            r#"3|null|{"id":9223372036854775808}"#,
            r#"4|null|{"id":1.5}"#,
            r#"5|null|{"id":1e3}"#,
        ]
    );
}

#[tokio::test]
async fn p076_decimals_are_read_from_their_digits() {
    let query = "SELECT n, CAST(from_json(j, 'd DECIMAL(38,2)').d AS STRING) AS d FROM t";
    let messages = [
        r#"{"d":123456789012345678901234567890.12}"#,
        r#"{"d":0.1}"#,
        r#"{"d":"0.10"}"#,
        r#"{"d":0.125}"#,
    ];
    assert_eq!(
        rows(query, &messages).await,
        [
            "0|123456789012345678901234567890.12",
            "1|0.10",
            "2|0.10",
            "3|0.13"
        ]
    );
}

#[tokio::test]
async fn p077_of_a_key_that_is_there_twice_the_last_value_counts() {
    let query = "SELECT n, r.id AS id, r.o.x AS x FROM (SELECT n, from_json(j, 'id BIGINT, o STRUCT<x: INT>') AS r FROM t)";
    let messages = [r#"{"id":1,"id":2}"#, r#"{"id":3,"o":{"x":1,"x":9}}"#];
    assert_eq!(rows(query, &messages).await, ["0|2|null", "1|3|9"]);
}

const NAMES: &str = "SELECT n, r.id AS id, r.name AS name, r._corrupt_record AS bad FROM (SELECT n, from_json(j, 'id BIGINT, name STRING, _corrupt_record STRING') AS r FROM t)";

#[tokio::test]
async fn p079_a_field_of_the_wrong_type_costs_nothing_but_itself() {
    let messages = [
        r#"{"id":1,"name":"a"}"#,
        r#"{"id":[1],"name":"b"}"#,
        r#"{"id":3,"name":"c"}"#,
    ];
    assert_eq!(
        rows(NAMES, &messages).await,
        [
            "0|1|a|null",
            r#"1|null|b|{"id":[1],"name":"b"}"#,
            "2|3|c|null"
        ]
    );
}

#[tokio::test]
async fn p080_messages_behind_a_malformed_one_are_read() {
    let messages = [
        r#"{"id":1,"name":"a"}"#,
        r#"{"id": 12ii, "name":"x"}"#,
        r#"{"id":3,"name":"c"}"#,
        r#"{"id":4,"name":"d"}"#,
    ];
    assert_eq!(
        rows(NAMES, &messages).await,
        [
            "0|1|a|null",
            r#"1|null|null|{"id": 12ii, "name":"x"}"#,
            "2|3|c|null",
            "3|4|d|null"
        ]
    );
}

#[tokio::test]
async fn p081_failfast_stops_with_the_row_and_batches_of_bad_messages_alone_end() {
    let query = "SELECT from_json(j, 'id BIGINT', map('mode', 'FAILFAST')).id AS id FROM t";
    let stage = Stage::new("j STRING", &[Do::Sql(query)], "append");
    stage.drop_file(&[r#"{"j":"{\"id\":1}"}"#, r#"{"j":"\u0000 poison"}"#]);
    let running = stage.start().await;
    let error = running.failure().await;
    assert_eq!(
        error.condition(),
        Some("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION")
    );
    assert!(error.to_string().contains("row 1 of the batch"), "{error}");
    assert_eq!(
        rows(IDS, &["x", "{", "]"]).await,
        ["0|null|x", "1|null|{", "2|null|]"]
    );
}

#[tokio::test]
async fn p083_bytes_that_are_no_text_keep_their_row() {
    let query = "SELECT n, try_validate_utf8(b) AS strict, make_valid_utf8(b) AS lossy FROM (SELECT n, unhex(j) AS b FROM t)";
    assert_eq!(
        rows(query, &["6161", "61FF61", "62"]).await,
        ["0|aa|aa", "1|null|a\u{FFFD}a", "2|b|b"]
    );
}

#[tokio::test]
async fn p084_values_that_are_no_objects_are_bad_and_a_second_object_is_never_lost_without_a_trace()
{
    assert_eq!(
        rows(
            IDS,
            &[
                r#"{"id":1}"#,
                "42",
                "[]",
                "null",
                r#"{"id":3}{"id":4}"#,
                r#"{"id":2}"#
            ]
        )
        .await,
        [
            "0|1|null",
            "1|null|42",
            "2|null|[]",
            "3|null|null",
            r#"4|null|{"id":3}{"id":4}"#,
            "5|2|null"
        ]
    );
}

#[tokio::test]
async fn p085_long_messages_are_read_whole() {
    let query = "SELECT n, length(from_json(j, 's STRING').s) AS letters FROM t";
    let long = format!(r#"{{"s":"{}"}}"#, "x".repeat(5 << 20));
    assert_eq!(
        rows(query, &[&long, r#"{"s":"y"}"#]).await,
        ["0|5242880", "1|1"]
    );
}

#[tokio::test]
async fn p086_deep_nesting_is_a_bad_message_and_no_end_of_the_process() {
    let query = "SELECT n, r.id AS id, length(r.x) AS x, get_json_object(j, '$.id') AS found, r._corrupt_record IS NOT NULL AS bad FROM (SELECT n, j, from_json(j, 'id BIGINT, x STRING, _corrupt_record STRING') AS r FROM t)";
    let nested = |depth: usize| {
        format!(
            r#"{{"id":1,"x":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let (fine, deep) = (nested(900), nested(100_000));
    assert_eq!(
        rows(query, &[&nested(100), &fine, &deep, r#"{"id":2}"#]).await,
        [
            "0|1|200|1|false",
            "1|1|1800|1|false",
            "2|null|null|null|true",
            "3|2|null|2|false"
        ]
    );
}
