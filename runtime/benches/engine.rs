//! Costs of the engine itself: moving batches over an edge, aligning barriers, spreading rows by key, publishing a plan and a
//! manifest, and the fixed cost of an epoch with one row.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weir_runtime::*;
use weir_state::{CheckpointLocation, CheckpointLog, Manifest, Plan};

#[path = "../tests/engine/parts.rs"]
#[allow(dead_code, reason = "shared with the engine tests")]
mod parts;

use parts::{Ledger, Numbers, numbers};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
}

fn message(rows: i64) -> Message {
    Message::Batch(EpochBatch {
        epoch: Epoch(0),
        origin: Origin::default(),
        rows: Rows::inserts(numbers(0..rows)),
    })
}

fn bench_edge(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("edge");
    group.throughput(Throughput::Elements(1000));
    group.bench_function("1000 batches of 8192 rows", |bencher| {
        let runtime = runtime();
        let batch = message(8192);
        bencher.iter(|| {
            runtime.block_on(async {
                let (mut sender, mut receiver) =
                    edge(EdgeBudget::default(), Arc::new(SystemClock::new()));
                let send = async {
                    for _ in 0..1000 {
                        sender
                            .send(batch.clone())
                            .await
                            .expect("the receiver lives");
                    }
                    drop(sender);
                };
                let receive = async { while receiver.recv().await.is_some() {} };
                futures::join!(send, receive);
            });
        });
    });
    group.finish();
}

fn bench_align(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("align");
    for inputs in [2_usize, 16, 128] {
        group.bench_function(BenchmarkId::from_parameter(inputs), |bencher| {
            let mut aligner = Aligner::new(inputs);
            let mut epoch = Epoch(0);
            bencher.iter(|| {
                for input in 0..inputs {
                    aligner.watermark(input, epoch.0 as i64);
                    aligner.barrier(input, epoch).expect("in order");
                }
                epoch = epoch.next();
            });
        });
    }
    group.finish();
}

fn plan(epoch: u64) -> Plan {
    Plan {
        epoch: Epoch(epoch),
        generation: 1,
        watermark_ms: 0,
        batch_timestamp_ms: 0,
        config: Default::default(),
        sources: Vec::new(),
    }
}

fn bench_publish(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checkpoint publish");
    let directory = tempfile::tempdir().expect("directory");
    let disk = directory.path().to_str().expect("utf-8 path").to_owned();
    for (name, location) in [
        ("memory", "memory://publish-bench".to_owned()),
        ("disk", disk),
    ] {
        let log = CheckpointLog::new(CheckpointLocation::open(&location).expect("location"));
        let runtime = runtime();
        let mut epoch = 0;
        group.bench_function(BenchmarkId::new("plan and manifest", name), |bencher| {
            bencher.iter_batched(
                || {
                    epoch += 1;
                    (plan(epoch), Manifest::new(Epoch(epoch), 1, 0))
                },
                |(plan, manifest)| {
                    runtime.block_on(async {
                        log.publish_plan(&plan).await.expect("published");
                        log.publish_manifest(&manifest).await.expect("published");
                    });
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn bench_epoch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("epoch of one row");
    group.sample_size(10);
    for on_disk in [false, true] {
        group.bench_function(if on_disk { "disk" } else { "memory" }, |bencher| {
            bencher.iter_custom(|epochs| run_epochs(epochs, on_disk));
        });
    }
    group.finish();
}

/// Time of `epochs` epochs with one row each, start and end of the query excluded as far as progress tells.
fn run_epochs(epochs: u64, on_disk: bool) -> Duration {
    let directory = tempfile::tempdir().expect("directory");
    let checkpoint = match on_disk {
        true => directory.path().to_str().expect("utf-8 path").to_owned(),
        false => format!("memory://{}", uuid::Uuid::new_v4()),
    };
    let mut builder = Topology::builder();
    let rows = builder.source("numbers", Numbers::up_to(epochs).per_epoch(1));
    builder.sink("ledger", rows, Arc::new(Ledger::default()));
    let topology = builder.build().expect("valid");
    let config = QueryConfig {
        checkpoint: Some(checkpoint),
        parallelism: 1,
        trigger: Trigger::AvailableNow,
        ..QueryConfig::default()
    };
    runtime().block_on(async {
        let query = StreamingQuery::start(topology, config)
            .await
            .expect("starts");
        let since = now();
        query.await_termination().await.expect("ends well");
        since.elapsed()
    })
}

#[allow(clippy::disallowed_methods, reason = "a bench measures the real time")]
fn now() -> Instant {
    Instant::now()
}

criterion_group!(benches, bench_edge, bench_align, bench_publish, bench_epoch);
criterion_main!(benches);
