//! Topologies of plans: ids, shared sources, pruned columns.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use weir_connectors::memory::MemoryStream;
use weir_connectors::noop::NoopSink;

use super::*;
use crate::session::Session;
use crate::types::parse_schema;

type Asked = Arc<Mutex<Vec<Option<SchemaRef>>>>;

/// A session with a view `events` over a leaf that notes which columns its sources were asked for.
fn session() -> (Session, Asked) {
    let session = Session::builder().parallelism(1).build().unwrap();
    let (asked, schema) = (
        Asked::default(),
        parse_schema("ts TIMESTAMP, k STRING, v BIGINT").unwrap(),
    );
    let (notes, full) = (Arc::clone(&asked), Arc::clone(&schema));
    let leaf = StreamLeaf::new(schema, None, "test".to_owned(), true, move |wanted| {
        notes.lock().unwrap().push(wanted.clone());
        Ok(Box::new(
            MemoryStream::new(wanted.unwrap_or_else(|| Arc::clone(&full))).source(),
        ))
    });
    let plan = leaf.scan("events_0").unwrap();
    crate::dataframe::DataFrame::new(session.clone(), plan)
        .create_or_replace_temp_view("events")
        .unwrap();
    (session, asked)
}

async fn explained(session: &Session, sql: &str) -> String {
    let frame = session.sql(sql).await.unwrap();
    plan_stream(
        session.context(),
        frame.plan(),
        Arc::new(NoopSink::new()),
        OutputMode::Append,
    )
    .unwrap()
    .explain()
}

fn ids(explained: &str) -> Vec<&str> {
    explained
        .lines()
        .filter_map(|line| line.split(':').next())
        .collect()
}

#[tokio::test]
async fn ids_follow_from_the_shape_of_the_plan() {
    let (session, _) = session();
    let sql = "SELECT k FROM (SELECT * FROM events WHERE v > 1) WHERE k = 'a'";
    let first = explained(&session, sql).await;
    assert_eq!(ids(&first)[0], "source-0");
    assert!(
        first.contains("filter-0") && first.contains("filter-1") && first.contains("sink"),
        "{first}"
    );
    assert_eq!(first, explained(&session, sql).await);
}

#[tokio::test]
async fn the_same_stream_twice_is_one_source_with_two_readers() {
    let (session, asked) = session();
    let explained = explained(
        &session,
        "SELECT k FROM events WHERE v > 1 UNION ALL SELECT k FROM events WHERE v < 1",
    )
    .await;
    assert_eq!(
        explained.matches("source-").count(),
        3,
        "one line of its own and two readers: {explained}"
    );
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn columns_nobody_reads_are_not_asked_of_the_source() {
    let (session, asked) = session();
    explained(&session, "SELECT upper(k) AS u FROM events WHERE v > 1").await;
    let wanted = asked.lock().unwrap().pop().unwrap().unwrap();
    let names: Vec<_> = wanted
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, ["k", "v"]);
}

#[tokio::test]
async fn columns_nobody_reads_are_not_asked_of_the_source_for_rows_that_are_repeated_either() {
    let (session, asked) = session();
    for sql in [
        "SELECT k, window(ts, '10 seconds', '5 seconds') AS w FROM events",
        "SELECT k, part FROM events LATERAL VIEW explode(array(ts, ts)) AS part",
    ] {
        let explained = explained(&session, sql).await;
        let wanted = asked.lock().unwrap().pop().unwrap().unwrap();
        let names: Vec<_> = wanted.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, ["ts", "k"], "{explained}");
    }
}

#[tokio::test]
async fn readers_of_one_source_get_the_columns_that_each_asked_for() {
    let (session, asked) = session();
    let explained = explained(
        &session,
        "SELECT k AS x FROM events UNION ALL SELECT CAST(v AS STRING) FROM events",
    )
    .await;
    let wanted = asked.lock().unwrap().pop().unwrap().unwrap();
    assert_eq!(wanted.fields().len(), 2, "{explained}");
}

#[tokio::test]
async fn a_filter_stays_above_its_watermark() {
    let (session, _) = session();
    let frame = futures::executor::block_on(session.table("events")).unwrap();
    frame
        .with_watermark("ts", "1 second")
        .unwrap()
        .create_or_replace_temp_view("w")
        .unwrap();
    let explained = explained(&session, "SELECT k FROM w WHERE v > 1").await;
    let place = |id: &str| {
        ids(&explained)
            .iter()
            .position(|known| known.starts_with(id))
            .unwrap()
    };
    assert!(place("watermark") < place("filter"), "{explained}");
}

#[tokio::test]
async fn a_query_that_reads_no_column_still_counts_rows() {
    let (session, asked) = session();
    explained(&session, "SELECT 1 AS one FROM events").await;
    assert_eq!(
        asked.lock().unwrap().pop().unwrap().unwrap().fields().len(),
        1
    );
}

/// The node of this id in the explained topology of `frame`.
fn node_of(session: &Session, frame: &crate::dataframe::DataFrame, id: &str) -> String {
    let sink = Arc::new(NoopSink::new());
    let topology = plan_stream(session.context(), frame.plan(), sink, OutputMode::Append).unwrap();
    let explained = topology.explain();
    let line = explained.lines().find(|line| line.starts_with(id));
    line.unwrap_or_else(|| panic!("{id} in {explained}"))
        .to_owned()
}

#[tokio::test]
async fn a_deduplication_reads_its_event_time_also_if_nobody_else_does() {
    let (session, asked) = session();
    let frame = session.table("events").await.unwrap();
    let kept = frame
        .with_watermark("ts", "1 second")
        .and_then(|frame| frame.drop_duplicates(&["k"]))
        .and_then(|frame| frame.select(["v"]))
        .unwrap();
    let line = node_of(&session, &kept, "dedup-0");
    assert!(
        line.contains("[k, forgets never]") && line.contains("hash(k)"),
        "{line}"
    );
    assert!(asked.lock().unwrap().pop().unwrap().is_none(), "all three");
}

#[tokio::test]
async fn a_deduplication_forgets_keys_by_its_event_time_its_watermark_or_the_setting() {
    let (session, _) = session();
    let frame = session.table("events").await.unwrap();
    let frame = frame.with_watermark("ts", "10 seconds").unwrap();
    let forgets = |frame: &crate::dataframe::DataFrame| {
        let line = node_of(&session, frame, "dedup-0");
        let from = line.find("forgets").unwrap();
        line[from..line.find(']').unwrap()].to_owned()
    };
    let timed = frame.drop_duplicates(&["ts", "k"]).unwrap();
    assert_eq!(forgets(&timed), "forgets with the event time");
    let within = frame.drop_duplicates_within_watermark(&["k"]).unwrap();
    assert_eq!(forgets(&within), "forgets after 10000000 us");
    session
        .conf()
        .set("weir.dropDuplicates.retention", "1 hour")
        .unwrap();
    let bounded = frame.drop_duplicates(&["k"]).unwrap();
    assert_eq!(forgets(&bounded), "forgets after 3600000000 us");
    assert_eq!(
        forgets(&frame.drop_duplicates(&["ts", "k"]).unwrap()),
        "forgets with the event time"
    );
    let plain = session.table("events").await.unwrap();
    let plain = plain.drop_duplicates(&["k"]).unwrap();
    let sink = Arc::new(NoopSink::new());
    let error = plan_stream(session.context(), plain.plan(), sink, OutputMode::Append)
        .err()
        .unwrap();
    assert!(error.to_string().contains("needs a watermark"), "{error}");
}
