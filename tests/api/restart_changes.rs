//! What may change between two runs on one checkpoint: what is harmless goes through, everything that would give state another
//! meaning is refused, naming the operator, what changed from what to what, and what is allowed.

use weir::prelude::*;

use crate::support::Home;

/// One run of a query over the files of a directory.
struct Run {
    parallelism: usize,
    mode: OutputMode,
    /// Reader options.
    options: &'static [(&'static str, &'static str)],
    /// The delay of the watermark on `ts`; none without.
    delay: Option<&'static str>,
    query: Query,
    format: &'static str,
    /// Aggregates that the checkpoint does not know may begin without rows.
    new_aggregates: bool,
}

enum Query {
    Sql(&'static str),
    Deduplicate(&'static [&'static str]),
    /// Rows of a second directory as well.
    TwoSources,
    /// The same columns from another kind of source.
    Rate,
}
use Query::{Deduplicate, Rate, Sql, TwoSources};

const COUNTS: &str = "SELECT k, count(*) AS n FROM e GROUP BY k";
const WINDOWS: &str =
    "SELECT window.start AS s, count(*) AS n FROM e GROUP BY window(ts, '10 seconds')";
const ROWS: &str = "SELECT k, v FROM e";

fn run(query: Query) -> Run {
    Run {
        parallelism: 2,
        mode: OutputMode::Update,
        options: &[],
        delay: Some("5 seconds"),
        query,
        format: "noop",
        new_aggregates: false,
    }
}

impl Run {
    fn frame(&self, session: &Session, home: &Home) -> Result<DataFrame> {
        let reader = session
            .read_stream()
            .format("json")
            .schema("ts TIMESTAMP, k STRING, v BIGINT")
            .options(self.options.iter().copied());
        let mut frame = reader.load(&home.text("in"))?;
        if let Some(delay) = self.delay {
            frame = frame.with_watermark("ts", delay)?;
        }
        match &self.query {
            Sql(text) => {
                frame.create_or_replace_temp_view("e")?;
                futures::executor::block_on(session.sql(text))
            }
            Deduplicate(columns) => frame.drop_duplicates(columns),
            Rate => session
                .read_stream()
                .format("rate-micro-batch")
                .option("rowsPerBatch", 1)
                .open()?
                .select_expr(&["timestamp AS ts", "'a' AS k", "value AS v"]),
            TwoSources => {
                let other = session
                    .read_stream()
                    .format("json")
                    .schema("ts TIMESTAMP, k STRING, v BIGINT")
                    .load(&home.text("other"))?;
                frame.union(&other)
            }
        }
    }

    /// Takes everything that is there and ends.
    async fn take(&self, home: &Home) -> Result<()> {
        let session = Session::builder()
            .parallelism(self.parallelism)
            .config("weir.progressBar", false)
            .config("weir.state.allowNewAggregates", self.new_aggregates)
            .build()?;
        let query = self
            .frame(&session, home)?
            .write_stream()
            .format(self.format)
            .output_mode(self.mode)
            .checkpoint(&home.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .start()
            .await?;
        query.await_termination().await
    }
}

fn home() -> Home {
    let home = Home::new();
    let rows = r#"{"ts":"2026-01-01T00:00:01Z","k":"a","v":1}
{"ts":"2026-01-01T00:00:02Z","k":"b","v":2}
"#;
    home.put("in/0.json", rows);
    home.put("other/0.json", rows);
    home
}

/// Runs the first, then the second on the same checkpoint; what the second says.
async fn change(first: Run, second: Run) -> Result<()> {
    let home = home();
    first.take(&home).await.expect("the first run");
    home.put(
        "in/1.json",
        r#"{"ts":"2026-01-01T00:00:03Z","k":"a","v":3}"#,
    );
    second.take(&home).await
}

async fn allowed(first: Run, second: Run) {
    change(first, second).await.expect("the change is allowed");
}

/// The change is refused with an error that says all of `parts`.
async fn refused(first: Run, second: Run, parts: &[&str]) {
    let error = change(first, second)
        .await
        .expect_err("the change is refused");
    let text = error.to_string();
    for part in parts.iter().chain(&["new checkpoint"]) {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[tokio::test]
async fn filters_may_come_go_and_change() {
    const FILTERED: &str = "SELECT k, count(*) AS n FROM (SELECT * FROM e WHERE v > 0) GROUP BY k";
    const OTHER: &str = "SELECT k, count(*) AS n FROM (SELECT * FROM e WHERE v > 1) GROUP BY k";
    allowed(run(Sql(COUNTS)), run(Sql(FILTERED))).await;
    allowed(run(Sql(FILTERED)), run(Sql(COUNTS))).await;
    allowed(run(Sql(FILTERED)), run(Sql(OTHER))).await;
    allowed(
        run(Sql(COUNTS)),
        run(Sql(
            "SELECT k, count(*) AS n FROM e GROUP BY k HAVING count(*) > 1",
        )),
    )
    .await;
}

#[tokio::test]
async fn projections_may_change() {
    allowed(run(Sql(ROWS)), run(Sql("SELECT k, v + 1 AS v FROM e"))).await;
    allowed(run(Sql(ROWS)), run(Sql("SELECT upper(k) AS name FROM e"))).await;
    allowed(
        run(Sql(COUNTS)),
        run(Sql(
            "SELECT n * 10 AS tens, k FROM (SELECT k, count(*) AS n FROM e GROUP BY k)",
        )),
    )
    .await;
}

#[tokio::test]
async fn rate_limits_sinks_and_names_of_results_may_change() {
    let limited = Run {
        options: &[("maxFilesPerTrigger", "1")],
        ..run(Sql(COUNTS))
    };
    allowed(run(Sql(COUNTS)), limited).await;
    let elsewhere = Run {
        format: "console",
        ..run(Sql(COUNTS))
    };
    allowed(run(Sql(COUNTS)), elsewhere).await;
    allowed(
        run(Sql(COUNTS)),
        run(Sql("SELECT k AS key, count(*) AS total FROM e GROUP BY k")),
    )
    .await;
}

#[tokio::test]
async fn the_parallelism_may_change() {
    for (before, after) in [(1, 3), (3, 1), (2, 4)] {
        let wide = |parallelism| Run {
            parallelism,
            ..run(Sql(COUNTS))
        };
        allowed(wide(before), wide(after)).await;
    }
}

#[tokio::test]
async fn a_new_aggregate_or_another_one_is_refused() {
    let more = run(Sql(
        "SELECT k, count(*) AS n, sum(v) AS s FROM e GROUP BY k",
    ));
    refused(
        run(Sql(COUNTS)),
        more,
        &["aggregate-0", "aggregates", "sum(v)"],
    )
    .await;
    let other = run(Sql("SELECT k, max(v) AS n FROM e GROUP BY k"));
    refused(run(Sql(COUNTS)), other, &["aggregate-0", "count", "max(v)"]).await;
}

#[tokio::test]
async fn a_new_aggregate_may_begin_without_rows_where_that_is_wanted() {
    let with = |sql| Run {
        new_aggregates: true,
        ..run(Sql(sql))
    };
    const MORE: &str = "SELECT k, count(*) AS n, sum(v) AS s FROM e GROUP BY k";
    const OTHER: &str = "SELECT k, sum(v) AS s FROM e GROUP BY k";
    allowed(run(Sql(COUNTS)), with(MORE)).await;
    // One that goes, another key and another window change what is there, and are refused all the same.
    refused(run(Sql(MORE)), with(OTHER), &["removed: count"]).await;
    const BY_VALUE: &str = "SELECT v, count(*) AS n, sum(v) AS s FROM e GROUP BY v";
    refused(run(Sql(COUNTS)), with(BY_VALUE), &["aggregate-0", "keys"]).await;
}

#[tokio::test]
async fn another_grouping_key_is_refused() {
    let more = run(Sql("SELECT k, v, count(*) AS n FROM e GROUP BY k, v"));
    refused(run(Sql(COUNTS)), more, &["aggregate-0", "keys"]).await;
    let other = run(Sql("SELECT v, count(*) AS n FROM e GROUP BY v"));
    refused(run(Sql(COUNTS)), other, &["aggregate-0", "keys"]).await;
}

#[tokio::test]
async fn state_that_appears_or_disappears_is_refused() {
    refused(
        run(Sql(COUNTS)),
        run(Sql(ROWS)),
        &["aggregate-0", "not in the program"],
    )
    .await;
    refused(
        run(Sql(ROWS)),
        run(Sql(COUNTS)),
        &["aggregate-0", "has none for it"],
    )
    .await;
    refused(
        run(Sql(COUNTS)),
        run(Deduplicate(&["k"])),
        &["aggregate-0", "dedup-0"],
    )
    .await;
}

#[tokio::test]
async fn another_window_is_refused() {
    let longer = "SELECT window.start AS s, count(*) AS n FROM e GROUP BY window(ts, '20 seconds')";
    refused(
        run(Sql(WINDOWS)),
        run(Sql(longer)),
        &["aggregate-0", "window"],
    )
    .await;
    let sliding = "SELECT window.start AS s, count(*) AS n FROM e GROUP BY window(ts, '10 seconds', '5 seconds')";
    refused(
        run(Sql(WINDOWS)),
        run(Sql(sliding)),
        &["aggregate-0", "window"],
    )
    .await;
}

#[tokio::test]
async fn another_delay_of_the_watermark_is_refused_where_state_follows_it() {
    let later = |query| Run {
        delay: Some("30 seconds"),
        ..run(query)
    };
    refused(
        run(Sql(WINDOWS)),
        later(Sql(WINDOWS)),
        &[
            "aggregate-0",
            "watermark",
            "5000",
            "30000",
            "do not come back",
        ],
    )
    .await;
    allowed(run(Sql(ROWS)), later(Sql(ROWS))).await;
}

#[tokio::test]
async fn another_output_mode_is_refused() {
    let complete = Run {
        mode: OutputMode::Complete,
        ..run(Sql(COUNTS))
    };
    refused(
        run(Sql(COUNTS)),
        complete,
        &["aggregate-0", "mode", "update", "complete"],
    )
    .await;
    let append = Run {
        mode: OutputMode::Append,
        ..run(Sql(WINDOWS))
    };
    refused(
        append,
        run(Sql(WINDOWS)),
        &["aggregate-0", "append", "update"],
    )
    .await;
}

#[tokio::test]
async fn other_columns_of_a_deduplication_are_refused() {
    refused(
        run(Deduplicate(&["k"])),
        run(Deduplicate(&["k", "v"])),
        &["dedup-0", "keys"],
    )
    .await;
}

const SESSIONS: &str = "SELECT session_window.start AS s, k, count(*) AS n FROM e GROUP BY session_window(ts, '10 seconds'), k";

#[tokio::test]
async fn another_gap_or_aggregate_of_sessions_is_refused() {
    let gap = "SELECT session_window.start AS s, k, count(*) AS n FROM e GROUP BY session_window(ts, '9 seconds'), k";
    refused(
        run(Sql(SESSIONS)),
        run(Sql(gap)),
        &["session-0", "gap", "10000000 us", "9000000 us"],
    )
    .await;
    let sum = "SELECT session_window.start AS s, k, sum(v) AS n FROM e GROUP BY session_window(ts, '10 seconds'), k";
    refused(
        run(Sql(SESSIONS)),
        run(Sql(sum)),
        &["session-0", "aggregates", "sum(v)"],
    )
    .await;
    allowed(run(Sql(SESSIONS)), run(Sql(SESSIONS))).await;
}

#[tokio::test]
async fn another_limit_is_refused() {
    let append = |query| Run {
        mode: OutputMode::Append,
        ..run(query)
    };
    refused(
        append(Sql("SELECT k FROM e LIMIT 5")),
        append(Sql("SELECT k FROM e LIMIT 6")),
        &["limit-0", "rows"],
    )
    .await;
}

#[tokio::test]
async fn another_number_kind_or_directory_of_sources_is_refused() {
    refused(run(Sql(ROWS)), run(TwoSources), &["source-1"]).await;
    let kinds = ["source-0", "file_source", "rate-micro-batch"];
    refused(run(Sql(ROWS)), run(Rate), &kinds).await;
    let home = home();
    run(Sql(ROWS)).take(&home).await.unwrap();
    std::fs::rename(home.path("in"), home.path("moved")).unwrap();
    std::fs::create_dir(home.path("in")).unwrap();
    let session = Session::builder().parallelism(2).build().unwrap();
    let moved = session
        .read_stream()
        .format("json")
        .schema("k STRING")
        .load(&home.text("moved"))
        .unwrap();
    let error = moved
        .write_stream()
        .format("noop")
        .checkpoint(&home.text("checkpoint"))
        .start()
        .await
        .expect_err("another directory");
    assert!(error.to_string().contains("path"), "{error}");
}
