//! The operator: finds the groups of changes, brings what is kept of them up to date, tells what became of their results.

use std::sync::Arc;

use arrow::array::ArrayRef;
use weir_runtime::{Operator, OperatorContext, Outbox, Result, Rows, WeirError, key_group};
use weir_runtime::{OperatorState, Table};

use super::results::{Change, Results};
use super::row_set::{Feed, RowSet};
use super::totals::{self, GroupTotals, Totals};
use super::{Kept, Shape};
use crate::aggregate::bound;
use crate::late;
use crate::row_codec::{EncodedRows, RowCodec};

/// Positions of the tables.
const GROUPS: usize = 0;
const ROWS: usize = 1;

/// One subtask of an aggregation over changes.
pub(super) struct ChangelogAggregator {
    shape: Arc<Shape>,
    results: Results,
    kept: Keeper,
    state: Option<OperatorState>,
}

/// What is kept of each group.
enum Keeper {
    Totals { totals: Totals, codec: RowCodec },
    Rows(RowSet),
}

impl ChangelogAggregator {
    pub(super) fn new(shape: Arc<Shape>) -> Result<Self> {
        let kept = match shape.kept {
            Kept::Totals => Keeper::Totals {
                totals: Totals::default(),
                codec: RowCodec::new(totals::fields(&shape.calls.list))?,
            },
            Kept::Rows => Keeper::Rows(RowSet::new(&shape)?),
        };
        Ok(Self {
            results: Results::new(&shape)?,
            kept,
            state: None,
            shape,
        })
    }

    /// The rows whose group is still open.
    fn in_time(&self, rows: Rows, context: &OperatorContext, out: &mut Outbox) -> Result<Rows> {
        let Some(time) = self.shape.aggregation.time else {
            return Ok(rows);
        };
        let times = time.times(self.keys(&rows))?;
        let Some(late) = time.late(&times, context) else {
            return Ok(rows);
        };
        late::hand_over(&rows, &late, context, out)?;
        rows.filter(&arrow::compute::not(&late)?)
    }

    fn keys<'a>(&self, rows: &'a Rows) -> &'a [ArrayRef] {
        &rows.batch().columns()[..self.shape.keys.len()]
    }

    /// The slot of the group of each row, and the encoded keys.
    fn touch(&mut self, rows: &Rows) -> Result<(Vec<usize>, EncodedRows)> {
        let keys = self.keys(rows);
        let times = match self.shape.aggregation.time {
            Some(time) => Some(time.times(keys)?),
            None => None,
        };
        let encoded = self.results.keys.encode(keys, rows.num_rows())?;
        let groups = tables(&mut self.state)?.table(GROUPS);
        let slot = |row: usize| {
            let key = encoded.get(row);
            let time = times.as_ref().map_or(0, |times| times[row]);
            groups.touch(key_group(key), time, key)
        };
        let slots = (0..rows.num_rows()).map(slot).collect();
        Ok((slots, encoded))
    }

    /// Brings the tables up to date; what each touched group was and is.
    fn write(&mut self) -> Result<Rows> {
        let Self {
            shape,
            results,
            kept,
            state,
        } = self;
        let state = tables(state)?;
        let groups = state.table(GROUPS);
        if shape.keys.is_empty() {
            // One group of all rows exists from the start.
            groups.touch(key_group(&[]), 0, &[]);
        }
        groups.load()?;
        let (old, new) = match kept {
            Keeper::Totals { totals, codec } => {
                write_totals(shape, results, totals, codec, groups)?
            }
            Keeper::Rows(rows) => write_rows(shape, results, rows, state)?,
        };
        let groups = state.table(GROUPS);
        let changes: Vec<Change<'_>> = old
            .into_iter()
            .zip(new)
            .enumerate()
            .map(|(slot, (old, new))| Change {
                key: groups.key(slot),
                old,
                new,
            })
            .collect();
        results.rows(&changes, shape)
    }

    /// Forgets the groups that the watermark completes; their results stay as they are.
    fn evict(&mut self, context: &OperatorContext) -> Result<()> {
        if self.shape.aggregation.time.is_none() || context.watermark_ms == i64::MIN {
            return Ok(());
        }
        let state = tables(&mut self.state)?;
        let bound = bound(context.watermark_ms);
        if self.shape.kept == Kept::Totals {
            state.table(GROUPS).expire_silently(bound)?;
            return Ok(());
        }
        let mut expired = Vec::new();
        state.table(GROUPS).expire(bound, &mut |entry| {
            expired.push(entry.key.to_vec());
            Ok(())
        })?;
        expired
            .iter()
            .try_for_each(|key| RowSet::forget(state.table(ROWS), key))
    }
}

fn tables(state: &mut Option<OperatorState>) -> Result<&mut OperatorState> {
    state
        .as_mut()
        .ok_or_else(|| WeirError::internal("an aggregation over changes runs without its state"))
}

/// Encoded results of each touched group, before and after.
type BeforeAndAfter = (Vec<Option<Vec<u8>>>, Vec<Option<Vec<u8>>>);

/// True if a group without rows is one all the same: the one group of an aggregation without keys.
fn stays(shape: &Shape) -> bool {
    shape.keys.is_empty()
}

fn write_totals(
    shape: &Shape,
    results: &Results,
    totals: &mut Totals,
    codec: &RowCodec,
    groups: &mut Table,
) -> Result<BeforeAndAfter> {
    let calls = &shape.calls.list;
    let total = groups.touched();
    let added = totals.take(total, calls.len());
    let known: Vec<usize> = (0..total)
        .filter(|slot| groups.value(*slot).is_some())
        .collect();
    let values = known.iter().filter_map(|slot| groups.value(*slot));
    let before = totals::groups(&codec.decode(values)?, calls.len());
    let mut old = vec![None; total];
    let encoded = results.encode(&totals::results(&before, calls)?, before.len())?;
    let mut after: Vec<GroupTotals> = added.clone();
    for ((slot, result), before) in known.into_iter().zip(encoded).zip(&before) {
        old[slot] = Some(result);
        after[slot].add(before);
    }
    let encoded = results.encode(&totals::results(&after, calls)?, total)?;
    let values = codec.encode(&totals::columns(&after, calls.len())?, total)?;
    let mut new = Vec::with_capacity(total);
    for (slot, result) in encoded.into_iter().enumerate() {
        let there = after[slot].rows > 0 || stays(shape);
        if !there {
            groups.remove(slot);
        } else if !added[slot].is_nothing() || old[slot].is_none() {
            groups.set(slot, values.get(slot));
        }
        new.push(there.then_some(result));
    }
    Ok((old, new))
}

fn write_rows(
    shape: &Shape,
    results: &Results,
    rows: &mut RowSet,
    state: &mut OperatorState,
) -> Result<BeforeAndAfter> {
    let [groups, table] = state.tables_mut() else {
        return Err(WeirError::internal(
            "an aggregation over changes has other tables than its two",
        ));
    };
    rows.write(table)?;
    let total = groups.touched();
    let mut feed = Feed::new(shape)?;
    let mut places = Vec::with_capacity(total);
    for slot in 0..total {
        places.push(rows.read(table, groups.key(slot), &mut feed)?);
    }
    let encoded = match feed.finish(rows)? {
        (_, 0) => Vec::new(),
        (columns, groups) => results.encode(&columns, groups)?,
    };
    let (mut old, mut new) = (Vec::with_capacity(total), Vec::with_capacity(total));
    for (slot, place) in places.into_iter().enumerate() {
        let before = groups.value(slot).map(<[u8]>::to_vec);
        let result = match place {
            Some(place) => Some(encoded[place].clone()),
            None if stays(shape) => {
                let none = shape.calls.evaluate(&shape.calls.initial()?, 1)?;
                results.encode(&none, 1)?.pop()
            }
            None => None,
        };
        match &result {
            Some(result) if before.as_ref() != Some(result) => groups.set(slot, result),
            Some(_) => {}
            None => groups.remove(slot),
        }
        old.push(before);
        new.push(result);
    }
    Ok((old, new))
}

impl Operator for ChangelogAggregator {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let rows = self.in_time(rows, context, out)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let (slots, keys) = self.touch(&rows)?;
        match &mut self.kept {
            Keeper::Totals { totals, .. } => totals.add(&self.shape, &rows, &slots),
            Keeper::Rows(set) => set.add(&rows, |row| keys.get(row).len()),
        }
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let rows = self.write()?;
        out.emit(rows);
        self.evict(context)
    }

    fn open(&mut self, state: OperatorState, _context: &OperatorContext) -> Result<()> {
        self.state = Some(state);
        Ok(())
    }

    fn state(&mut self) -> Option<&mut OperatorState> {
        self.state.as_mut()
    }
}
