//! Several inputs with equal columns as one stream.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows, WeirError};

use crate::expression::batch_of;

/// An operator that passes on the rows of all its inputs, under the column names of `columns` (mostly the schema of the first
/// input). Columns match by position and must have equal types.
pub fn union(columns: &Schema) -> OperatorSpec {
    let fields: Vec<Field> = columns
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let output: SchemaRef = Arc::new(Schema::new_with_metadata(
        fields,
        columns.metadata().clone(),
    ));
    let made = Arc::clone(&output);
    OperatorSpec::new("union", move |_| {
        Ok(Union {
            output: Arc::clone(&made),
        })
    })
    .with_schema_fn(move |inputs| {
        inputs
            .iter()
            .enumerate()
            .try_for_each(|(index, input)| check(&output, input, index))?;
        Ok(Arc::clone(&output))
    })
}

fn check(output: &Schema, input: &Schema, index: usize) -> Result<()> {
    let fields = || output.fields().iter().zip(input.fields());
    if output.fields().len() == input.fields().len()
        && fields().all(|(a, b)| a.data_type().equals_datatype(b.data_type()))
    {
        return Ok(());
    }
    let types = |schema: &Schema| {
        schema
            .fields()
            .iter()
            .map(|f| f.data_type().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    Err(WeirError::plan(format!(
        "the inputs of a union need equal columns: wanted ({}), input {index} has ({})",
        types(output),
        types(input)
    )))
}

struct Union {
    output: SchemaRef,
}

impl Operator for Union {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        _context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let batch = rows.batch();
        if batch.schema_ref() == &self.output {
            out.emit(rows);
            return Ok(());
        }
        let renamed = batch_of(&self.output, batch.columns().to_vec(), batch.num_rows())?;
        out.emit(rows.map_batch(renamed)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

    use super::*;
    use crate::expression::testing::run;

    fn batch(name: &str) -> RecordBatch {
        RecordBatch::try_from_iter([(name, Arc::new(Int64Array::from(vec![1])) as ArrayRef)])
            .expect("batch")
    }

    #[test]
    fn union_gives_every_input_the_names_of_the_first() {
        let spec = union(&batch("a").schema());
        let (out, _) = run(&spec, &[batch("b"), batch("a")]).expect("run");
        assert!(
            out.iter()
                .all(|batch| batch.schema().field(0).name() == "a")
        );
        assert_eq!(
            out[0].schema(),
            spec.schema(&[batch("a").schema(), batch("b").schema()])
                .expect("schema")
        );
    }

    #[test]
    fn union_refuses_inputs_of_other_types() {
        let text =
            RecordBatch::try_from_iter([("a", Arc::new(StringArray::from(vec!["x"])) as ArrayRef)])
                .expect("batch");
        let spec = union(&batch("a").schema());
        let error = spec
            .schema(&[batch("a").schema(), text.schema()])
            .expect_err("types differ");
        assert!(error.to_string().contains("input 1 has (Utf8)"), "{error}");
    }
}
