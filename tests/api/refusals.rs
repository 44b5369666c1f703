//! What is refused, and that the message says what is allowed.

use weir::prelude::*;

use crate::support::{Home, add, session, stream};

async fn refused(writer: weir::DataStreamWriter) -> String {
    match writer.start().await {
        Err(error) => error.to_string(),
        Ok(query) => panic!("started: {}", query.explain(true)),
    }
}

#[tokio::test]
async fn eager_actions_on_a_stream_are_refused() {
    let (_rows, frame) = stream(&session());
    for error in [
        frame.collect().await.unwrap_err(),
        frame.count().await.unwrap_err(),
        frame.take(1).await.unwrap_err(),
        frame.first().await.unwrap_err(),
        frame.show().await.unwrap_err(),
    ] {
        assert!(
            error.to_string().contains("write_stream().start()"),
            "{error}"
        );
    }
    assert!(frame.is_streaming());
}

#[tokio::test]
async fn bounded_frames_cannot_be_written_as_a_stream() {
    let session = session();
    let frame = session.sql("SELECT 1 AS one").await.unwrap();
    assert!(!frame.is_streaming());
    assert!(
        refused(frame.write_stream().format("noop"))
            .await
            .contains("bounded")
    );
}

#[tokio::test]
async fn writers_are_checked_when_they_start() {
    let (home, session) = (Home::new(), session());
    let (_rows, frame) = stream(&session);
    let writer = || frame.write_stream();
    let files = || writer().format("parquet").option("path", home.text("out"));
    for (writer, rule) in [
        (
            writer().format("noop").output_mode("merge"),
            "allowed: append, update, complete",
        ),
        (writer(), "needs a sink"),
        (writer().format("jdbc"), "allowed: parquet"),
        (writer().format("memory"), "query name"),
        (
            writer().format("console").option("rows", 3),
            "known options",
        ),
        (writer().format("noop").option("x", 1), "no option 'x'"),
        (files(), "checkpointLocation"),
        (
            files().checkpoint(&home.text("ck")).output_mode("update"),
            "allowed: append",
        ),
        (
            files()
                .checkpoint(&home.text("ck"))
                .option("compresion", "zstd"),
            "compression",
        ),
        (
            writer().format("parquet").checkpoint(&home.text("ck")),
            "needs a path",
        ),
        (
            writer().foreach_batch(|_, _| async { Ok(()) }),
            "checkpointLocation",
        ),
        (
            writer().format("noop").output_mode("complete"),
            "needs an aggregation",
        ),
    ] {
        let error = refused(writer).await;
        assert!(error.contains(rule), "{rule}: {error}");
    }
}

#[tokio::test]
async fn readers_are_checked_when_they_load() {
    let (home, session) = (Home::new(), session());
    home.put("in/a.json", "{}");
    let read = || session.read_stream();
    for (frame, rule) in [
        (read().json(&home.text("in")), "schema"),
        (
            read().schema("v BIGINT").json(&home.text("nowhere")),
            "PATH_NOT_FOUND",
        ),
        (
            read()
                .schema("v BIGINT")
                .option("maxFilesPerTriger", 1)
                .json(&home.text("in")),
            "maxFilesPerTrigger",
        ),
        (read().schema("v BIGNUM").json(&home.text("in")), "BIGNUM"),
        (read().format("jdbc").load("x"), "allowed: json"),
        (read().open(), "needs a format"),
    ] {
        let error = frame.unwrap_err().to_string();
        assert!(error.contains(rule), "{rule}: {error}");
    }
    assert!(
        read().text(&home.text("in")).is_ok(),
        "text has its own schema"
    );
}

#[tokio::test]
async fn joins_of_streams_are_refused_by_name_until_they_run() {
    let session = session();
    let ((_left, left), (_right, right)) = (stream(&session), stream(&session));
    let joined = left.join(&right, &["v"], "inner").unwrap();
    let text = refused(joined.write_stream().format("noop")).await;
    assert!(
        text.contains("a join of two streams is not supported"),
        "{text}"
    );
}

#[tokio::test]
async fn a_source_made_in_code_serves_one_query() {
    let session = session();
    let memory =
        weir::connectors::memory::MemoryStream::new(weir::types::parse_schema("v BIGINT").unwrap());
    let frame = session.read_stream().source(memory.source()).unwrap();
    frame
        .write_stream()
        .format("noop")
        .start()
        .await
        .unwrap()
        .stop()
        .await;
    assert!(
        refused(frame.write_stream().format("noop"))
            .await
            .contains("one query already")
    );
}

/// The rule that a query breaks, the query, and what the refusal says. The rules are Spark's, those that need no state.
const STATELESS: &[(&str, &str, &str)] = &[
    ("sort", "SELECT v FROM s ORDER BY v", "sorting a stream"),
    (
        "limit in update mode",
        "SELECT v FROM s LIMIT 2",
        "LIMIT on a stream",
    ),
    ("offset", "SELECT v FROM s LIMIT 2 OFFSET 1", "OFFSET"),
    (
        "window function",
        "SELECT sum(v) OVER (PARTITION BY v) AS n FROM s",
        "window functions",
    ),
    (
        "row ids",
        "SELECT monotonically_increasing_id() AS id FROM s",
        "monotonically_increasing_id",
    ),
    (
        "stream and table",
        "SELECT v FROM s UNION ALL SELECT 1",
        "union of a stream",
    ),
    ("sample", "SELECT v FROM s TABLESAMPLE (10 ROWS)", ""),
    (
        "subquery over a stream",
        "SELECT (SELECT max(v) FROM s) AS m",
        "subquery",
    ),
    ("unknown column", "SELECT w FROM s", "s.v"),
    ("unknown function", "SELECT nothing(v) FROM s", "nothing"),
    ("unknown table", "SELECT v FROM t", "no table or view `t`"),
    (
        "number of arguments",
        "SELECT substring(v) FROM s",
        "takes 2 to 3 arguments",
    ),
    (
        "types of arguments",
        "SELECT transform(v, x -> x) FROM s",
        "an array is expected",
    ),
    (
        "types of operands",
        "SELECT v + DATE'2026-01-01' + true FROM s",
        "does not accept",
    ),
    ("cast", "SELECT CAST(v AS ARRAY<INT>) FROM s", "cannot cast"),
    ("condition", "SELECT v FROM s WHERE v", "boolean"),
    (
        "branches",
        "SELECT CASE WHEN true THEN 1 ELSE array(1) END FROM s",
        "no common type",
    ),
    (
        "aggregate in WHERE",
        "SELECT v FROM s WHERE max(v) > 1",
        "WHERE",
    ),
    (
        "nested generator",
        "SELECT explode(array(v)) + 1 FROM s",
        "makes rows",
    ),
    (
        "two generators",
        "SELECT explode(array(v)), explode(array(v)) FROM s",
        "only one generator",
    ),
    (
        "pattern of text",
        "SELECT v RLIKE '(' FROM s",
        "not understood",
    ),
    (
        "pattern of time",
        "SELECT date_format(v, 'YYYY') FROM s",
        "not understood",
    ),
    (
        "pattern of numbers",
        "SELECT to_number('1', 'x') FROM s",
        "no number pattern",
    ),
    (
        "interval",
        "SELECT window(CAST(v AS TIMESTAMP), 'soon') FROM s",
        "no interval",
    ),
    (
        "schema of JSON",
        "SELECT from_json('{}', 'a BIGNUM') FROM s",
        "BIGNUM",
    ),
    (
        "duplicate alias in a struct access",
        "SELECT named_struct('a', v).b FROM s",
        "no field",
    ),
    ("text that is no query", "SELECT v FROM s WHERE", ""),
    (
        "two queries",
        "SELECT v FROM s; SELECT v FROM s",
        "one SELECT",
    ),
    ("no query", "DROP TABLE s", "one SELECT"),
];

#[tokio::test]
async fn stateless_queries_that_break_a_rule_are_refused_before_they_run() {
    let session = session();
    let (_rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("s").unwrap();
    let mut wrong = Vec::new();
    for (rule, sql, said) in STATELESS {
        let error = match session.sql(sql).await {
            Err(error) => error.to_string(),
            Ok(frame) => refused(frame.write_stream().format("noop").output_mode("update")).await,
        };
        if !error.contains(said) {
            wrong.push(format!("{rule}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn everything_that_is_wrong_with_a_query_is_said_at_once() {
    let session = session();
    let (_rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("s").unwrap();
    let sql = "SELECT v, monotonically_increasing_id() AS id FROM s ORDER BY v LIMIT 2 OFFSET 1";
    let frame = session.sql(sql).await.unwrap();
    let error = refused(frame.write_stream().format("noop").output_mode("update")).await;
    for said in [
        "sorting a stream",
        "LIMIT on a stream",
        "OFFSET",
        "monotonically_increasing_id",
    ] {
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_plan_the_mode_and_the_sink_is_said_at_once() {
    let (home, session) = (Home::new(), session());
    let (_rows, frame) = stream(&session);
    let sorted = frame.order_by(["v"]).unwrap();
    let writer = sorted
        .write_stream()
        .format("parquet")
        .output_mode("update");
    let writer = writer
        .option("path", home.text("out"))
        .option("compresion", "zstd")
        .checkpoint(&home.text("ck"));
    let error = refused(writer).await;
    for said in ["sorting a stream", "allowed: append", "'compresion'"] {
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[tokio::test]
async fn refusals_have_the_conditions_that_users_of_spark_know() {
    let (home, session) = (Home::new(), session());
    let (_rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("s").unwrap();
    let sql = async |text: &str| {
        session
            .sql(text)
            .await
            .unwrap()
            .write_stream()
            .format("noop")
    };
    let files = frame.write_stream().format("parquet").output_mode("update");
    let files = files
        .option("path", home.text("out"))
        .checkpoint(&home.text("ck"));
    for (writer, condition) in [
        (
            sql("SELECT v, count(*) AS n FROM s GROUP BY v").await,
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        ),
        (
            sql("SELECT v FROM s").await.output_mode("complete"),
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        ),
        (
            sql("SELECT v FROM s").await.output_mode("merge"),
            "STREAMING_OUTPUT_MODE.INVALID",
        ),
        (files, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"),
        (
            sql("SELECT v, row_number() OVER (ORDER BY v) AS r FROM s").await,
            "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
        ),
        (frame.write_stream().format("jdbc"), "DATA_SOURCE_NOT_FOUND"),
        (
            frame
                .with_watermark("v", "1 second")
                .unwrap()
                .write_stream()
                .format("noop"),
            "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
        ),
    ] {
        let error = writer.start().await.expect_err(condition);
        assert_eq!(error.condition(), Some(condition), "{error}");
    }
    let opened = |format: &str, path: &str| {
        let reader = session.read_stream().format(format).schema("v BIGINT");
        reader.load(&home.text(path)).unwrap_err()
    };
    let read = [
        (opened("jdbc", "in"), "DATA_SOURCE_NOT_FOUND"),
        (opened("parquet", "nowhere"), "PATH_NOT_FOUND"),
        (
            frame.with_watermark("v", "soon").unwrap_err(),
            "CANNOT_PARSE_INTERVAL",
        ),
        (
            frame.select(["w"]).unwrap_err(),
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        ),
    ];
    for (error, condition) in read {
        assert_eq!(error.condition(), Some(condition), "{error}");
    }
}

#[tokio::test]
async fn triggers_that_are_none_are_refused_where_they_are_made() {
    for text in ["", "soon", "-1 second", "1 month", "5"] {
        assert!(Trigger::processing_time(text).is_err(), "{text}");
    }
}

#[tokio::test]
async fn errors_of_the_data_say_the_row_and_the_expression() {
    let session = session();
    let (rows, frame) = stream(&session);
    let frame = frame.select(["100 DIV v AS share"]).unwrap();
    let query = frame.write_stream().format("noop").start().await.unwrap();
    add(&rows, &[4, 5, 0, 0]);
    let error = query.await_termination().await.unwrap_err();
    assert_eq!(error.condition(), Some("DIVIDE_BY_ZERO"));
    let position = error.position().unwrap_or_default();
    assert!(
        position.starts_with("row 2 of the batch (from 0), column 'share', in div"),
        "{error}"
    );
}

#[tokio::test]
async fn errors_of_the_data_say_the_row_wherever_the_expression_stands() {
    for (sql, condition, place) in [
        (
            "SELECT CAST(if(v = 0, 'x', '1') AS INT) AS n FROM s",
            "CAST_INVALID_INPUT",
            "row 2 of the batch (from 0), column 'n'",
        ),
        (
            "SELECT v + 9223372036854775803 AS n FROM s",
            "ARITHMETIC_OVERFLOW",
            "row 1 of the batch (from 0), column 'n'",
        ),
        (
            "SELECT v FROM s WHERE 100 DIV v > 0",
            "DIVIDE_BY_ZERO",
            "row 2 of the batch (from 0)",
        ),
        (
            "SELECT 100 DIV v AS k, count(*) AS n FROM s GROUP BY 100 DIV v",
            "DIVIDE_BY_ZERO",
            "row 2 of the batch (from 0)",
        ),
        (
            "SELECT sum(100 DIV v) AS total FROM s",
            "DIVIDE_BY_ZERO",
            "row 2 of the batch (from 0)",
        ),
        (
            "SELECT explode(sequence(1, 100 DIV v)) AS n FROM s",
            "DIVIDE_BY_ZERO",
            "row 2 of the batch (from 0)",
        ),
    ] {
        let session = session();
        let (rows, frame) = stream(&session);
        frame.create_or_replace_temp_view("s").unwrap();
        let frame = session.sql(sql).await.unwrap();
        let writer = frame.write_stream().format("noop").output_mode("update");
        let query = writer.start().await.unwrap();
        add(&rows, &[4, 5, 0]);
        let error = query.await_termination().await.unwrap_err();
        assert_eq!(error.condition(), Some(condition), "{sql}: {error}");
        let position = error.position().unwrap_or_default();
        assert!(position.contains(place), "{sql}: {error}");
        assert!(error.operator().is_some(), "{sql}: {error}");
    }
}
