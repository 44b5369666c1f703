//! What state costs: touch and set, hits and misses, commit, restore, scan, and lookups below memory, by number of keys.
//!
//! Run as a test it takes few keys, so that it only shows that it works.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weir_state::{
    CheckpointLocation, Epoch, OperatorState, SnapshotRef, StateConfig, TableKind, TableSpec,
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
        key: "20 bytes".into(),
        value: "16 bytes".into(),
    }]
}

fn key(n: u64) -> [u8; 20] {
    let mut key = [7; 20];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
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
        let slot = table.touch((n % 4096) as u32, 0, &key(n));
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
                        let slot = table.touch((n % 4096) as u32, 0, &key(n));
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
                        let slot = table.touch((n % 4096) as u32, 0, &key(n));
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
                        black_box(table.touch((n % 4096) as u32, 0, &key(n)));
                    }
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
                            table.touch((n % 4096) as u32, 0, &key(n))
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

criterion_group!(benches, touch_and_set, whole, below_memory);
criterion_main!(benches);
