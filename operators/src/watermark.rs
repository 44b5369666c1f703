//! Observes event times. Rows pass unchanged; the query's watermark follows the largest time seen, less a delay.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit, TimestampMicrosecondType};
use std::collections::BTreeMap;

use weir_runtime::{
    EventTimeStats, Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows, SplitEventTimes,
    WeirError, merge_event_times,
};

/// An operator that declares `column` the event time: a timestamp with a time zone, or a window of two of them, whose end counts.
/// The watermark stays `delay_ms` behind the largest time seen in earlier epochs; null times have no say.
pub fn watermark(column: impl Into<String>, delay_ms: i64) -> OperatorSpec {
    let column = column.into();
    let detail = format!("{column}, {delay_ms} ms");
    let (name, checked) = (column.clone(), column.clone());
    OperatorSpec::new("watermark", move |_| {
        Ok(Watermark {
            column: name.clone(),
            delay_ms,
            seen: None,
            by_split: BTreeMap::new(),
        })
    })
    .with_schema_fn(move |inputs| check(&checked, delay_ms, inputs))
    .with_detail(detail)
    .with_param("column", column)
    .with_param("delayMs", delay_ms.to_string())
    .with_event_times()
}

fn check(column: &str, delay_ms: i64, inputs: &[SchemaRef]) -> Result<SchemaRef> {
    let input = inputs
        .first()
        .ok_or_else(|| WeirError::plan("a watermark needs an input"))?;
    if delay_ms < 0 {
        return Err(WeirError::plan(format!(
            "the watermark of column '{column}' has a delay of {delay_ms} ms, allowed: 0 or more"
        )));
    }
    let field = input.field_with_name(column).map_err(|_| {
        let names: Vec<_> = input
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        WeirError::plan(format!(
            "event-time column '{column}' does not exist, columns: {}",
            names.join(", ")
        ))
    })?;
    let allowed = match field.data_type() {
        DataType::Struct(fields) => fields
            .find("end")
            .is_some_and(|(_, end)| is_instant(end.data_type())),
        other => is_instant(other),
    };
    if allowed {
        return Ok(SchemaRef::clone(input));
    }
    let message = format!(
        "event-time column '{column}' is {}, allowed: a timestamp with a time zone",
        field.data_type()
    );
    Err(WeirError::plan(message).with_condition("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"))
}

fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

struct Watermark {
    column: String,
    delay_ms: i64,
    seen: Option<EventTimeStats>,
    /// By (source, split), where splits have watermarks of their own.
    by_split: BTreeMap<(u32, u32), EventTimeStats>,
}

impl Watermark {
    fn see(&mut self, stats: EventTimeStats, context: &OperatorContext) {
        let merged = |seen: Option<EventTimeStats>| match seen {
            Some(seen) => merge_event_times(seen, stats),
            None => stats,
        };
        self.seen = Some(merged(self.seen.take()));
        if context.times_by_split {
            let split = (context.origin.source, context.origin.split);
            let seen = merged(self.by_split.get(&split).copied());
            self.by_split.insert(split, seen);
        }
    }
}

impl Operator for Watermark {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let column = rows.batch().column_by_name(&self.column).ok_or_else(|| {
            WeirError::internal(format!(
                "event-time column '{}' is not in the batch",
                self.column
            ))
        })?;
        let times = bounded(instants(column)?, context)?;
        if let Some(stats) = observe(&times, self.delay_ms) {
            self.see(stats, context);
        }
        out.emit(rows);
        Ok(())
    }

    fn take_event_times(&mut self) -> Option<EventTimeStats> {
        self.seen.take()
    }

    fn take_split_event_times(&mut self) -> Vec<SplitEventTimes> {
        let by_split = std::mem::take(&mut self.by_split).into_iter();
        by_split
            .map(|((source, split), stats)| SplitEventTimes {
                source,
                split,
                stats,
            })
            .collect()
    }
}

/// The times without those that lie too far ahead to be believed, which are counted.
fn bounded(
    times: TimestampMicrosecondArray,
    context: &OperatorContext,
) -> Result<TimestampMicrosecondArray> {
    let max_us = context.max_event_time_ms.saturating_mul(1000);
    if arrow::compute::max(&times).is_none_or(|largest| largest <= max_us) {
        return Ok(times);
    }
    let future: BooleanArray = times
        .iter()
        .map(|time| Some(time.is_some_and(|time| time > max_us)))
        .collect();
    context.metrics.add_future(future.true_count());
    let kept = arrow::compute::nullif(&times, &future)?;
    Ok(kept.as_primitive::<TimestampMicrosecondType>().clone())
}

/// The times of a column in microseconds; those of a window are its ends.
pub(crate) fn instants(column: &ArrayRef) -> Result<TimestampMicrosecondArray> {
    let times = match column.as_struct_opt() {
        Some(windows) => windows
            .column_by_name("end")
            .cloned()
            .map(|end| without_null_parents(windows, end))
            .transpose()?,
        None => Some(ArrayRef::clone(column)),
    };
    let times = times.ok_or_else(|| {
        WeirError::internal("the event-time column is a struct without a field 'end'")
    })?;
    let zone = match times.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        other => {
            return Err(WeirError::internal(format!(
                "the event-time column is {other}, not a timestamp"
            )));
        }
    };
    let micros = arrow::compute::cast(&times, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    Ok(micros.as_primitive::<TimestampMicrosecondType>().clone())
}

fn without_null_parents(parent: &dyn Array, child: ArrayRef) -> Result<ArrayRef> {
    if parent.null_count() == 0 {
        return Ok(child);
    }
    Ok(arrow::compute::nullif(
        &child,
        &arrow::compute::is_null(parent)?,
    )?)
}

fn observe(times: &TimestampMicrosecondArray, delay_ms: i64) -> Option<EventTimeStats> {
    let min = arrow::compute::min(times)?;
    let max = arrow::compute::max(times)?;
    let sum_us: i128 = match times.null_count() {
        0 => times.values().iter().map(|us| i128::from(*us)).sum(),
        _ => times.iter().flatten().map(i128::from).sum(),
    };
    Some(EventTimeStats {
        min_ms: min.div_euclid(1000),
        max_ms: max.div_euclid(1000),
        sum_ms: sum_us as f64 / 1000.0,
        count: (times.len() - times.null_count()) as u64,
        delay_ms,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{Field, Schema};

    use super::*;
    use crate::expression::testing::context;

    fn batch(times: Vec<Option<i64>>) -> RecordBatch {
        let times = TimestampMicrosecondArray::from(times).with_timezone("UTC");
        RecordBatch::try_from_iter_with_nullable([("ts", Arc::new(times) as ArrayRef, true)])
            .expect("batch")
    }

    fn observed(batches: &[RecordBatch]) -> Option<EventTimeStats> {
        let context = context();
        let mut operator = watermark("ts", 10).create(&context).expect("create");
        let mut out = Outbox::default();
        for batch in batches {
            operator
                .process(0, Rows::inserts(batch.clone()), &context, &mut out)
                .expect("process");
        }
        assert_eq!(
            out.take().len(),
            batches.iter().filter(|batch| batch.num_rows() > 0).count()
        );
        operator.take_event_times()
    }

    #[test]
    fn watermark_sees_smallest_largest_and_average_of_an_epoch_and_ignores_null() {
        let seen = observed(&[
            batch(vec![Some(5_500), None]),
            batch(vec![Some(2_000), Some(-1)]),
        ])
        .expect("seen");
        assert_eq!(
            (seen.min_ms, seen.max_ms, seen.count, seen.delay_ms),
            (-1, 5, 3, 10)
        );
        assert!((seen.sum_ms - 7.499).abs() < 1e-9);
    }

    #[test]
    fn watermark_without_event_times_reports_none() {
        assert_eq!(observed(&[batch(vec![None]), batch(vec![])]), None);
    }

    #[test]
    fn watermark_forgets_an_epoch_when_its_times_are_taken() {
        let context = context();
        let mut operator = watermark("ts", 0).create(&context).expect("create");
        operator
            .process(
                0,
                Rows::inserts(batch(vec![Some(1_000)])),
                &context,
                &mut Outbox::default(),
            )
            .expect("process");
        assert!(operator.take_event_times().is_some());
        assert_eq!(operator.take_event_times(), None);
    }

    #[test]
    fn times_too_far_ahead_are_counted_and_do_not_move_the_watermark_while_their_rows_pass() {
        let context = OperatorContext {
            max_event_time_ms: 5,
            ..context()
        };
        let mut operator = watermark("ts", 0).create(&context).expect("create");
        let mut out = Outbox::default();
        let times = batch(vec![Some(5_000), Some(5_001), None, Some(9_000_000)]);
        operator
            .process(0, Rows::inserts(times), &context, &mut out)
            .expect("process");
        let seen = operator.take_event_times().expect("seen");
        assert_eq!((seen.max_ms, seen.count), (5, 1));
        assert_eq!(context.metrics.snapshot().future, 2);
        assert_eq!(out.take()[0].num_rows(), 4);
    }

    #[test]
    fn times_are_told_by_split_where_asked() {
        let mut context = OperatorContext {
            times_by_split: true,
            ..context()
        };
        let mut operator = watermark("ts", 0).create(&context).expect("create");
        for (split, micros) in [(0, 7_000), (1, 3_000), (0, 4_000)] {
            context.origin.split = split;
            operator
                .process(
                    0,
                    Rows::inserts(batch(vec![Some(micros)])),
                    &context,
                    &mut Outbox::default(),
                )
                .expect("process");
        }
        let splits: Vec<_> = operator
            .take_split_event_times()
            .iter()
            .map(|times| (times.split, times.stats.max_ms))
            .collect();
        assert_eq!(splits, [(0, 7), (1, 3)]);
        assert_eq!(operator.take_event_times().expect("seen").max_ms, 7);
        assert!(operator.take_split_event_times().is_empty());
    }

    #[test]
    fn watermark_of_a_window_column_takes_its_end() {
        let end = TimestampMicrosecondArray::from(vec![9_000_000]).with_timezone("UTC");
        let fields = vec![
            Field::new("start", end.data_type().clone(), true),
            Field::new("end", end.data_type().clone(), true),
        ];
        let start = TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC");
        let window = arrow::array::StructArray::new(
            fields.into(),
            vec![Arc::new(start), Arc::new(end)],
            None,
        );
        let batch =
            RecordBatch::try_from_iter([("ts", Arc::new(window) as ArrayRef)]).expect("batch");
        assert!(watermark("ts", 0).schema(&[batch.schema()]).is_ok());
        assert_eq!(observed(&[batch]).expect("seen").max_ms, 9_000);
    }

    #[test]
    fn watermark_refuses_other_types_missing_columns_and_negative_delays() {
        let plain = TimestampMicrosecondArray::from(vec![1]);
        let fields = vec![
            Field::new("ntz", plain.data_type().clone(), true),
            Field::new("n", Int64Array::from(vec![1]).data_type().clone(), true),
            Field::new(
                "ts",
                batch(vec![]).schema().field(0).data_type().clone(),
                true,
            ),
        ];
        let schema = Arc::new(Schema::new(fields));
        for (column, delay_ms, fault) in [
            ("ntz", 0, "allowed: a timestamp"),
            ("n", 0, "Int64"),
            ("x", 0, "columns: ntz, n, ts"),
            ("ts", -1, "0 or more"),
        ] {
            let error = watermark(column, delay_ms)
                .schema(&[Arc::clone(&schema)])
                .expect_err(column);
            assert!(error.to_string().contains(fault), "{error}");
        }
    }
}
