//! The first rows of a query's life: Spark's `LIMIT` on a stream. Runs in one subtask.
//!
//! Which rows are the first follows from their origin: rows of an epoch are held, no more of them than can still be wanted, and
//! passed on in the order of origins when the epoch ends.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Fields, UInt64Type};
use weir_runtime::{
    Operator, OperatorContext, OperatorSpec, Origin, Outbox, Result, Rows, WeirError, key_group,
};
use weir_runtime::{OperatorState, Table, TableKind, TableSpec};

use crate::row_codec::{RowCodec, fields_text};

/// Key of the one entry: a row without fields.
const COUNTER: &[u8] = &[];
/// So many rows more than can be wanted are held before they are sorted out.
const SLACK: u64 = 16_384;

/// An operator that passes on the first `rows` rows of the query's life. Its exchange must be to a single subtask.
pub fn limit(rows: u64) -> OperatorSpec {
    OperatorSpec::new("limit", move |_| Ok(Limit::new(rows)))
        .with_detail(rows.to_string())
        .with_param("rows", rows.to_string())
        .with_state_name("globalLimit")
        .with_tables(vec![table()])
}

fn counted() -> Fields {
    Fields::from(vec![Field::new("rows", DataType::UInt64, false)])
}

fn table() -> TableSpec {
    TableSpec {
        name: "count".to_owned(),
        kind: TableKind::Keyed,
        version: 1,
        key: fields_text(&Fields::empty()),
        value: fields_text(&counted()),
    }
}

struct Limit {
    limit: u64,
    passed: u64,
    state: Option<OperatorState>,
    held: Vec<(Origin, Rows)>,
    held_rows: u64,
}

impl Limit {
    fn new(limit: u64) -> Self {
        Self {
            limit,
            passed: 0,
            state: None,
            held: Vec::new(),
            held_rows: 0,
        }
    }

    fn table(&mut self) -> Result<&mut Table> {
        self.state
            .as_mut()
            .map(|state| state.table(0))
            .ok_or_else(|| WeirError::internal("a limit was not given its state"))
    }

    fn wanted(&self) -> u64 {
        self.limit.saturating_sub(self.passed)
    }

    /// Takes the first wanted rows out of what is held, by origin; the rest is dropped and counted.
    fn first(&mut self, context: &OperatorContext) -> Vec<(Origin, Rows)> {
        // The sort is stable: batches of one origin stay in the order in which they came.
        self.held.sort_by_key(|(origin, _)| *origin);
        let mut left = self.wanted();
        let mut first = Vec::new();
        for (origin, rows) in self.held.drain(..) {
            let taken = rows.num_rows().min(clamped(left));
            context.metrics.add_filtered(rows.num_rows() - taken);
            left -= taken as u64;
            if taken > 0 {
                first.push((origin, rows.slice(0, taken)));
            }
        }
        self.held_rows = 0;
        first
    }
}

fn clamped(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}

impl Operator for Limit {
    fn open(&mut self, state: OperatorState, _context: &OperatorContext) -> Result<()> {
        self.state = Some(state);
        let table = self.table()?;
        let slot = table.touch(key_group(COUNTER), 0, COUNTER);
        table.load()?;
        if let Some(value) = table.value(slot) {
            let columns = RowCodec::new(counted())?.decode([value])?;
            self.passed = columns[0].as_primitive::<UInt64Type>().value(0);
        }
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        self.state.as_mut()
    }

    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        _out: &mut Outbox,
    ) -> Result<()> {
        let wanted = self.wanted();
        let taken = rows.num_rows().min(clamped(wanted));
        context.metrics.add_filtered(rows.num_rows() - taken);
        if taken == 0 {
            return Ok(());
        }
        self.held.push((context.origin, rows.slice(0, taken)));
        self.held_rows += taken as u64;
        if self.held_rows > wanted.saturating_mul(2).saturating_add(SLACK) {
            self.held = self.first(context);
            self.held_rows = wanted;
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let first = self.first(context);
        if first.is_empty() {
            return Ok(());
        }
        for (_, rows) in first {
            self.passed += rows.num_rows() as u64;
            out.emit(rows);
        }
        let passed: ArrayRef = Arc::new(UInt64Array::from(vec![self.passed]));
        let value = RowCodec::new(counted())?.encode(&[passed], 1)?;
        let table = self.table()?;
        let slot = table.touch(key_group(COUNTER), 0, COUNTER);
        table.set(slot, value.get(0));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::expression::testing::{commit, context};

    fn rows(values: Vec<i64>) -> Rows {
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        Rows::inserts(RecordBatch::try_from_iter([("v", column)]).expect("batch"))
    }

    fn opened(limit: u64, context: &OperatorContext) -> Limit {
        let mut operator = Limit::new(limit);
        operator
            .open(OperatorState::in_memory(&[table()]), context)
            .expect("open");
        operator
    }

    /// One epoch: rows of splits, in the order in which they arrive.
    fn epoch(
        operator: &mut Limit,
        context: &mut OperatorContext,
        arriving: &[(u32, Vec<i64>)],
    ) -> Vec<i64> {
        let mut out = Outbox::default();
        for (split, values) in arriving {
            context.origin = Origin {
                split: *split,
                ..Origin::default()
            };
            operator
                .process(0, rows(values.clone()), context, &mut out)
                .expect("process");
        }
        operator.on_epoch_end(context, &mut out).expect("end");
        commit(operator);
        let values = |rows: Rows| {
            rows.batch()
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        out.take().into_iter().flat_map(values).collect()
    }

    #[test]
    fn limit_counts_over_epochs_and_takes_the_first_rows_by_origin() {
        let mut context = context();
        let mut operator = opened(4, &context);
        let first = epoch(&mut operator, &mut context, &[(0, vec![1]), (1, vec![2])]);
        assert_eq!(first, [1, 2]);
        let arriving = [(1, vec![5, 6]), (0, vec![3])];
        assert_eq!(epoch(&mut operator, &mut context, &arriving), [3, 5]);
        assert_eq!(
            epoch(&mut operator, &mut context, &[(0, vec![9])]),
            [0_i64; 0]
        );
        assert_eq!(context.metrics.snapshot().filtered, 2);
    }

    #[test]
    fn limit_goes_on_from_its_state() {
        let mut context = context();
        let mut operator = opened(3, &context);
        assert_eq!(
            epoch(&mut operator, &mut context, &[(0, vec![1, 2])]),
            [1, 2]
        );
        let state = operator.state.take().expect("state");
        let mut again = Limit::new(3);
        again.open(state, &context).expect("open");
        assert_eq!(epoch(&mut again, &mut context, &[(0, vec![3, 4])]), [3]);
    }

    #[test]
    fn limit_holds_little_more_than_it_wants_whatever_the_epoch_brings() {
        let context = context();
        let mut operator = opened(1, &context);
        for batch in 0..20 {
            operator
                .process(0, rows(vec![batch; 5000]), &context, &mut Outbox::default())
                .expect("process");
            assert!(operator.held_rows <= SLACK + 2);
        }
        assert_eq!(operator.held_rows, operator.held.len() as u64);
    }

    #[test]
    fn limit_of_zero_passes_nothing_and_holds_nothing() {
        let mut context = context();
        let mut operator = opened(0, &context);
        assert_eq!(
            epoch(&mut operator, &mut context, &[(0, vec![1])]),
            [0_i64; 0]
        );
        assert_eq!(context.metrics.snapshot().filtered, 1);
    }
}
