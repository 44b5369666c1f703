//! Aggregates over distinct values: a table beside that of the groups knows every pair of group and value, and only a new pair
//! goes to the accumulator. It goes away with its group.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use weir_runtime::{Result, key_group};
use weir_runtime::{Table, TableKind, TableSpec};
use xxhash_rust::xxh64::xxh64;

use super::calls::{Accumulators, Calls};
use crate::row_codec::{EncodedRows, RowCodec, fields_text};

/// The distinct values of one or more calls with the same arguments and filter.
#[derive(Debug, Clone)]
pub(super) struct DistinctSpec {
    /// Stable text of the arguments and the filter.
    id: String,
    /// Which calls.
    calls: Vec<usize>,
    arguments: Fields,
}

/// What the calls of an aggregation have distinct values of.
pub(super) fn specs(calls: &Calls) -> Vec<DistinctSpec> {
    let mut specs: Vec<DistinctSpec> = Vec::new();
    for (index, call) in calls.list.iter().enumerate() {
        let Some(distinct) = &call.distinct else {
            continue;
        };
        match specs.iter_mut().find(|spec| spec.id == distinct.id) {
            Some(spec) => spec.calls.push(index),
            None => specs.push(DistinctSpec {
                id: distinct.id.clone(),
                calls: vec![index],
                arguments: fields(&distinct.arguments),
            }),
        }
    }
    specs
}

fn fields(arguments: &[DataType]) -> Fields {
    let named = arguments.iter().enumerate();
    let field = |(i, data_type): (usize, &DataType)| {
        Arc::new(Field::new(format!("value{i}"), data_type.clone(), true))
    };
    named.map(field).collect()
}

impl DistinctSpec {
    /// The table of pairs: its keys are the group's and the value's columns, one after the other.
    pub(super) fn table(&self, keys: &Fields, kind: TableKind) -> TableSpec {
        let columns: Vec<FieldRef> = keys.iter().chain(&self.arguments).cloned().collect();
        TableSpec {
            name: format!("distinct-{:016x}", xxh64(self.id.as_bytes(), 0)),
            kind,
            version: 1,
            key: fields_text(&columns.into()),
            value: "[]".to_owned(),
        }
    }
}

/// The pairs of an epoch.
pub(super) struct DistinctSet {
    spec: DistinctSpec,
    codec: RowCodec,
    encoded: EncodedRows,
    /// For each slot of the table: the slot of the group and the length of its key.
    pairs: Vec<(usize, usize)>,
    key: Vec<u8>,
}

impl DistinctSet {
    pub(super) fn new(spec: DistinctSpec) -> Result<Self> {
        let codec = RowCodec::new(spec.arguments.clone())?;
        Ok(Self {
            encoded: codec.buffer(),
            codec,
            spec,
            pairs: Vec::new(),
            key: Vec::new(),
        })
    }

    /// Touches the pair of each row; `keys` and `groups` are those of the rows' groups.
    pub(super) fn touch(
        &mut self,
        table: &mut Table,
        calls: &Calls,
        batch: &RecordBatch,
        keys: &EncodedRows,
        times: Option<&[i64]>,
        groups: &[usize],
    ) -> Result<()> {
        let (arguments, filter) = calls.evaluated(self.spec.calls[0], batch)?;
        self.encoded.clear();
        self.codec
            .append(&mut self.encoded, &arguments, batch.num_rows())?;
        let nulls = arguments.first().and_then(|first| first.logical_nulls());
        for (row, group) in groups.iter().enumerate() {
            let counts = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if !counts {
                continue;
            }
            let key = keys.get(row);
            self.key.clear();
            self.key.extend_from_slice(key);
            self.key.extend_from_slice(self.encoded.get(row));
            let time = times.map_or(0, |times| times[row]);
            let slot = table.touch(key_group(key), time, &self.key);
            if slot == self.pairs.len() {
                self.pairs.push((*group, key.len()));
            }
        }
        Ok(())
    }

    /// Hands the pairs that are new to the accumulators, out of `total` groups, and keeps them.
    pub(super) fn finish(
        &mut self,
        table: &mut Table,
        calls: &Calls,
        accumulators: &mut Accumulators,
        total: usize,
    ) -> Result<()> {
        table.load()?;
        let pairs = std::mem::take(&mut self.pairs);
        let new = (0..pairs.len()).filter(|slot| table.value(*slot).is_none());
        let new: Vec<usize> = new.collect();
        let values = new.iter().map(|slot| &table.key(*slot)[pairs[*slot].1..]);
        let columns = self.codec.decode(values)?;
        let groups: Vec<usize> = new.iter().map(|slot| pairs[*slot].0).collect();
        for call in &self.spec.calls {
            accumulators.update_one(calls, *call, &columns, &groups, total)?;
        }
        for slot in new {
            table.set(slot, &[]);
        }
        Ok(())
    }
}
