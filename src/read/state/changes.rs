//! `readChangeFeed`: what epochs changed in a table of state, found by comparing the table after an epoch with the table before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use weir_operators::{LIST_OF, stored_sessions};
use weir_runtime::{Epoch, Result, WeirError};
use weir_state::{CheckpointLocation, StateEntry, StateReader, TableKind, TableSpec};

use super::{Decode, location, number, operator, table};
use crate::dataframe::DataFrame;
use crate::read::OptionTexts;
use crate::session::Session;

const FIRST: &str = "changeStartBatchId";
const LAST: &str = "changeEndBatchId";

/// What tells entries apart: the key, and in timed tables and lists of sessions the time.
type Id = (Vec<u8>, i64);

/// One entry of a table.
#[derive(PartialEq, Eq)]
struct Held {
    value: Vec<u8>,
    time: i64,
    subtask: u32,
}

impl Held {
    /// Whether another epoch had something else here; who kept it does not matter.
    fn differs(&self, other: Option<&Self>) -> bool {
        other.is_none_or(|other| (&self.value, self.time) != (&other.value, other.time))
    }
}

type Entries = BTreeMap<Id, Held>;

/// One row per entry that an epoch wrote or removed, by epoch and key: `batch_id`, `change_type` (`update` or `delete`), `key`,
/// `value` (null where it was removed) and `partition_id`. Needs the state before the first epoch as well, and memory for two
/// copies of the table.
pub(super) async fn feed(
    session: &Session,
    path: &str,
    options: &OptionTexts,
) -> Result<DataFrame> {
    if options.get("batchId").is_some() {
        return Err(WeirError::config(format!(
            "options 'readChangeFeed' and 'batchId' exclude each other: epochs are '{FIRST}' to '{LAST}'"
        )));
    }
    let location = location(session, path, options)?;
    let first = number(options, FIRST)?.ok_or_else(|| {
        WeirError::config(format!(
            "option 'readChangeFeed' needs option '{FIRST}', the first epoch"
        ))
    })?;
    let newest = StateReader::open(location.clone(), number(options, LAST)?.map(Epoch)).await?;
    let last = newest.epoch().0;
    if first > last {
        return Err(WeirError::invalid_option(
            FIRST,
            &first.to_string(),
            &format!("0 to {last}, the last epoch"),
        ));
    }
    let uid = operator(&newest, options)?;
    let table = table(&newest, &uid, options.get("storeName")).await?;
    let mut before = match first.checked_sub(1) {
        Some(epoch) => entries(&location, Epoch(epoch), &uid, &table).await?,
        None => Entries::new(),
    };
    let mut batches = Vec::new();
    for epoch in first..=last {
        let after = entries(&location, Epoch(epoch), &uid, &table).await?;
        batches.push(changes(epoch, &before, &after, &table)?);
        before = after;
    }
    session.create_dataframe(batches)
}

/// The table after an epoch; empty where the operator had no state yet.
async fn entries(
    location: &CheckpointLocation,
    epoch: Epoch,
    uid: &str,
    table: &TableSpec,
) -> Result<Entries> {
    let reader = StateReader::open(location.clone(), Some(epoch)).await?;
    let mut entries = Entries::new();
    if !reader.operators().contains(&uid) {
        return Ok(entries);
    }
    let mut failed = None;
    let mut visit = |subtask: u32, entry: StateEntry<'_>| {
        if let Err(error) = keep(&mut entries, table, subtask, entry) {
            failed = failed.take().or(Some(error));
        }
        Ok(())
    };
    reader.scan(uid, &table.name, &mut visit).await?;
    match failed {
        Some(error) => Err(error),
        None => Ok(entries),
    }
}

fn keep(
    entries: &mut Entries,
    table: &TableSpec,
    subtask: u32,
    entry: StateEntry<'_>,
) -> Result<()> {
    let mut insert = |value: &[u8], time: i64, identity: i64| {
        let held = Held {
            value: value.to_vec(),
            time,
            subtask,
        };
        entries.insert((entry.key.to_vec(), identity), held);
    };
    if table.value.starts_with(LIST_OF) {
        for stored in stored_sessions(entry.value) {
            let (end, row) = stored?;
            insert(row, end, end);
        }
        return Ok(());
    }
    let identity = match table.kind {
        TableKind::Timed { .. } => entry.time,
        _ => 0,
    };
    insert(entry.value, entry.time, identity);
    Ok(())
}

/// The rows of one epoch.
fn changes(
    epoch: u64,
    before: &Entries,
    after: &Entries,
    table: &TableSpec,
) -> Result<RecordBatch> {
    let updated = after
        .iter()
        .filter(|(id, held)| held.differs(before.get(*id)))
        .map(|(id, held)| (id, held, true));
    let removed = before
        .iter()
        .filter(|(id, _)| !after.contains_key(*id))
        .map(|(id, held)| (id, held, false));
    let mut rows: Vec<(&Id, &Held, bool)> = updated.chain(removed).collect();
    rows.sort_by_key(|(id, ..)| *id);

    let keys: Vec<Vec<u8>> = rows.iter().map(|((key, _), ..)| key.clone()).collect();
    let values: Vec<Vec<u8>> = rows
        .iter()
        .filter(|(.., there)| *there)
        .map(|(_, held, _)| held.value.clone())
        .collect();
    let mut next = 0_u32..;
    let places = rows
        .iter()
        .map(|(.., there)| there.then(|| next.next()).flatten());
    let places: UInt32Array = places.collect();
    let values = value_column(table, &values)?;
    let kinds = rows.iter().map(|(.., there)| match there {
        true => "update",
        false => "delete",
    });
    let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
    let partitions = rows.iter().map(|(_, held, _)| held.subtask);
    let partitions = partitions.map(|subtask| i32::try_from(subtask).unwrap_or(i32::MAX));
    let columns: [(&str, ArrayRef, bool); 5] = [
        (
            "batch_id",
            Arc::new(Int64Array::from(vec![epoch; rows.len()])),
            true,
        ),
        (
            "change_type",
            Arc::new(StringArray::from_iter_values(kinds)),
            true,
        ),
        ("key", Decode::of(&table.key).column(&keys)?, true),
        ("value", arrow::compute::take(&values, &places, None)?, true),
        (
            "partition_id",
            Arc::new(Int32Array::from_iter_values(partitions)),
            true,
        ),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

fn value_column(table: &TableSpec, values: &[Vec<u8>]) -> Result<ArrayRef> {
    let text = table.value.strip_prefix(LIST_OF).unwrap_or(&table.value);
    Decode::of(text).column(values)
}
