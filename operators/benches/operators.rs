//! Rows per second through filter, project and explode, one core, batches of 8192 rows.
#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use weir_operators::{Explode, Expression, explode, filter, project};
use weir_runtime::{OperatorContext, OperatorSpec, Outbox, Rows};

const ROWS: usize = 8192;

fn batch() -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..ROWS as i64);
    let amounts = Float64Array::from_iter_values((0..ROWS).map(|row| (row % 200) as f64));
    let actions =
        StringArray::from_iter_values((0..ROWS).map(|row| ["purchase", "view", "click"][row % 3]));
    let tags = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..ROWS).map(|row| Some((0..(row % 5) as i64).map(Some))),
    );
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(ids)),
        ("amount", Arc::new(amounts)),
        ("action", Arc::new(actions)),
        ("tags", Arc::new(tags)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("batch")
}

fn column(name: &str, index: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(name, index))
}

fn binary(
    left: Arc<dyn PhysicalExpr>,
    op: Op,
    right: Arc<dyn PhysicalExpr>,
) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn purchases() -> OperatorSpec {
    let action = binary(column("action", 2), Op::Eq, lit("purchase"));
    filter(binary(
        action,
        Op::And,
        binary(column("amount", 1), Op::Gt, lit(100.0)),
    ))
}

fn columns() -> OperatorSpec {
    let doubled = binary(column("amount", 1), Op::Multiply, lit(2.0));
    project([
        ("id", Expression::column("id", 0)),
        ("doubled", Expression::from(doubled)),
        ("tags", Expression::column("tags", 3)),
    ])
}

fn elements() -> OperatorSpec {
    let names = vec!["tag".to_owned()];
    explode(Explode {
        input: Expression::column("tags", 3),
        position: false,
        fields: false,
        outer: false,
        keep: Some(vec![0, 1]),
        names,
    })
}

fn operators(c: &mut Criterion) {
    let context = OperatorContext::new("bench", 0, 1);
    let input = batch();
    let mut group = c.benchmark_group("operators");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, spec) in [
        ("filter", purchases()),
        ("project", columns()),
        ("explode", elements()),
    ] {
        let mut operator = spec.create(&context).expect("operator");
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                let mut out = Outbox::default();
                operator
                    .process(0, Rows::inserts(input.clone()), &context, &mut out)
                    .expect("process");
                black_box(out.take())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, operators);
criterion_main!(benches);
