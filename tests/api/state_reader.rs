//! A checkpoint read as tables: what a query keeps, of which epoch, by whom.

use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

use crate::field::stage::texts;
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
        ("readChangeFeed", "true", "changeStartBatchId"),
        ("readChangeFeed", "maybe", "true, false"),
        ("changeStartBatchId", "0", "readChangeFeed"),
        ("joinSide", "left", "not supported"),
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

/// The change feed from `first` on, one text a row.
async fn changes(session: &Session, home: &Home, first: u64, columns: &[&str]) -> Vec<String> {
    let reader = session
        .read()
        .format("statestore")
        .option("readChangeFeed", true)
        .option("changeStartBatchId", first);
    let changes = reader.load(&home.text("checkpoint")).await.unwrap();
    assert_eq!(
        changes.columns(),
        ["batch_id", "change_type", "key", "value", "partition_id"]
    );
    let batches = changes.select_expr(columns).unwrap().collect().await;
    batches.unwrap().iter().flat_map(texts).collect()
}

#[tokio::test]
async fn changes_of_epochs_are_rows_of_what_was_written() {
    let (home, session) = (Home::new(), session());
    counted(&home, &session).await;
    let columns = ["batch_id", "change_type", "key.v AS v"];
    let all = changes(&session, &home, 0, &columns).await;
    assert_eq!(
        all,
        ["0|update|1", "0|update|2", "1|update|2", "1|update|3"]
    );
    let newest = changes(&session, &home, 1, &columns).await;
    assert_eq!(newest, all[2..]);
    let beyond = session
        .read()
        .format("statestore")
        .option("readChangeFeed", true)
        .option("changeStartBatchId", 7);
    let error = beyond.load(&home.text("checkpoint")).await.unwrap_err();
    assert!(error.to_string().contains("0 to 1"), "{error}");
}

#[tokio::test]
async fn what_the_watermark_removes_is_a_deletion_in_the_changes() {
    let (home, session) = (Home::new(), session());
    let (rows, frame) = stream(&session);
    let query = frame
        .select_expr(&["CAST(v AS TIMESTAMP) AS ts"])
        .unwrap()
        .with_watermark("ts", "0 seconds")
        .unwrap()
        .drop_duplicates(&["ts"])
        .unwrap()
        .write_stream()
        .format("noop")
        .checkpoint(&home.text("checkpoint"))
        .start()
        .await
        .unwrap();
    add(&rows, &[10]);
    query.process_all_available().await.unwrap();
    query.stop().await;
    let columns = ["change_type", "key.ts AS ts", "value IS NULL AS gone"];
    assert_eq!(
        changes(&session, &home, 0, &columns).await,
        [
            "update|1970-01-01T00:00:10Z|false",
            "delete|1970-01-01T00:00:10Z|true"
        ]
    );
}
