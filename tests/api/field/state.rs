//! Deduplication and what state holds, and changes between runs: P036, P038, P039.

use super::stage::{Do, Stage, listen_to_warnings, warnings_with};

const REPEATS: [&[&str]; 2] = [
    &[
        r#"{"id_p036":1,"ts_p036":"2026-03-02T10:00:00Z"}"#,
        r#"{"id_p036":1,"ts_p036":"2026-03-02T10:00:03Z"}"#,
        r#"{"id_p036":2,"ts_p036":"2026-03-02T10:00:01Z"}"#,
    ],
    &[
        r#"{"id_p036":3,"ts_p036":"2026-03-02T10:05:00Z"}"#,
        r#"{"id_p036":3,"ts_p036":"2026-03-02T10:05:01Z"}"#,
    ],
];

fn deduplication(dedup: Do) -> Stage {
    let steps = [
        Do::Watermark("ts_p036", "10 seconds"),
        dedup,
        Do::Sql("SELECT id_p036 FROM t"),
    ];
    Stage::new("id_p036 BIGINT, ts_p036 TIMESTAMP", &steps, "append")
}

/// The rows, and how many keys are remembered at the end.
async fn rows_and_keys(stage: Stage) -> (Vec<String>, u64) {
    let running = stage.start().await;
    for file in REPEATS {
        stage.feed(&running, file).await;
    }
    let held = running.state_rows();
    running.stop().await;
    (stage.rows(), held)
}

#[tokio::test]
async fn p036_deduplication_within_the_watermark_forgets() {
    let stage = deduplication(Do::DedupWithin(&["id_p036"]));
    let (rows, held) = rows_and_keys(stage).await;
    assert_eq!(rows, ["1", "2", "3"]);
    assert_eq!(held, 1);
}

/// The event time is no key, so what is held cannot follow from the watermark: a warning says so at start.
#[tokio::test]
async fn p036_deduplication_without_the_event_time_forgets_where_that_is_wanted() {
    let stage = deduplication(Do::Dedup(&["id_p036"]));
    let stage = stage.with("weir.dropDuplicates.retention", "20 seconds");
    let (rows, held) = rows_and_keys(stage).await;
    assert_eq!(rows, ["1", "2", "3"]);
    assert_eq!(held, 1);
}

#[tokio::test]
async fn p036_deduplication_without_the_event_time_is_right_and_warned_of() {
    listen_to_warnings();
    let stage = deduplication(Do::Dedup(&["id_p036"]));
    let (rows, held) = rows_and_keys(stage).await;
    assert_eq!(rows, ["1", "2", "3"]);
    assert_eq!(held, 3);
    assert!(!warnings_with("id_p036").is_empty(), "no warning at start");
}

const SUM_OF_BIGINT: [Do; 1] = [Do::Sql("SELECT k, sum(v) AS total FROM t GROUP BY k")];
const SUM_OF_DOUBLE: [Do; 1] = [Do::Sql(
    "SELECT k, sum(CAST(v AS DOUBLE)) AS total FROM t GROUP BY k",
)];
const RENAMED: [Do; 1] = [Do::Sql("SELECT k, sum(v) AS grand_total FROM t GROUP BY k")];

#[tokio::test]
async fn p038_sum_of_another_type_is_refused_and_leaves_the_checkpoint_alone() {
    let mut stage = Stage::new("k STRING, v BIGINT", &SUM_OF_BIGINT, "update");
    stage.run(&[&[r#"{"k":"a","v":1}"#]], false).await;
    stage.change(&SUM_OF_DOUBLE);
    let Err(error) = stage.try_start().await else {
        panic!("started with another type of state");
    };
    let text = error.to_string();
    assert!(
        text.contains("sum(v)") && text.to_lowercase().contains("double"),
        "{text}"
    );
    stage.change(&SUM_OF_BIGINT);
    stage.run(&[&[r#"{"k":"a","v":2}"#]], false).await;
    assert_eq!(stage.upserted(), ["a|3"], "the first version goes on");
}

#[tokio::test]
async fn p038_another_name_of_a_result_is_accepted() {
    let mut stage = Stage::new("k STRING, v BIGINT", &SUM_OF_BIGINT, "update");
    stage.run(&[&[r#"{"k":"a","v":1}"#]], false).await;
    stage.change(&RENAMED);
    stage.run(&[&[r#"{"k":"a","v":2}"#]], false).await;
    assert_eq!(stage.upserted(), ["a|3"]);
}

#[tokio::test]
async fn p038_another_column_that_state_does_not_hold_is_accepted() {
    let narrow = [Do::Dedup(&["id"]), Do::Sql("SELECT id FROM t")];
    let wide = [Do::Dedup(&["id"]), Do::Sql("SELECT id, v FROM t")];
    let mut stage = Stage::new("id BIGINT, v BIGINT", &narrow, "append");
    stage.run(&[&[r#"{"id":1,"v":7}"#]], false).await;
    stage.change(&wide);
    stage
        .run(&[&[r#"{"id":1,"v":8}"#, r#"{"id":2,"v":9}"#]], false)
        .await;
    assert_eq!(stage.rows(), ["1", "2|9"]);
}

#[tokio::test]
async fn p039_counts_go_on_with_another_number_of_partitions() {
    let steps = [Do::Sql("SELECT k, count(*) AS n FROM t GROUP BY k")];
    let mut stage = Stage::new("k STRING", &steps, "update");
    let file = ["a", "b", "c", "d", "e"].map(|k| format!(r#"{{"k":"{k}"}}"#));
    let file: Vec<&str> = file.iter().map(String::as_str).collect();
    for (number, subtasks) in [4, 7, 1, 3].into_iter().enumerate() {
        stage.engine(|engine| engine.parallelism = subtasks);
        stage.set("spark.sql.shuffle.partitions", subtasks);
        stage.run(&[&file], false).await;
        let n = number + 1;
        let expected = ["a", "b", "c", "d", "e"].map(|k| format!("{k}|{n}"));
        assert_eq!(stage.upserted(), expected, "{subtasks} subtasks");
    }
}
