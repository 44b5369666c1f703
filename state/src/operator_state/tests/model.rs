//! Every kind of table against a sorted map, with random work, commits, restarts and changes of parallelism.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const GROUPS: u32 = 64;

#[derive(Debug, Clone)]
enum Op {
    /// Touch, load, set: table, key, time, value length.
    Set(usize, u8, i64, u8),
    /// Touch, set without looking.
    SetBlind(usize, u8, i64, u8),
    Remove(usize, u8, i64),
    RemoveBlind(usize, u8, i64),
    Pass(usize, u8, i64),
    Read(usize, u8, i64),
    Expire(usize, i64),
    ExpireSilently(usize, i64),
    Commit,
    /// Wait until bases on their way have arrived.
    Settle,
    /// Commit, then restore with so many subtasks.
    Restart(u32),
    /// Restore without a commit: what the epoch did is forgotten.
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let (table, key, time) = (0_usize..4, 0_u8..24, -20_i64..60);
    let value = 0_u8..90;
    prop_oneof![
        8 => (table.clone(), key.clone(), time.clone(), value.clone())
            .prop_map(|(t, k, at, v)| Op::Set(t, k, at, v)),
        2 => (table.clone(), key.clone(), time.clone(), value)
            .prop_map(|(t, k, at, v)| Op::SetBlind(t, k, at, v)),
        2 => (table.clone(), key.clone(), time.clone()).prop_map(|(t, k, at)| Op::Remove(t, k, at)),
        1 => (table.clone(), key.clone(), time.clone())
            .prop_map(|(t, k, at)| Op::RemoveBlind(t, k, at)),
        1 => (table.clone(), key.clone(), time.clone()).prop_map(|(t, k, at)| Op::Pass(t, k, at)),
        2 => (table.clone(), key, time.clone()).prop_map(|(t, k, at)| Op::Read(t, k, at)),
        1 => (table.clone(), time.clone()).prop_map(|(t, at)| Op::Expire(t, at)),
        1 => (table, time).prop_map(|(t, at)| Op::ExpireSilently(t, at)),
        3 => Just(Op::Commit),
        1 => Just(Op::Settle),
        1 => (1_u32..4).prop_map(Op::Restart),
        1 => Just(Op::Crash),
    ]
}

/// Entries by (time, key) in timed tables and by (group, key) in others; with expiry.
type Model = BTreeMap<(i64, Vec<u8>), (Vec<u8>, i64)>;

fn key_bytes(key: u8) -> Vec<u8> {
    vec![key.wrapping_mul(37); 1 + usize::from(key % 5) * 7]
}

fn group_of(key: &[u8]) -> u32 {
    (u32::from(key[0]) * 31 + key.len() as u32) % GROUPS
}

fn value_bytes(length: u8) -> Vec<u8> {
    (0..length).map(|i| i ^ length).collect()
}

struct World {
    location: CheckpointLocation,
    budget: usize,
    specs: Vec<TableSpec>,
    subtasks: Vec<OperatorState>,
    models: Vec<Model>,
    /// Models as of the last commit.
    committed: Vec<Model>,
    snapshots: Vec<SnapshotRef>,
    epoch: u64,
    generation: u64,
}

impl World {
    fn new(budget: usize) -> Self {
        let specs = vec![
            spec("keyed", TableKind::Keyed),
            spec("timed", TableKind::Timed { bucket: 7 }),
            spec("expiring", TableKind::Expiring),
            spec("ordered", TableKind::Ordered),
        ];
        let location = memory();
        let mut world = Self {
            models: vec![Model::new(); specs.len()],
            committed: vec![Model::new(); specs.len()],
            specs,
            subtasks: Vec::new(),
            snapshots: Vec::new(),
            location,
            budget,
            epoch: 0,
            generation: 0,
        };
        world.subtasks = (0..2)
            .map(|i| {
                OperatorState::create(world.config(i), &world.specs, range(i, 2)).expect("create")
            })
            .collect();
        world
    }

    fn config(&self, subtask: u32) -> StateConfig {
        let mut config = config(&self.location, subtask, self.generation);
        config.memory_budget = self.budget;
        config.max_chain = 5;
        config
    }

    fn timed(&self, table: usize) -> bool {
        matches!(self.specs[table].kind, TableKind::Timed { .. })
    }

    fn expiring(&self, table: usize) -> bool {
        self.specs[table].kind == TableKind::Expiring
    }

    fn id(&self, table: usize, key: &[u8], time: i64) -> (i64, Vec<u8>) {
        let major = if self.timed(table) {
            time
        } else {
            group_of(key).into()
        };
        (major, key.to_vec())
    }

    fn owner(&mut self, group: u32) -> &mut OperatorState {
        let count = self.subtasks.len() as u32;
        let index = (0..count)
            .find(|i| range(*i, count).contains(&group))
            .expect("an owner");
        &mut self.subtasks[index as usize]
    }

    fn at(&mut self, table: usize, key: &[u8], time: i64, load: bool) -> (&mut Table, usize) {
        let group = group_of(key);
        let table = self.owner(group).table(table);
        let slot = table.touch(group, time, key);
        if load {
            table.load().expect("load");
        }
        (table, slot)
    }

    fn check_value(&mut self, table: usize, key: &[u8], time: i64) {
        let expected = self.models[table].get(&self.id(table, key, time)).cloned();
        let expiring = self.expiring(table);
        let (table, slot) = self.at(table, key, time, true);
        assert_eq!(table.value(slot), expected.as_ref().map(|(v, _)| &v[..]));
        assert_eq!((table.key(slot), table.group(slot)), (key, group_of(key)));
        if expiring && let Some((_, expires)) = expected {
            assert_eq!(table.time(slot), expires);
        }
        assert_eq!(table.touch(group_of(key), time, key), slot);
    }

    fn set(&mut self, index: usize, key: u8, time: i64, length: u8, load: bool) {
        let (key, value) = (key_bytes(key), value_bytes(length));
        let id = self.id(index, &key, time);
        let (table, slot) = self.at(index, &key, time, load);
        table.set_expiring(slot, &value, time);
        self.models[index].insert(id, (value, time));
        self.check_value(index, &key, time);
    }

    fn remove(&mut self, index: usize, key: u8, time: i64, load: bool) {
        let key = key_bytes(key);
        let id = self.id(index, &key, time);
        let (table, slot) = self.at(index, &key, time, load);
        table.remove(slot);
        self.models[index].remove(&id);
        self.check_value(index, &key, time);
    }

    fn pass(&mut self, index: usize, key: u8, time: i64) {
        let key = key_bytes(key);
        let id = self.id(index, &key, time);
        let (table, slot) = self.at(index, &key, time, true);
        let before = table.stats();
        table.pass(slot);
        let after = table.stats();
        assert_eq!(
            (after.updated, after.removed),
            (before.updated + 1, before.removed + 1)
        );
        self.models[index].remove(&id);
        self.check_value(index, &key, time);
    }

    fn due(&self, table: usize, bound: i64) -> Vec<(i64, Vec<u8>)> {
        if !self.timed(table) && !self.expiring(table) {
            return Vec::new();
        }
        let mut due: Vec<(i64, Vec<u8>)> = self.models[table]
            .iter()
            .filter(|(_, (_, time))| *time <= bound)
            .map(|((_, key), (_, time))| (*time, key.clone()))
            .collect();
        due.sort();
        due
    }

    fn expire(&mut self, index: usize, bound: i64, silently: bool) {
        let due = self.due(index, bound);
        let mut count = 0;
        let mut seen = Vec::new();
        for subtask in &mut self.subtasks {
            let table = subtask.table(index);
            if silently {
                count += table.expire_silently(bound).expect("expire");
                continue;
            }
            let mut part: Vec<(i64, Vec<u8>)> = Vec::new();
            let models = &self.models[index];
            count += table
                .expire(bound, &mut |entry| {
                    let id = match self.specs[index].kind {
                        TableKind::Timed { .. } => (entry.time, entry.key.to_vec()),
                        _ => (entry.group.into(), entry.key.to_vec()),
                    };
                    assert_eq!(models[&id], (entry.value.to_vec(), entry.time));
                    assert_eq!(entry.group, group_of(entry.key));
                    part.push((entry.time, entry.key.to_vec()));
                    Ok(())
                })
                .expect("expire");
            assert!(part.is_sorted(), "{part:?}");
            seen.extend(part);
        }
        assert_eq!(count, due.len() as u64);
        if !silently {
            seen.sort();
            assert_eq!(seen, due);
        }
        if self.timed(index) || self.expiring(index) {
            self.models[index].retain(|_, (_, time)| *time > bound);
        }
    }

    fn check_all(&mut self) {
        for (index, spec) in self.specs.iter().enumerate() {
            let mut found = Model::new();
            let mut rows = 0;
            for subtask in &mut self.subtasks {
                let mut order = Vec::new();
                let table = subtask.table(index);
                table
                    .scan(&mut |entry| {
                        let (major, time) = match spec.kind {
                            TableKind::Timed { .. } => (entry.time, entry.time),
                            TableKind::Expiring => (entry.group.into(), entry.time),
                            _ => (entry.group.into(), 0),
                        };
                        order.push((major, entry.key.to_vec()));
                        found.insert((major, entry.key.to_vec()), (entry.value.to_vec(), time));
                        Ok(())
                    })
                    .expect("scan");
                assert!(order.is_sorted(), "{}: {order:?}", spec.name);
                table.load().expect("load");
                rows += table.stats().rows;
            }
            let mut expected = self.models[index].clone();
            if matches!(spec.kind, TableKind::Keyed | TableKind::Ordered) {
                expected.values_mut().for_each(|(_, time)| *time = 0);
            }
            assert_eq!(found, expected, "table {}", spec.name);
            assert_eq!(rows, expected.len() as u64, "rows of {}", spec.name);
        }
    }

    fn check_prefixes(&mut self) {
        let model = self.models[3].clone();
        for byte in 0..8_u8 {
            let prefix = [byte.wrapping_mul(37)];
            for group in 0..GROUPS {
                let expected: Vec<Vec<u8>> = model
                    .keys()
                    .filter(|(g, key)| *g == i64::from(group) && key.starts_with(&prefix))
                    .map(|(_, key)| key.clone())
                    .collect();
                let mut found = Vec::new();
                self.owner(group)
                    .table(3)
                    .prefix(group, &prefix, &mut |entry| {
                        found.push(entry.key.to_vec());
                        Ok(found.len() < 2)
                    })
                    .expect("prefix");
                assert_eq!(found, expected[..expected.len().min(2)]);
            }
        }
    }

    async fn commit(&mut self) {
        self.check_all();
        let mut snapshots = Vec::new();
        for subtask in &mut self.subtasks {
            snapshots.extend(subtask.commit(Epoch(self.epoch)).await.expect("commit"));
        }
        self.snapshots = snapshots;
        self.epoch += 1;
        self.committed = self.models.clone();
        for index in 0..self.specs.len() {
            for subtask in &mut self.subtasks {
                assert_eq!(subtask.table(index).touched(), 0);
            }
        }
        self.check_all();
        self.check_prefixes();
    }

    async fn restore(&mut self, parallelism: u32) {
        self.generation += 1;
        self.subtasks.clear();
        for i in 0..parallelism {
            let groups = range(i, parallelism);
            let restored =
                OperatorState::restore(self.config(i), &self.specs, groups, &self.snapshots);
            self.subtasks.push(restored.await.expect("restore"));
        }
        self.models = self.committed.clone();
        self.check_all();
    }

    async fn run(&mut self, op: Op) {
        match op {
            Op::Set(table, key, time, length) => self.set(table, key, time, length, true),
            Op::SetBlind(table, key, time, length) => self.set(table, key, time, length, false),
            Op::Remove(table, key, time) => self.remove(table, key, time, true),
            Op::RemoveBlind(table, key, time) => self.remove(table, key, time, false),
            Op::Pass(table, key, time) => self.pass(table, key, time),
            Op::Read(table, key, time) => self.check_value(table, &key_bytes(key), time),
            Op::Expire(table, bound) => self.expire(table, bound, false),
            Op::ExpireSilently(table, bound) => self.expire(table, bound, true),
            Op::Commit => self.commit().await,
            Op::Settle => {
                for subtask in &mut self.subtasks {
                    subtask.settle().await;
                }
            }
            Op::Restart(parallelism) => {
                self.commit().await;
                self.restore(parallelism).await;
            }
            Op::Crash => {
                let parallelism = self.subtasks.len() as u32;
                self.restore(parallelism).await;
            }
        }
    }
}

fn range(subtask: u32, parallelism: u32) -> Range<u32> {
    // As the runtime: the first group g with g * parallelism / GROUPS == subtask.
    let first = |i: u32| (i * GROUPS).div_ceil(parallelism);
    first(subtask)..first(subtask + 1)
}

fn run(ops: Vec<Op>, budget: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    runtime.block_on(async {
        let mut world = World::new(budget);
        for op in ops {
            world.run(op).await;
        }
        world.commit().await;
        world.restore(3).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn tables_in_memory_do_what_the_model_does(ops in prop::collection::vec(op(), 1..160)) {
        run(ops, usize::MAX);
    }
}

// Opening databases is slow beside everything else here.
proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn tables_in_files_do_what_the_model_does(ops in prop::collection::vec(op(), 1..120)) {
        run(ops, 0);
    }

    #[test]
    fn tables_in_memory_and_files_do_what_the_model_does(ops in prop::collection::vec(op(), 1..120)) {
        run(ops, 14_000);
    }
}
