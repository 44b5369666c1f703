//! Aggregates over all values of a group: lists, sets, joined text, and the lists that percentiles and modes are made from.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StringArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::scalar::ScalarValue;

use super::rows::RowStore;
use super::udaf::{Function, Maker, constant, expect, for_each_row, one_group_each};
use crate::functions::error::mismatch;

/// The type of a list of values of a type.
pub(super) fn list_of(data_type: &DataType) -> DataType {
    DataType::List(element(data_type))
}

fn element(data_type: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(data_type.clone(), true))
}

/// What becomes of the lists in the end.
pub(super) type Finish = Arc<dyn Fn(&ListArray) -> Result<ArrayRef> + Send + Sync>;

/// How values are collected.
#[derive(Clone)]
pub(super) struct Collecting {
    pub(super) data_type: DataType,
    /// Each value once.
    pub(super) distinct: bool,
    pub(super) finish: Finish,
}

impl Collecting {
    pub(super) fn maker(self) -> Result<Maker> {
        RowStore::new(self.data_type.clone())?;
        Ok(Arc::new(move || Box::new(Collected::new(self.clone()))))
    }
}

/// The values of each group that are not NULL, in the order of rows. State: the list.
struct Collected {
    how: Collecting,
    groups: usize,
    arrays: Vec<ArrayRef>,
    /// Group, array and row of each value.
    values: Vec<(usize, usize, usize)>,
}

impl Collected {
    fn new(how: Collecting) -> Self {
        Self {
            how,
            groups: 0,
            arrays: Vec::new(),
            values: Vec::new(),
        }
    }

    fn lists(&mut self, to: EmitTo) -> Result<ListArray> {
        let count = match to {
            EmitTo::All => self.groups,
            EmitTo::First(count) => count,
        };
        let mut taken = std::mem::take(&mut self.values);
        // Stable: the values of a group stay in order.
        taken.sort_by_key(|value| value.0);
        let rest = taken.split_off(taken.partition_point(|value| value.0 < count));
        if self.how.distinct {
            taken = self.once(taken)?;
        }
        let list = self.list(&taken, count)?;
        let left = |(group, array, row)| (group - count, array, row);
        self.values = rest.into_iter().map(left).collect();
        self.groups -= count;
        if self.values.is_empty() {
            self.arrays.clear();
        }
        Ok(list)
    }

    /// Values without those that their group has already; sorted by group.
    fn once(&self, values: Vec<(usize, usize, usize)>) -> Result<Vec<(usize, usize, usize)>> {
        let store = RowStore::new(self.how.data_type.clone())?;
        let encode = |array: &ArrayRef| store.encode(&crate::functions::normalize::normal(array)?);
        let encoded: Vec<_> = self.arrays.iter().map(encode).collect::<Result<_>>()?;
        let mut seen: HashSet<&[u8]> = HashSet::new();
        let mut group = usize::MAX;
        let mut kept = Vec::with_capacity(values.len());
        for value in values {
            if value.0 != group {
                group = value.0;
                seen.clear();
            }
            if seen.insert(encoded[value.1].row(value.2).data()) {
                kept.push(value);
            }
        }
        Ok(kept)
    }

    fn list(&self, values: &[(usize, usize, usize)], groups: usize) -> Result<ListArray> {
        let mut lengths = vec![0; groups];
        for (group, _, _) in values {
            lengths[*group] += 1;
        }
        let arrays: Vec<&dyn Array> = self.arrays.iter().map(AsRef::as_ref).collect();
        let picked: Vec<(usize, usize)> = values.iter().map(|(_, a, r)| (*a, *r)).collect();
        let values = if picked.is_empty() {
            arrow::array::new_empty_array(&self.how.data_type)
        } else {
            interleave(&arrays, &picked)?
        };
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        Ok(ListArray::try_new(
            element(&self.how.data_type),
            offsets,
            values,
            None,
        )?)
    }

    fn typed(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if *array.data_type() == self.how.data_type {
            return Ok(Arc::clone(array));
        }
        Ok(arrow::compute::cast(array, &self.how.data_type)?)
    }
}

impl GroupsAccumulator for Collected {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups = self.groups.max(total);
        let (array, nulls) = (self.arrays.len(), values[0].logical_nulls());
        let before = self.values.len();
        for_each_row(groups, filter, |row, group| {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                self.values.push((group, array, row));
            }
        });
        if self.values.len() > before {
            let typed = self.typed(&values[0])?;
            self.arrays.push(typed);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let lists = self.lists(emit_to)?;
        (self.how.finish)(&lists)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.lists(emit_to)?)])
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups = self.groups.max(total);
        let lists = values[0].as_list::<i32>();
        let array = self.arrays.len();
        let before = self.values.len();
        for (row, group) in groups.iter().enumerate() {
            if lists.is_null(row) {
                continue;
            }
            let (from, to) = (lists.value_offsets()[row], lists.value_offsets()[row + 1]);
            self.values
                .extend((from..to).map(|value| (*group, array, value as usize)));
        }
        if self.values.len() > before {
            let typed = self.typed(lists.values())?;
            self.arrays.push(typed);
        }
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        one_group_each(&self.how.clone().maker()?, values, filter)
    }

    fn size(&self) -> usize {
        let arrays: usize = self.arrays.iter().map(|a| a.get_array_memory_size()).sum();
        arrays + self.values.capacity() * size_of::<(usize, usize, usize)>()
    }
}

/// `collect_list`, `array_agg` and `collect_set`.
#[derive(Debug)]
pub(super) struct Collect {
    pub(super) name: &'static str,
    pub(super) distinct: bool,
}

impl Function for Collect {
    fn name(&self) -> &'static str {
        self.name
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name, types, 1, 1)?;
        Ok(types.to_vec())
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        if self.distinct && matches!(arguments[0], DataType::Map(_, _)) {
            return Err(mismatch(format!("{} cannot compare maps", self.name)));
        }
        Ok(list_of(&arguments[0]))
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![list_of(&arguments[0])])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        Collecting {
            data_type: call.expr_fields[0].data_type().clone(),
            distinct: self.distinct || call.is_distinct,
            finish: Arc::new(|lists| Ok(Arc::new(lists.clone()))),
        }
        .maker()
    }
}

/// `listagg` and `string_agg`: the texts of a group, joined; NULL if there are none.
#[derive(Debug)]
pub(super) struct Joined;

impl Function for Joined {
    fn name(&self) -> &'static str {
        "string_agg"
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name(), types, 1, 2)?;
        Ok(vec![DataType::Utf8; types.len()])
    }

    fn returns(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn state(&self, _arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![list_of(&DataType::Utf8)])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let between = match call.exprs.len() {
            1 => String::new(),
            _ => match constant(call, 1)? {
                ScalarValue::Utf8(text) => text.unwrap_or_default(),
                other => return Err(mismatch(format!("listagg cannot join with {other}"))),
            },
        };
        Collecting {
            data_type: DataType::Utf8,
            distinct: call.is_distinct,
            finish: Arc::new(move |lists| joined(lists, &between)),
        }
        .maker()
    }
}

fn joined(lists: &ListArray, between: &str) -> Result<ArrayRef> {
    let texts = lists.values().as_string::<i32>();
    let join = |range: &[i32]| {
        let words = (range[0]..range[1]).map(|i| texts.value(i as usize));
        let words: Vec<&str> = words.collect();
        (!words.is_empty()).then(|| words.join(between))
    };
    let joined: StringArray = lists.value_offsets().windows(2).map(join).collect();
    Ok(Arc::new(joined))
}

/// `first_value`, `last_value` and `any_value`.
#[derive(Debug)]
pub(super) struct End {
    pub(super) name: &'static str,
    pub(super) last: bool,
}

impl Function for End {
    fn name(&self) -> &'static str {
        self.name
    }

    fn arguments(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        expect(self.name, types, 1, 1)?;
        Ok(types.to_vec())
    }

    fn returns(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn state(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        Ok(vec![arguments[0].clone(), DataType::Boolean])
    }

    fn maker(&self, call: &AccumulatorArgs<'_>) -> Result<Maker> {
        let data_type = call.expr_fields[0].data_type().clone();
        super::rows::EndRows::maker(data_type, self.last, call.ignore_nulls)
    }

    fn may_ignore_nulls(&self) -> bool {
        true
    }
}

/// A validity that says which lists hold values.
pub(super) fn not_empty(lists: &ListArray) -> NullBuffer {
    let offsets = lists.value_offsets().windows(2);
    offsets.map(|range| range[1] > range[0]).collect()
}
