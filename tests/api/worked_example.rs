//! JSON files, filtered, to Parquet; run again, only the new file is read. Written as a frame, in SQL, and as a topology.

use std::sync::Arc;

use weir::connectors::file::sink::{FileSink, FileSinkConfig};
use weir::connectors::file::source::{FileSource, FileSourceConfig};
use weir::operators::{Expression, filter};
use weir::prelude::*;

use crate::support::{Home, numbers, session};

const SCHEMA: &str = "id BIGINT, action STRING, amount DOUBLE";
const FIRST: &str = r#"{"id":1,"action":"purchase","amount":120.0}
{"id":2,"action":"view","amount":500.0}
{"id":3,"action":"purchase","amount":99.0}
{"id":4,"action":"purchase","amount":100.5}
"#;
const SECOND: &str = r#"{"id":5,"action":"purchase","amount":101.0}
{"id":6,"action":"click","amount":1.0}
"#;

/// How a program says what to compute.
type Program = fn(&Session, &Home) -> DataFrame;

fn events(session: &Session, home: &Home) -> DataFrame {
    session
        .read_stream()
        .schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(&home.text("in"))
        .unwrap()
}

fn as_frame(session: &Session, home: &Home) -> DataFrame {
    events(session, home)
        .filter(
            col("action")
                .eq(lit("purchase"))
                .and(col("amount").gt(lit(100.0))),
        )
        .unwrap()
        .select(["id", "amount"])
        .unwrap()
}

async fn run(session: &Session, home: &Home, frame: &DataFrame) -> StreamingQuery {
    let writer = frame
        .write_stream()
        .format("parquet")
        .checkpoint(&home.text("checkpoint"))
        .trigger(Trigger::AvailableNow);
    let query = writer.start_path(&home.text("out")).await.unwrap();
    query.await_termination().await.unwrap();
    assert!(!query.is_active());
    assert!(session.streams().active().is_empty());
    query
}

async fn written(session: &Session, home: &Home) -> Vec<i64> {
    let frame = session.read().parquet(&home.text("out")).await.unwrap();
    numbers(&frame.collect().await.unwrap(), "id")
}

fn rows_read(query: &StreamingQuery) -> u64 {
    query
        .recent_progress()
        .iter()
        .map(|progress| progress.num_input_rows)
        .sum()
}

async fn twice(program: Program) {
    let (home, session) = (Home::new(), session());
    home.put("in/a.json", FIRST);
    let first = run(&session, &home, &program(&session, &home)).await;
    assert_eq!(
        (written(&session, &home).await, rows_read(&first)),
        (vec![1, 4], 4)
    );
    home.put("in/b.json", SECOND);
    let session = crate::support::session();
    let second = run(&session, &home, &program(&session, &home)).await;
    assert_eq!(
        (written(&session, &home).await, rows_read(&second)),
        (vec![1, 4, 5], 2)
    );
    assert_eq!(first.id(), second.id());
    assert_ne!(first.run_id(), second.run_id());
}

#[tokio::test]
async fn a_frame_reads_every_file_once_over_restarts() {
    twice(as_frame).await;
}

#[tokio::test]
async fn sql_reads_every_file_once_over_restarts() {
    twice(|session, home| {
        events(session, home)
            .create_or_replace_temp_view("events")
            .unwrap();
        let sql =
            session.sql("SELECT id, amount FROM events WHERE action = 'purchase' AND amount > 100");
        futures::executor::block_on(sql).unwrap()
    })
    .await;
}

#[tokio::test]
async fn a_topology_by_hand_reads_every_file_once_over_restarts() {
    let home = Home::new();
    for (name, content, rows) in [
        ("in/a.json", FIRST, vec![1, 4]),
        ("in/b.json", SECOND, vec![1, 4, 5]),
    ] {
        home.put(name, content);
        let config = QueryConfig {
            checkpoint: Some(home.text("checkpoint")),
            trigger: Trigger::AvailableNow,
            parallelism: 2,
            ..QueryConfig::default()
        };
        let query = weir::runtime::StreamingQuery::start(topology(&home), config)
            .await
            .unwrap();
        query.await_termination().await.unwrap();
        assert_eq!(written(&session(), &home).await, rows);
    }
}

fn topology(home: &Home) -> Topology {
    let schema = weir::types::parse_schema(SCHEMA).unwrap();
    let options = std::collections::BTreeMap::new();
    let config =
        FileSourceConfig::from_options("json", &home.text("in"), Some(schema), &options).unwrap();
    let sink = FileSink::new(
        FileSinkConfig::from_options("parquet", &home.text("out"), &[], &options).unwrap(),
    )
    .unwrap();
    let mut builder = Topology::builder();
    let events = builder.source("events", FileSource::new(config).unwrap());
    let purchases = builder.operator("purchases", [events], filter(condition()));
    builder.sink("files", purchases, Arc::new(sink));
    builder.build().unwrap()
}

fn condition() -> Expression {
    use datafusion::logical_expr::Operator as Op;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
    let column = |name: &str, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
    let binary =
        |left, op, right| Arc::new(BinaryExpr::new(left, op, right)) as Arc<dyn PhysicalExpr>;
    let purchase = binary(column("action", 1), Op::Eq, lit("purchase"));
    Expression::from(binary(
        purchase,
        Op::And,
        binary(column("amount", 2), Op::Gt, lit(100.0)),
    ))
}

#[tokio::test]
async fn explain_shows_plan_and_dataflow() {
    let (home, session) = (Home::new(), session());
    home.put("in/a.json", FIRST);
    let query = run(&session, &home, &as_frame(&session, &home)).await;
    let (short, long) = (query.explain(false), query.explain(true));
    assert!(
        short.contains("filter-0") && short.contains("FileSink"),
        "{short}"
    );
    assert!(
        long.contains("Logical plan") && long.contains("flowchart LR"),
        "{long}"
    );
    assert!(query.to_dot().starts_with("digraph"));
}

#[tokio::test]
async fn a_stream_of_parquet_and_text_can_be_read_too() {
    let (home, session) = (Home::new(), session());
    home.put("in/a.json", FIRST);
    run(&session, &home, &as_frame(&session, &home)).await;
    let parquet = session
        .read_stream()
        .schema("amount DOUBLE, id BIGINT")
        .parquet(&home.text("out"))
        .unwrap();
    let count = count_rows(&parquet.select(["id"]).unwrap(), "numbers").await;
    assert_eq!(count, vec![1, 4]);
    home.put("lines/a.txt", "one\ntwo\n");
    let lines = session.read_stream().text(&home.text("lines")).unwrap();
    let lengths = lines
        .select_expr(&["CAST(length(value) AS BIGINT) AS id"])
        .unwrap();
    assert_eq!(count_rows(&lengths, "lengths").await, vec![3, 3]);
}

async fn count_rows(frame: &DataFrame, name: &str) -> Vec<i64> {
    let writer = frame
        .write_stream()
        .format("memory")
        .query_name(name)
        .trigger(Trigger::AvailableNow);
    writer
        .start()
        .await
        .unwrap()
        .await_termination()
        .await
        .unwrap();
    let table = frame.session().table(name).await.unwrap();
    numbers(&table.collect().await.unwrap(), "id")
}
