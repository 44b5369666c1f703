//! What state costs: touch and set, hits and misses, commit, restore, scan, and lookups below memory, by number of keys.
//!
//! Run as a test it takes few keys, so that it only shows that it works.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weir_state::{
    CheckpointLocation, Epoch, OperatorState, SnapshotRef, StateConfig, Table, TableKind, TableSpec,
};

/// Keys touched in one measured epoch.
const TOUCHED: u64 = 100_000;

fn sizes() -> Vec<u64> {
    let is_test = std::env::args().any(|argument| argument == "--test");
    if is_test {
        vec![100, 1000]
    } else {
        vec![100, 100_000, 5_000_000]
    }
}

fn specs() -> Vec<TableSpec> {
    vec![TableSpec {
        name: "bench".into(),
        kind: TableKind::Keyed,
        version: 1,
        key: "12 bytes".into(),
        value: "16 bytes".into(),
    }]
}

fn key(n: u64) -> [u8; 12] {
    let mut key = [7; 12];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

/// The key group, as any function of the key.
fn key_group(key: &[u8; 12]) -> u32 {
    u32::from(key[0]) << 4
}

fn touch(table: &mut Table, n: u64) -> usize {
    let key = key(n);
    table.touch(key_group(&key), 0, &key)
}

fn location() -> CheckpointLocation {
    CheckpointLocation::open("memory://state-bench").expect("location")
}

fn config(memory_budget: usize) -> StateConfig {
    let mut config = StateConfig::new(location(), "bench", 0, 1);
    config.memory_budget = memory_budget;
    config
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("runtime")
}

fn fill(state: &mut OperatorState, keys: u64) {
    let table = state.table(0);
    for n in 0..keys {
        let slot = touch(table, n);
        table.set(slot, &[3; 16]);
    }
}

/// State of so many keys, its first commit done.
fn filled(
    runtime: &tokio::runtime::Runtime,
    keys: u64,
    memory_budget: usize,
) -> (OperatorState, SnapshotRef) {
    let mut state =
        OperatorState::create(config(memory_budget), &specs(), 0..4096).expect("create");
    fill(&mut state, keys);
    let named = runtime.block_on(state.commit(Epoch(0))).expect("commit");
    (state, named.expect("a file"))
}

fn touch_and_set(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("state");
    for keys in sizes() {
        let touched = TOUCHED.min(keys);
        group.throughput(Throughput::Elements(touched));
        group.sample_size(10);
        let (mut state, _) = filled(&runtime, keys, usize::MAX);
        let mut epoch = 1;
        group.bench_function(BenchmarkId::new("touch hit, read, set", keys), |b| {
            b.iter_batched(
                || (),
                |()| {
                    let table = state.table(0);
                    for i in 0..touched {
                        let n = i.wrapping_mul(2_654_435_761) % keys;
                        let slot = touch(table, n);
                        black_box(table.value(slot));
                        table.set(slot, &(i + epoch).to_le_bytes().repeat(2));
                    }
                },
                BatchSize::PerIteration,
            );
        });
        group.bench_function(BenchmarkId::new("commit of what was touched", keys), |b| {
            b.iter_batched(
                || (),
                |()| {
                    let table = state.table(0);
                    for i in 0..touched {
                        let n = i.wrapping_mul(2_654_435_761) % keys;
                        let slot = touch(table, n);
                        table.set(slot, &(i + epoch).to_le_bytes().repeat(2));
                    }
                    runtime
                        .block_on(state.commit(Epoch(epoch)))
                        .expect("commit");
                    epoch += 1;
                },
                BatchSize::PerIteration,
            );
        });
        group.bench_function(BenchmarkId::new("touch miss", keys), |b| {
            b.iter_batched(
                || (),
                |()| {
                    let table = state.table(0);
                    for n in keys..keys + touched {
                        black_box(touch(table, n));
                    }
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Rows of an epoch of running totals, in batches as they come.
const ROWS: u64 = 500_000;
const BATCH: u64 = 8192;

/// Epochs of a running aggregation: batches find their keys, then every old value is read, a new one set, and all is committed.
fn running(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("state, running totals");
    for keys in sizes() {
        group.throughput(Throughput::Elements(ROWS.min(keys)));
        group.sample_size(10);
        let (mut state, _) = filled(&runtime, keys, usize::MAX);
        let (mut epoch, mut random) = (1, 1_u64);
        group.bench_function(BenchmarkId::new("epoch", keys), |b| {
            b.iter_batched(
                || (),
                |()| {
                    let table = state.table(0);
                    let mut slots = Vec::new();
                    let mut rows = ROWS.min(keys);
                    while rows > 0 {
                        let batch: Vec<[u8; 12]> = (0..BATCH.min(rows))
                            .map(|_| {
                                random = random
                                    .wrapping_mul(6_364_136_223_846_793_005)
                                    .wrapping_add(1);
                                key((random >> 33) % keys)
                            })
                            .collect();
                        rows -= batch.len() as u64;
                        slots.clear();
                        let keys = batch.iter().map(|key| (key_group(key), 0, &key[..]));
                        table.touch_all(keys, &mut slots);
                    }
                    table.load().expect("load");
                    let mut sum = 0;
                    for slot in 0..table.touched() {
                        sum += table.value(slot).map_or(0, |value| u64::from(value[3]));
                    }
                    black_box(sum);
                    for slot in 0..table.touched() {
                        table.set(slot, &(slot as u64 + epoch).to_le_bytes().repeat(2));
                    }
                    runtime
                        .block_on(state.commit(Epoch(epoch)))
                        .expect("commit");
                    epoch += 1;
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn whole(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("state, all of it");
    for keys in sizes() {
        group.throughput(Throughput::Elements(keys));
        group.sample_size(10);
        let (mut state, named) = filled(&runtime, keys, usize::MAX);
        group.bench_function(BenchmarkId::new("scan", keys), |b| {
            b.iter(|| {
                let mut bytes = 0;
                state
                    .table(0)
                    .scan(&mut |entry| {
                        bytes += entry.value.len();
                        Ok(())
                    })
                    .expect("scan");
                bytes
            });
        });
        drop(state);
        group.bench_function(BenchmarkId::new("restore", keys), |b| {
            b.iter(|| {
                let named = std::slice::from_ref(&named);
                let (config, specs) = (config(usize::MAX), specs());
                let restored = OperatorState::restore(config, &specs, 0..4096, named);
                runtime.block_on(restored).expect("restore").stats().rows
            });
        });
        group.bench_function(BenchmarkId::new("first commit", keys), |b| {
            b.iter_batched(
                || {
                    let mut state = OperatorState::create(config(usize::MAX), &specs(), 0..4096)
                        .expect("create");
                    fill(&mut state, keys);
                    state
                },
                |mut state| runtime.block_on(state.commit(Epoch(0))).expect("commit"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn below_memory(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("state, a tenth in memory");
    for keys in sizes() {
        let touched = TOUCHED.min(keys);
        group.throughput(Throughput::Elements(touched));
        group.sample_size(10);
        let (mut state, _) = filled(&runtime, keys, keys as usize * 10);
        let mut epoch = 1;
        group.bench_function(BenchmarkId::new("touch, load, set, commit", keys), |b| {
            b.iter_batched(
                || (),
                |()| {
                    let table = state.table(0);
                    let slots: Vec<usize> = (0..touched)
                        .map(|i| {
                            let n = (i + epoch * touched).wrapping_mul(2_654_435_761) % keys;
                            touch(table, n)
                        })
                        .collect();
                    table.load().expect("load");
                    for slot in slots {
                        table.set(slot, &epoch.to_le_bytes().repeat(2));
                    }
                    runtime
                        .block_on(state.commit(Epoch(epoch)))
                        .expect("commit");
                    epoch += 1;
                },
                BatchSize::PerIteration,
            );
        });
        runtime.block_on(state.settle());
    }
    group.finish();
}

criterion_group!(benches, touch_and_set, running, whole, below_memory);
criterion_main!(benches);
