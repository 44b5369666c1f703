//! Orders and cuts the complete result of an epoch: ORDER BY and LIMIT above an aggregation in output mode complete.
//!
//! The whole result passes through one subtask, which keeps it until the epoch ends and hands it on as one batch, so that its
//! order survives whatever comes after. Nothing is kept from one epoch to the next.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use weir_runtime::{
    Operator, OperatorContext, OperatorSpec, Origin, Outbox, Result, Rows, WeirError, normal_key,
};

use crate::expression::Expression;

/// One column of an ORDER BY.
#[derive(Debug, Clone)]
pub struct SortKey {
    /// What is compared.
    pub expression: Expression,
    /// Largest first.
    pub descending: bool,
    /// Nulls before everything else, whatever the direction.
    pub nulls_first: bool,
}

impl SortKey {
    fn options(&self) -> SortOptions {
        SortOptions {
            descending: self.descending,
            nulls_first: self.nulls_first,
        }
    }

    /// How the key's values are encoded so that their bytes compare as they do.
    pub(crate) fn field(&self, input: &SchemaRef) -> Result<SortField> {
        let data_type = self.expression.field(input)?.data_type().clone();
        Ok(SortField::new_with_options(data_type, self.options()))
    }

    fn describe(&self) -> String {
        let direction = if self.descending { "desc" } else { "asc" };
        let nulls = if self.nulls_first { "first" } else { "last" };
        format!("{} {direction} nulls {nulls}", self.expression)
    }
}

/// An operator that emits the rows of an epoch at its end, ordered by `keys`, at most `fetch` of them. Rows with equal keys,
/// and all rows if there are no keys, are in the order of their origins. NaN is larger than every number and equal to itself,
/// 0.0 and -0.0 are equal. Meant to run as one subtask (`Partitioning::Single`).
pub fn sort(keys: Vec<SortKey>, fetch: Option<usize>) -> OperatorSpec {
    let keys: Arc<[SortKey]> = keys.into();
    let kind = if keys.is_empty() { "limit" } else { "sort" };
    let mut detail: Vec<String> = keys.iter().map(SortKey::describe).collect();
    detail.extend(fetch.map(|rows| format!("first {rows}")));
    let checked = Arc::clone(&keys);
    OperatorSpec::new(kind, move |_| {
        Ok(Sort {
            keys: Arc::clone(&keys),
            fetch,
            converter: None,
            held: Vec::new(),
        })
    })
    .with_schema_fn(move |inputs| {
        let input = inputs
            .first()
            .ok_or_else(|| WeirError::plan("a sort needs an input"))?;
        converter(&checked, input)?;
        Ok(SchemaRef::clone(input))
    })
    .with_detail(detail.join(", "))
}

/// Encodes keys so that their bytes compare as they do.
fn converter(keys: &[SortKey], input: &SchemaRef) -> Result<RowConverter> {
    let fields = keys.iter().map(|key| key.field(input));
    RowConverter::new(fields.collect::<Result<_>>()?).map_err(|error| {
        let text: Vec<String> = keys.iter().map(SortKey::describe).collect();
        WeirError::plan(format!(
            "rows cannot be ordered by {}: {error}",
            text.join(", ")
        ))
        .with_source(error)
    })
}

struct Sort {
    keys: Arc<[SortKey]>,
    fetch: Option<usize>,
    converter: Option<RowConverter>,
    /// The rows of the epoch so far.
    held: Vec<(Origin, RecordBatch)>,
}

impl Sort {
    /// The rows held, in order and cut; `None` if there are none.
    fn ordered(&mut self) -> Result<Option<RecordBatch>> {
        let mut held = std::mem::take(&mut self.held);
        let Some(schema) = held.first().map(|(_, batch)| batch.schema()) else {
            return Ok(None);
        };
        // Stable: batches of one origin keep their order of arrival.
        held.sort_by_key(|(origin, _)| *origin);
        let all = concat_batches(&schema, held.iter().map(|(_, batch)| batch))?;
        let fetch = self.fetch.unwrap_or(usize::MAX).min(all.num_rows());
        if self.keys.is_empty() {
            return Ok(Some(all.slice(0, fetch)));
        }
        let indices = self.indices(&all, fetch)?;
        Ok(Some(arrow::compute::take_record_batch(&all, &indices)?))
    }

    /// Positions of the first `fetch` rows in order.
    fn indices(&mut self, all: &RecordBatch, fetch: usize) -> Result<UInt32Array> {
        let columns = self
            .keys
            .iter()
            .map(|key| Ok(normal_key(&key.expression.evaluate(all)?)))
            .collect::<Result<Vec<_>>>()?;
        let converter = match &mut self.converter {
            Some(converter) => converter,
            empty => empty.insert(converter(&self.keys, &all.schema())?),
        };
        let encoded = converter.convert_columns(&columns)?;
        let count = u32::try_from(all.num_rows()).map_err(|_| {
            WeirError::data(format!(
                "the result has {} rows, at most {} can be ordered",
                all.num_rows(),
                u32::MAX
            ))
        })?;
        let mut order: Vec<u32> = (0..count).collect();
        let compare = |a: &u32, b: &u32| {
            let (left, right) = (encoded.row(*a as usize), encoded.row(*b as usize));
            left.cmp(&right).then(a.cmp(b))
        };
        if fetch < order.len() && fetch > 0 {
            order.select_nth_unstable_by(fetch - 1, compare);
        }
        order.truncate(fetch);
        order.sort_unstable_by(compare);
        Ok(UInt32Array::from(order))
    }
}

impl Operator for Sort {
    fn process(
        &mut self,
        _input: usize,
        rows: Rows,
        context: &OperatorContext,
        _out: &mut Outbox,
    ) -> Result<()> {
        if rows.num_rows() > 0 {
            self.held.push((context.origin, rows.into_batch()));
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, context: &OperatorContext, out: &mut Outbox) -> Result<()> {
        let rows: usize = self.held.iter().map(|(_, batch)| batch.num_rows()).sum();
        if let Some(batch) = self.ordered()? {
            context.metrics.add_filtered(rows - batch.num_rows());
            out.emit(Rows::inserts(batch));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
    use datafusion::logical_expr::Operator as Op;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};

    use super::*;
    use crate::expression::testing::context;

    fn batch(values: Vec<Option<i64>>, marks: Vec<i64>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([
            ("v", Arc::new(Int64Array::from(values)) as ArrayRef, true),
            ("mark", Arc::new(Int64Array::from(marks)) as ArrayRef, true),
        ])
        .expect("batch")
    }

    fn key(expression: Expression, descending: bool, nulls_first: bool) -> SortKey {
        SortKey {
            expression,
            descending,
            nulls_first,
        }
    }

    /// The column `mark` of what one epoch gives; each batch comes with the split of its origin.
    fn marks(spec: &OperatorSpec, batches: &[(u32, RecordBatch)]) -> Vec<i64> {
        let mut context = context();
        let mut operator = spec.create(&context).expect("create");
        let mut out = Outbox::default();
        for (split, batch) in batches {
            context.origin.split = *split;
            operator
                .process(0, Rows::inserts(batch.clone()), &context, &mut out)
                .expect("process");
        }
        assert!(out.take().is_empty());
        operator.on_epoch_end(&context, &mut out).expect("end");
        let emitted = out.take();
        assert!(emitted.len() <= 1, "one batch");
        let marks = emitted.iter().flat_map(|rows| {
            let marks = rows.batch().column_by_name("mark").expect("mark");
            marks
                .as_primitive::<arrow::datatypes::Int64Type>()
                .values()
                .to_vec()
        });
        marks.collect()
    }

    #[test]
    fn sort_orders_by_keys_and_places_nulls_where_asked() {
        let input = [(0, batch(vec![Some(2), None, Some(-1)], vec![0, 1, 2]))];
        for (descending, nulls_first, expected) in [
            (false, true, [1, 2, 0]),
            (false, false, [2, 0, 1]),
            (true, false, [0, 2, 1]),
            (true, true, [1, 0, 2]),
        ] {
            let spec = sort(
                vec![key(Expression::column("v", 0), descending, nulls_first)],
                None,
            );
            assert_eq!(marks(&spec, &input), expected);
        }
    }

    #[test]
    fn sort_keeps_rows_with_equal_keys_in_the_order_of_their_origins() {
        let input = [
            (1, batch(vec![Some(1), Some(1)], vec![10, 11])),
            (0, batch(vec![Some(1), Some(0)], vec![20, 21])),
        ];
        let spec = sort(vec![key(Expression::column("v", 0), false, true)], None);
        assert_eq!(marks(&spec, &input), [21, 20, 10, 11]);
        let cut = sort(vec![key(Expression::column("v", 0), false, true)], Some(2));
        assert_eq!(marks(&cut, &input), [21, 20]);
    }

    #[test]
    fn sort_by_an_expression_evaluates_it() {
        let column = |name, index| Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
        let negated: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(column("v", 0), Op::Multiply, lit(-1_i64)));
        let spec = sort(vec![key(Expression::from(negated), false, true)], None);
        let input = [(0, batch(vec![Some(1), Some(3), Some(2)], vec![0, 1, 2]))];
        assert_eq!(marks(&spec, &input), [1, 2, 0]);
    }

    #[test]
    fn sort_takes_nan_as_largest_and_both_zeros_as_equal() {
        let values = vec![f64::NAN, -0.0, f64::INFINITY, 0.0, -f64::NAN, -1.0];
        let batch = RecordBatch::try_from_iter([
            ("v", Arc::new(Float64Array::from(values)) as ArrayRef),
            (
                "mark",
                Arc::new(Int64Array::from(vec![0, 1, 2, 3, 4, 5])) as ArrayRef,
            ),
        ])
        .expect("batch");
        let spec = sort(vec![key(Expression::column("v", 0), false, true)], None);
        assert_eq!(marks(&spec, &[(0, batch)]), [5, 1, 3, 2, 0, 4]);
    }

    #[test]
    fn limit_without_keys_takes_the_first_rows_by_origin() {
        let input = [
            (1, batch(vec![Some(1), Some(2)], vec![10, 11])),
            (0, batch(vec![Some(3), Some(4)], vec![20, 21])),
        ];
        assert_eq!(marks(&sort(Vec::new(), Some(3)), &input), [20, 21, 10]);
        assert!(marks(&sort(Vec::new(), Some(0)), &input).is_empty());
        assert!(marks(&sort(Vec::new(), Some(3)), &[]).is_empty());
    }

    #[test]
    fn sort_keeps_nothing_from_one_epoch_to_the_next() {
        let context = context();
        let spec = sort(vec![key(Expression::column("v", 0), false, true)], None);
        let mut operator = spec.create(&context).expect("create");
        let mut out = Outbox::default();
        let input = batch(vec![Some(1)], vec![0]);
        operator
            .process(0, Rows::inserts(input), &context, &mut out)
            .expect("process");
        operator.on_epoch_end(&context, &mut out).expect("end");
        assert_eq!(out.take().len(), 1);
        operator.on_epoch_end(&context, &mut out).expect("end");
        assert!(out.take().is_empty());
    }
}
