//! Every refusal, by SQL and output mode; and what is legal in Spark and refused by name until it runs here.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use weir_connectors::memory::MemoryStream;
use weir_connectors::noop::NoopSink;

use super::*;
use crate::dataframe::DataFrame;
use crate::plan::plan_stream;
use crate::session::Session;
use crate::types::parse_schema;

pub(super) fn stream(session: &Session, name: &str, schema: &str) -> DataFrame {
    let memory = MemoryStream::new(parse_schema(schema).unwrap());
    let frame = session
        .read_stream()
        .source_fn(move || Ok(memory.source()))
        .unwrap();
    frame.create_or_replace_temp_view(name).unwrap();
    frame
}

/// `events` and `plain` (no watermark), `e` and `o` (with one), the bounded `dim`.
pub(super) fn session() -> Session {
    let session = Session::builder().parallelism(1).build().unwrap();
    let events = stream(
        &session,
        "events",
        "ts TIMESTAMP, k STRING, v BIGINT, m MAP<STRING, INT>",
    );
    stream(
        &session,
        "plain",
        "ts TIMESTAMP, k STRING, v BIGINT, m MAP<STRING, INT>",
    );
    let other = stream(&session, "others", "cts TIMESTAMP, id STRING, w BIGINT");
    events
        .with_watermark("ts", "10 seconds")
        .unwrap()
        .create_or_replace_temp_view("e")
        .unwrap();
    other
        .with_watermark("cts", "10 seconds")
        .unwrap()
        .create_or_replace_temp_view("o")
        .unwrap();
    let labels = Arc::new(StringArray::from(vec!["A"])) as ArrayRef;
    let dim = RecordBatch::try_from_iter([("k", Arc::clone(&labels)), ("label", labels)]).unwrap();
    session
        .create_dataframe([dim])
        .unwrap()
        .create_or_replace_temp_view("dim")
        .unwrap();
    session
}

pub(super) fn planned(frame: &DataFrame, mode: OutputMode) -> Result<()> {
    plan_stream(
        frame.session().context(),
        frame.plan(),
        Arc::new(NoopSink::new()),
        mode,
    )
    .map(|_| ())
}

async fn by_sql(session: &Session, sql: &str, mode: OutputMode) -> Result<()> {
    planned(&session.sql(sql).await?, mode)
}

const APPEND: OutputMode = OutputMode::Append;
const UPDATE: OutputMode = OutputMode::Update;
const COMPLETE: OutputMode = OutputMode::Complete;
const NOT_YET: &str = "NOT_YET_SUPPORTED";

/// Output mode, query, and part of the rule it breaks.
const REFUSED: &[(OutputMode, &str, &str)] = &[
    (
        APPEND,
        "SELECT k, count(*) AS n FROM events GROUP BY k",
        "needs a watermark",
    ),
    (APPEND, "SELECT count(*) AS n FROM e", "needs a watermark"),
    (
        APPEND,
        "SELECT z, count(*) AS n FROM (SELECT window(ts, '5 seconds').end AS z FROM e) GROUP BY z",
        "needs a watermark",
    ),
    (APPEND, "SELECT DISTINCT k FROM events", "needs a watermark"),
    (
        COMPLETE,
        "SELECT k, v FROM events",
        "complete needs an aggregation",
    ),
    (UPDATE, "SELECT k FROM events LIMIT 2", "LIMIT"),
    (
        COMPLETE,
        "SELECT k, count(*) AS n FROM events GROUP BY k ORDER BY k LIMIT 2 OFFSET 1",
        "OFFSET",
    ),
    (APPEND, "SELECT * FROM events ORDER BY v", "sorting"),
    (
        APPEND,
        "SELECT window.start AS s, count(*) AS n FROM e GROUP BY window(ts, '5 seconds') ORDER BY s",
        "sorting",
    ),
    (
        APPEND,
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM events",
        "window functions",
    ),
    (
        APPEND,
        "SELECT monotonically_increasing_id() AS id FROM events",
        "monotonically_increasing_id",
    ),
    (
        APPEND,
        "SELECT k FROM events UNION ALL SELECT k FROM dim",
        "union of a stream and a bounded table",
    ),
    (
        APPEND,
        "SELECT session_window.start AS s, k, count(*) AS n FROM events GROUP BY session_window(ts, '5 seconds'), k",
        "needs a watermark",
    ),
    (
        UPDATE,
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM events",
        "window functions",
    ),
    (
        UPDATE,
        "SELECT * FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM events) WHERE r <= 3",
        "window functions",
    ),
    (
        UPDATE,
        "SELECT * FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM events) WHERE r >= 3",
        "window functions",
    ),
    (
        APPEND,
        "SELECT * FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM events) WHERE r <= 3",
        "window functions",
    ),
    (
        UPDATE,
        "SELECT k, count(*) AS n FROM (SELECT k, ts, count(*) AS m FROM e GROUP BY k, ts) GROUP BY k, session_window(ts, '5 seconds')",
        "above an aggregation",
    ),
    (
        COMPLETE,
        "SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM events GROUP BY k) GROUP BY n",
        "above an aggregation",
    ),
    (
        APPEND,
        "SELECT d.label FROM dim d LEFT JOIN events e ON e.k = d.k",
        "left outer join with a stream on the right",
    ),
    (
        APPEND,
        "SELECT d.label FROM dim d LEFT SEMI JOIN events e ON e.k = d.k",
        "left semi join with a stream on the right",
    ),
    (
        APPEND,
        "SELECT d.label FROM dim d LEFT ANTI JOIN events e ON e.k = d.k",
        "left anti join with a stream on the right",
    ),
    (
        APPEND,
        "SELECT e.k FROM events e FULL JOIN dim d ON e.k = d.k",
        "full outer join with a stream",
    ),
    (
        APPEND,
        "SELECT e.k FROM events e RIGHT JOIN dim d ON e.k = d.k",
        "right outer join with a stream on the left",
    ),
    (
        APPEND,
        "SELECT e.k, o.w FROM events e CROSS JOIN others o",
        "needs an equality",
    ),
    (
        APPEND,
        "SELECT e.k FROM e JOIN o ON o.cts > e.ts AND o.cts < e.ts + INTERVAL 5 SECONDS",
        "needs an equality",
    ),
    (
        APPEND,
        "SELECT e.k FROM events e LEFT JOIN others o ON e.k = o.id",
        "needs watermarks",
    ),
    (
        APPEND,
        "SELECT e.k FROM events e RIGHT JOIN others o ON e.k = o.id",
        "needs watermarks",
    ),
    (
        APPEND,
        "SELECT e.k FROM events e FULL JOIN others o ON e.k = o.id",
        "needs watermarks",
    ),
    (
        APPEND,
        "SELECT e.* FROM events e LEFT SEMI JOIN others o ON e.k = o.id",
        "needs watermarks",
    ),
    (
        APPEND,
        "SELECT e.k FROM events e LEFT ANTI JOIN others o ON e.k = o.id",
        "left anti join of two streams",
    ),
    (
        UPDATE,
        "SELECT e.k FROM e LEFT JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS",
        "needs output mode append",
    ),
    (
        COMPLETE,
        "SELECT e.k FROM events e JOIN others o ON e.k = o.id",
        "complete",
    ),
    (
        APPEND,
        "SELECT k FROM events EXCEPT SELECT id FROM others",
        "EXCEPT",
    ),
    (
        APPEND,
        "SELECT k FROM events INTERSECT SELECT id FROM others",
        "INTERSECT",
    ),
    (
        APPEND,
        "SELECT k FROM dim WHERE k IN (SELECT k FROM events)",
        "subquery reads a stream",
    ),
    (
        APPEND,
        "SELECT k FROM events WHERE k IN (SELECT id FROM others)",
        "subquery reads a stream",
    ),
];

#[tokio::test]
async fn sql_that_streams_cannot_do_is_refused_with_its_rule() {
    let session = session();
    let mut wrong = Vec::new();
    for (mode, sql, rule) in REFUSED.iter().copied() {
        match by_sql(&session, sql, mode).await {
            Err(error)
                if error.to_string().contains(rule) && error.condition() != Some(NOT_YET) => {}
            other => wrong.push(format!("{sql} in {mode}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Output mode, query, and what is named.
const NOT_YET_RUN: &[(OutputMode, &str, &str)] = &[
    (
        APPEND,
        "SELECT e.k FROM events e JOIN others o ON e.k <=> o.id",
        "two streams",
    ),
    (
        APPEND,
        "SELECT e.k FROM events e JOIN dim d ON e.k = d.k",
        "bounded table",
    ),
    (
        APPEND,
        "SELECT e.k FROM dim d RIGHT JOIN events e ON e.k = d.k",
        "bounded table",
    ),
    (
        UPDATE,
        "SELECT e.k FROM events e JOIN others o ON e.k = o.id",
        "two streams",
    ),
    (
        APPEND,
        "SELECT e.k FROM e LEFT JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS",
        "two streams",
    ),
    (
        APPEND,
        "SELECT e.k FROM e LEFT JOIN o ON e.k = o.id AND e.ts = o.cts",
        "two streams",
    ),
    (
        APPEND,
        "SELECT k FROM events WHERE k IN (SELECT k FROM dim)",
        "subquery",
    ),
];

#[tokio::test]
async fn sql_that_spark_allows_and_that_does_not_run_yet_is_refused_by_name() {
    let session = session();
    let mut wrong = Vec::new();
    for (mode, sql, what) in NOT_YET_RUN.iter().copied() {
        match by_sql(&session, sql, mode).await {
            Err(error)
                if error.to_string().contains(what) && error.condition() == Some(NOT_YET) => {}
            other => wrong.push(format!("{sql} in {mode}: {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn all_problems_of_a_plan_are_reported_at_once() {
    let sql = "SELECT k FROM (SELECT k FROM events UNION ALL SELECT k FROM dim) ORDER BY k LIMIT 3";
    let error = by_sql(&session(), sql, UPDATE)
        .await
        .expect_err("three problems")
        .to_string();
    for rule in ["LIMIT", "sorting", "union"] {
        assert!(error.contains(rule), "{rule}: {error}");
    }
}

#[test]
fn deduplication_and_watermarks_have_rules() {
    let session = session();
    let frame = |view: &str| futures::executor::block_on(session.table(view)).unwrap();
    let refused = |frame: Result<DataFrame>, mode, rule: &str| {
        let error = frame
            .and_then(|frame| planned(&frame, mode))
            .expect_err(rule);
        assert!(error.to_string().contains(rule), "{error}");
    };
    refused(frame("events").drop_duplicates(&["m"]), APPEND, "map");
    refused(
        frame("events").drop_duplicates(&["k"]),
        COMPLETE,
        "complete",
    );
    refused(
        frame("events").drop_duplicates_within_watermark(&["k"]),
        APPEND,
        "needs a watermark",
    );
    refused(
        frame("events").with_watermark("k", "1 second"),
        APPEND,
        "'k' is STRING",
    );
    refused(
        frame("events").with_watermark("nope", "1 second"),
        APPEND,
        "columns: ts, k, v, m",
    );
    refused(
        frame("events").with_watermark("ts", "soon"),
        APPEND,
        "no interval",
    );
    refused(
        frame("events").with_watermark("ts", "-1 second"),
        APPEND,
        "negative",
    );
    refused(
        frame("e").with_watermark("ts", "20 seconds"),
        APPEND,
        "redefines",
    );
}

#[tokio::test]
async fn two_event_time_columns_do_not_go_into_one_stateful_operator() {
    let session = session();
    stream(&session, "third", "t3 TIMESTAMP, id STRING")
        .with_watermark("t3", "1 second")
        .unwrap()
        .create_or_replace_temp_view("t")
        .unwrap();
    let joined = "SELECT e.k, e.ts, o.cts FROM e LEFT JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS";
    let sql = format!(
        "SELECT j.k FROM ({joined}) j LEFT JOIN t ON j.k = t.id AND t.t3 BETWEEN j.ts AND j.ts + INTERVAL 5 SECONDS"
    );
    let error = by_sql(&session, &sql, APPEND)
        .await
        .expect_err("two columns");
    assert_eq!(
        error.condition(),
        Some("MULTIPLE_EVENT_TIME_COLUMNS"),
        "{error}"
    );
}

#[tokio::test]
async fn first_rows_of_each_partition_pass_in_update() {
    let session = session();
    let numbered =
        "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM events";
    for condition in [
        "r <= 3",
        "r < 4",
        "3 >= r",
        "r = 1",
        "r BETWEEN 1 AND 3",
        "v > 2 AND r <= 3",
    ] {
        let sql = format!("SELECT k, v FROM ({numbered}) WHERE {condition}");
        by_sql(&session, &sql, UPDATE)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[tokio::test]
async fn stateless_queries_pass_in_append_and_update() {
    let session = session();
    for sql in [
        "SELECT k, v + 1 AS w FROM events WHERE v > 3",
        "SELECT k FROM events UNION ALL SELECT id FROM others",
        "SELECT k, x FROM events LATERAL VIEW explode(map_keys(m)) AS x",
        "SELECT window(ts, '10 seconds', '5 seconds') AS w, k FROM e",
    ] {
        for mode in [APPEND, UPDATE] {
            by_sql(&session, sql, mode)
                .await
                .unwrap_or_else(|error| panic!("{sql} in {mode}: {error}"));
        }
    }
}
