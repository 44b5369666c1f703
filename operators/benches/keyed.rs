//! Rows per second through deduplication and session windows, one core: an epoch of a million rows in batches of 8192, nearly all of
//! them new keys (as the bids of an auction house: bidder, auction, 10-second window; sessions of 10 s per bidder).
#![allow(missing_docs)]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Fields};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use datafusion::functions_aggregate::{count::count_udaf, sum::sum_udaf};
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;
use weir_operators::{
    AggregateCall, Dedup, Forget, Gap, SessionAggregation, data_error, dedup, sessions,
};
use weir_runtime::OperatorState;
use weir_runtime::{
    Epoch, Operator, OperatorContext, OperatorSpec, Origin, Outbox, OutputMode, Rows,
};

const ROWS: i64 = 1_000_000;
const BATCH: i64 = 8192;
const SECOND: i64 = 1_000_000;

/// A well-mixed number of each row number.
fn mixed(n: i64) -> i64 {
    let mut z = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ (z >> 27)) >> 1) as i64
}

/// 108 s of event time, 200 000 bidders, 600 000 auctions.
fn bids() -> Vec<RecordBatch> {
    let batch = |from: i64| {
        let rows = from..ROWS.min(from + BATCH);
        let column = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.clone().map(of)))
        };
        let times = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            let values = rows.clone().map(of);
            Arc::new(TimestampMicrosecondArray::from_iter_values(values).with_timezone("UTC"))
        };
        let start = |row: i64| row * 108 / (10 * SECOND) * 10 * SECOND;
        let bounds = vec![times(&start), times(&|row| start(row) + 10 * SECOND)];
        let bound = |name| Field::new(name, bounds[0].data_type().clone(), true);
        let fields = Fields::from(vec![bound("start"), bound("end")]);
        let window: ArrayRef = Arc::new(StructArray::new(fields, bounds, None));
        RecordBatch::try_from_iter_with_nullable([
            ("bidder", column(&|row| mixed(row) % 200_000), true),
            ("auction", column(&|row| mixed(row + 7) % 600_000), true),
            ("window", window, true),
            ("ts", times(&|row| row * 108), true),
            ("price", column(&|row| row % 1000), true),
        ])
        .expect("batch")
    };
    (0..ROWS).step_by(BATCH as usize).map(batch).collect()
}

fn call(function: Arc<AggregateUDF>, batch: &RecordBatch) -> AggregateCall {
    let id = format!("{}(price)", function.name());
    let price = Arc::new(Column::new("price", 2));
    let built = AggregateExprBuilder::new(function, vec![price])
        .schema(batch.schema())
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

/// An operator that has taken its state, and its context.
fn opened(spec: &OperatorSpec) -> (Box<dyn Operator>, OperatorContext) {
    let context = OperatorContext::new("bench", 0, 1);
    let mut operator = spec.create(&context).expect("operator");
    let state = OperatorState::in_memory(spec.tables());
    operator.open(state, &context).expect("open");
    (operator, context)
}

/// Two epochs; the watermark of the second closes most of the first.
fn run((mut operator, mut context): (Box<dyn Operator>, OperatorContext), batches: &[RecordBatch]) {
    for epoch in 0..2 {
        context.watermark_ms = epoch * 98_000;
        let mut out = Outbox::default();
        for (sequence, batch) in batches.iter().enumerate() {
            context.origin = Origin {
                sequence: sequence as u64,
                ..Origin::default()
            };
            let rows = Rows::inserts(if epoch == 0 {
                batch.clone()
            } else {
                batch.slice(0, 1)
            });
            operator
                .process(0, rows, &context, &mut out)
                .expect("process");
        }
        operator.on_epoch_end(&context, &mut out).expect("end");
        let state = operator.state().expect("state");
        futures::executor::block_on(state.commit(Epoch::FIRST)).expect("commit");
    }
}

fn keyed(c: &mut Criterion) {
    let batches = bids();
    let mut group = c.benchmark_group("keyed");
    group.sample_size(10);
    group.throughput(Throughput::Elements(ROWS as u64));
    let forget = Forget::WithTime { bucket: SECOND };
    let spec = Dedup {
        keys: vec![0, 1, 2],
        time: Some(2),
        forget,
    };
    let spec = dedup(&batches[0].schema(), spec).expect("dedup");
    group.bench_function("dedup", |b| {
        b.iter_batched(
            || opened(&spec),
            |o| run(o, &batches),
            BatchSize::PerIteration,
        );
    });
    let bids: Vec<RecordBatch> = batches
        .iter()
        .map(|batch| batch.project(&[0, 3, 4]).expect("columns"))
        .collect();
    let spec = sessions(SessionAggregation {
        input: bids[0].schema(),
        keys: 1,
        time: 1,
        gap: Gap::Fixed(10 * SECOND),
        gap_text: "10 s".into(),
        calls: vec![call(count_udaf(), &bids[0]), call(sum_udaf(), &bids[0])],
        window: ("session_window".into(), 0),
        mode: OutputMode::Append,
        emit_before: false,
        errors: data_error,
    });
    let spec = spec.expect("sessions");
    group.bench_function("sessions", |b| {
        b.iter_batched(|| opened(&spec), |o| run(o, &bids), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, keyed);
criterion_main!(benches);
