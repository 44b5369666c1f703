//! Several inputs and one watermark: P015, P018.

use std::time::Duration;

use super::stage::{Do, Stage};

const INPUTS: [(&str, &str); 2] = [
    ("a", "id STRING, ts TIMESTAMP"),
    ("b", "id STRING, ts TIMESTAMP"),
];
const BOTH: &str = "SELECT * FROM a UNION ALL SELECT * FROM b";
const BY_TEN_SECONDS: &str =
    "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts, '10 seconds')";
const BY_TEN_MINUTES: &str =
    "SELECT window.start AS start, count(*) AS n FROM t GROUP BY window(ts, '10 minutes')";

const STEP_1: [&str; 3] = [
    r#"{"id":"1","ts":"2026-03-02T10:00:01Z"}"#,
    r#"{"id":"2","ts":"2026-03-02T10:00:09Z"}"#,
    r#"{"id":"3","ts":"2026-03-02T10:00:25Z"}"#,
];
const STEP_2: [&str; 1] = [r#"{"id":"4","ts":"2026-03-02T10:00:21Z"}"#];
const LAST: [&str; 1] = [r#"{"id":"5","ts":"2026-03-02T10:01:00Z"}"#];

/// One watermark over both inputs: the newest time of any of them counts, as in Spark.
#[tokio::test]
async fn p015_silent_input_does_not_hold_a_common_watermark_back() {
    for restarts in [false, true] {
        let steps = [
            Do::Sql(BOTH),
            Do::Watermark("ts", "5 seconds"),
            Do::Sql(BY_TEN_SECONDS),
        ];
        let stage = Stage::of(&INPUTS, &steps, "append");
        let mut running = stage.start().await;
        stage.drop_into("a", &STEP_1);
        running.idle().await;
        assert_eq!(stage.rows(), ["2026-03-02T10:00:00Z|2"]);
        if restarts {
            running.stop().await;
            running = stage.start().await;
        }
        stage.drop_into("b", &STEP_2);
        running.idle().await;
        stage.drop_into("a", &LAST);
        running.idle().await;
        assert_eq!(
            stage.rows(),
            ["2026-03-02T10:00:00Z|2", "2026-03-02T10:00:20Z|2"],
            "restarts: {restarts}"
        );
        assert_eq!(running.late(), 0);
        running.stop().await;
    }
}

const OWN_WATERMARKS: [Do; 4] = [
    Do::WatermarkOn("a", "ts", "5 seconds"),
    Do::WatermarkOn("b", "ts", "5 seconds"),
    Do::Sql(BOTH),
    Do::Sql(BY_TEN_SECONDS),
];

#[tokio::test]
async fn p015_silent_input_with_a_watermark_of_its_own_holds_everything_back_by_default() {
    let stage = Stage::of(&INPUTS, &OWN_WATERMARKS, "append");
    let running = stage.start().await;
    stage.drop_into("a", &STEP_1);
    running.idle().await;
    assert_eq!(stage.rows(), Vec::<String>::new(), "Spark's rule");
    running.stop().await;
}

#[tokio::test]
async fn p015_idle_input_is_left_out_after_the_timeout_and_loses_nothing_when_it_wakes() {
    let stage =
        Stage::of(&INPUTS, &OWN_WATERMARKS, "append").with("weir.watermark.idleTimeout", "200ms");
    let running = stage.start().await;
    stage.drop_into("a", &STEP_1);
    running.idle().await;
    for _ in 0..200 {
        if !stage.rows().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stage.rows(), ["2026-03-02T10:00:00Z|2"]);
    stage.drop_into("b", &STEP_2);
    running.idle().await;
    assert_eq!(running.late(), 0);
    stage.drop_into("a", &LAST);
    stage.drop_into("b", &LAST);
    running.idle().await;
    let rows = stage.rows();
    assert!(
        rows.contains(&"2026-03-02T10:00:20Z|2".to_owned()),
        "{rows:?}"
    );
    running.stop().await;
}

const SLOW_AND_FAST: [Do; 4] = [
    Do::WatermarkOn("a", "ts", "0 seconds"),
    Do::WatermarkOn("b", "ts", "0 seconds"),
    Do::Sql(BOTH),
    Do::Sql(BY_TEN_MINUTES),
];
const POLICY: &str = "spark.sql.streaming.multipleWatermarkPolicy";

async fn first_epoch(stage: &Stage) -> super::stage::Running {
    // Both files are there before the query starts: they make one epoch.
    stage.drop_into("a", &[r#"{"id":"A1","ts":"2026-03-02T12:30:00Z"}"#]);
    stage.drop_into("b", &[r#"{"id":"B1","ts":"2026-03-02T12:00:00Z"}"#]);
    let running = stage.start().await;
    running.idle().await;
    running
}

#[tokio::test]
async fn p018_slower_input_decides_so_that_its_rows_are_not_late() {
    let stage = Stage::of(&INPUTS, &SLOW_AND_FAST, "update");
    let running = first_epoch(&stage).await;
    stage.drop_into("b", &[r#"{"id":"B2","ts":"2026-03-02T12:10:00Z"}"#]);
    running.idle().await;
    assert_eq!(
        stage.upserted(),
        [
            "2026-03-02T12:00:00Z|1",
            "2026-03-02T12:10:00Z|1",
            "2026-03-02T12:30:00Z|1"
        ]
    );
    assert_eq!(running.late(), 0);
    running.stop().await;
}

#[tokio::test]
async fn p018_faster_input_decides_if_asked_for() {
    let stage = Stage::of(&INPUTS, &SLOW_AND_FAST, "update").with(POLICY, "max");
    let running = first_epoch(&stage).await;
    stage.drop_into("b", &[r#"{"id":"B2","ts":"2026-03-02T12:10:00Z"}"#]);
    running.idle().await;
    assert_eq!(running.late(), 1);
    running.stop().await;
}

/// The policy is the checkpoint's: another one at a restart is refused or has no effect.
#[tokio::test]
async fn p018_policy_does_not_change_at_a_restart() {
    let mut stage = Stage::of(&INPUTS, &SLOW_AND_FAST, "update");
    first_epoch(&stage).await.stop().await;
    stage.set(POLICY, "max");
    stage.drop_into("b", &[r#"{"id":"B2","ts":"2026-03-02T12:10:00Z"}"#]);
    match stage.try_start().await {
        Err(error) => assert!(error.to_string().contains("olicy"), "{error}"),
        Ok(running) => {
            running.idle().await;
            assert_eq!(running.late(), 0, "the stored policy wins");
            running.stop().await;
        }
    }
}
