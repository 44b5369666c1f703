//! A checkpoint read as tables: what a query keeps, of which epoch, by whom.

use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

use crate::support::{Home, add, numbers, session, stream};

/// Counts per value of two epochs, kept in the checkpoint.
async fn counted(home: &Home, session: &Session) -> MemoryStream {
    let (rows, frame) = stream(session);
    frame.create_or_replace_temp_view("t").unwrap();
    let query = session
        .sql("SELECT v, count(*) AS n FROM t GROUP BY v")
        .await
        .unwrap()
        .write_stream()
        .output_mode("update")
        .format("noop")
        .checkpoint(&home.text("checkpoint"))
        .start()
        .await
        .unwrap();
    for values in [&[1, 2, 2][..], &[2, 3]] {
        add(&rows, values);
        query.process_all_available().await.unwrap();
    }
    query.stop().await;
    rows
}

#[tokio::test]
async fn groups_are_rows_of_key_and_value_of_any_kept_epoch() {
    let (home, session) = (Home::new(), session());
    counted(&home, &session).await;
    for (epoch, expected) in [(None, vec![1, 2, 3]), (Some(0), vec![1, 2])] {
        let mut reader = session.read().format("statestore");
        if let Some(epoch) = epoch {
            reader = reader.option("batchId", epoch);
        }
        let state = reader.load(&home.text("checkpoint")).await.unwrap();
        assert_eq!(state.columns(), ["key", "value", "partition_id"]);
        let keys = state.select_expr(&["key.v AS v"]).unwrap();
        assert_eq!(numbers(&keys.collect().await.unwrap(), "v"), expected);
    }
}

#[tokio::test]
async fn tables_of_state_are_listed_with_their_epochs() {
    let (home, session) = (Home::new(), session());
    counted(&home, &session).await;
    let metadata = session
        .read()
        .format("state-metadata")
        .load(&home.text("checkpoint"))
        .await
        .unwrap();
    let text = metadata.show_text(5).await.unwrap();
    for part in ["aggregate-0", "groups"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let epochs = metadata.select(["minBatchId", "maxBatchId"]).unwrap();
    let batches = epochs.collect().await.unwrap();
    assert_eq!(numbers(&batches, "minBatchId"), [0]);
    assert_eq!(numbers(&batches, "maxBatchId"), [1]);
}

#[tokio::test]
async fn what_is_not_there_is_refused_with_what_is() {
    let (home, session) = (Home::new(), session());
    counted(&home, &session).await;
    for (option, value, part) in [
        ("operatorUid", "nope", "aggregate-0"),
        ("operatorId", "7", "aggregate-0"),
        ("storeName", "nope", "groups"),
        ("batchId", "9", "0 to 1"),
        ("batchId", "x", "whole number"),
        ("readChangeFeed", "true", "not supported"),
        ("nonsense", "1", "batchId"),
    ] {
        let error = session
            .read()
            .format("statestore")
            .option(option, value)
            .load(&home.text("checkpoint"))
            .await
            .err()
            .unwrap_or_else(|| panic!("{option} {value}"));
        assert!(error.to_string().contains(part), "{option}: {error}");
    }
}
