//! The session's queries: list, names, checkpoints, waiting, listeners.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir::prelude::*;

use crate::support::{Home, add, session, stream};

#[tokio::test]
async fn active_queries_are_listed_until_they_end() {
    let session = session();
    let (_rows, frame) = stream(&session);
    let query = frame
        .write_stream()
        .format("noop")
        .query_name("q")
        .start()
        .await
        .unwrap();
    let streams = session.streams();
    assert_eq!(
        streams
            .active()
            .iter()
            .map(|query| query.id())
            .collect::<Vec<_>>(),
        [query.id()]
    );
    assert_eq!(streams.get(query.id()).unwrap().name(), Some("q"));
    query.stop().await;
    assert!(streams.active().is_empty() && streams.get(query.id()).is_none());
}

#[tokio::test]
async fn a_name_and_a_checkpoint_belong_to_one_active_query() {
    let (home, session) = (Home::new(), session());
    let (_rows, frame) = stream(&session);
    let writer = |name: &str, checkpoint: &str| {
        frame
            .write_stream()
            .format("noop")
            .query_name(name)
            .checkpoint(&home.text(checkpoint))
    };
    let query = writer("a", "one").start().await.unwrap();
    let named = writer("a", "two").start().await.unwrap_err().to_string();
    assert!(named.contains("named 'a' is active"), "{named}");
    let shared = writer("b", "./one/").start().await.unwrap_err().to_string();
    assert!(
        shared.contains("in use by the active query 'a'"),
        "{shared}"
    );
    assert!(query.is_active(), "the first one goes on");
    query.stop().await;
    writer("a", "one").start().await.unwrap().stop().await;
}

#[tokio::test]
async fn a_query_that_could_not_start_gives_its_name_back() {
    let session = session();
    let (_rows, frame) = stream(&session);
    let sorted = frame.order_by(["v"]).unwrap();
    assert!(
        sorted
            .write_stream()
            .format("noop")
            .query_name("q")
            .start()
            .await
            .is_err()
    );
    frame
        .write_stream()
        .format("noop")
        .query_name("q")
        .start()
        .await
        .unwrap()
        .stop()
        .await;
}

#[tokio::test]
async fn waiting_for_any_termination_tells_the_failure_and_can_be_reset() {
    let session = session();
    let (rows, frame) = stream(&session);
    let streams = session.streams();
    assert!(
        !streams
            .await_any_termination_timeout(Duration::from_millis(20))
            .await
            .unwrap()
    );
    let failing = frame.select_expr(&["1 / (v - v) AS x"]).unwrap();
    let query = failing.write_stream().format("noop").start().await.unwrap();
    add(&rows, &[1]);
    let error = streams.await_any_termination().await.unwrap_err();
    assert_eq!(error.condition(), Some("DIVIDE_BY_ZERO"), "{error}");
    assert_eq!(error.operator(), query.exception().unwrap().operator());
    streams.reset_terminated();
    assert!(
        !streams
            .await_any_termination_timeout(Duration::from_millis(20))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn listeners_hear_of_all_queries_until_they_are_removed() {
    let session = session();
    let (rows, frame) = stream(&session);
    let heard: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let notes = Arc::clone(&heard);
    let listener = session.streams().add_listener(move |event: &QueryEvent| {
        notes.lock().unwrap().push(match event {
            QueryEvent::Started { .. } => "started",
            QueryEvent::Progress(_) => "progress",
            QueryEvent::Idle { .. } => "idle",
            QueryEvent::Terminated { .. } => "terminated",
        });
    });
    let query = frame.write_stream().format("noop").start().await.unwrap();
    assert_eq!(
        heard.lock().unwrap().first(),
        Some(&"started"),
        "before start returns"
    );
    add(&rows, &[1]);
    query.process_all_available().await.unwrap();
    query.stop().await;
    let so_far = heard.lock().unwrap().clone();
    assert!(
        so_far.contains(&"progress") && so_far.last() == Some(&"terminated"),
        "{so_far:?}"
    );
    assert!(session.streams().remove_listener(listener));
    let (_rows, other) = stream(&session);
    other
        .write_stream()
        .format("noop")
        .start()
        .await
        .unwrap()
        .stop()
        .await;
    assert_eq!(heard.lock().unwrap().len(), so_far.len());
}

#[tokio::test]
async fn checkpoints_below_the_sessions_directory_are_named_as_the_query() {
    let home = Home::new();
    let session = Session::builder()
        .config("spark.sql.streaming.checkpointLocation", home.text("all"))
        .build()
        .unwrap();
    let (_rows, frame) = stream(&session);
    frame
        .write_stream()
        .format("noop")
        .query_name("mine")
        .start()
        .await
        .unwrap()
        .stop()
        .await;
    assert!(home.path("all/mine/metadata").exists());
}
