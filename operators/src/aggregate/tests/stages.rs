//! Partial aggregation, panes of sliding windows, distinct values and migration: with and without them the results are equal.

use arrow::array::BooleanArray;
use datafusion::functions_aggregate::average::avg_udaf;

use super::*;
use crate::expression::testing::context;
use crate::window::{Lateness, WindowAssign, assign_windows};

/// Runs batches through an operator, its epoch's end included.
fn through(spec: &OperatorSpec, batches: &[RecordBatch], late_ms: i64) -> (Vec<RecordBatch>, u64) {
    let mut context = context();
    context.late_watermark_ms = late_ms;
    let mut operator = spec.create(&context).unwrap();
    let mut out = Outbox::default();
    for batch in batches {
        let rows = Rows::inserts(batch.clone());
        operator.process(0, rows, &context, &mut out).unwrap();
    }
    operator.on_epoch_end(&context, &mut out).unwrap();
    let batches = out.take().into_iter().map(Rows::into_batch).collect();
    (batches, context.metrics.snapshot().late)
}

fn partial(aggregation: &Aggregation) -> OperatorSpec {
    partial_aggregate(PartialAggregation {
        keys: aggregation.keys.clone(),
        time: aggregation.time,
        calls: aggregation.calls.clone(),
        errors: aggregation.errors,
    })
    .unwrap()
}

fn with_average(mode: OutputMode) -> Aggregation {
    let mut aggregation = by_time(mode);
    let value = Arc::new(datafusion::physical_expr::expressions::CastExpr::new(
        Arc::new(Column::new("v", 2)),
        DataType::Float64,
        None,
    ));
    aggregation.calls.push(call("avg(v)", avg_udaf(), value));
    aggregation
}

fn sorted(mut emitted: Emitted) -> Emitted {
    emitted.sort_by_key(|(_, row, sum)| (*row, *sum));
    emitted
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn partial_states_merge_to_what_the_rows_give(rows in rows(), cut in 0..60usize) {
        let cut = cut.min(rows.len());
        let aggregation = with_average(OutputMode::Update);
        let mut direct = Run::new(aggregation.clone());
        let mut merged = Run::new(Aggregation { input: AggregateInput::States, ..aggregation.clone() });
        for part in [&rows[..cut], &rows[cut..]] {
            let expected = direct.epoch(part, NONE);
            // Two subtasks have a share of the rows each.
            let (left, right) = part.split_at(part.len() / 2);
            let mut states = through(&partial(&aggregation), &[batch(left)], NONE).0;
            states.extend(through(&partial(&aggregation), &[batch(right)], NONE).0);
            let found = merged.raw(&states, NONE);
            let found: Emitted = found.iter().flat_map(emitted_rows).collect();
            prop_assert_eq!(sorted(found), sorted(expected));
        }
    }

    #[test]
    fn panes_of_sliding_windows_give_what_repeated_rows_give(rows in rows(), late_s in -3..8i64) {
        let windows = |newest_only, late| assign_windows(WindowAssign {
            column: 0,
            size: 6_000_000,
            slide: 2_000_000,
            start: 0,
            newest_only,
            late,
        });
        let late_ms = late_s * 1000;
        let mut aggregation = by_time(OutputMode::Update);
        aggregation.time = Some(TimeKey::Start { key: 0, size: 6_000_000 });
        let (repeated, late) = through(&windows(false, Lateness::Drop), &[batch(&rows)], late_ms);
        let mut direct = Run::new(aggregation.clone());
        let expected: Emitted = direct.raw(&repeated, NONE).iter().flat_map(emitted_rows).collect();

        let (panes, counted) = through(&windows(true, Lateness::Drop), &[batch(&rows)], late_ms);
        let (states, _) = through(&partial(&aggregation), &panes, late_ms);
        let (states, again) = through(&windows(false, Lateness::DropUncounted), &states, late_ms);
        let mut merged = Run::new(Aggregation { input: AggregateInput::States, ..aggregation });
        let found: Emitted = merged.raw(&states, NONE).iter().flat_map(emitted_rows).collect();
        prop_assert_eq!(sorted(found), sorted(expected));
        prop_assert_eq!((counted, again), (late, 0));
    }
}

#[test]
fn partial_gives_up_grouping_where_every_row_is_a_group() {
    let rows = |from: i64, to: i64| -> Vec<Row> {
        (from..to).map(|s| (Some(s), Some("a"), Some(1))).collect()
    };
    let batches = [
        batch(&rows(0, 60_000)),
        batch(&rows(60_000, 120_000)),
        batch(&rows(0, 10)),
        batch(&rows(0, 10)),
    ];
    let (out, _) = through(&partial(&by_time(OutputMode::Update)), &batches, NONE);
    let count: usize = out.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(count, 120_020, "the last rows are not grouped any more");
    let mut run = Run::new(Aggregation {
        input: AggregateInput::States,
        ..by_time(OutputMode::Update)
    });
    assert_eq!(
        run.raw(&out, NONE)
            .iter()
            .map(Rows::num_rows)
            .sum::<usize>(),
        120_000
    );
}

#[test]
fn partial_begins_anew_with_each_epoch() {
    let spec = partial(&by_time(OutputMode::Update));
    let context = context();
    let mut operator = spec.create(&context).unwrap();
    let mut out = Outbox::default();
    for epoch in 0..3 {
        let rows = [
            (Some(1), Some("a"), Some(1)),
            (Some(epoch), Some("b"), None),
        ];
        let rows = Rows::inserts(batch(&rows));
        operator.process(0, rows, &context, &mut out).unwrap();
        operator.on_epoch_end(&context, &mut out).unwrap();
        let emitted = out.take();
        assert_eq!(emitted.iter().map(Rows::num_rows).sum::<usize>(), 2);
    }
}

#[test]
fn partial_counts_late_rows_and_not_states() {
    let aggregation = by_time(OutputMode::Append);
    let row = (Some(5), Some("a"), Some(1));
    let (out, late) = through(&partial(&aggregation), &[batch(&[row; 3])], 5_000);
    assert_eq!((out.len(), late), (0, 3));
}

#[test]
fn partial_without_keys_gives_one_row_if_there_are_rows() {
    let aggregation = global(OutputMode::Update);
    let part = partial(&aggregation);
    let none: [Row; 0] = [];
    assert!(through(&part, &[batch(&none)], NONE).0.is_empty());
    let row = (None, None, Some(2));
    let (out, _) = through(&part, &[batch(&[row; 3]), batch(&[row])], NONE);
    assert_eq!(out.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    let mut run = Run::new(Aggregation {
        input: AggregateInput::States,
        ..aggregation
    });
    assert_eq!(totals(&run.raw(&out, NONE)), [(4, Some(8))]);
}

/// count(DISTINCT v) and sum(DISTINCT v) by (t, k).
fn distinct(mode: OutputMode) -> Aggregation {
    let mut aggregation = by_time(mode);
    aggregation.calls[0] = call(
        "count(DISTINCT v)",
        count_udaf(),
        Arc::new(Column::new("v", 2)),
    );
    aggregation.calls[1] = call("sum(DISTINCT v)", sum_udaf(), Arc::new(Column::new("v", 2)));
    for call in &mut aggregation.calls {
        call.distinct = Some(Distinct {
            id: "v".to_owned(),
            arguments: vec![DataType::Int64],
        });
    }
    aggregation
}

#[test]
fn distinct_values_count_once_for_each_group_also_over_epochs() {
    let mut run = Run::new(distinct(OutputMode::Update));
    let rows = [
        (Some(1), Some("a"), Some(3)),
        (Some(1), Some("a"), Some(3)),
        (Some(1), Some("a"), None),
        (Some(1), Some("b"), Some(3)),
    ];
    let counts = |emitted: Emitted| -> Vec<(Option<&'static str>, Option<i64>, Option<i64>)> {
        let counts = emitted.into_iter().map(|(_, row, sum)| (row.1, row.2, sum));
        counts.collect()
    };
    assert_eq!(
        counts(run.epoch(&rows, NONE)),
        [(Some("a"), Some(1), Some(3)), (Some("b"), Some(1), Some(3))]
    );
    let more = [(Some(1), Some("a"), Some(3)), (Some(1), Some("a"), Some(4))];
    assert_eq!(
        counts(run.epoch(&more, NONE)),
        [(Some("a"), Some(2), Some(7))]
    );
}

#[test]
fn distinct_values_go_with_their_group() {
    let mut run = Run::new(distinct(OutputMode::Append));
    run.epoch(
        &[(Some(1), Some("a"), Some(3)), (Some(9), Some("a"), Some(3))],
        NONE,
    );
    assert_eq!(run.rows(), 4);
    assert_eq!(
        run.epoch(&[], 5),
        [(None, (Some(1), Some("a"), Some(1)), Some(3))]
    );
    assert_eq!(run.rows(), 2);
}

#[test]
fn distinct_values_pass_their_filter_first() {
    let mut aggregation = distinct(OutputMode::Update);
    aggregation.calls[0].filter = Some(3);
    aggregation.calls[0].distinct = Some(Distinct {
        id: "where f v".to_owned(),
        arguments: vec![DataType::Int64],
    });
    let mut run = Run::new(aggregation);
    let plain = batch(&[(Some(1), Some("a"), Some(1)); 3]);
    let mut columns: Vec<(String, ArrayRef, bool)> = plain
        .schema()
        .fields()
        .iter()
        .zip(plain.columns())
        .map(|(field, column)| (field.name().clone(), Arc::clone(column), true))
        .collect();
    let filter = BooleanArray::from(vec![Some(false), None, Some(false)]);
    columns.push(("f".to_owned(), Arc::new(filter), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let emitted: Emitted = run
        .raw(&[batch], NONE)
        .iter()
        .flat_map(emitted_rows)
        .collect();
    assert_eq!((emitted[0].1.2, emitted[0].2), (Some(0), Some(1)));
}

/// An operator over the state of a checkpoint, restored if it has a file.
async fn opened(
    aggregation: &Aggregation,
    location: &str,
    last: Option<&weir_state::SnapshotRef>,
) -> weir_runtime::Result<Run> {
    let location = weir_state::CheckpointLocation::open(location).unwrap();
    let generation = if last.is_some() { 2 } else { 1 };
    let config = weir_state::StateConfig::new(location, "aggregate-0", 0, generation);
    let spec = aggregate(aggregation.clone())?;
    let specs = spec.tables();
    let state = match last {
        None => OperatorState::create(config, specs, 0..4096)?,
        Some(last) => {
            OperatorState::restore(config, specs, 0..4096, std::slice::from_ref(last)).await?
        }
    };
    let context = context();
    let mut operator = spec.create(&context)?;
    operator.open(state, &context)?;
    Ok(Run { operator, context })
}

#[tokio::test]
async fn a_checkpoint_of_other_aggregates_is_continued_where_no_result_would_be_wrong() {
    let place = "memory://aggregates-other";
    let of = |wanted: &[usize]| {
        let all = with_average(OutputMode::Update);
        Aggregation {
            calls: wanted.iter().map(|i| all.calls[*i].clone()).collect(),
            ..all
        }
    };
    let rows = batch(&[(Some(1), Some("a"), Some(4)), (Some(1), Some("a"), Some(6))]);
    let mut first = opened(&of(&[0, 1]), place, None).await.unwrap();
    let mut out = Outbox::default();
    first
        .operator
        .process(0, Rows::inserts(rows.clone()), &first.context, &mut out)
        .unwrap();
    first
        .operator
        .on_epoch_end(&first.context, &mut out)
        .unwrap();
    let state = first.operator.state().unwrap();
    let last = state.commit(Epoch(0)).await.unwrap().unwrap();

    let refused = |wanted: &'static [usize]| {
        let (aggregation, last) = (of(wanted), last.clone());
        async move {
            let opened = opened(&aggregation, place, Some(&last)).await;
            opened.err().expect("refused").to_string()
        }
    };
    let added = refused(&[0, 1, 2]).await;
    assert!(added.contains("added: avg(v)"), "{added}");
    assert!(added.contains("weir.state.allowNewAggregates"), "{added}");
    let removed = refused(&[1]).await;
    assert!(removed.contains("removed: count(1)"), "{removed}");

    // Another order of the same aggregates loses nothing.
    let mut swapped = opened(&of(&[1, 0]), place, Some(&last)).await.unwrap();
    let emitted = raw(&mut swapped, &rows);
    let (sum, count) = (emitted.column(2), emitted.column(3));
    assert_eq!(sum.as_primitive::<Int64Type>().value(0), 20);
    assert_eq!(count.as_primitive::<Int64Type>().value(0), 4);

    let mut allowed = of(&[2, 0, 1]);
    allowed.allow_new_aggregates = true;
    let mut more = opened(&allowed, place, Some(&last)).await.unwrap();
    let emitted = raw(&mut more, &rows);
    let averages = emitted
        .column(2)
        .as_primitive::<arrow::datatypes::Float64Type>();
    assert_eq!(averages.value(0), 5.0, "of the rows since");
    assert_eq!(emitted.column(3).as_primitive::<Int64Type>().value(0), 4);
}

fn raw(run: &mut Run, rows: &RecordBatch) -> RecordBatch {
    let mut out = Outbox::default();
    let rows = Rows::inserts(rows.clone());
    run.operator
        .process(0, rows, &run.context, &mut out)
        .unwrap();
    run.operator.on_epoch_end(&run.context, &mut out).unwrap();
    out.take().pop().unwrap().into_batch()
}
