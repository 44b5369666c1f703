//! Aggregation over changes: the input takes back and changes rows it gave earlier, because it is a result that is kept up to date
//! (output mode update). What is emitted are changes again: new groups, changed ones, and groups that lost their last row.
//!
//! Counts and whole-number sums can be taken back exactly, so only totals are kept. All other functions are evaluated again over
//! the rows of each group that changed, which are kept with how often they are there.

mod operator;
mod results;
mod row_set;
mod totals;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use weir_runtime::{ChangelogMode, OperatorSpec, Result};
use weir_runtime::{TableKind, TableSpec};

use crate::aggregate::{AggregateCall, Aggregation, Calls, calls_text};
use crate::row_codec::{columns_text, fields_text};
use operator::ChangelogAggregator;

/// What is kept of each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Totals of its rows.
    Totals,
    /// Its rows.
    Rows,
}

/// An [`Aggregation`] and what follows from it.
#[derive(Debug)]
struct Shape {
    aggregation: Aggregation,
    calls: Calls,
    kept: Kept,
    /// The first columns of input and output.
    keys: Fields,
    /// All columns of the input.
    input: Fields,
    /// The columns of the results, behind the keys in the output.
    results: Fields,
    output: SchemaRef,
}

/// An operator that aggregates the changes of rows of `input`: keys first, then the columns that the calls read. Its input must be
/// distributed by the keys. The aggregation's output mode is update, whatever it says.
///
/// # Errors
/// If a function or a type cannot be kept in state.
pub fn changelog_aggregate(aggregation: Aggregation, input: &SchemaRef) -> Result<OperatorSpec> {
    let calls = Calls::new(aggregation.calls.clone(), aggregation.errors)?;
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let keys: Fields = aggregation.keys.iter().cloned().collect();
    let results: Fields = calls.results().into();
    let shape = Arc::new(Shape {
        kept: kept(&calls.list),
        input: input.fields().iter().map(nullable).collect(),
        output: Arc::new(Schema::new(
            keys.iter().chain(&results).cloned().collect::<Fields>(),
        )),
        keys,
        results,
        calls,
        aggregation,
    });
    let ids = calls_text(&shape.calls.list);
    let names: Vec<&str> = shape.keys.iter().map(|key| key.name().as_str()).collect();
    let detail = format!("by ({}): {ids}", names.join(", "));
    let made = Arc::clone(&shape);
    let spec = OperatorSpec::new("changelog_aggregate", move |_| {
        ChangelogAggregator::new(Arc::clone(&made))
    });
    let spec = spec
        .with_schema(Arc::clone(&shape.output))
        .with_detail(detail)
        .with_param("keys", columns_text(&shape.keys))
        .with_param("aggregates", ids)
        .with_param("mode", "update")
        .with_tables(shape.tables())
        .with_state_name("stateStoreSave")
        .with_changelog(ChangelogMode::Changelog);
    Ok(match shape.aggregation.time {
        Some(_) => spec.with_watermark_epochs(),
        None => spec,
    })
}

/// Totals are enough if every function adds up whole numbers.
fn kept(calls: &[AggregateCall]) -> Kept {
    let adds_up = |call: &AggregateCall| {
        let function = &call.function;
        !function.is_distinct()
            && match function.fun().name() {
                "count" => true,
                "sum" => *function.field().data_type() == DataType::Int64,
                _ => false,
            }
    };
    if calls.iter().all(adds_up) {
        Kept::Totals
    } else {
        Kept::Rows
    }
}

impl Shape {
    /// The tables: `groups`, and `rows` if rows are kept.
    fn tables(&self) -> Vec<TableSpec> {
        let kind = match self.aggregation.time {
            Some(time) => TableKind::Timed {
                bucket: time.bucket(),
            },
            None => TableKind::Keyed,
        };
        let value = match self.kept {
            Kept::Totals => totals::fields(&self.calls.list),
            Kept::Rows => self.results.clone(),
        };
        let mut tables = vec![TableSpec {
            name: "groups".to_owned(),
            kind,
            version: 1,
            key: fields_text(&self.keys),
            value: fields_text(&value),
        }];
        if self.kept == Kept::Rows {
            let count = Fields::from(vec![Field::new("count", DataType::Int64, true)]);
            tables.push(TableSpec {
                name: "rows".to_owned(),
                kind: TableKind::Ordered,
                version: 1,
                key: fields_text(&self.input),
                value: fields_text(&count),
            });
        }
        tables
    }
}
