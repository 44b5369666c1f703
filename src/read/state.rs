//! A query's state as tables: formats `statestore` and `state-metadata` of [`DataFrameReader`](super::DataFrameReader), over a
//! checkpoint that nobody has to stop for.

mod changes;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields};
use weir_operators::{LIST_OF, RowCodec, stored_sessions};
use weir_runtime::{Epoch, Result, WeirError};
use weir_state::{
    CheckpointLocation, CheckpointLog, ObjectStoreSettings, StateReader, TableKind, TableSpec,
};

use super::OptionTexts;
use crate::dataframe::DataFrame;
use crate::session::Session;

/// Entries of one batch.
const BATCH_ROWS: usize = 8192;
/// Spark's name of the one table of an operator that has no other.
const DEFAULT_STORE: &str = "default";
const KNOWN: &[&str] = &[
    "batchId",
    "operatorId",
    "operatorUid",
    "storeName",
    "readChangeFeed",
    "changeStartBatchId",
    "changeEndBatchId",
];
/// Options of `state-metadata`.
const OF_METADATA: &[&str] = &["batchId"];
/// Spark's options that have no meaning here or do not work yet.
const REFUSED: &[&str] = &[
    "joinSide",
    "snapshotStartBatchId",
    "snapshotPartitionId",
    "stateVarName",
    "readRegisteredTimers",
    "flattenCollectionTypes",
];

/// One row per entry of a table of an operator's state (per session where an entry is a list of them): `key` and `value` as structs, `partition_id` the subtask that kept it, and
/// `expires_at` where entries expire. Columns that are no rows of Weir's become one field `bytes`. With the option `readChangeFeed`
/// what epochs changed instead, see [`changes::feed`].
pub(super) async fn entries(
    session: &Session,
    path: &str,
    options: &OptionTexts,
) -> Result<DataFrame> {
    known("statestore", options, KNOWN)?;
    if wants_changes(options)? {
        return changes::feed(session, path, options).await;
    }
    let location = location(session, path, options)?;
    let reader = StateReader::open(location, epoch(options)?).await?;
    let uid = operator(&reader, options)?;
    let table = table(&reader, &uid, options.get("storeName")).await?;
    let mut columns = Entries::new(&table);
    let mut batches = Vec::new();
    let mut failed = None;
    let mut visit = |subtask: u32, entry: weir_state::StateEntry<'_>| {
        if let Err(error) = columns.push(subtask, entry) {
            failed = failed.take().or(Some(error));
        }
        if columns.partitions.len() >= BATCH_ROWS {
            match columns.take() {
                Ok(batch) => batches.push(batch),
                Err(error) => failed = failed.take().or(Some(error)),
            }
        }
        Ok(())
    };
    reader.scan(&uid, &table.name, &mut visit).await?;
    if let Some(error) = failed {
        return Err(error);
    }
    batches.push(columns.take()?);
    session.create_dataframe(batches)
}

/// One row per table of state: its operator, name, partitions and columns, and which epochs the checkpoint still has.
pub(super) async fn metadata(
    session: &Session,
    path: &str,
    options: &OptionTexts,
) -> Result<DataFrame> {
    known("state-metadata", options, OF_METADATA)?;
    let location = location(session, path, options)?;
    let epochs = CheckpointLog::new(location.clone())
        .list_epochs()
        .await?
        .manifests;
    let reader = StateReader::open(location, epoch(options)?).await?;
    let mut rows = Metadata::default();
    for (id, uid) in reader.operators().into_iter().enumerate() {
        let partitions = reader.subtasks(uid)?;
        for table in reader.tables(uid).await? {
            rows.push(id, uid, table, partitions);
        }
    }
    session.create_dataframe([rows.batch(&epochs)?])
}

fn location(session: &Session, path: &str, options: &OptionTexts) -> Result<CheckpointLocation> {
    let settings = session
        .settings()
        .take_object_stores(&mut options.clone())?;
    Ok(CheckpointLocation::open_with(path, &settings)?)
}

fn known(format: &str, options: &OptionTexts, known: &[&str]) -> Result<()> {
    for name in options.texts().keys() {
        if ObjectStoreSettings::known(name).is_some() {
            continue;
        }
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        if REFUSED.iter().any(is) {
            return Err(WeirError::config(format!(
                "option '{name}' of format '{format}' is not supported, allowed: {}",
                known.join(", ")
            )));
        }
        if !known.iter().any(is) {
            let of = format!("the {format} reader");
            return Err(WeirError::unknown_option(&of, name, known));
        }
    }
    Ok(())
}

/// Whether changes are wanted and not entries.
fn wants_changes(options: &OptionTexts) -> Result<bool> {
    const OPTION: &str = "readChangeFeed";
    let wanted = match options.get(OPTION).map(str::to_ascii_lowercase).as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(WeirError::invalid_option(OPTION, other, "true, false")),
    };
    let epochs = ["changeStartBatchId", "changeEndBatchId"];
    match epochs.iter().find(|name| options.get(name).is_some()) {
        Some(name) if !wanted => Err(WeirError::config(format!(
            "option '{name}' needs option '{OPTION}' to be true"
        ))),
        _ => Ok(wanted),
    }
}

fn number(options: &OptionTexts, name: &str) -> Result<Option<u64>> {
    let number = |text: &str| {
        text.trim().parse().map_err(|_| {
            WeirError::config(format!(
                "option '{name}' is '{text}', allowed: a whole number, not negative"
            ))
        })
    };
    options.get(name).map(number).transpose()
}

fn epoch(options: &OptionTexts) -> Result<Option<Epoch>> {
    Ok(number(options, "batchId")?.map(Epoch))
}

/// The operator asked for by uid or by number, the first if by neither.
fn operator(reader: &StateReader, options: &OptionTexts) -> Result<String> {
    let known = reader.operators();
    let unknown = |asked: &str| {
        WeirError::config(format!(
            "the checkpoint has no operator {asked} with state after epoch {}, there are: {}",
            reader.epoch(),
            known.join(", ")
        ))
    };
    if let Some(uid) = options.get("operatorUid") {
        let found = known.iter().find(|known| **known == uid);
        return found
            .map(|uid| (*uid).to_owned())
            .ok_or_else(|| unknown(&format!("'{uid}'")));
    }
    let id = number(options, "operatorId")?.unwrap_or(0);
    let index = usize::try_from(id).ok();
    let found = index.and_then(|index| known.get(index));
    found
        .map(|uid| (*uid).to_owned())
        .ok_or_else(|| unknown(&format!("number {id}")))
}

async fn table(reader: &StateReader, uid: &str, name: Option<&str>) -> Result<TableSpec> {
    let tables = reader.tables(uid).await?;
    let found = match name {
        None | Some(DEFAULT_STORE) => tables.first(),
        Some(name) => tables.iter().find(|table| table.name == name),
    };
    found.cloned().ok_or_else(|| {
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        WeirError::config(format!(
            "operator '{uid}' has no table '{}', it has: {}",
            name.unwrap_or(DEFAULT_STORE),
            names.join(", ")
        ))
    })
}

/// How keys or values become a column.
enum Decode {
    Rows(RowCodec),
    Bytes,
}

impl Decode {
    fn of(text: &str) -> Self {
        RowCodec::from_text(text).map_or(Self::Bytes, Self::Rows)
    }

    fn column(&self, rows: &[Vec<u8>]) -> Result<ArrayRef> {
        let bytes = rows.iter().map(Vec::as_slice);
        let (fields, columns) = match self {
            Self::Rows(codec) => (codec.fields().clone(), codec.decode(bytes)?),
            Self::Bytes => {
                let field = Field::new("bytes", DataType::Binary, true);
                let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(bytes));
                (Fields::from(vec![field]), vec![column])
            }
        };
        if fields.is_empty() {
            return Ok(Arc::new(StructArray::new_empty_fields(rows.len(), None)));
        }
        Ok(Arc::new(StructArray::try_new(fields, columns, None)?))
    }
}

/// Entries on their way into a batch.
struct Entries {
    key: Decode,
    value: Decode,
    expires: bool,
    /// Values are lists of sessions.
    lists: bool,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    times: Vec<i64>,
    partitions: Vec<i32>,
}

impl Entries {
    fn new(table: &TableSpec) -> Self {
        Self {
            key: Decode::of(&table.key),
            value: Decode::of(table.value.strip_prefix(LIST_OF).unwrap_or(&table.value)),
            lists: table.value.starts_with(LIST_OF),
            expires: table.kind == TableKind::Expiring,
            keys: Vec::new(),
            values: Vec::new(),
            times: Vec::new(),
            partitions: Vec::new(),
        }
    }

    fn push(&mut self, subtask: u32, entry: weir_state::StateEntry<'_>) -> Result<()> {
        if !self.lists {
            self.add(subtask, entry.key, entry.value, entry.time);
            return Ok(());
        }
        for stored in stored_sessions(entry.value) {
            let (end, row) = stored?;
            self.add(subtask, entry.key, row, end);
        }
        Ok(())
    }

    fn add(&mut self, subtask: u32, key: &[u8], value: &[u8], time: i64) {
        self.keys.push(key.to_vec());
        self.values.push(value.to_vec());
        self.times.push(time);
        self.partitions
            .push(i32::try_from(subtask).unwrap_or(i32::MAX));
    }

    /// A batch of what is there.
    fn take(&mut self) -> Result<RecordBatch> {
        let partitions = Int32Array::from(std::mem::take(&mut self.partitions));
        let times = TimestampMicrosecondArray::from(std::mem::take(&mut self.times));
        let mut columns: Vec<(&str, ArrayRef, bool)> = vec![
            (
                "key",
                self.key.column(&std::mem::take(&mut self.keys))?,
                true,
            ),
            (
                "value",
                self.value.column(&std::mem::take(&mut self.values))?,
                true,
            ),
            ("partition_id", Arc::new(partitions), true),
        ];
        if self.expires {
            columns.push(("expires_at", Arc::new(times.with_timezone("UTC")), true));
        }
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    }
}

/// Rows of `state-metadata`.
#[derive(Default)]
struct Metadata {
    ids: Vec<i64>,
    operators: Vec<String>,
    stores: Vec<String>,
    partitions: Vec<i32>,
    keys: Vec<String>,
    values: Vec<String>,
}

impl Metadata {
    fn push(&mut self, id: usize, uid: &str, table: TableSpec, partitions: u32) {
        self.ids.push(i64::try_from(id).unwrap_or(i64::MAX));
        self.operators.push(uid.to_owned());
        self.stores.push(table.name);
        self.partitions
            .push(i32::try_from(partitions).unwrap_or(i32::MAX));
        self.keys.push(table.key);
        self.values.push(table.value);
    }

    fn batch(self, epochs: &[Epoch]) -> Result<RecordBatch> {
        let rows = self.ids.len();
        let epoch = |epoch: Option<&Epoch>| -> ArrayRef {
            let number = epoch.and_then(|epoch| i64::try_from(epoch.0).ok());
            Arc::new(Int64Array::from(vec![number; rows]))
        };
        let text = |texts: Vec<String>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("operatorId", Arc::new(Int64Array::from(self.ids)), true),
            ("operatorName", text(self.operators), true),
            ("stateStoreName", text(self.stores), true),
            (
                "numPartitions",
                Arc::new(Int32Array::from(self.partitions)),
                true,
            ),
            ("minBatchId", epoch(epochs.first()), true),
            ("maxBatchId", epoch(epochs.last()), true),
            ("keySchema", text(self.keys), true),
            ("valueSchema", text(self.values), true),
        ];
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    }
}
