//! How fast the file sink makes a million rows durable and visible: one epoch of Parquet, with and without partitions.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use weir_connectors::file::sink::ParquetSink;
use weir_runtime::{
    Epoch, EpochBatch, FailPoints, ManualClock, Origin, OutputMode, Result, Rows, Sink, SinkContext,
};

const ROWS: i64 = 1_000_000;
const BATCH_ROWS: i64 = 16_384;
const PARTITIONS: i64 = 10;

fn batch(first: i64, rows: i64) -> RecordBatch {
    let ids = first..first + rows;
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
    let action = ids.clone().map(|id| format!("action-{}", id % PARTITIONS));
    let action: ArrayRef = Arc::new(StringArray::from_iter_values(action));
    #[expect(clippy::cast_precision_loss, reason = "any number will do")]
    let amount = Float64Array::from_iter_values(ids.map(|id| id as f64 * 1.25));
    let columns = [
        ("id", id),
        ("action", action),
        ("amount", Arc::new(amount) as ArrayRef),
    ];
    RecordBatch::try_from_iter(columns).expect("invariant: columns of one length")
}

fn batches() -> Vec<RecordBatch> {
    let firsts = (0..ROWS).step_by(usize::try_from(BATCH_ROWS).expect("invariant: a small number"));
    firsts
        .map(|first| batch(first, BATCH_ROWS.min(ROWS - first)))
        .collect()
}

fn context() -> SinkContext {
    SinkContext {
        uid: "out".to_owned(),
        query_id: uuid::Uuid::from_u128(1),
        generation: 1,
        schema: batch(0, 0).schema(),
        mode: OutputMode::Append,
        key_columns: Vec::new(),
        parallelism: 1,
        committed_epoch: None,
        unfinished: None,
        clock: Arc::new(ManualClock::new(0)),
        failpoints: Arc::new(FailPoints::default()),
    }
}

/// One epoch, from the first row to the manifest.
async fn epoch(sink: ParquetSink, batches: &[RecordBatch]) -> Result<()> {
    let (sink, context) = (sink.build()?, context());
    sink.open(&context).await?;
    let mut writer = sink.writer(&context, 0)?;
    for batch in batches {
        let rows = Rows::inserts(batch.clone());
        let (epoch, origin) = (Epoch(0), Origin::default());
        writer
            .write(EpochBatch {
                epoch,
                origin,
                rows,
            })
            .await?;
    }
    let prepared = writer.prepare(Epoch(0)).await?;
    sink.committer(&context)?
        .commit(Epoch(0), vec![prepared])
        .await?;
    Ok(())
}

fn file_sink(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let batches = batches();
    let mut group = criterion.benchmark_group("file_sink_parquet_1m_rows");
    group.throughput(Throughput::Elements(ROWS.unsigned_abs()));
    group.sample_size(10);
    for (name, partition_by) in [("one_file", None), ("ten_partitions", Some("action"))] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || tempfile::tempdir().expect("a directory"),
                |dir| {
                    let path = dir.path().to_string_lossy().into_owned();
                    let sink = ParquetSink::new(path).partition_by(partition_by);
                    runtime
                        .block_on(epoch(sink, &batches))
                        .expect("a written epoch");
                    dir
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, file_sink);
criterion_main!(benches);
