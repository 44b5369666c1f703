//! Windows, sessions and aggregation: P019, P021, P022, P023, P024, P025, P027, P028, P029.

use std::time::Duration;

use weir::prelude::*;

use super::stage::{Do, Stage, listen_to_warnings, warnings_with};

const SESSIONS: &str = "SELECT k, session_window.start AS start, session_window.end AS end, count(*) AS n \
                        FROM t GROUP BY session_window(ts, '5 seconds'), k";

#[tokio::test]
async fn p019_row_between_two_stored_sessions_makes_one_of_them() {
    let files: [&[&str]; 3] = [
        &[
            r#"{"k":"a","ts":"2026-03-02T10:00:00Z"}"#,
            r#"{"k":"a","ts":"2026-03-02T10:00:08Z"}"#,
        ],
        &[r#"{"k":"a","ts":"2026-03-02T10:00:04Z"}"#],
        &[r#"{"k":"b","ts":"2026-03-02T10:02:00Z"}"#],
    ];
    for restarts in [false, true] {
        let steps = [Do::Watermark("ts", "30 seconds"), Do::Sql(SESSIONS)];
        let stage = Stage::new("k STRING, ts TIMESTAMP", &steps, "append");
        stage.run(&files, restarts).await;
        assert_eq!(
            stage.rows(),
            ["a|2026-03-02T10:00:00Z|2026-03-02T10:00:13Z|3"],
            "restarts: {restarts}"
        );
    }
}

#[tokio::test]
async fn p019_merged_sessions_leave_nothing_in_state() {
    let steps = [Do::Watermark("ts", "30 seconds"), Do::Sql(SESSIONS)];
    let stage = Stage::new("k STRING, ts TIMESTAMP", &steps, "append");
    let running = stage.start().await;
    let apart = [
        r#"{"k":"a","ts":"2026-03-02T10:00:00Z"}"#,
        r#"{"k":"a","ts":"2026-03-02T10:00:08Z"}"#,
    ];
    stage.feed(&running, &apart).await;
    let between = [r#"{"k":"a","ts":"2026-03-02T10:00:04Z"}"#];
    stage.feed(&running, &between).await;
    let other = [r#"{"k":"b","ts":"2026-03-02T10:02:00Z"}"#];
    stage.feed(&running, &other).await;
    assert_eq!(running.state_rows(), 1, "b alone");
    running.stop().await;
}

#[tokio::test]
async fn p021_rows_exactly_one_gap_apart_are_one_session() {
    let steps = [Do::Watermark("ts", "1 second"), Do::Sql(SESSIONS)];
    let stage = Stage::new("k STRING, ts TIMESTAMP", &steps, "append");
    let file = [
        r#"{"k":"a","ts":"2026-03-02T10:00:00Z"}"#,
        r#"{"k":"a","ts":"2026-03-02T10:00:05Z"}"#,
        r#"{"k":"c","ts":"2026-03-02T10:00:00Z"}"#,
        r#"{"k":"c","ts":"2026-03-02T10:00:04.999999Z"}"#,
        r#"{"k":"d","ts":"2026-03-02T10:00:00Z"}"#,
        r#"{"k":"d","ts":"2026-03-02T10:00:05.000001Z"}"#,
    ];
    let last = [r#"{"k":"z","ts":"2026-03-02T11:00:00Z"}"#];
    stage.run(&[&file, &last], false).await;
    assert_eq!(
        stage.rows(),
        [
            "a|2026-03-02T10:00:00Z|2026-03-02T10:00:10Z|2",
            "c|2026-03-02T10:00:00Z|2026-03-02T10:00:09.999999Z|2",
            "d|2026-03-02T10:00:00Z|2026-03-02T10:00:05Z|1",
            "d|2026-03-02T10:00:05.000001Z|2026-03-02T10:00:10.000001Z|1"
        ]
    );
}

const BY_TEN_SECONDS: &str =
    "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts, '10 seconds')";
const P022: [&[&str]; 2] = [
    &[
        r#"{"id":1,"ts":"2026-03-02T10:00:01Z"}"#,
        r#"{"id":2,"ts":"2026-03-02T10:00:04Z"}"#,
    ],
    &[r#"{"id":3,"ts":"2026-03-02T10:00:20Z"}"#],
];

#[tokio::test]
async fn p022_closed_window_is_emitted_without_another_row() {
    let steps = [Do::Watermark("ts", "5 seconds"), Do::Sql(BY_TEN_SECONDS)];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append")
        .trigger(Trigger::ProcessingTime(Duration::from_millis(100)));
    let running = stage.start().await;
    for file in P022 {
        stage.feed(&running, file).await;
    }
    assert_eq!(stage.rows(), ["2026-03-02T10:00:00Z|2"]);
    let epochs = stage.epochs();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(stage.epochs(), epochs, "then it is idle");
    running.stop().await;
}

#[tokio::test]
async fn p022_run_that_ends_by_itself_does_not_flush_open_windows() {
    let steps = [Do::Watermark("ts", "5 seconds"), Do::Sql(BY_TEN_SECONDS)];
    let stage =
        Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append").trigger(Trigger::AvailableNow);
    for file in P022 {
        stage.drop_file(file);
        let running = stage.start().await;
        running.query.await_termination().await.unwrap();
    }
    assert_eq!(stage.rows(), ["2026-03-02T10:00:00Z|2"]);
}

#[tokio::test]
async fn p023_append_without_a_usable_watermark_is_refused_at_start_and_says_what_to_do() {
    let by_key = "SELECT k, count(*) AS n FROM t GROUP BY k";
    let windowed =
        "SELECT window.start AS ts, count(*) AS n FROM t GROUP BY window(ts, '10 seconds')";
    let refused: [&[Do]; 3] = [
        &[Do::Sql(by_key)],
        &[Do::Sql(windowed), Do::Watermark("ts", "1 second")],
        &[Do::Watermark("ts", "1 second"), Do::Sql(by_key)],
    ];
    for steps in refused {
        let stage = Stage::new("k STRING, ts TIMESTAMP", steps, "append");
        stage.drop_file(&[r#"{"k":"a","ts":"2026-03-02T10:00:01Z"}"#]);
        let Err(error) = stage.try_start().await else {
            panic!("{steps:?} started");
        };
        let text = error.to_string();
        assert!(
            text.contains("watermark") && text.contains("update"),
            "{text}"
        );
        assert!(!stage.home.path("checkpoint/offsets").exists(), "{steps:?}");
    }
}

#[tokio::test]
async fn p023_update_mode_into_files_is_refused_at_start() {
    let home = crate::support::Home::new();
    home.put("in/a.json", r#"{"k":"a"}"#);
    let session = crate::support::session();
    let rows = session
        .read_stream()
        .schema("k STRING")
        .json(&home.text("in"));
    let counts = rows.unwrap().group_by(["k"]).unwrap().count().unwrap();
    for mode in ["update", "complete"] {
        let writer = counts.write_stream().output_mode(mode).format("parquet");
        let writer = writer.checkpoint(&home.text("checkpoint"));
        let error = writer.start_path(&home.text("out")).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(mode) && text.contains("append"), "{text}");
        assert!(!home.path("checkpoint/offsets").exists());
    }
}

#[tokio::test]
async fn p024_watermark_that_is_no_key_drops_nothing_and_is_warned_of() {
    listen_to_warnings();
    let steps = [
        Do::Watermark("ts_p024", "1 minute"),
        Do::Sql("SELECT k, count(*) AS n FROM t GROUP BY k"),
    ];
    let stage = Stage::new("k STRING, ts_p024 TIMESTAMP", &steps, "update");
    let files: [&[&str]; 2] = [
        &[
            r#"{"k":"a","ts_p024":"2026-03-02T10:30:00Z"}"#,
            r#"{"k":"a","ts_p024":"2026-03-02T10:31:00Z"}"#,
        ],
        &[r#"{"k":"a","ts_p024":"2026-03-02T10:00:00Z"}"#],
    ];
    assert_eq!(stage.run(&files, false).await, 0);
    assert_eq!(stage.upserted(), ["a|3"]);
    assert!(!warnings_with("ts_p024").is_empty(), "no warning at start");
}

const P025: [&[&str]; 2] = [
    &[r#"{"k":"a","v":9223372036854775807}"#, r#"{"k":"b","v":2}"#],
    &[r#"{"k":"a","v":1}"#, r#"{"k":"b","v":3}"#],
];

#[tokio::test]
async fn p025_sum_that_overflows_fails_its_epoch_each_time_and_keeps_what_was() {
    let steps = [Do::Sql("SELECT k, sum(v) AS total FROM t GROUP BY k")];
    let stage = Stage::new("k STRING, v BIGINT", &steps, "complete");
    let running = stage.start().await;
    stage.feed(&running, P025[0]).await;
    let before = ["a|9223372036854775807", "b|2"];
    assert_eq!(stage.rows(), before);
    stage.drop_file(P025[1]);
    let first = running.failure().await;
    let second = stage.start().await.failure().await;
    for error in [first.to_string(), second.to_string()] {
        assert!(
            error.contains("overflow") && error.contains("sum"),
            "{error}"
        );
    }
    assert_eq!(stage.rows(), before);
}

#[tokio::test]
async fn p025_try_sum_and_avg_do_not_fail() {
    let steps = [Do::Sql(
        "SELECT k, try_sum(v) AS total, avg(v) AS mean FROM t GROUP BY k",
    )];
    let stage = Stage::new("k STRING, v BIGINT", &steps, "complete");
    stage.run(&P025, false).await;
    let rows = stage.newest_rows();
    let a: Vec<&str> = rows[0].split('|').collect();
    assert_eq!(&a[..2], ["a", "null"]);
    let mean: f64 = a[2].parse().unwrap();
    assert!((mean - 4_611_686_018_427_387_904.0).abs() < 1e6, "{mean}");
    assert_eq!(rows[1], "b|5|2.5");
}

const ZEROS: [&[&str]; 2] = [
    &["id,v", "1,0.0", "2,-0.0", "3,NaN", "4,"],
    &["id,v", "5,-0.0", "6,NaN", "7,"],
];

#[tokio::test]
async fn p027_zeros_and_nans_are_one_key_each() {
    for restarts in [false, true] {
        let steps = [Do::Sql("SELECT v, count(*) AS n FROM t GROUP BY v")];
        let stage = Stage::new("id BIGINT, v DOUBLE", &steps, "complete").csv();
        stage.run(&ZEROS, restarts).await;
        let rows = stage.newest_rows();
        assert_eq!(rows, ["0.0|3", "NaN|2", "null|2"], "restarts: {restarts}");
        let dedup = [Do::Dedup(&["v"]), Do::Sql("SELECT id FROM t")];
        let stage = Stage::new("id BIGINT, v DOUBLE", &dedup, "append").csv();
        stage.run(&ZEROS, restarts).await;
        assert_eq!(stage.rows(), ["1", "3", "4"], "restarts: {restarts}");
    }
}

#[tokio::test]
async fn p028_null_is_one_key_and_not_the_empty_text() {
    let steps = [Do::Sql(
        "SELECT k, count(*) AS n, count(v) AS nv FROM t GROUP BY k",
    )];
    let stage = Stage::new("k STRING, v BIGINT", &steps, "complete");
    let file = [
        r#"{"k":null,"v":1}"#,
        r#"{"k":null,"v":null}"#,
        r#"{"k":"a","v":null}"#,
        r#"{"k":"a","v":2}"#,
        r#"{"k":"","v":3}"#,
    ];
    stage.run(&[&file], false).await;
    assert_eq!(stage.newest_rows(), ["a|2|1", "null|2|1", "|1|1"]);
}

#[tokio::test]
async fn p029_window_over_a_window_loses_nothing_as_late() {
    let query = "SELECT window(window_time(w), '10 seconds').start AS start, sum(n) AS n FROM \
                 (SELECT window(ts, '5 seconds') AS w, count(*) AS n FROM t GROUP BY window(ts, '5 seconds')) \
                 GROUP BY window(window_time(w), '10 seconds')";
    let files: [&[&str]; 3] = [
        &[
            r#"{"id":0,"ts":"2026-03-02T10:00:01Z"}"#,
            r#"{"id":1,"ts":"2026-03-02T10:00:03Z"}"#,
            r#"{"id":2,"ts":"2026-03-02T10:00:07Z"}"#,
        ],
        &[r#"{"id":9,"ts":"2026-03-02T10:00:21Z"}"#],
        &[r#"{"id":10,"ts":"2026-03-02T10:00:41Z"}"#],
    ];
    for restarts in [false, true] {
        let steps = [Do::Watermark("ts", "0 seconds"), Do::Sql(query)];
        let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append");
        let late = stage.run(&files, restarts).await;
        assert_eq!(
            stage.rows(),
            ["2026-03-02T10:00:00Z|3", "2026-03-02T10:00:20Z|1"],
            "restarts: {restarts}"
        );
        assert_eq!(late, 0);
    }
}

/// The time of a window is also a value of its rows: its smallest is not the window's start.
#[tokio::test]
async fn times_of_a_window_are_its_rows_times() {
    let query = "SELECT window.start AS start, min(ts) AS first, max(ts) AS last FROM t GROUP BY window(ts, '10 seconds')";
    let stage = Stage::new("ts TIMESTAMP", &[Do::Sql(query)], "update");
    let file = [
        r#"{"ts":"2026-03-02T10:00:03Z"}"#,
        r#"{"ts":"2026-03-02T10:00:07Z"}"#,
    ];
    stage.run(&[&file], false).await;
    let times = "2026-03-02T10:00:00Z|2026-03-02T10:00:03Z|2026-03-02T10:00:07Z";
    assert_eq!(stage.rows(), [times]);
}
