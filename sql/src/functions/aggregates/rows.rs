//! Values of any type, one per group, kept as rows of bytes: the best by some order, the first, the last.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, RowParser, Rows, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::udaf::{Maker, for_each_row, one_group_each};
use crate::functions::error::mismatch;
use crate::functions::normalize::normal;

/// One column as rows of bytes and back.
pub(super) struct RowStore {
    data_type: DataType,
    converter: RowConverter,
    parser: RowParser,
    /// The row of NULL.
    null: Box<[u8]>,
}

impl RowStore {
    pub(super) fn new(data_type: DataType) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())])
            .map_err(|_| mismatch(format!("values of type {data_type} cannot be compared")))?;
        let null = converter.convert_columns(&[new_null_array(&data_type, 1)])?;
        Ok(Self {
            null: null.row(0).data().into(),
            parser: converter.parser(),
            converter,
            data_type,
        })
    }

    pub(super) fn encode(&self, column: &ArrayRef) -> Result<Rows> {
        if *column.data_type() == self.data_type {
            return Ok(self.converter.convert_columns(&[Arc::clone(column)])?);
        }
        let column = arrow::compute::cast(column, &self.data_type)?;
        Ok(self.converter.convert_columns(&[column])?)
    }

    /// The column of these rows; nothing is NULL.
    pub(super) fn decode<'a>(
        &'a self,
        rows: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<ArrayRef> {
        let rows = rows.map(|row| self.parser.parse(row.unwrap_or(&self.null)));
        let mut columns = self.converter.convert_rows(rows)?;
        Ok(columns
            .pop()
            .expect("invariant: the converter has one field"))
    }
}

/// Which of two rows stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wins {
    /// The larger, of equal ones the earlier.
    Larger,
    /// The smaller, of equal ones the earlier.
    Smaller,
    /// The larger, of equal ones the later.
    LargerOrEqual,
    /// The smaller, of equal ones the later.
    SmallerOrEqual,
}

impl Wins {
    fn replaces(self, new: &[u8], old: &[u8]) -> bool {
        match self {
            Self::Larger => new > old,
            Self::Smaller => new < old,
            Self::LargerOrEqual => new >= old,
            Self::SmallerOrEqual => new <= old,
        }
    }
}

/// The best row of a group.
struct Best {
    by: Box<[u8]>,
    value: Box<[u8]>,
}

/// The best value of each group by an order that may be of another column. State: what it is ordered by (NULL without rows),
/// then the value if that is another column.
pub(super) struct BestRows {
    by: RowStore,
    value: Option<RowStore>,
    wins: Wins,
    best: Vec<Option<Best>>,
}

impl BestRows {
    fn new(by: DataType, value: Option<DataType>, wins: Wins) -> Result<Self> {
        Ok(Self {
            by: RowStore::new(by)?,
            value: value.map(RowStore::new).transpose()?,
            wins,
            best: Vec::new(),
        })
    }

    pub(super) fn maker(by: DataType, value: Option<DataType>, wins: Wins) -> Result<Maker> {
        Self::new(by.clone(), value.clone(), wins)?;
        Ok(Arc::new(move || {
            let made = Self::new(by.clone(), value.clone(), wins);
            Box::new(made.expect("invariant: it was made before"))
        }))
    }

    fn add(
        &mut self,
        by: &ArrayRef,
        value: Option<&ArrayRef>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.best.resize_with(total, || None);
        let keys = self.by.encode(&normal(by)?)?;
        let values = match (&self.value, value) {
            (Some(store), Some(column)) => Some(store.encode(column)?),
            _ => None,
        };
        for_each_row(groups, filter, |row, group| {
            if by.is_null(row) {
                return;
            }
            let key = keys.row(row).data();
            let best = &mut self.best[group];
            let better = best
                .as_ref()
                .is_none_or(|best| self.wins.replaces(key, &best.by));
            if better {
                let value = values.as_ref().map(|values| values.row(row).data());
                *best = Some(Best {
                    by: key.into(),
                    value: value.unwrap_or_default().into(),
                });
            }
        });
        Ok(())
    }

    fn keys(&self, best: &[Option<Best>]) -> Result<ArrayRef> {
        self.by
            .decode(best.iter().map(|best| best.as_ref().map(|best| &*best.by)))
    }

    fn values(&self, best: &[Option<Best>]) -> Result<Option<ArrayRef>> {
        let Some(store) = &self.value else {
            return Ok(None);
        };
        let rows = best
            .iter()
            .map(|best| best.as_ref().map(|best| &*best.value));
        store.decode(rows).map(Some)
    }
}

impl GroupsAccumulator for BestRows {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        match values {
            [value, by] => self.add(by, Some(value), groups, filter, total),
            _ => self.add(&values[0], None, groups, filter, total),
        }
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let best = emit_to.take_needed(&mut self.best);
        match self.values(&best)? {
            Some(values) => Ok(values),
            None => self.keys(&best),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let best = emit_to.take_needed(&mut self.best);
        let mut state = vec![self.keys(&best)?];
        state.extend(self.values(&best)?);
        Ok(state)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.add(&values[0], values.get(1), groups, None, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let value = self.value.as_ref().map(|store| store.data_type.clone());
        let maker = Self::maker(self.by.data_type.clone(), value, self.wins)?;
        one_group_each(&maker, values, filter)
    }

    fn size(&self) -> usize {
        let bytes = self.best.iter().flatten();
        let bytes: usize = bytes.map(|best| best.by.len() + best.value.len()).sum();
        bytes + self.best.capacity() * size_of::<Option<Best>>()
    }
}

/// The first or last value of each group in the order of rows. State: the value, and whether there is one.
pub(super) struct EndRows {
    store: RowStore,
    last: bool,
    ignore_nulls: bool,
    rows: Vec<Option<Box<[u8]>>>,
}

impl EndRows {
    fn new(data_type: DataType, last: bool, ignore_nulls: bool) -> Result<Self> {
        Ok(Self {
            store: RowStore::new(data_type)?,
            last,
            ignore_nulls,
            rows: Vec::new(),
        })
    }

    pub(super) fn maker(data_type: DataType, last: bool, ignore_nulls: bool) -> Result<Maker> {
        Self::new(data_type.clone(), last, ignore_nulls)?;
        Ok(Arc::new(move || {
            let made = Self::new(data_type.clone(), last, ignore_nulls);
            Box::new(made.expect("invariant: it was made before"))
        }))
    }

    fn add(
        &mut self,
        values: &ArrayRef,
        groups: &[usize],
        total: usize,
        counts: impl Fn(usize) -> bool,
    ) -> Result<()> {
        self.rows.resize_with(total, || None);
        let encoded = self.store.encode(values)?;
        for (row, group) in groups.iter().enumerate() {
            let known = &mut self.rows[*group];
            if (!self.last && known.is_some()) || !counts(row) {
                continue;
            }
            let bytes = encoded.row(row).data();
            match known {
                Some(known) if known.len() == bytes.len() => known.copy_from_slice(bytes),
                _ => *known = Some(bytes.into()),
            }
        }
        Ok(())
    }

    fn values(&self, rows: &[Option<Box<[u8]>>]) -> Result<ArrayRef> {
        self.store.decode(rows.iter().map(Option::as_deref))
    }
}

impl GroupsAccumulator for EndRows {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let (nulls, ignore) = (values[0].logical_nulls(), self.ignore_nulls);
        self.add(&values[0], groups, total, |row| {
            filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
                && (!ignore || nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)))
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let rows = emit_to.take_needed(&mut self.rows);
        self.values(&rows)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let rows = emit_to.take_needed(&mut self.rows);
        let seen: BooleanArray = rows.iter().map(|row| Some(row.is_some())).collect();
        Ok(vec![self.values(&rows)?, Arc::new(seen)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let seen = values[1].as_boolean().clone();
        self.add(&values[0], groups, total, |row| seen.value(row))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let maker = Self::maker(self.store.data_type.clone(), self.last, self.ignore_nulls)?;
        one_group_each(&maker, values, filter)
    }

    fn size(&self) -> usize {
        let bytes: usize = self.rows.iter().flatten().map(|row| row.len()).sum();
        bytes + self.rows.capacity() * size_of::<Option<Box<[u8]>>>()
    }
}
