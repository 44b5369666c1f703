//! Sessions: rows of one user less than a gap apart belong together. In output mode update a running session is told as it grows;
//! when a row joins two of them, the one that is gone is told as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use weir::EpochChanges;
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;

/// Sessions by user and start, with their number of clicks.
type Sessions = BTreeMap<(String, String), i64>;

fn clicks(rows: &[(i64, &str)]) -> Vec<ArrayRef> {
    let times = rows.iter().map(|(second, _)| second * 1_000_000);
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let users = StringArray::from_iter_values(rows.iter().map(|(_, user)| *user));
    vec![Arc::new(times), Arc::new(users)]
}

async fn follow(sessions: &Mutex<Sessions>, changes: EpochChanges) -> Result<()> {
    let batches = changes
        .frame
        .select_expr(&[
            "CAST(start AS STRING) AS start",
            "user",
            "n",
            weir::CHANGE_TYPE,
        ])?
        .collect()
        .await?;
    let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    for batch in &batches {
        let (starts, users) = (
            batch.column(0).as_string::<i32>(),
            batch.column(1).as_string::<i32>(),
        );
        let (counts, kinds) = (
            batch.column(2).as_primitive::<Int64Type>(),
            batch.column(3).as_string::<i32>(),
        );
        for row in 0..batch.num_rows() {
            let key = (users.value(row).to_owned(), starts.value(row).to_owned());
            println!("  {:16} {key:?} {}", kinds.value(row), counts.value(row));
            match kinds.value(row) {
                "delete" => sessions.remove(&key),
                _ => sessions.insert(key, counts.value(row)),
            };
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let stream = MemoryStream::new(weir::types::parse_schema("ts TIMESTAMP, user STRING")?);
    session
        .read_stream()
        .source(stream.source())?
        .with_watermark("ts", "1 minute")?
        .create_or_replace_temp_view("clicks")?;
    let sessions = Arc::new(Mutex::new(Sessions::new()));
    let into = Arc::clone(&sessions);
    let query = session
        .sql("SELECT session_window.start AS start, user, count(*) AS n FROM clicks GROUP BY session_window(ts, '10 seconds'), user")
        .await?
        .write_stream()
        .output_mode("update")
        .option("checkpointLocation", "memory://sessions")
        .foreach_batch_changes(move |changes, _| {
            let into = Arc::clone(&into);
            async move { follow(&into, changes).await }
        })
        .start()
        .await?;

    for (what, rows) in [
        (
            "two sessions of ann, one of bob",
            &[(1, "ann"), (5, "ann"), (20, "ann"), (3, "bob")][..],
        ),
        ("a click at 12 s joins ann's sessions", &[(12, "ann")]),
    ] {
        println!("{what}:");
        stream.add_columns(clicks(rows))?;
        query.process_all_available().await?;
    }
    query.stop().await;
    let sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    let counts: Vec<(&str, i64)> = sessions
        .iter()
        .map(|((user, _), n)| (user.as_str(), *n))
        .collect();
    assert_eq!(counts, [("ann", 4), ("bob", 1)]);
    Ok(())
}
