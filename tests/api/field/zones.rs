//! Times as text and numbers, zones and calendars: P003, P005, P006, P007, P008, P009.

use std::process::Command;

use super::stage::{Do, Stage};

#[tokio::test]
async fn p003_windows_with_an_offset_are_right_before_1970() {
    for offset in ["5 seconds", "-5 seconds"] {
        let query: &'static str = match offset {
            "5 seconds" => {
                "SELECT window.start AS start, window.end AS end, count(*) AS n FROM t GROUP BY window(ts, '10 seconds', '10 seconds', '5 seconds')"
            }
            _ => {
                "SELECT window.start AS start, window.end AS end, count(*) AS n FROM t GROUP BY window(ts, '10 seconds', '10 seconds', '-5 seconds')"
            }
        };
        let stage = Stage::new("id BIGINT, ts TIMESTAMP", &[Do::Sql(query)], "complete");
        let file = [
            r#"{"id":1,"ts":"1969-12-31T23:59:54.999Z"}"#,
            r#"{"id":2,"ts":"1969-12-31T23:59:57Z"}"#,
            r#"{"id":3,"ts":"1970-01-01T00:00:00Z"}"#,
            r#"{"id":4,"ts":"1970-01-01T00:00:04Z"}"#,
        ];
        stage.run(&[&file], false).await;
        assert_eq!(
            stage.rows(),
            [
                "1969-12-31T23:59:45Z|1969-12-31T23:59:55Z|1",
                "1969-12-31T23:59:55Z|1970-01-01T00:00:05Z|3"
            ],
            "offset {offset}"
        );
    }
}

const CHILD: &str = "WEIR_TEST_ZONE_CHILD";

/// Not a test of its own: the body of a child process that runs under another `TZ`.
#[tokio::test]
async fn p005_child() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    for csv in [false, true] {
        let steps = [Do::Sql("SELECT id, unix_micros(ts) AS micros FROM t")];
        let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append");
        let (stage, file) = if csv {
            let file = [
                "id,ts",
                "1,2024-06-01T00:00:00",
                "2,2024-06-01T00:00:00Z",
                "3,2024-06-01T00:00:00+02:00",
            ];
            (stage.csv(), file.to_vec())
        } else {
            let file = [
                r#"{"id":1,"ts":"2024-06-01T00:00:00"}"#,
                r#"{"id":2,"ts":"2024-06-01T00:00:00Z"}"#,
                r#"{"id":3,"ts":"2024-06-01T00:00:00+02:00"}"#,
            ];
            (stage, file.to_vec())
        };
        stage.run(&[&file], false).await;
        assert_eq!(
            stage.rows(),
            [
                "1|1717200000000000",
                "2|1717200000000000",
                "3|1717192800000000"
            ],
            "csv: {csv}"
        );
    }
}

#[test]
fn p005_times_without_a_zone_do_not_depend_on_the_zone_of_the_machine() {
    for zone in ["UTC", "America/New_York", "Asia/Tokyo"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "field::zones::p005_child", "--nocapture"])
            .env(CHILD, "1")
            .env("TZ", zone)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{zone}: {said}"
        );
    }
}

#[tokio::test]
async fn p006_fractions_of_a_second_have_their_right_weight() {
    let steps = [Do::Sql(
        "SELECT id, unix_micros(ts) % 1000000 AS micros FROM t",
    )];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append").csv();
    let file = [
        "id,ts",
        "1,2024-06-01T00:00:00.1Z",
        "2,2024-06-01T00:00:00.12Z",
        "3,2024-06-01T00:00:00.123Z",
        "4,2024-06-01T00:00:00.123456Z",
        "5,2024-06-01T00:00:00.123456789Z",
        "6,2024-06-01T00:00:00Z",
    ];
    stage.run(&[&file], false).await;
    let micros = [
        "1|100000", "2|120000", "3|123000", "4|123456", "5|123456", "6|0",
    ];
    assert_eq!(stage.rows(), micros);
}

#[tokio::test]
async fn p007_numbers_become_times_by_the_unit_the_query_states() {
    let steps = [
        Do::Sql("SELECT id, timestamp_millis(ms) AS ts FROM t"),
        Do::Watermark("ts", "0 seconds"),
    ];
    let stage = Stage::new("id BIGINT, ms BIGINT", &steps, "append");
    let file = [
        r#"{"id":1,"ms":1718000000}"#,
        r#"{"id":2,"ms":1718000000000}"#,
    ];
    stage.run(&[&file], false).await;
    assert_eq!(
        stage.rows(),
        ["1|1970-01-20T21:13:20Z", "2|2024-06-10T06:13:20Z"]
    );
}

/// As Spark does with its checks on: the epoch fails and says so. Never a date that wrapped around.
#[tokio::test]
async fn p007_number_beyond_the_range_of_times_is_an_error_not_a_wrapped_date() {
    let steps = [
        Do::Sql("SELECT id, timestamp_millis(ms) AS ts FROM t"),
        Do::Watermark("ts", "0 seconds"),
    ];
    let stage = Stage::new("id BIGINT, ms BIGINT", &steps, "append");
    let running = stage.start().await;
    stage.drop_file(&[r#"{"id":3,"ms":9223372036854775807}"#]);
    let error = running.failure().await.to_string();
    assert!(error.to_lowercase().contains("overflow"), "{error}");
    assert_eq!(stage.rows(), Vec::<String>::new());
}

const DAYS: [&str; 6] = [
    r#"{"id":1,"ts":"2024-03-30T23:30:00Z"}"#,
    r#"{"id":2,"ts":"2024-03-31T21:59:00Z"}"#,
    r#"{"id":3,"ts":"2024-03-31T22:00:00Z"}"#,
    r#"{"id":4,"ts":"2024-10-26T22:00:00Z"}"#,
    r#"{"id":5,"ts":"2024-10-27T22:59:00Z"}"#,
    r#"{"id":6,"ts":"2024-10-27T23:00:00Z"}"#,
];

#[tokio::test]
async fn p008_days_are_days_of_utc() {
    let steps = [Do::Sql(
        "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts, '1 day')",
    )];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "complete");
    stage.run(&[&DAYS], false).await;
    assert_eq!(
        stage.rows(),
        [
            "2024-03-30T00:00:00Z|1",
            "2024-03-31T00:00:00Z|2",
            "2024-10-26T00:00:00Z|1",
            "2024-10-27T00:00:00Z|2"
        ]
    );
}

/// There is no window in another zone: asking for one is refused, not ignored.
#[tokio::test]
async fn p008_window_in_another_zone_is_refused() {
    let steps = [Do::Sql(
        "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts, '1 day', '1 day', '0 seconds', 'Europe/Rome')",
    )];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "complete");
    assert!(stage.try_start().await.is_err());
}

#[tokio::test]
async fn p009_local_times_that_happen_twice_or_never_are_read_as_java_reads_them() {
    let query = "SELECT id, unix_seconds(ts) AS read, unix_seconds(CAST(j AS TIMESTAMP)) AS cast_, CAST(ts AS STRING) AS shown FROM t";
    for restarts in [false, true] {
        let stage = Stage::new(
            "id BIGINT, ts TIMESTAMP, j STRING",
            &[Do::Sql(query)],
            "append",
        )
        .with("spark.sql.session.timeZone", "Europe/Rome");
        let row = |id: u8, time: &str| format!(r#"{{"id":{id},"ts":"{time}","j":"{time}"}}"#);
        let (twice, never) = (row(1, "2024-10-27 02:30:00"), row(2, "2024-03-31 02:30:00"));
        let once = row(3, "2024-07-01 02:30:00");
        stage.run(&[&[&twice, &never], &[&once]], restarts).await;
        assert_eq!(
            stage.rows(),
            [
                // The earlier of the two, 00:30 in UTC.
                "1|1729989000|1729989000|2024-10-27 02:30:00",
                // Moved by the gap, 01:30 in UTC.
                "2|1711848600|1711848600|2024-03-31 03:30:00",
                "3|1719793800|1719793800|2024-07-01 02:30:00",
            ],
            "restarts: {restarts}"
        );
    }
}
