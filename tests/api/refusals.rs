//! What is refused, and that the message says what is allowed.

use crate::support::{Home, session, stream};

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
