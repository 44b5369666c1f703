//! Rows per second through aggregation and window assignment, one core: an epoch of a million rows in batches of 8192.
#![allow(missing_docs)]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use datafusion::functions_aggregate::{average::avg_udaf, count::count_udaf, sum::sum_udaf};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{CastExpr, Column, lit};
use weir_operators::{
    AggregateCall, AggregateInput, Aggregation, Lateness, PartialAggregation, TimeKey,
    WindowAssign, aggregate, assign_windows, data_error, partial_aggregate,
};
use weir_runtime::OperatorState;
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, OutputMode, Rows};

const ROWS: i64 = 1_000_000;
const BATCH: i64 = 8192;
const SECOND: i64 = 1_000_000;

/// A well-mixed number of each row number.
fn mixed(n: i64) -> i64 {
    let mut z = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ (z >> 27)) >> 1) as i64
}

/// Time, key and value; the times span 108 s, the keys are of `0..keys`.
fn bids(keys: i64) -> Vec<RecordBatch> {
    let batch = |from: i64| {
        let rows = from..ROWS.min(from + BATCH);
        let column = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.clone().map(of)))
        };
        let times = TimestampMicrosecondArray::from_iter_values(rows.clone().map(|row| row * 108));
        RecordBatch::try_from_iter_with_nullable([
            ("ts", Arc::new(times.with_timezone("UTC")) as ArrayRef, true),
            ("key", column(&|row| mixed(row) % keys), true),
            ("price", column(&|row| row % 1000), true),
        ])
        .expect("batch")
    };
    (0..ROWS).step_by(BATCH as usize).map(batch).collect()
}

fn call(function: Arc<AggregateUDF>, argument: Arc<dyn PhysicalExpr>) -> AggregateCall {
    let id = function.name().to_owned();
    let built = AggregateExprBuilder::new(function, vec![argument])
        .schema(bids(1)[0].schema())
        .alias(&id)
        .build()
        .expect("aggregate");
    AggregateCall {
        name: id.clone(),
        id,
        function: Arc::new(built),
        filter: None,
        ordered: false,
        distinct: None,
    }
}

/// count, sum and average by time and key, or by key alone.
fn aggregation(timed: bool, mode: OutputMode) -> Aggregation {
    let price = || Arc::new(Column::new("price", 2)) as Arc<dyn PhysicalExpr>;
    let float = CastExpr::new(price(), arrow::datatypes::DataType::Float64, None);
    let schema = bids(1)[0].schema();
    Aggregation {
        keys: schema.fields()[..2].to_vec(),
        time: timed.then_some(TimeKey::Start {
            key: 0,
            size: 10 * SECOND,
        }),
        calls: vec![
            call(count_udaf(), lit(1i64)),
            call(sum_udaf(), price()),
            call(avg_udaf(), Arc::new(float)),
        ],
        input: AggregateInput::Rows,
        mode,
        emit_before: false,
        allow_new_aggregates: false,
        errors: data_error,
    }
}

/// An operator that has taken its state, and its context.
fn opened(spec: &OperatorSpec) -> (Box<dyn Operator>, OperatorContext) {
    let context = OperatorContext::new("bench", 0, 1);
    let mut operator = spec.create(&context).expect("create");
    let state = OperatorState::in_memory(spec.tables());
    operator.open(state, &context).expect("open");
    (operator, context)
}

fn epoch(operator: &mut dyn Operator, context: &OperatorContext, batches: &[RecordBatch]) -> usize {
    let mut out = Outbox::default();
    let mut rows = 0;
    for batch in batches {
        let batch = Rows::inserts(batch.clone());
        operator.process(0, batch, context, &mut out).expect("rows");
        rows += out.take().iter().map(Rows::num_rows).sum::<usize>();
    }
    operator.on_epoch_end(context, &mut out).expect("end");
    rows + out.take().iter().map(Rows::num_rows).sum::<usize>()
}

fn windowed(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let context = OperatorContext::new("bench", 0, 1);
    let mut operator = windows(10, 10).create(&context).expect("create");
    let mut out = Outbox::default();
    for batch in batches {
        let rows = Rows::inserts(batch.clone());
        operator.process(0, rows, &context, &mut out).expect("rows");
    }
    out.take().into_iter().map(Rows::into_batch).collect()
}

fn windows(size: i64, slide: i64) -> OperatorSpec {
    assign_windows(WindowAssign {
        column: 0,
        size: size * SECOND,
        slide: slide * SECOND,
        start: 0,
        newest_only: false,
        late: Lateness::Ignore,
    })
}

fn grouping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("aggregate");
    group
        .throughput(Throughput::Elements(ROWS as u64))
        .sample_size(10);
    for (name, keys) in [("100", 100), ("100k", 100_000), ("5M", 5_000_000)] {
        let batches = windowed(&bids(keys));
        let spec = aggregate(aggregation(true, OutputMode::Append)).expect("spec");
        group.bench_function(format!("window and {name} keys, append"), |bench| {
            bench.iter_batched_ref(
                || opened(&spec),
                |(operator, context)| epoch(operator.as_mut(), context, &batches),
                BatchSize::PerIteration,
            );
        });
    }
    let batches = windowed(&bids(600_000));
    let spec = aggregate(aggregation(false, OutputMode::Update)).expect("spec");
    group.bench_function("600k keys, update", |bench| {
        bench.iter_batched_ref(
            || opened(&spec),
            |(operator, context)| epoch(operator.as_mut(), context, &batches),
            BatchSize::PerIteration,
        );
    });
    let aggregation = aggregation(true, OutputMode::Append);
    let spec = partial_aggregate(PartialAggregation {
        keys: aggregation.keys,
        time: aggregation.time,
        calls: aggregation.calls,
        errors: data_error,
    });
    let spec = spec.expect("spec");
    for (name, keys) in [("100", 100), ("100k", 100_000), ("5M", 5_000_000)] {
        let batches = windowed(&bids(keys));
        group.bench_function(format!("partial, window and {name} keys"), |bench| {
            let context = OperatorContext::new("bench", 0, 1);
            bench.iter_batched_ref(
                || spec.create(&context).expect("create"),
                |operator| epoch(operator.as_mut(), &context, &batches),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn assigning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("windows");
    group
        .throughput(Throughput::Elements(ROWS as u64))
        .sample_size(10);
    let batches = bids(100_000);
    for (name, size, slide) in [("tumbling 10 s", 10, 10), ("sliding 10 s by 2 s", 10, 2)] {
        let spec = windows(size, slide);
        let context = OperatorContext::new("bench", 0, 1);
        let mut operator = spec.create(&context).expect("create");
        group.bench_function(name, |bench| {
            bench.iter(|| epoch(operator.as_mut(), &context, &batches));
        });
    }
    group.finish();
}

criterion_group!(benches, grouping, assigning);
criterion_main!(benches);
