//! Sources beside files, and streams behind names.

use std::io::Write;
use std::net::TcpListener;

use weir::prelude::*;

use super::Reading;
use crate::field::stage::texts;
use crate::support::session;

#[tokio::test]
async fn socket_reads_lines_until_the_other_side_closes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sender = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for part in ["first\nsec", "ond\r\n", "\nlast without end"] {
            stream.write_all(part.as_bytes()).unwrap();
            stream.flush().unwrap();
        }
    });
    let session = session();
    let frame = session
        .read_stream()
        .format("socket")
        .option("host", "127.0.0.1")
        .option("port", port)
        .open()
        .unwrap();
    let query = frame
        .write_stream()
        .format("memory")
        .query_name("lines")
        .start()
        .await
        .unwrap();
    sender.join().unwrap();
    let mut rows = Vec::new();
    for _ in 0..200 {
        query.process_all_available().await.unwrap();
        let table = session
            .table("lines")
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        rows = table.iter().flat_map(texts).collect();
        if rows.len() == 4 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    query.stop().await;
    assert_eq!(rows, ["first", "second", "", "last without end"]);
}

#[tokio::test]
async fn socket_tells_when_a_line_was_read_and_names_an_address_that_does_not_answer() {
    let session = session();
    let frame = session
        .read_stream()
        .format("socket")
        .option("host", "127.0.0.1")
        .option("port", 1)
        .option("includeTimestamp", true)
        .open()
        .unwrap();
    assert_eq!(frame.schema().fields().len(), 2);
    let error = frame
        .write_stream()
        .format("noop")
        .start()
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("127.0.0.1:1"), "{error}");
    let schema = session
        .read_stream()
        .format("socket")
        .schema("value STRING")
        .open();
    assert!(
        schema
            .err()
            .unwrap()
            .to_string()
            .contains("takes no schema")
    );
}

#[tokio::test]
async fn a_stream_behind_a_view_is_read_by_its_name_and_a_table_is_refused() {
    let reading = Reading::new("json", "id BIGINT");
    reading.put("a.json", "{\"id\":1}\n");
    let session = session();
    reading
        .frame(&session)
        .unwrap()
        .create_or_replace_temp_view("Events")
        .unwrap();
    let frame = session.read_stream().table("events").await.unwrap();
    assert!(frame.is_streaming());
    session
        .sql("SELECT 1 AS one")
        .await
        .unwrap()
        .create_or_replace_temp_view("bounded")
        .unwrap();
    let error = session
        .read_stream()
        .table("bounded")
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("bounded"), "{error}");
    let error = session.read_stream().table("nowhere").await.err().unwrap();
    assert_eq!(error.condition(), Some("TABLE_OR_VIEW_NOT_FOUND"));
    let error = session
        .read_stream()
        .option("maxFilesPerTrigger", 1)
        .table("events")
        .await;
    assert!(
        error
            .err()
            .unwrap()
            .to_string()
            .contains("maxFilesPerTrigger")
    );
}

#[tokio::test]
async fn p119_idle_triggers_use_up_no_epochs_and_progress_has_only_numbers() {
    let reading = Reading::new("json", "id BIGINT");
    for id in 0..2_000 {
        std::fs::write(
            reading.home.path(&format!("in/{id}.json")),
            format!("{{\"id\":{id}}}\n"),
        )
        .unwrap();
    }
    let session = session();
    let query = reading
        .frame(&session)
        .unwrap()
        .write_stream()
        .format("noop")
        .checkpoint(&reading.home.text("checkpoint"))
        .trigger(Trigger::ProcessingTime(std::time::Duration::from_millis(
            10,
        )))
        .start()
        .await
        .unwrap();
    query.process_all_available().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let progress = query.last_progress().unwrap();
    query.stop().await;
    let epochs = std::fs::read_dir(reading.home.path("checkpoint/commits"))
        .unwrap()
        .count();
    assert_eq!(epochs, 1, "an idle trigger is no epoch");
    let text = progress.json();
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["batchId"], 0, "{text}");
    assert!(
        !text.contains("NaN") && !text.contains("Infinity"),
        "{text}"
    );
}
