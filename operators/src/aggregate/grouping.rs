//! Several sets of keys (ROLLUP, CUBE, GROUPING SETS): each row once for each set, without the keys that the set leaves out.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use weir_runtime::{Operator, OperatorContext, OperatorSpec, Outbox, Result, Rows, WeirError};

use crate::expression::batch_of;

/// One set of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupingSet {
    /// For each key whether the set holds it.
    pub holds: Vec<bool>,
    /// What tells the set's groups from those of other sets.
    pub id: i64,
}

/// An operator that gives each row once for each set. The input begins with the keys; the output has the column `name` with the
/// set's id between them and the other columns.
pub fn grouping_sets(name: impl Into<String>, sets: Vec<GroupingSet>) -> OperatorSpec {
    let name = name.into();
    let detail = format!("{} sets", sets.len());
    let (made, made_name) = (sets.clone(), name.clone());
    OperatorSpec::new("grouping sets", move |_| {
        Ok(Expand {
            name: made_name.clone(),
            sets: made.clone(),
            schemas: None,
        })
    })
    .with_detail(detail)
    .with_schema_fn(move |inputs| {
        let input = inputs
            .first()
            .ok_or_else(|| WeirError::plan("grouping sets need an input"))?;
        output(&name, &sets, input)
    })
}

fn output(name: &str, sets: &[GroupingSet], input: &SchemaRef) -> Result<SchemaRef> {
    let keys = sets.first().map_or(0, |set| set.holds.len());
    if sets.iter().any(|set| set.holds.len() != keys) || keys > input.fields().len() {
        return Err(WeirError::internal(format!(
            "grouping sets of {keys} keys over {} columns",
            input.fields().len()
        )));
    }
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let mut fields: Vec<FieldRef> = input.fields()[..keys].iter().map(nullable).collect();
    fields.push(Arc::new(Field::new(name, DataType::Int64, true)));
    fields.extend(input.fields()[keys..].iter().cloned());
    Ok(Arc::new(Schema::new(fields)))
}

struct Expand {
    name: String,
    sets: Vec<GroupingSet>,
    /// Schema of the input seen last, and of the output it gives.
    schemas: Option<(SchemaRef, SchemaRef)>,
}

impl Expand {
    fn output(&mut self, input: &SchemaRef) -> Result<SchemaRef> {
        if let Some((known, output)) = &self.schemas
            && (Arc::ptr_eq(known, input) || known == input)
        {
            return Ok(Arc::clone(output));
        }
        let made = output(&self.name, &self.sets, input)?;
        self.schemas = Some((Arc::clone(input), Arc::clone(&made)));
        Ok(made)
    }
}

impl Operator for Expand {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        _context: &OperatorContext,
        out: &mut Outbox,
    ) -> Result<()> {
        let output = self.output(&rows.schema())?;
        let (batch, count) = (rows.batch(), rows.num_rows());
        for set in &self.sets {
            let (keys, others) = batch.columns().split_at(set.holds.len());
            let key = |(column, holds): (&ArrayRef, &bool)| match holds {
                true => Arc::clone(column),
                false => new_null_array(column.data_type(), count),
            };
            let mut columns: Vec<ArrayRef> = keys.iter().zip(&set.holds).map(key).collect();
            columns.push(Arc::new(Int64Array::from(vec![set.id; count])));
            columns.extend(others.iter().cloned());
            out.emit(rows.map_batch(batch_of(&output, columns, count)?)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, RecordBatch};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::expression::testing::run;

    #[test]
    fn grouping_sets_give_each_row_once_for_each_set() {
        let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let batch = RecordBatch::try_from_iter([
            ("a", column(vec![1, 2])),
            ("b", column(vec![3, 4])),
            ("v", column(vec![5, 6])),
        ])
        .expect("batch");
        let set = |a, b, id| GroupingSet {
            holds: vec![a, b],
            id,
        };
        let spec = grouping_sets("set", vec![set(true, false, 1), set(false, false, 3)]);
        let schema = spec.schema(&[batch.schema()]).expect("schema");
        assert_eq!(schema.fields().len(), 4);
        assert_eq!(schema.field(2).name(), "set");
        let (out, _) = run(&spec, &[batch]).expect("run");
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].schema(), schema);
        assert_eq!(
            out[0].column(0).as_primitive::<Int64Type>().values(),
            &[1, 2]
        );
        assert_eq!(out[0].column(1).null_count(), 2);
        assert_eq!(out[1].column(0).null_count(), 2);
        assert_eq!(
            out[1].column(2).as_primitive::<Int64Type>().values(),
            &[3, 3]
        );
        assert_eq!(
            out[1].column(3).as_primitive::<Int64Type>().values(),
            &[5, 6]
        );
    }
}
