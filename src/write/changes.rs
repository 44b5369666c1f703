//! An epoch's rows with what became of each, for targets that are kept up to date row by row.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use weir_connectors::foreach_batch::EpochRows;
use weir_runtime::{Result, RowKind, Rows};

use crate::dataframe::DataFrame;
use crate::session::Session;

/// Name of the column that says what became of a row.
pub const CHANGE_TYPE: &str = "_change_type";

/// The rows of one epoch and what became of each.
#[derive(Clone)]
pub struct EpochChanges {
    /// The rows, and a last column [`CHANGE_TYPE`]: `insert` (a new row), `update_postimage` (the new value of a changed row),
    /// `update_preimage` (its old value, where a query tells it) or `delete` (a row that is gone).
    pub frame: DataFrame,
    /// Columns that together tell rows apart: a row replaces the one with the same values in them. Empty if the query has no
    /// such columns or does not select them.
    pub key_columns: Vec<String>,
}

impl EpochChanges {
    pub(super) fn new(session: &Session, rows: EpochRows) -> Result<Self> {
        let schema = with_change_type(&rows.schema);
        let key_columns = rows.key_columns.clone();
        let batches = rows
            .rows()
            .map(|rows| rows.and_then(|rows| with_kinds(&schema, &rows)));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            frame: frame(session, &schema, batches)?,
            key_columns,
        })
    }
}

/// A bounded frame of these batches, also of none.
pub(super) fn frame(
    session: &Session,
    schema: &SchemaRef,
    mut batches: Vec<RecordBatch>,
) -> Result<DataFrame> {
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(Arc::clone(schema)));
    }
    session.create_dataframe(batches)
}

fn with_change_type(schema: &Schema) -> SchemaRef {
    let change = Arc::new(Field::new(CHANGE_TYPE, DataType::Utf8, false));
    let fields = schema.fields().iter().cloned().chain([change]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn with_kinds(schema: &SchemaRef, rows: &Rows) -> Result<RecordBatch> {
    let names = (0..rows.num_rows()).map(|row| name(rows.kind(row)));
    let change: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    let columns = rows.batch().columns().iter().cloned().chain([change]);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}

fn name(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Insert => "insert",
        RowKind::UpdateBefore => "update_preimage",
        RowKind::UpdateAfter => "update_postimage",
        RowKind::Delete => "delete",
    }
}
