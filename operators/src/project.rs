//! Computes columns. A column that is only passed on or renamed is not evaluated and shares its memory.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows, WeirError};

use crate::expression::{Expression, batch_of};

/// An operator whose output has these columns, each a name and an expression over the input. Output columns may hold nulls.
pub fn project<I, S>(columns: I) -> OperatorSpec
where
    I: IntoIterator<Item = (S, Expression)>,
    S: Into<String>,
{
    let columns: Arc<[(String, Expression)]> = columns
        .into_iter()
        .map(|(name, expr)| (name.into(), expr))
        .collect();
    let detail = columns
        .iter()
        .map(|(name, expr)| describe(name, expr))
        .collect::<Vec<_>>()
        .join(", ");
    let made = Arc::clone(&columns);
    OperatorSpec::new("project", move |_| {
        Ok(Project {
            columns: Arc::clone(&made),
            schemas: None,
        })
    })
    .with_schema_fn(move |inputs| {
        let input = inputs
            .first()
            .ok_or_else(|| WeirError::plan("a projection needs an input"))?;
        output_schema(&columns, input)
    })
    .with_detail(detail)
}

fn describe(name: &str, expression: &Expression) -> String {
    let text = expression.to_string();
    let plain = expression.as_column().is_some() && text.split('@').next() == Some(name);
    if plain {
        name.to_owned()
    } else {
        format!("{text} as {name}")
    }
}

fn output_schema(columns: &[(String, Expression)], input: &SchemaRef) -> Result<SchemaRef> {
    let fields = columns.iter().map(|(name, expression)| {
        let field = expression.field(input)?;
        Ok(Field::new(name, field.data_type().clone(), true)
            .with_metadata(field.metadata().clone()))
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
}

struct Project {
    columns: Arc<[(String, Expression)]>,
    /// Schema of the input seen last, and of the output it gives.
    schemas: Option<(SchemaRef, SchemaRef)>,
}

impl Project {
    fn output(&mut self, input: &SchemaRef) -> Result<SchemaRef> {
        if let Some((known, output)) = &self.schemas
            && (Arc::ptr_eq(known, input) || known == input)
        {
            return Ok(Arc::clone(output));
        }
        let output = output_schema(&self.columns, input)?;
        self.schemas = Some((Arc::clone(input), Arc::clone(&output)));
        Ok(output)
    }
}

impl Operator for Project {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let batch = rows.batch();
        let schema = self.output(batch.schema_ref())?;
        let columns = self
            .columns
            .iter()
            .map(|(name, expression)| match expression.as_column() {
                Some(index) if index < batch.num_columns() => Ok(Arc::clone(batch.column(index))),
                _ => expression
                    .at(context.batch_timestamp_ms)?
                    .evaluate_column(name, batch),
            });
        let output = batch_of(&schema, columns.collect::<Result<_>>()?, batch.num_rows())?;
        out.emit(rows.map_batch(output)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use arrow::datatypes::Int64Type;
    use datafusion::logical_expr::Operator as Op;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};

    use super::*;
    use crate::expression::testing::run;

    fn batch() -> RecordBatch {
        let values = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        RecordBatch::try_from_iter([("a", values(vec![1, 2])), ("b", values(vec![10, 20]))])
            .expect("batch")
    }

    fn sum() -> Expression {
        let column = |name, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
        Expression::from(
            Arc::new(BinaryExpr::new(column("a", 0), Op::Plus, column("b", 1)))
                as Arc<dyn PhysicalExpr>,
        )
    }

    #[test]
    fn project_computes_columns_and_shares_those_it_passes_on() {
        let input = batch();
        let spec = project([("renamed", Expression::column("b", 1)), ("sum", sum())]);
        let (out, _) = run(&spec, std::slice::from_ref(&input)).expect("run");
        assert!(Arc::ptr_eq(out[0].column(0), input.column(1)));
        assert_eq!(
            out[0]
                .column_by_name("sum")
                .expect("sum")
                .as_primitive::<Int64Type>()
                .values(),
            &[11, 22]
        );
        assert_eq!(
            out[0].schema(),
            spec.schema(&[input.schema()]).expect("schema")
        );
    }

    #[test]
    fn project_to_a_constant_has_one_value_per_row() {
        let spec = project([("one", Expression::from(lit(1_i64)))]);
        let (out, _) = run(&spec, &[batch()]).expect("run");
        assert_eq!(
            out[0].column(0).as_primitive::<Int64Type>().values(),
            &[1, 1]
        );
    }

    #[test]
    fn project_to_no_columns_keeps_the_number_of_rows() {
        let spec = project(Vec::<(String, Expression)>::new());
        let (out, _) = run(&spec, &[batch()]).expect("run");
        assert_eq!((out[0].num_columns(), out[0].num_rows()), (0, 2));
    }

    #[test]
    fn project_refuses_a_column_that_is_not_there_when_the_topology_is_built() {
        let spec = project([("x", Expression::column("x", 7))]);
        assert_eq!(
            spec.schema(&[batch().schema()])
                .expect_err("no column")
                .fault(),
            weir_runtime::Fault::Plan
        );
    }
}
