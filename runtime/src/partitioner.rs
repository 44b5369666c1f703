//! How rows of one subtask are spread over the subtasks of the next task.
//!
//! Hashing is stable across processes and versions (XXH64 over Arrow's row format), because which subtask owns a key decides
//! where its state lives. A key belongs to one of [`KEY_GROUPS`] key groups, a subtask owns a range of them, so the
//! parallelism can change between runs.

use arrow::array::UInt32Array;
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};

use crate::error::{Result, WeirError};
use crate::key::normal_key;
use crate::message::Rows;

/// Number of key groups; fixed for the life of a checkpoint.
pub const KEY_GROUPS: u32 = 4096;

/// The subtask of `parallelism` that owns a key group.
pub fn subtask_of(key_group: u32, parallelism: usize) -> usize {
    key_group as usize * parallelism / KEY_GROUPS as usize
}

/// The key groups subtask `subtask` of `parallelism` owns, from the first to before the last; empty if there are more subtasks than
/// key groups and this one has none.
pub fn key_groups_of(subtask: usize, parallelism: usize) -> std::ops::Range<u32> {
    let parallelism = parallelism.max(1) as u64;
    let first = |subtask: u64| {
        let group = (subtask * u64::from(KEY_GROUPS)).div_ceil(parallelism);
        group.min(u64::from(KEY_GROUPS)) as u32
    };
    first(subtask as u64)..first(subtask as u64 + 1)
}

/// How an edge distributes rows. A property of the edge; numbers of subtasks are decided when the topology is laid out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Partitioning {
    /// Subtask i to subtask i; becomes `RoundRobin` where the two sides differ in number.
    #[default]
    Forward,
    /// Rows with equal values in these columns go to the same subtask.
    Hash(Vec<String>),
    /// Batches in turn.
    RoundRobin,
    /// Every row to every subtask.
    Broadcast,
    /// Everything to one subtask.
    Single,
}

impl std::fmt::Display for Partitioning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forward => f.write_str("forward"),
            Self::Hash(keys) => write!(f, "hash({})", keys.join(", ")),
            Self::RoundRobin => f.write_str("round robin"),
            Self::Broadcast => f.write_str("broadcast"),
            Self::Single => f.write_str("single"),
        }
    }
}

/// Sends rows of one subtask to the right targets.
pub(crate) struct Partitioner {
    kind: Kind,
    targets: usize,
}

enum Kind {
    Fixed(usize),
    RoundRobin(usize),
    Broadcast,
    Hash {
        columns: Vec<usize>,
        converter: Box<RowConverter>,
    },
}

impl Partitioner {
    /// The partitioner of sending subtask `subtask` towards `targets` subtasks.
    ///
    /// # Errors
    /// If a key column does not exist or cannot be a key.
    pub(crate) fn new(
        partitioning: &Partitioning,
        schema: &SchemaRef,
        subtask: usize,
        targets: usize,
    ) -> Result<Self> {
        let kind = match partitioning {
            Partitioning::Forward => Kind::Fixed(subtask),
            Partitioning::Single => Kind::Fixed(0),
            Partitioning::RoundRobin => Kind::RoundRobin(subtask % targets),
            Partitioning::Broadcast => Kind::Broadcast,
            Partitioning::Hash(keys) => Self::hash(keys, schema)?,
        };
        Ok(Self { kind, targets })
    }

    fn hash(keys: &[String], schema: &SchemaRef) -> Result<Kind> {
        let mut columns = Vec::with_capacity(keys.len());
        let mut fields = Vec::with_capacity(keys.len());
        for key in keys {
            let index = schema.index_of(key).map_err(|_| {
                let known: Vec<_> = schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                WeirError::plan(format!(
                    "key column '{key}' does not exist, columns: {}",
                    known.join(", ")
                ))
            })?;
            columns.push(index);
            fields.push(SortField::new(schema.field(index).data_type().clone()));
        }
        let converter = RowConverter::new(fields).map_err(|error| {
            WeirError::plan(format!("columns {keys:?} cannot be keys: {error}")).with_source(error)
        })?;
        Ok(Kind::Hash {
            columns,
            converter: Box::new(converter),
        })
    }

    /// The rows for each target, as (target, rows); targets without rows are left out.
    ///
    /// # Errors
    /// If the key columns cannot be encoded.
    pub(crate) fn split(&mut self, rows: Rows) -> Result<Vec<(usize, Rows)>> {
        let targets = self.targets;
        match &mut self.kind {
            Kind::Fixed(target) => Ok(vec![(*target, rows)]),
            Kind::Broadcast => Ok((0..targets).map(|target| (target, rows.clone())).collect()),
            Kind::RoundRobin(next) => {
                let target = *next;
                *next = (*next + 1) % targets;
                Ok(vec![(target, rows)])
            }
            Kind::Hash { .. } if targets == 1 => Ok(vec![(0, rows)]),
            Kind::Hash { columns, converter } => {
                let keys: Vec<_> = columns
                    .iter()
                    .map(|index| normal_key(rows.batch().column(*index)))
                    .collect();
                let encoded = converter.convert_columns(&keys)?;
                let mut indices = vec![Vec::new(); targets];
                for (row, key) in encoded.iter().enumerate() {
                    let group = key_group(key.as_ref());
                    let index =
                        u32::try_from(row).expect("invariant: a batch has fewer than 2^32 rows");
                    indices[subtask_of(group, targets)].push(index);
                }
                take_all(&rows, indices)
            }
        }
    }
}

fn take_all(rows: &Rows, indices: Vec<Vec<u32>>) -> Result<Vec<(usize, Rows)>> {
    let taken = indices
        .into_iter()
        .enumerate()
        .filter(|(_, indices)| !indices.is_empty());
    taken
        .map(|(target, indices)| Ok((target, rows.take(&UInt32Array::from(indices))?)))
        .collect()
}

/// Key group of an encoded key.
pub fn key_group(key: &[u8]) -> u32 {
    (xxhash_rust::xxh64::xxh64(key, 0) % u64::from(KEY_GROUPS)) as u32
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn rows(values: Vec<i64>) -> Rows {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
        Rows::inserts(
            RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values))]).expect("batch"),
        )
    }

    #[test]
    fn hash_sends_equal_keys_to_one_subtask_and_loses_none() {
        let all = rows((0..1000).chain(0..1000).collect());
        let partitioning = Partitioning::Hash(vec!["k".into()]);
        let mut partitioner =
            Partitioner::new(&partitioning, &all.schema(), 0, 3).expect("partitioner");
        let parts = partitioner.split(all).expect("split");
        assert_eq!(parts.len(), 3);
        assert_eq!(
            parts.iter().map(|(_, rows)| rows.num_rows()).sum::<usize>(),
            2000
        );
        let mut owner = std::collections::HashMap::new();
        for (target, rows) in &parts {
            let column = rows
                .batch()
                .column(0)
                .as_any()
                .downcast_ref::<Int64Array>()
                .expect("i64")
                .clone();
            for value in column.values() {
                assert_eq!(owner.entry(*value).or_insert(*target), target);
            }
        }
    }

    #[test]
    fn key_groups_of_every_parallelism_are_covered_in_ranges() {
        for parallelism in 1..=7 {
            let owners: Vec<_> = (0..KEY_GROUPS)
                .map(|group| subtask_of(group, parallelism))
                .collect();
            assert!(
                owners.is_sorted()
                    && owners[0] == 0
                    && owners[KEY_GROUPS as usize - 1] == parallelism - 1
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn key_groups_of_a_subtask_are_exactly_those_sent_to_it(parallelism in 1_usize..9000, group in 0..KEY_GROUPS) {
            let owner = subtask_of(group, parallelism);
            proptest::prop_assert!(key_groups_of(owner, parallelism).contains(&group));
            for other in [owner.checked_sub(1), Some(owner + 1)].into_iter().flatten() {
                proptest::prop_assert!(!key_groups_of(other, parallelism).contains(&group));
            }
        }
    }

    #[test]
    fn key_groups_of_all_subtasks_follow_each_other_without_a_gap() {
        for parallelism in [1, 2, 3, 7, 4095, 4096, 4097] {
            let mut next = 0;
            for subtask in 0..parallelism {
                let groups = key_groups_of(subtask, parallelism);
                assert_eq!(groups.start, next, "subtask {subtask} of {parallelism}");
                next = groups.end;
            }
            assert_eq!(next, KEY_GROUPS);
        }
    }

    #[test]
    fn key_groups_are_stable_across_versions() {
        // XXH64 of nothing is 0xef46db3751d8e999 by its specification, so its key group is 0x999.
        assert_eq!([key_group(b""), key_group(b"weir")], [0x999, 2190]);
    }

    #[test]
    fn missing_key_column_is_refused_with_the_columns_there_are() {
        let schema = rows(vec![]).schema();
        let error = Partitioner::new(&Partitioning::Hash(vec!["x".into()]), &schema, 0, 2)
            .err()
            .expect("refused");
        assert!(error.to_string().contains("'x'") && error.to_string().contains("columns: k"));
    }
}
