//! Aggregation of the rows at hand before they are exchanged: fewer rows travel. Nothing is kept beyond an epoch, so there is
//! no state to make durable; the aggregation behind the exchange merges what comes out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows};

use super::calls::{Accumulators, Calls};
use super::emit::CHUNK;
use super::{AggregateCall, TimeKey, in_time};
use crate::expression::{ErrorMap, batch_of};

/// Groups at which they are emitted before the epoch ends.
const MOST_GROUPS: usize = 100_000;
/// Rows after which it is clear whether grouping them pays.
const TRIAL_ROWS: usize = 100_000;

/// An aggregation before an exchange. Its output has the keys and then the columns of the calls' states.
#[derive(Debug, Clone)]
pub struct PartialAggregation {
    /// The first columns of the input, which rows are grouped by.
    pub keys: Vec<FieldRef>,
    /// The key that decides whether a row is late.
    pub time: Option<TimeKey>,
    /// The aggregates; none of them may depend on the order of rows.
    pub calls: Vec<AggregateCall>,
    /// Translates errors of the functions.
    pub errors: ErrorMap,
}

/// An operator that aggregates the rows of a subtask, epoch by epoch or in smaller parts.
///
/// Where rows have about as many groups as there are rows, it gives up grouping and turns each row into states by itself.
///
/// # Errors
/// If a function has no state.
pub fn partial_aggregate(aggregation: PartialAggregation) -> Result<OperatorSpec> {
    let calls = Arc::new(Calls::new(aggregation.calls, aggregation.errors)?);
    let keys: Fields = aggregation.keys.into();
    let fields: Vec<FieldRef> = keys.iter().chain(&calls.state).cloned().collect();
    let output: SchemaRef = Arc::new(Schema::new(fields));
    let names: Vec<&str> = keys.iter().map(|key| key.name().as_str()).collect();
    let detail = format!("by ({})", names.join(", "));
    let (made, time) = (Arc::clone(&output), aggregation.time);
    Ok(OperatorSpec::new("partial aggregate", move |_| {
        Ok(Partial {
            groups: groups(&keys, &calls)?,
            accumulators: Accumulators::new(&calls)?,
            keys: keys.clone(),
            calls: Arc::clone(&calls),
            output: Arc::clone(&made),
            time,
            rows: 0,
            found: 0,
            alone: false,
            indices: Vec::new(),
        })
    })
    .with_schema(output)
    .with_detail(detail))
}

/// Without keys all rows are one group.
fn groups(keys: &Fields, calls: &Calls) -> Result<Option<Box<dyn GroupValues>>> {
    if keys.is_empty() {
        return Ok(None);
    }
    let schema = Arc::new(Schema::new(keys.clone()));
    let made = new_group_values(schema, &GroupOrdering::None).map_err(calls.errors)?;
    Ok(Some(made))
}

struct Partial {
    keys: Fields,
    calls: Arc<Calls>,
    output: SchemaRef,
    time: Option<TimeKey>,
    groups: Option<Box<dyn GroupValues>>,
    accumulators: Accumulators,
    /// Rows of the trial, and the groups they had.
    rows: usize,
    found: usize,
    /// Grouping does not pay: each row is a group of its own.
    alone: bool,
    indices: Vec<usize>,
}

impl Partial {
    fn held(&self) -> usize {
        match &self.groups {
            Some(groups) => groups.len(),
            None => usize::from(self.rows > 0),
        }
    }

    fn group(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = &batch.columns()[..self.keys.len()];
        self.indices.clear();
        match &mut self.groups {
            Some(groups) => groups
                .intern(keys, &mut self.indices)
                .map_err(self.calls.errors)?,
            None => self.indices.resize(batch.num_rows(), 0),
        }
        self.rows += batch.num_rows();
        let total = self.held();
        self.accumulators
            .update(&self.calls, false, batch, &self.indices, total)
    }

    /// Emits the groups held.
    fn flush(&mut self, out: &mut Outbox) -> Result<()> {
        let total = self.held();
        if total == 0 {
            return Ok(());
        }
        let mut columns: Vec<ArrayRef> = match &mut self.groups {
            Some(groups) => {
                let keys = groups.emit(EmitTo::All).map_err(self.calls.errors)?;
                // Emitting takes the keys only; what finds them again is to be cleared apart.
                groups.clear_shrink(total);
                keys
            }
            None => Vec::new(),
        };
        columns.extend(self.accumulators.take(&self.calls, total)?);
        self.accumulators = Accumulators::new(&self.calls)?;
        if let Some(groups) = &mut self.groups {
            // What was emitted is still known by its hash until this.
            groups.clear_shrink(CHUNK);
        }
        self.found += total;
        let batch = batch_of(&self.output, columns, total)?;
        let mut from = 0;
        while from < total {
            let length = CHUNK.min(total - from);
            out.emit(Rows::inserts(batch.slice(from, length)));
            from += length;
        }
        Ok(())
    }

    /// Ends the trial if it has lasted long enough.
    fn judge(&mut self) {
        let groups = self.found + self.held();
        if self.groups.is_some() && self.rows >= TRIAL_ROWS && groups * 2 > self.rows {
            self.alone = true;
        }
    }

    /// Emits each row as states.
    fn convert(&self, batch: &RecordBatch, out: &mut Outbox) -> Result<()> {
        let mut columns = batch.columns()[..self.keys.len()].to_vec();
        columns.extend(self.accumulators.convert(&self.calls, batch)?);
        let batch = batch_of(&self.output, columns, batch.num_rows())?;
        out.emit(Rows::inserts(batch));
        Ok(())
    }
}

impl Operator for Partial {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let batch = in_time(self.time, self.keys.len(), rows.batch(), context, out)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.alone {
            return self.convert(&batch, out);
        }
        self.group(&batch)?;
        self.judge();
        if self.alone || self.held() >= MOST_GROUPS {
            self.flush(out)?;
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, _context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        self.flush(out)?;
        if self.groups.is_none() {
            self.rows = 0;
        }
        Ok(())
    }
}
