//! The one shape of window functions that runs on streams, in output mode update: `row_number()` of which a filter above lets
//! only the first few through.
//!
//! ```sql
//! SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY x DESC) AS rn FROM t) WHERE rn <= 3
//! ```

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Window};
use datafusion::scalar::ScalarValue;
use weir_operators::{Expression, project, top_n};
use weir_runtime::{Input, Partitioning, Result, Stream, WeirError};

use super::Planner;
use super::changes::address;

/// Window nodes of a plan that are the first rows of their partitions, with how many; by address, which is theirs as long as
/// the plan lives.
#[derive(Debug, Default)]
pub(super) struct TopNs(HashMap<usize, usize>);

impl TopNs {
    /// All of a plan.
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        let mut found = HashMap::new();
        // The visitor returns no errors.
        let _visited = plan.apply(|node| {
            if let LogicalPlan::Filter(filter) = node {
                for conjunct in split_conjunction(&filter.predicate) {
                    if let Some((number, rows)) = upper_bound(conjunct)
                        && let Some(window) = numbered(number, &filter.input)
                    {
                        let least = found.entry(address(window)).or_insert(rows);
                        *least = rows.min(*least);
                    }
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        Self(found)
    }

    /// How many rows of each partition of this node are wanted, if it is one of them.
    pub(super) fn rows(&self, window: &Window) -> Option<usize> {
        self.0.get(&address(window)).copied()
    }
}

/// `x <= 3`, `x < 4`, `3 >= x`, `4 > x`, `x = 1`, `x BETWEEN 1 AND 3`: the expression, and the largest whole number it may be.
fn upper_bound(condition: &Expr) -> Option<(&Expr, usize)> {
    match condition {
        Expr::BinaryExpr(binary) => {
            let (number, bound, op) = match (whole(&binary.left), whole(&binary.right)) {
                (None, Some(bound)) => (binary.left.as_ref(), bound, binary.op),
                (Some(bound), None) => (binary.right.as_ref(), bound, binary.op.swap()?),
                _ => return None,
            };
            match op {
                Operator::LtEq => Some((number, bound)),
                Operator::Lt => Some((number, bound.saturating_sub(1))),
                Operator::Eq if bound == 1 => Some((number, bound)),
                _ => None,
            }
        }
        Expr::Between(between) if !between.negated => {
            Some((between.expr.as_ref(), whole(&between.high)?))
        }
        _ => None,
    }
}

/// A constant whole number, 0 if below.
fn whole(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Literal(value, _) => {
            let number = match value {
                ScalarValue::UInt64(Some(number)) => return usize::try_from(*number).ok(),
                ScalarValue::Int8(Some(number)) => i64::from(*number),
                ScalarValue::Int16(Some(number)) => i64::from(*number),
                ScalarValue::Int32(Some(number)) => i64::from(*number),
                ScalarValue::Int64(Some(number)) => *number,
                _ => return None,
            };
            Some(usize::try_from(number).unwrap_or(0))
        }
        other => whole(cast(other)?),
    }
}

/// What is cast, if the expression is a cast: between whole numbers, which keep their order.
pub(super) fn cast(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Cast(cast) => Some(&cast.expr),
        Expr::ScalarFunction(call) if call.func.name() == "cast" => call.args.first(),
        _ => None,
    }
}

/// The window node whose row number `expr` is, over rows of `plan`.
fn numbered<'a>(expr: &Expr, plan: &'a LogicalPlan) -> Option<&'a Window> {
    match expr {
        Expr::Alias(alias) => numbered(&alias.expr, plan),
        Expr::Column(column) => column_of(plan.schema().maybe_index_of_column(column)?, plan),
        other => numbered(cast(other)?, plan),
    }
}

/// The window node whose row number column `index` of `plan` is.
fn column_of(index: usize, plan: &LogicalPlan) -> Option<&Window> {
    match plan {
        LogicalPlan::Projection(node) => numbered(node.expr.get(index)?, &node.input),
        LogicalPlan::SubqueryAlias(node) => column_of(index, &node.input),
        LogicalPlan::Filter(node) => column_of(index, &node.input),
        LogicalPlan::Window(node) => {
            let of_input = node.input.schema().fields().len();
            (index == of_input && row_number(node).is_some()).then_some(node)
        }
        _ => None,
    }
}

/// The call, if the node computes nothing but one `row_number()`.
fn row_number(node: &Window) -> Option<&WindowFunctionParams> {
    let [expr] = node.window_expr.as_slice() else {
        return None;
    };
    let bare = match expr {
        Expr::Alias(alias) => alias.expr.as_ref(),
        other => other,
    };
    match bare {
        Expr::WindowFunction(call) if is_row_number(call) => Some(&call.params),
        _ => None,
    }
}

fn is_row_number(call: &WindowFunction) -> bool {
    call.fun.name().eq_ignore_ascii_case("row_number") && call.params.filter.is_none()
}

/// Positions of the columns that tell the rows of a top-N apart: those of the partition and the row number. `None` if the
/// partition is by an expression.
pub(super) fn key_positions(node: &Window) -> Option<Vec<usize>> {
    let params = row_number(node)?;
    let schema = node.input.schema();
    let position = |expr: &Expr| match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    };
    let number = schema.fields().len();
    let partition = params.partition_by.iter().map(position);
    partition.chain([Some(number)]).collect()
}

impl Planner<'_> {
    pub(super) fn top_n(&mut self, node: &Window) -> Result<Stream> {
        let (Some(rows), Some(params)) = (self.top_ns.rows(node), row_number(node)) else {
            return Err(WeirError::internal(format!(
                "no operator for the window functions {:?}",
                node.window_expr
            )));
        };
        let before = self.changes.tells_before(node);
        let retracts = self.changes.in_output_of(&node.input);
        let stream = self.node(&node.input)?;
        let schema = node.input.schema();
        let (stream, names) = self.partition_columns(stream, node, &params.partition_by)?;
        let given = self.builder.schema(stream);
        let position = |name: &String| given.index_of(name).map_err(WeirError::from);
        let spec = weir_operators::TopN {
            partition: names.iter().map(position).collect::<Result<_>>()?,
            order: self.sort_keys(&params.order_by, schema)?,
            rows,
            columns: schema.fields().len(),
            number: node.schema.field(schema.fields().len()).name().clone(),
            retracts,
            by_number: before || self.keyed,
            before,
            definition: (texts(&params.partition_by), texts(&params.order_by)),
        };
        let id = self.id("top");
        let input: Input = match names.is_empty() {
            true => stream.partitioned(Partitioning::Single),
            false => stream.key_by(names),
        };
        let spec = top_n(spec, &given)?;
        Ok(self.builder.operator(id, [input], spec))
    }

    /// A stream with the columns of the partition under names that occur once, and those names. Columns are added where the
    /// partition is by an expression or a name occurs twice.
    fn partition_columns(
        &mut self,
        stream: Stream,
        node: &Window,
        partition: &[Expr],
    ) -> Result<(Stream, Vec<String>)> {
        let given = self.builder.schema(stream);
        let plain = partition.iter().map(|expr| match expr {
            Expr::Column(column) if once(&given, &column.name) => Some(column.name.clone()),
            _ => None,
        });
        if let Some(names) = plain.collect::<Option<Vec<_>>>() {
            return Ok((stream, names));
        }
        let passed = given.fields().iter().enumerate();
        let mut columns: Vec<(String, Expression)> = passed
            .map(|(index, field)| {
                (
                    field.name().clone(),
                    Expression::column(field.name(), index),
                )
            })
            .collect();
        let mut names = Vec::with_capacity(partition.len());
        for (index, expr) in partition.iter().enumerate() {
            let name = format!("__partition_{index}");
            columns.push((name.clone(), self.expression(expr, node.input.schema())?));
            names.push(name);
        }
        let id = self.id("project");
        Ok((self.builder.operator(id, [stream], project(columns)), names))
    }
}

fn once(schema: &SchemaRef, name: &str) -> bool {
    let same = schema.fields().iter().filter(|field| field.name() == name);
    same.count() == 1
}

fn texts(list: &[impl std::fmt::Display]) -> String {
    let texts: Vec<String> = list.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
