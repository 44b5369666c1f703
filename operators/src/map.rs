//! User code over batches.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows};

use crate::expression::batch_of;

/// An operator that calls `map` with every batch. The result has the columns of `schema` and any number of rows; over a changelog
/// it must have as many rows as the input, whose kinds they get. The same batch must give the same result whenever it is called.
pub fn map_batches<F>(schema: SchemaRef, map: F) -> OperatorSpec
where
    F: Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync + 'static,
{
    let (output, map) = (Arc::clone(&schema), Arc::new(map));
    OperatorSpec::new("map", move |_| {
        Ok(Map {
            output: Arc::clone(&output),
            map: Arc::clone(&map),
        })
    })
    .with_schema(schema)
}

struct Map<F> {
    output: SchemaRef,
    map: Arc<F>,
}

impl<F> Operator for Map<F>
where
    F: Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync,
{
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        _context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let mapped = (self.map)(rows.batch())?;
        let mapped = batch_of(&self.output, mapped.columns().to_vec(), mapped.num_rows())?;
        out.emit(match rows.kinds() {
            None => Rows::inserts(mapped),
            Some(_) => rows.map_batch(mapped)?,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, UInt8Array};
    use weir_runtime::WeirError;

    use super::*;
    use crate::expression::testing::{context, run};

    fn batch(values: Vec<i64>) -> RecordBatch {
        RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(values)) as ArrayRef)])
            .expect("batch")
    }

    #[test]
    fn map_may_change_the_number_of_rows_of_plain_inserts() {
        let spec = map_batches(batch(vec![]).schema(), |batch| Ok(batch.slice(0, 1)));
        let (out, _) = run(&spec, &[batch(vec![1, 2, 3])]).expect("run");
        assert_eq!(out, [batch(vec![1])]);
    }

    #[test]
    fn map_of_a_changelog_must_keep_the_number_of_rows() {
        let rows = Rows::with_kinds(batch(vec![1, 2]), UInt8Array::from(vec![0, 3])).expect("rows");
        let spec = map_batches(batch(vec![]).schema(), |batch| Ok(batch.slice(0, 1)));
        let context = context();
        let mut operator = spec.create(&context).expect("create");
        assert!(
            operator
                .process(0, rows, &context, &mut Outbox::default())
                .is_err()
        );
    }

    #[test]
    fn map_reports_the_error_of_the_user_and_wrong_columns() {
        let fails = map_batches(batch(vec![]).schema(), |_| Err(WeirError::data("no")));
        assert_eq!(
            run(&fails, &[batch(vec![1])]).expect_err("fails").message(),
            "no"
        );
        let narrow = map_batches(batch(vec![]).schema(), |batch| Ok(batch.project(&[])?));
        assert!(run(&narrow, &[batch(vec![1])]).is_err());
    }
}
