//! Keeps the rows for which a condition is true; rows for which it is false or null are counted as filtered.

use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows};

use crate::expression::Expression;

/// An operator that keeps the rows for which `condition` is true.
pub fn filter(condition: impl Into<Expression>) -> OperatorSpec {
    let condition = condition.into();
    let detail = condition.to_string();
    OperatorSpec::new("filter", move |_| {
        Ok(Filter {
            condition: condition.clone(),
        })
    })
    .with_detail(detail)
}

struct Filter {
    condition: Expression,
}

impl Operator for Filter {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let condition = self.condition.at(context.batch_timestamp_ms)?;
        let keep = condition.condition(rows.batch())?;
        let kept = keep.true_count();
        context.metrics.add_filtered(rows.num_rows() - kept);
        match kept {
            0 => {}
            all if all == rows.num_rows() => out.emit(rows),
            _ => out.emit(rows.filter(&keep)?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Int64Type};
    use datafusion::logical_expr::Operator as Op;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, lit};

    use super::*;
    use crate::expression::testing::run;

    fn batch(values: Vec<Option<i64>>) -> RecordBatch {
        RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(values)) as ArrayRef)])
            .expect("batch")
    }

    fn greater_than(limit: i64) -> Arc<dyn PhysicalExpr> {
        let column = Arc::new(datafusion::physical_expr::expressions::Column::new("v", 0));
        Arc::new(BinaryExpr::new(column, Op::Gt, lit(limit)))
    }

    #[test]
    fn filter_keeps_true_rows_and_counts_the_rest() {
        let input = batch(vec![Some(1), None, Some(5), Some(7)]);
        let (out, context) = run(&filter(greater_than(4)), &[input]).expect("run");
        assert_eq!(
            out[0].column(0).as_primitive::<Int64Type>().values(),
            &[5, 7]
        );
        assert_eq!(context.metrics.snapshot().filtered, 2);
    }

    #[test]
    fn filter_passes_a_batch_on_unchanged_if_every_row_is_true() {
        let input = batch(vec![Some(8), Some(9)]);
        let (out, context) =
            run(&filter(greater_than(4)), std::slice::from_ref(&input)).expect("run");
        assert!(Arc::ptr_eq(out[0].column(0), input.column(0)));
        assert_eq!(context.metrics.snapshot().filtered, 0);
    }

    #[test]
    fn filter_emits_nothing_if_no_row_is_true() {
        let (out, context) =
            run(&filter(greater_than(4)), &[batch(vec![Some(1), None])]).expect("run");
        assert!(out.is_empty());
        assert_eq!(context.metrics.snapshot().filtered, 2);
    }

    #[test]
    fn filter_reports_an_error_of_its_condition_as_a_fault_of_the_data() {
        let text = Arc::new(arrow::array::StringArray::from(vec!["x"])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("v", text)]).expect("batch");
        let column = Arc::new(datafusion::physical_expr::expressions::Column::new("v", 0));
        let number = Arc::new(CastExpr::new(
            column,
            DataType::Int64,
            Some(datafusion::common::format::DEFAULT_CAST_OPTIONS),
        ));
        let condition: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(number, Op::Gt, lit(0_i64)));
        let error = run(&filter(condition), &[batch]).expect_err("no number");
        assert_eq!(error.fault(), weir_runtime::Fault::Data);
    }
}
