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
