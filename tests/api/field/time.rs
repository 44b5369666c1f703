//! Event time and watermarks: P001, P010, P011, P012, P013, P014.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use weir::prelude::*;
use weir::state::{Clock, SystemClock};

use super::stage::{Do, Stage, listen_to_warnings, warnings_with};

const BY_MINUTE: &str =
    "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts, '1 minute')";
const BY_TEN_MINUTES: &str =
    "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts, '10 minutes')";

/// P001: two honest rows, one from the far future, two honest rows.
const FAR_FUTURE: [&[&str]; 3] = [
    &[
        r#"{"id":1,"ts":"2020-03-02T10:00:10Z"}"#,
        r#"{"id":2,"ts":"2020-03-02T10:00:40Z"}"#,
    ],
    &[r#"{"id":3,"ts":"2099-01-01T00:00:00Z"}"#],
    &[
        r#"{"id":4,"ts":"2020-03-02T10:05:00Z"}"#,
        r#"{"id":5,"ts":"2020-03-02T10:06:00Z"}"#,
    ],
];

#[tokio::test]
async fn p001_far_future_row_moves_the_watermark_and_the_loss_is_counted() {
    let steps = [Do::Watermark("ts", "10 minutes"), Do::Sql(BY_MINUTE)];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append");
    let late = stage.run(&FAR_FUTURE, false).await;
    assert_eq!(stage.rows(), ["2020-03-02T10:00:00Z|2"]);
    assert_eq!(late, 2);
}

#[tokio::test]
async fn p001_row_that_moves_the_watermark_by_more_than_a_day_is_warned_of() {
    listen_to_warnings();
    let query =
        "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts_p001, '1 minute')";
    let steps = [Do::Watermark("ts_p001", "10 minutes"), Do::Sql(query)];
    let stage = Stage::new("id BIGINT, ts_p001 TIMESTAMP", &steps, "append");
    let files = FAR_FUTURE.map(|file| {
        let lines = file.iter().map(|line| line.replace("ts", "ts_p001"));
        lines.collect::<Vec<_>>()
    });
    let files: Vec<Vec<&str>> = files
        .iter()
        .map(|file| file.iter().map(String::as_str).collect())
        .collect();
    let files: Vec<&[&str]> = files.iter().map(Vec::as_slice).collect();
    stage.run(&files, false).await;
    let warnings = warnings_with("2099-01-01");
    assert!(!warnings.is_empty(), "nobody warned of the jump");
}

#[tokio::test]
async fn p001_with_a_bound_on_the_future_the_row_passes_and_the_watermark_ignores_it() {
    let steps = [Do::Watermark("ts", "10 minutes"), Do::Sql(BY_MINUTE)];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append")
        .with("weir.watermark.maxFutureSkew", "1h");
    let mut files = FAR_FUTURE.to_vec();
    files.push(&[r#"{"id":6,"ts":"2020-03-02T10:30:00Z"}"#]);
    let late = stage.run(&files, false).await;
    assert_eq!(late, 0);
    let closed = [
        "2020-03-02T10:00:00Z|2",
        "2020-03-02T10:05:00Z|1",
        "2020-03-02T10:06:00Z|1",
    ];
    assert_eq!(stage.rows(), closed, "2099 stays open");
}

#[tokio::test]
async fn p010_null_event_times_belong_to_no_window_and_leave_the_watermark_alone() {
    let steps = [Do::Watermark("ts", "0 seconds"), Do::Sql(BY_MINUTE)];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "update");
    let running = stage.start().await;
    stage
        .feed(
            &running,
            &[
                r#"{"id":1,"ts":"2026-01-01T00:01:00Z"}"#,
                r#"{"id":2,"ts":null}"#,
                r#"{"id":3,"ts":"2026-01-01T00:02:00Z"}"#,
            ],
        )
        .await;
    let watermark = running.watermark();
    stage.feed(&running, &[r#"{"id":4,"ts":null}"#]).await;
    assert_eq!(
        stage.rows(),
        ["2026-01-01T00:01:00Z|1", "2026-01-01T00:02:00Z|1"]
    );
    assert_eq!(running.watermark(), watermark);
    assert_eq!(running.late(), 0);
    assert!(running.query.is_active());
    running.stop().await;
}

/// Invariant E9 for P010: the rows without a time are in a counter.
#[tokio::test]
async fn p010_null_event_times_are_counted() {
    let steps = [Do::Watermark("ts", "0 seconds"), Do::Sql(BY_MINUTE)];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "update");
    let running = stage.start().await;
    let file = [
        r#"{"id":1,"ts":"2026-01-01T00:01:00Z"}"#,
        r#"{"id":2,"ts":null}"#,
        r#"{"id":3,"ts":null}"#,
    ];
    stage.feed(&running, &file).await;
    let counts = running.query.metrics().operators();
    let unaccounted: Vec<_> = counts
        .iter()
        .map(|(uid, _, counts)| (uid, counts.filtered + counts.bad))
        .filter(|(_, counted)| *counted > 0)
        .collect();
    let counted: u64 = unaccounted.iter().map(|(_, counted)| counted).sum();
    assert_eq!(counted, 2, "{unaccounted:?}");
    running.stop().await;
}

#[tokio::test]
async fn p011_rows_of_the_same_epoch_are_not_late_and_open_windows_take_old_rows() {
    let steps = [Do::Watermark("ts", "5 minutes"), Do::Sql(BY_TEN_MINUTES)];
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "update");
    let files: [&[&str]; 2] = [
        &[
            r#"{"id":1,"ts":"2026-03-02T12:00:00Z"}"#,
            r#"{"id":2,"ts":"2026-03-02T12:30:00Z"}"#,
            r#"{"id":3,"ts":"2026-03-02T12:01:00Z"}"#,
        ],
        &[
            r#"{"id":4,"ts":"2026-03-02T12:21:00Z"}"#,
            r#"{"id":5,"ts":"2026-03-02T12:05:00Z"}"#,
            r#"{"id":6,"ts":"2026-03-02T12:05:00Z"}"#,
            r#"{"id":7,"ts":"2026-03-02T12:05:00Z"}"#,
            r#"{"id":8,"ts":"2026-03-02T12:19:00Z"}"#,
        ],
    ];
    let late = stage.run(&files, false).await;
    assert_eq!(
        stage.upserted(),
        [
            "2026-03-02T12:00:00Z|2",
            "2026-03-02T12:20:00Z|1",
            "2026-03-02T12:30:00Z|1"
        ]
    );
    assert_eq!(late, 4);
}

#[tokio::test]
async fn p012_late_rows_are_counted_as_rows_and_once() {
    let ten = "SELECT window.start AS start, k, count(*) AS n FROM t GROUP BY window(ts, '10 seconds'), k";
    let chained = "SELECT window(window_time(w), '20 seconds').start AS start, sum(n) AS n FROM \
                   (SELECT window(ts, '10 seconds') AS w, k, count(*) AS n FROM t GROUP BY window(ts, '10 seconds'), k) \
                   GROUP BY window(window_time(w), '20 seconds')";
    for query in [ten, chained] {
        let steps = [Do::Watermark("ts", "0 seconds"), Do::Sql(query)];
        let stage = Stage::new("k STRING, ts TIMESTAMP", &steps, "append");
        let late: Vec<String> = (1..=5)
            .map(|second| format!(r#"{{"k":"a","ts":"2026-03-02T10:00:0{second}Z"}}"#))
            .collect();
        let late: Vec<&str> = late.iter().map(String::as_str).collect();
        let files: [&[&str]; 2] = [&[r#"{"k":"a","ts":"2026-03-02T10:00:30Z"}"#], &late];
        assert_eq!(stage.run(&files, false).await, 5, "{query}");
    }
}

#[tokio::test]
async fn p013_watermark_is_restored_so_that_late_rows_stay_late_after_a_restart() {
    let files: [&[&str]; 2] = [
        &[
            r#"{"id":1,"ts":"2026-03-02T12:01:00Z"}"#,
            r#"{"id":2,"ts":"2026-03-02T12:31:00Z"}"#,
        ],
        &[
            r#"{"id":3,"ts":"2026-03-02T12:05:00Z"}"#,
            r#"{"id":4,"ts":"2026-03-02T12:50:00Z"}"#,
        ],
    ];
    for restarts in [false, true] {
        let steps = [Do::Watermark("ts", "5 minutes"), Do::Sql(BY_TEN_MINUTES)];
        let stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "append");
        let late = stage.run(&files, restarts).await;
        assert_eq!(
            stage.rows(),
            ["2026-03-02T12:00:00Z|1", "2026-03-02T12:30:00Z|1"],
            "restarts: {restarts}"
        );
        assert_eq!(late, 1, "restarts: {restarts}");
    }
}

/// The host's clocks, with the hands of the wall clock moved.
#[derive(Debug, Default)]
struct Shifted {
    host: SystemClock,
    by_ms: AtomicI64,
}

impl Clock for Shifted {
    fn now_ms(&self) -> i64 {
        self.host.now_ms() + self.by_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        self.host.monotonic()
    }
}

#[tokio::test]
async fn p014_wall_clock_set_back_or_forward_neither_stops_triggers_nor_makes_a_burst() {
    const HOUR: i64 = 3_600_000;
    let clock = Arc::new(Shifted::default());
    let steps = [Do::Watermark("ts", "0 seconds"), Do::Sql(BY_MINUTE)];
    let mut stage = Stage::new("id BIGINT, ts TIMESTAMP", &steps, "update")
        .trigger(Trigger::ProcessingTime(Duration::from_millis(40)));
    stage.engine(|engine| engine.clock = Arc::clone(&clock) as Arc<dyn Clock>);
    let running = stage.start().await;
    for (number, by_ms) in [0, -HOUR, 0, HOUR, 0].into_iter().enumerate() {
        clock.by_ms.store(by_ms, Ordering::SeqCst);
        // The same minute in every file: the watermark moves in the first epoch only, which a second without rows follows.
        stage.drop_file(&[r#"{"id":1,"ts":"2026-03-02T10:00:00Z"}"#]);
        let idle = tokio::time::timeout(Duration::from_secs(10), running.idle());
        idle.await.expect("the next trigger comes");
        tokio::time::sleep(Duration::from_millis(130)).await;
        assert_eq!(
            stage.epochs().len(),
            number + 2,
            "no more epochs than there is work for"
        );
    }
    let progress = running.query.recent_progress();
    let ids: Vec<u64> = progress.iter().map(|told| told.batch_id).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let watermarks: Vec<_> = progress
        .iter()
        .map(|told| &told.event_time["watermark"])
        .collect();
    assert!(watermarks.is_sorted(), "{watermarks:?}");
    for told in &progress {
        let rates = [told.input_rows_per_second, told.processed_rows_per_second];
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0));
    }
    running.stop().await;
}

#[tokio::test]
async fn current_timestamp_is_the_time_of_the_epoch_for_every_row_of_it() {
    let sql = "SELECT id, current_timestamp() AS at, unix_millis(now()) AS ms, current_date() AS d FROM t WHERE now() > ts";
    let stage = Stage::new("id BIGINT, ts TIMESTAMP", &[Do::Sql(sql)], "append");
    let running = stage.start().await;
    let before = SystemClock::new().now_ms();
    let row = r#"{"id":1,"ts":"2026-03-02T10:00:00Z"}"#;
    stage.feed(&running, &[row, row]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    stage.feed(&running, &[row]).await;
    let rows = stage.rows();
    let times: Vec<i64> = rows
        .iter()
        .map(|row| row.split('|').nth(2).unwrap().parse().unwrap())
        .collect();
    assert_eq!(times.len(), 3, "{rows:?}");
    assert!(times[0] >= before && times[0] == times[1], "{rows:?}");
    assert!(times[2] > times[1], "{rows:?}");
    let progress = running.query.recent_progress();
    assert!(progress.len() >= 2);
    running.stop().await;
}
