//! Output mode complete: every epoch gives the whole result, ordered and cut where the query says so, and sinks replace theirs.

use std::sync::{Arc, Mutex};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use crate::support::{Home, add, numbers, session, stream};

const COUNTS: &str = "SELECT v, count(*) AS n FROM t GROUP BY v";

/// The values of a BIGINT column in the order of the rows.
fn ordered(batches: &[RecordBatch], column: &str) -> Vec<i64> {
    let columns = batches.iter().map(|batch| {
        let column = batch.column_by_name(column).unwrap();
        column.as_primitive::<Int64Type>().values().to_vec()
    });
    columns.flatten().collect()
}

#[tokio::test]
async fn the_memory_table_holds_the_last_result_in_order() {
    let session = session();
    let (rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("t").unwrap();
    let sql = format!("{COUNTS} ORDER BY n DESC, v LIMIT 2");
    let counts = session.sql(&sql).await.unwrap();
    let query = counts
        .write_stream()
        .output_mode("complete")
        .format("memory")
        .query_name("counts")
        .start()
        .await
        .unwrap();
    let table = async || {
        let table = session.table("counts").await.unwrap();
        table.collect().await.unwrap()
    };
    add(&rows, &[3, 1, 2, 2]);
    query.process_all_available().await.unwrap();
    assert_eq!(ordered(&table().await, "v"), [2, 1]);
    add(&rows, &[3, 3]);
    query.process_all_available().await.unwrap();
    let batches = table().await;
    assert_eq!(
        (ordered(&batches, "v"), ordered(&batches, "n")),
        (vec![3, 2], vec![3, 2])
    );
    query.stop().await;
}

#[tokio::test]
async fn an_empty_result_empties_the_table() {
    let session = session();
    let (rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("t").unwrap();
    let sql = format!("{COUNTS} HAVING count(*) % 2 = 1");
    let odd = session.sql(&sql).await.unwrap();
    let query = odd
        .write_stream()
        .output_mode("complete")
        .format("memory")
        .query_name("odd")
        .start()
        .await
        .unwrap();
    let table = async || {
        let table = session.table("odd").await.unwrap();
        numbers(&table.collect().await.unwrap(), "v")
    };
    add(&rows, &[1, 2]);
    query.process_all_available().await.unwrap();
    assert_eq!(table().await, [1, 2]);
    add(&rows, &[1, 2]);
    query.process_all_available().await.unwrap();
    assert!(table().await.is_empty());
    query.stop().await;
}

#[tokio::test]
async fn foreach_batch_gets_the_whole_result_in_order_each_epoch() {
    let (home, session) = (Home::new(), session());
    let (rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("t").unwrap();
    let seen: Arc<Mutex<Vec<Vec<i64>>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let counts = session
        .sql("SELECT v FROM t GROUP BY v ORDER BY max(v) * -1")
        .await
        .unwrap();
    let query = counts
        .write_stream()
        .output_mode("complete")
        .checkpoint(&home.text("checkpoint"))
        .foreach_batch(move |frame, _| {
            let notes = Arc::clone(&notes);
            async move {
                let values = ordered(&frame.collect().await?, "v");
                notes.lock().unwrap().push(values);
                Ok(())
            }
        })
        .start()
        .await
        .unwrap();
    for values in [&[2, 1][..], &[5], &[3, 3]] {
        add(&rows, values);
        query.process_all_available().await.unwrap();
    }
    query.stop().await;
    assert_eq!(
        *seen.lock().unwrap(),
        [vec![2, 1], vec![5, 2, 1], vec![5, 3, 2, 1]]
    );
}

#[tokio::test]
async fn a_limit_without_order_cuts_the_result() {
    let session = session();
    let (rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("t").unwrap();
    let some = session.sql(&format!("{COUNTS} LIMIT 2")).await.unwrap();
    let query = some
        .write_stream()
        .output_mode("complete")
        .format("memory")
        .query_name("some")
        .start()
        .await
        .unwrap();
    for _ in 0..2 {
        add(&rows, &[1, 2, 3, 4, 5]);
        query.process_all_available().await.unwrap();
        assert_eq!(
            session.table("some").await.unwrap().count().await.unwrap(),
            2
        );
    }
    query.stop().await;
}
