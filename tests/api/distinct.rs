//! Exact distinct counts over streams, which Spark refuses: right over epochs, restarts and other numbers of subtasks, and gone with
//! their windows.

use crate::field::stage::{Do, Stage};

const FILES: [&[&str]; 3] = [
    &[
        r#"{"k":"a","v":1}"#,
        r#"{"k":"a","v":1}"#,
        r#"{"k":"a","v":2}"#,
        r#"{"k":"b","v":null}"#,
    ],
    &[
        r#"{"k":"a","v":2}"#,
        r#"{"k":"a","v":3}"#,
        r#"{"k":"b","v":5}"#,
    ],
    &[r#"{"k":"b","v":5}"#, r#"{"k":"a","v":null}"#],
];

const DISTINCT: &str = "SELECT k, count(DISTINCT v) AS n, sum(DISTINCT v) AS s, count(DISTINCT v) FILTER (WHERE v > 1) AS above, \
                        count(v) AS present FROM t GROUP BY k";

#[tokio::test]
async fn distinct_values_count_once_over_epochs_restarts_and_parallelisms() {
    let steps = [Do::Sql(DISTINCT)];
    for restarts in [false, true] {
        let stage = Stage::new("k STRING, v BIGINT", &steps, "update");
        stage.run(&FILES, restarts).await;
        assert_eq!(stage.upserted(), ["a|3|6|2|5", "b|1|5|1|2"], "{restarts}");
    }
    let mut stage = Stage::new("k STRING, v BIGINT", &steps, "update");
    for (parallelism, file) in (1..).zip(FILES) {
        stage.engine(|config| config.parallelism = parallelism);
        let running = stage.start().await;
        stage.feed(&running, file).await;
        running.stop().await;
    }
    assert_eq!(stage.upserted(), ["a|3|6|2|5", "b|1|5|1|2"]);
}

#[tokio::test]
async fn distinct_values_of_a_window_go_when_it_closes() {
    let query = "SELECT window.start AS start, count(DISTINCT v) AS n FROM t GROUP BY window(ts, '10 seconds')";
    let steps = [Do::Watermark("ts", "0 seconds"), Do::Sql(query)];
    let stage = Stage::new("ts TIMESTAMP, v BIGINT", &steps, "append");
    let running = stage.start().await;
    let files: [&[&str]; 3] = [
        &[
            r#"{"ts":"2026-03-02T10:00:01Z","v":1}"#,
            r#"{"ts":"2026-03-02T10:00:02Z","v":1}"#,
            r#"{"ts":"2026-03-02T10:00:03Z","v":2}"#,
        ],
        &[
            r#"{"ts":"2026-03-02T10:00:04Z","v":2}"#,
            r#"{"ts":"2026-03-02T10:00:12Z","v":1}"#,
        ],
        &[r#"{"ts":"2026-03-02T10:00:40Z","v":9}"#],
    ];
    for file in files {
        stage.feed(&running, file).await;
    }
    assert_eq!(
        stage.rows(),
        ["2026-03-02T10:00:00Z|2", "2026-03-02T10:00:10Z|1"]
    );
    // What is left is the group of the newest window and its one value.
    assert!(running.state_rows() <= 2, "{}", running.state_rows());
    running.stop().await;
}
