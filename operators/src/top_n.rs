//! The first rows of each partition in an order, kept up to date: `row_number() OVER (PARTITION BY … ORDER BY …) <= n`.
//!
//! At the end of an epoch the first rows of every partition that got rows are compared with those before it, and what differs
//! goes out as changes. Of an input that only adds rows nothing but the first rows is kept; an input that takes rows back needs
//! all of them, because any may move up.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt8Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use weir_runtime::{
    ChangelogMode, Operator, OperatorContext, OperatorSpec, Origin, Outbox, Result, RowKind, Rows,
    WeirError, key_group, normal_key,
};
use weir_runtime::{OperatorState, Table, TableKind, TableSpec};

use crate::expression::batch_of;
use crate::multiset::{self, Counted};
use crate::row_codec::{EncodedRows, RowCodec, columns_text};
use crate::sort::SortKey;

#[cfg(test)]
mod tests;

/// The first rows of a partition before and after a change.
type BeforeAfter = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// Which rows are kept and how changes are told.
#[derive(Debug, Clone)]
pub struct TopN {
    /// Positions of the columns that make a partition; none = all rows are one partition.
    pub partition: Vec<usize>,
    /// The order inside a partition. Rows with equal keys are in order of arrival, or of their bytes if the input takes rows
    /// back.
    pub order: Vec<SortKey>,
    /// How many rows of each partition.
    pub rows: usize,
    /// Number of leading input columns that the output has; those behind only serve the partition.
    pub columns: usize,
    /// Name of the last output column, the number of the row in its partition from 1.
    pub number: String,
    /// The input takes rows back.
    pub retracts: bool,
    /// Changes are told by row number: the row with a number changed. Otherwise only rows that came in or fell out are told.
    pub by_number: bool,
    /// The old row is told before a changed one, for operators that add up.
    pub before: bool,
    /// What the partition and the order are, for the checkpoint: (partition, order).
    pub definition: (String, String),
}

/// An operator that emits how the first rows of each partition of rows of `input` change. Its input must be distributed by the
/// partition's columns.
///
/// # Errors
/// If a column cannot be ordered or kept in state.
pub fn top_n(top_n: TopN, input: &SchemaRef) -> Result<OperatorSpec> {
    let shape = Arc::new(Shape::new(top_n, input)?);
    let (output, made) = (Arc::clone(&shape.output), Arc::clone(&shape));
    let spec = OperatorSpec::new("top_n", move |_| Runner::new(Arc::clone(&made)));
    let top_n = &shape.top_n;
    Ok(spec
        .with_schema(output)
        .with_tables(vec![shape.table()])
        .with_state_name("topN")
        .with_changelog(ChangelogMode::Changelog)
        .with_detail(format!(
            "first {} of ({}) by ({})",
            top_n.rows, top_n.definition.0, top_n.definition.1
        ))
        .with_param("partition", top_n.definition.0.clone())
        .with_param("order", top_n.definition.1.clone())
        .with_param("rows", top_n.rows.to_string())
        .with_param("columns", columns_text(&shape.kept))
        .with_param("input", if top_n.retracts { "changes" } else { "rows" }))
}

/// A [`TopN`] and the columns that follow from it.
#[derive(Debug)]
struct Shape {
    top_n: TopN,
    partition: Fields,
    kept: Fields,
    output: SchemaRef,
    order: Vec<SortField>,
}

impl Shape {
    fn new(top_n: TopN, input: &SchemaRef) -> Result<Self> {
        let field = |index: usize| input.fields()[index].as_ref().clone().with_nullable(true);
        let partition: Fields = top_n.partition.iter().map(|index| field(*index)).collect();
        let kept: Fields = (0..top_n.columns).map(field).collect();
        let number = Field::new(&top_n.number, DataType::UInt64, true);
        let all = kept.iter().cloned().chain([Arc::new(number)]);
        let output = Arc::new(Schema::new(all.collect::<Fields>()));
        let order = top_n.order.iter().map(|key| key.field(input));
        let order = order.collect::<Result<Vec<_>>>()?;
        RowConverter::new(order.clone())
            .map_err(|error| WeirError::plan(format!("rows cannot be ordered: {error}")))?;
        RowCodec::new(partition.clone())?;
        RowCodec::new(kept.clone())?;
        Ok(Self {
            top_n,
            partition,
            kept,
            output,
            order,
        })
    }

    fn table(&self) -> TableSpec {
        TableSpec {
            name: "rows".to_owned(),
            kind: TableKind::Ordered,
            version: 1,
            key: "partition, order and arrival".to_owned(),
            value: multiset::value_text(&self.kept),
        }
    }
}

/// Changes of one partition in the open epoch: by what follows the partition in the key.
type Pending = BTreeMap<Vec<u8>, Counted>;

struct Runner {
    shape: Arc<Shape>,
    partition: RowCodec,
    order: RowConverter,
    row: RowCodec,
    /// The rows of the open epoch.
    held: Vec<(Origin, Rows)>,
    state: Option<OperatorState>,
}

impl Runner {
    fn new(shape: Arc<Shape>) -> Result<Self> {
        Ok(Self {
            partition: RowCodec::new(shape.partition.clone())?,
            order: RowConverter::new(shape.order.clone())?,
            row: RowCodec::new(shape.kept.clone())?,
            held: Vec::new(),
            state: None,
            shape,
        })
    }

    /// What the epoch's rows add to and take from each partition.
    fn pending(&mut self, context: &OperatorContext) -> Result<BTreeMap<Vec<u8>, Pending>> {
        let mut held = std::mem::take(&mut self.held);
        // Stable: rows of one origin keep their order of arrival.
        held.sort_by_key(|(origin, _)| *origin);
        let mut pending = BTreeMap::new();
        let mut arrived = 0_u32;
        for (_, rows) in &held {
            let keys = self.encode(rows.batch())?;
            for row in self.wanted(&keys, rows.num_rows()) {
                let of: &mut Pending = pending.entry(keys.partition.get(row).to_vec()).or_default();
                let mut suffix = keys.order(row).to_vec();
                if self.shape.top_n.retracts {
                    suffix.extend_from_slice(keys.row.get(row));
                } else {
                    let index = u32::try_from(row).unwrap_or(u32::MAX);
                    suffix.extend_from_slice(&context.epoch.0.to_be_bytes());
                    suffix.extend_from_slice(&arrived.saturating_add(index).to_be_bytes());
                }
                of.entry(suffix)
                    .or_insert_with(|| Counted::none(keys.row.get(row)))
                    .count += multiset::sign(rows.kind(row));
            }
            arrived = arrived.saturating_add(u32::try_from(rows.num_rows()).unwrap_or(u32::MAX));
        }
        Ok(pending)
    }

    fn encode(&self, batch: &RecordBatch) -> Result<Keys> {
        let top_n = &self.shape.top_n;
        let rows = batch.num_rows();
        let partition: Vec<ArrayRef> = top_n
            .partition
            .iter()
            .map(|index| normal_key(batch.column(*index)))
            .collect();
        let order = top_n
            .order
            .iter()
            .map(|key| Ok(normal_key(&key.expression.evaluate(batch)?)))
            .collect::<Result<Vec<_>>>()?;
        Ok(Keys {
            partition: self.partition.encode(&partition, rows)?,
            order: match order.is_empty() {
                true => None,
                false => Some(self.order.convert_columns(&order)?),
            },
            row: self.row.encode(&batch.columns()[..top_n.columns], rows)?,
        })
    }

    /// The rows of a batch that can be among the first of their partition; all if the input takes rows back.
    fn wanted(&self, keys: &Keys, rows: usize) -> Vec<usize> {
        let mut wanted: Vec<usize> = (0..rows).collect();
        if self.shape.top_n.retracts {
            return wanted;
        }
        let place = |row: &usize| (keys.partition.get(*row), keys.order(*row), *row);
        wanted.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
        let mut taken = 0;
        let mut last: Option<&[u8]> = None;
        wanted.retain(|row| {
            let partition = keys.partition.get(*row);
            taken = if last == Some(partition) {
                taken + 1
            } else {
                1
            };
            last = Some(partition);
            taken <= self.shape.top_n.rows
        });
        wanted
    }

    fn table(&mut self) -> Result<&mut Table> {
        let state = self.state.as_mut();
        state
            .map(|state| state.table(0))
            .ok_or_else(|| WeirError::internal("top_n runs without its state"))
    }

    /// Applies the changes of one partition and gives its first rows before and after.
    fn apply(&mut self, partition: &[u8], pending: Pending) -> Result<BeforeAfter> {
        let (rows, retracts) = (self.shape.top_n.rows, self.shape.top_n.retracts);
        let group = key_group(partition);
        let table = self.table()?;
        let old = first(table, group, partition, rows)?;
        for (suffix, change) in pending {
            let key = [partition, suffix.as_slice()].concat();
            multiset::add(table, group, &key, &change)?;
        }
        let new = first(table, group, partition, rows)?;
        if !retracts {
            forget_behind(table, group, partition, rows)?;
        }
        Ok((old, new))
    }
}

/// The encoded columns of a batch.
struct Keys {
    partition: EncodedRows,
    order: Option<arrow::row::Rows>,
    row: EncodedRows,
}

impl Keys {
    fn order(&self, row: usize) -> &[u8] {
        self.order
            .as_ref()
            .map_or(&[], |order| order.row(row).data())
    }
}

/// The first `rows` rows of a partition.
fn first(table: &mut Table, group: u32, partition: &[u8], rows: usize) -> Result<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    table.prefix(group, partition, &mut |entry| {
        values.push(entry.value.to_vec());
        Ok(values.len() < rows)
    })?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    for value in values {
        let Counted { row, count } = Counted::parse(&value)?;
        let times = usize::try_from(count).unwrap_or(0).min(rows - found.len());
        found.extend(std::iter::repeat_n(row, times));
    }
    Ok(found)
}

/// Removes all entries of a partition behind the first `rows`, each of which is one row.
fn forget_behind(table: &mut Table, group: u32, partition: &[u8], rows: usize) -> Result<()> {
    let mut seen = 0;
    let mut behind = Vec::new();
    table.prefix(group, partition, &mut |entry| {
        seen += 1;
        if seen > rows {
            behind.push(entry.key.to_vec());
        }
        Ok(true)
    })?;
    for key in behind {
        table.delete(group, &key)?;
    }
    Ok(())
}

/// Changes on their way out.
#[derive(Default)]
struct Changes {
    rows: Vec<Vec<u8>>,
    numbers: Vec<u64>,
    kinds: Vec<u8>,
}

impl Changes {
    fn push(&mut self, row: &[u8], index: usize, kind: RowKind) {
        self.rows.push(row.to_vec());
        self.numbers.push(index as u64 + 1);
        self.kinds.push(kind as u8);
    }

    /// What differs at each row number.
    fn by_number(&mut self, old: &[Vec<u8>], new: &[Vec<u8>], before: bool) {
        for index in 0..old.len().max(new.len()) {
            match (old.get(index), new.get(index)) {
                (Some(old), Some(new)) if old != new => {
                    if before {
                        self.push(old, index, RowKind::UpdateBefore);
                    }
                    self.push(new, index, RowKind::UpdateAfter);
                }
                (None, Some(new)) => self.push(new, index, RowKind::Insert),
                (Some(old), None) => self.push(old, index, RowKind::Delete),
                _ => {}
            }
        }
    }

    /// Rows that fell out, then rows that came in.
    fn by_row(&mut self, old: &[Vec<u8>], new: &[Vec<u8>]) {
        let mut balance: BTreeMap<&[u8], i64> = BTreeMap::new();
        new.iter()
            .for_each(|row| *balance.entry(row).or_default() += 1);
        old.iter()
            .for_each(|row| *balance.entry(row).or_default() -= 1);
        for (index, row) in old.iter().enumerate() {
            if let Some(count) = balance.get_mut(row.as_slice()).filter(|count| **count < 0) {
                *count += 1;
                self.push(row, index, RowKind::Delete);
            }
        }
        for (index, row) in new.iter().enumerate() {
            if let Some(count) = balance.get_mut(row.as_slice()).filter(|count| **count > 0) {
                *count -= 1;
                self.push(row, index, RowKind::Insert);
            }
        }
    }

    fn into_rows(self, codec: &RowCodec, schema: &SchemaRef) -> Result<Rows> {
        let count = self.rows.len();
        let mut columns = codec.decode(self.rows.iter().map(Vec::as_slice))?;
        columns.push(Arc::new(UInt64Array::from(self.numbers)));
        let batch = batch_of(schema, columns, count)?;
        Rows::with_kinds(batch, UInt8Array::from(self.kinds))
    }
}

impl Operator for Runner {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        _out: &mut Outbox,
    ) -> Result<()> {
        if rows.num_rows() > 0 {
            self.held.push((context.origin, rows));
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let mut changes = Changes::default();
        for (partition, pending) in self.pending(context)? {
            let (old, new) = self.apply(&partition, pending)?;
            match self.shape.top_n.by_number {
                true => changes.by_number(&old, &new, self.shape.top_n.before),
                false => changes.by_row(&old, &new),
            }
        }
        out.emit(changes.into_rows(&self.row, &self.shape.output)?);
        Ok(())
    }

    fn open(&mut self, state: OperatorState, _context: &OperatorContext) -> Result<()> {
        self.state = Some(state);
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        self.state.as_mut()
    }
}
