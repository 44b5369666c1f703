//! Where streams go: memory, foreachBatch, foreach, console, noop, partitioned files.

use std::io::Write;
use std::sync::{Arc, Mutex};

use weir::connectors::console::ConsoleSink;
use weir::prelude::*;

use crate::support::{Home, add, numbers, session, stream};

/// Epochs and their values.
type Seen = Arc<Mutex<Vec<(u64, Vec<i64>)>>>;

#[tokio::test]
async fn memory_sink_is_a_table_that_shows_committed_rows() {
    let session = session();
    let (rows, frame) = stream(&session);
    let query = frame
        .write_stream()
        .format("memory")
        .query_name("Numbers")
        .start()
        .await
        .unwrap();
    add(&rows, &[1, 2]);
    query.process_all_available().await.unwrap();
    let doubled = session.sql("SELECT v * 2 AS w FROM numbers").await.unwrap();
    assert_eq!(numbers(&doubled.collect().await.unwrap(), "w"), [2, 4]);
    add(&rows, &[3]);
    query.process_all_available().await.unwrap();
    assert_eq!(
        session
            .table("numbers")
            .await
            .unwrap()
            .count()
            .await
            .unwrap(),
        3
    );
    query.stop().await;
}

#[tokio::test]
async fn foreach_batch_gets_frames_and_rising_numbers() {
    let (home, session) = (Home::new(), session());
    let (rows, frame) = stream(&session);
    let seen = Seen::default();
    let notes = Arc::clone(&seen);
    let writer = frame
        .write_stream()
        .checkpoint(&home.text("ck"))
        .foreach_batch(move |frame, epoch| {
            let notes = Arc::clone(&notes);
            async move {
                let large = frame.filter("v > 1")?;
                let values = numbers(&large.collect().await?, "v");
                notes.lock().unwrap().push((epoch, values));
                Ok(())
            }
        });
    let query = writer.start().await.unwrap();
    add(&rows, &[1, 2]);
    query.process_all_available().await.unwrap();
    add(&rows, &[3]);
    query.process_all_available().await.unwrap();
    query.stop().await;
    assert_eq!(*seen.lock().unwrap(), [(0, vec![2]), (1, vec![3])]);
}

#[tokio::test]
async fn foreach_batch_that_fails_ends_the_query_with_its_error() {
    let (home, session) = (Home::new(), session());
    let (rows, frame) = stream(&session);
    let writer = frame.write_stream().checkpoint(&home.text("ck"));
    let query = writer
        .foreach_batch(|_, _| async { Err(WeirError::data("target is full")) })
        .start()
        .await
        .unwrap();
    add(&rows, &[1]);
    let error = query.await_termination().await.unwrap_err();
    assert_eq!(error.condition(), Some("FOREACH_BATCH_USER_FUNCTION_ERROR"));
    assert!(error.to_string().contains("target is full"), "{error}");
    assert_eq!(query.exception().unwrap().message(), error.message());
}

#[tokio::test]
async fn foreach_sees_every_row() {
    let (home, session) = (Home::new(), session());
    let (rows, frame) = stream(&session);
    let sum = Arc::new(Mutex::new(0));
    let total = Arc::clone(&sum);
    let writer = frame
        .write_stream()
        .checkpoint(&home.text("ck"))
        .foreach(move |row| {
            *total.lock().unwrap() += row.i64("v")?.unwrap_or(0);
            Ok(())
        });
    let query = writer.start().await.unwrap();
    add(&rows, &[1, 2, 3]);
    query.process_all_available().await.unwrap();
    query.stop().await;
    assert_eq!(*sum.lock().unwrap(), 6);
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn console_prints_epochs_as_spark_does() {
    let session = session();
    let (rows, frame) = stream(&session);
    let text = Text::default();
    let sink = Arc::new(ConsoleSink::new().output(text.clone()));
    let query = frame.write_stream().sink(sink).start().await.unwrap();
    add(&rows, &[7]);
    query.process_all_available().await.unwrap();
    query.stop().await;
    let printed = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
    assert!(
        printed.contains("Batch: 0") && printed.contains("|  7|"),
        "{printed}"
    );
}

#[tokio::test]
async fn files_can_be_partitioned_by_columns() {
    let (home, session) = (Home::new(), session());
    home.put(
        "in/a.json",
        "{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":2}\n",
    );
    let frame = session
        .read_stream()
        .schema("k STRING, v BIGINT")
        .json(&home.text("in"))
        .unwrap();
    let writer = frame
        .write_stream()
        .format("json")
        .partition_by(["k"])
        .checkpoint(&home.text("ck"))
        .trigger(Trigger::AvailableNow);
    writer
        .start_path(&home.text("out"))
        .await
        .unwrap()
        .await_termination()
        .await
        .unwrap();
    let names: Vec<String> = std::fs::read_dir(home.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.contains(&"k=a".to_owned()) && names.contains(&"k=b".to_owned()),
        "{names:?}"
    );
}

#[tokio::test]
async fn dropping_session_and_handles_stops_the_query() {
    let session = session();
    let (_rows, frame) = stream(&session);
    let query = frame.write_stream().format("noop").start().await.unwrap();
    let handle = query.addr();
    drop(query);
    assert_eq!(
        session.streams().active().len(),
        1,
        "the session keeps it alive"
    );
    drop((session, frame));
    for _ in 0..200 {
        if !handle.connected() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the query still runs");
}
