//! The best rows of each group, kept up to date: `row_number() OVER (PARTITION BY … ORDER BY …) <= n` in output mode update. Also over
//! an aggregation, whose results move up and down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{Int32Type, Int64Type};
use weir::connectors::memory::MemoryStream;
use weir::prelude::*;
use weir::{CHANGE_TYPE, EpochChanges};

/// Player and points by place.
type Places = BTreeMap<i32, (String, i64)>;

async fn follow(places: &Mutex<Places>, changes: EpochChanges) -> Result<()> {
    let batches = changes
        .frame
        .select_expr(&["place", "player", "points", CHANGE_TYPE])?
        .collect()
        .await?;
    let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
    for batch in &batches {
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        let players = batch.column(1).as_string::<i32>();
        let points = batch.column(2).as_primitive::<Int64Type>();
        let kinds = batch.column(3).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let (place, player) = (numbers.value(row), players.value(row).to_owned());
            match kinds.value(row) {
                "delete" => places.remove(&place),
                _ => places.insert(place, (player, points.value(row))),
            };
        }
    }
    println!("{places:?}");
    Ok(())
}

fn scores(rows: &[(&str, i64)]) -> Vec<ArrayRef> {
    let players = StringArray::from_iter_values(rows.iter().map(|(player, _)| *player));
    let points = Int64Array::from_iter_values(rows.iter().map(|(_, points)| *points));
    vec![Arc::new(players), Arc::new(points)]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let session = Session::new()?;
    let stream = MemoryStream::new(weir::types::parse_schema("player STRING, points BIGINT")?);
    session
        .read_stream()
        .source(stream.source())?
        .create_or_replace_temp_view("scores")?;
    let places = Arc::new(Mutex::new(Places::new()));
    let into = Arc::clone(&places);
    let query = session
        .sql(
            "SELECT place, player, points FROM (SELECT player, points, row_number() OVER (ORDER BY points DESC, player) AS place \
             FROM (SELECT player, sum(points) AS points FROM scores GROUP BY player)) WHERE place <= 3",
        )
        .await?
        .write_stream()
        .output_mode("update")
        .option("checkpointLocation", "memory://top")
        .foreach_batch_changes(move |changes, _| {
            let into = Arc::clone(&into);
            async move { follow(&into, changes).await }
        })
        .start()
        .await?;
    for rows in [
        &[("ann", 10), ("bob", 7), ("cid", 3), ("dee", 1)][..],
        &[("dee", 8)],
        &[("ann", -20), ("cid", 6)],
    ] {
        stream.add_columns(scores(rows))?;
        query.process_all_available().await?;
    }
    query.stop().await;
    let places = places.lock().unwrap_or_else(PoisonError::into_inner);
    let players: Vec<&str> = places.values().map(|(player, _)| player.as_str()).collect();
    assert_eq!(players, ["cid", "dee", "bob"]);
    Ok(())
}
