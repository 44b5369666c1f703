//! Aggregations. Keys, arguments and filters become columns first (`aggregate-0.input`), times become windows, and the aggregate
//! itself works on columns only; what the plan calls the result is put together again above it (`aggregate-0.output`).

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as Name, DFSchema};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan};
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use weir_operators::{
    AggregateCall, AggregateInput, Aggregation, Expression, Lateness, TimeKey, WindowAssign,
    aggregate, assign_windows, changelog_aggregate, project,
};
use weir_runtime::{OutputMode, Partitioning, Result, Stream, WeirError};

use super::event_time::{carries, marks};
use super::{Planner, data_error, plan_error};
use crate::functions::aggregates::depends_on_order;
use crate::functions::normalize::normalized;
use crate::functions::windows::{self, WindowSpec};

/// One key of an aggregation.
pub(super) struct Key {
    /// Name among the columns, and in the state.
    pub(super) name: String,
    /// The expression over the input: of a window, its time.
    pub(super) expr: Expr,
    window: Option<Window>,
    /// The key's type in the plan.
    data_type: DataType,
    /// A watermark follows the key.
    timed: bool,
}

#[derive(Clone, Copy)]
struct Window {
    size: i64,
    slide: i64,
    start: i64,
}

/// Columns that the aggregate reads, each expression once.
pub(super) struct Columns {
    pub(super) exprs: Vec<(String, Expr)>,
    /// Position of the time that becomes a window: it is no time any more where the aggregate reads.
    pub(super) window: Option<usize>,
}

impl Columns {
    /// Position of the column that holds `expr`, behind the keys.
    fn of(&mut self, expr: &Expr) -> usize {
        let mut known = self.exprs.iter().enumerate();
        let known = known.find(|(index, (_, known))| known == expr && self.window != Some(*index));
        if let Some((index, _)) = known {
            return index;
        }
        let index = self.exprs.len();
        self.exprs.push((format!("__a{index}"), expr.clone()));
        index
    }
}

impl Planner<'_> {
    pub(super) fn aggregate(&mut self, node: &Aggregate) -> Result<Stream> {
        if super::session::has_session(node) {
            return self.sessions(node);
        }
        let changing = self.changes.in_output_of(&node.input);
        let input = self.node(&node.input)?;
        let id = self.id("aggregate");
        let keys = keys(node)?;
        let calls = calls(node)?;
        let mut columns = Columns {
            exprs: keys
                .iter()
                .map(|key| (key.name.clone(), key.expr.clone()))
                .collect(),
            window: keys.iter().position(|key| key.window.is_some()),
        };
        let positions = positions(&calls, &mut columns);
        let prepared = self.prepare(&id, input, &columns, node.input.schema())?;
        let schema = self.builder.schema(prepared);
        let windowed = self.windows(&id, prepared, &keys);
        let aggregation = Aggregation {
            keys: schema.fields()[..keys.len()].to_vec(),
            time: time(&keys),
            calls: self.calls(&calls, &positions, &schema)?,
            input: AggregateInput::Rows,
            mode: self.mode,
            emit_before: self.changes.tells_before(node),
            errors: data_error,
        };
        let exchange = match keys.as_slice() {
            [] => Partitioning::Single,
            keys => Partitioning::Hash(keys.iter().map(|key| key.name.clone()).collect()),
        };
        let mut spec = match changing {
            true => changelog_aggregate(aggregation, &schema)?,
            false => aggregate(aggregation)?,
        };
        if let Some(window) = keys.iter().find_map(|key| key.window) {
            let text = format!("{} {} {}", window.size, window.slide, window.start);
            spec = spec.with_param("window", text);
        }
        let stream = self
            .builder
            .operator(id.clone(), [windowed.partitioned(exchange)], spec);
        self.output(&id, stream, node, &keys, &calls)
    }

    /// The columns of the aggregate.
    pub(super) fn prepare(
        &mut self,
        id: &str,
        input: Stream,
        columns: &Columns,
        schema: &DFSchema,
    ) -> Result<Stream> {
        let made = columns
            .exprs
            .iter()
            .map(|(name, expr)| Ok((name.clone(), self.expression(expr, schema)?)));
        let made = made.collect::<Result<Vec<_>>>()?;
        Ok(self
            .builder
            .operator(format!("{id}.input"), [input], project(made)))
    }

    /// Times become windows.
    fn windows(&mut self, id: &str, stream: Stream, keys: &[Key]) -> Stream {
        let windowed = keys
            .iter()
            .enumerate()
            .find_map(|(index, key)| Some((index, key, key.window?)));
        let Some((column, key, window)) = windowed else {
            return stream;
        };
        let judged = key.timed && self.mode != OutputMode::Complete;
        let assign = WindowAssign {
            column,
            size: window.size,
            slide: window.slide,
            start: window.start,
            newest_only: false,
            late: if judged {
                Lateness::Drop
            } else {
                Lateness::Ignore
            },
        };
        self.builder
            .operator(format!("{id}.window"), [stream], assign_windows(assign))
    }

    /// The calls over the prepared columns.
    pub(super) fn calls(
        &self,
        calls: &[Call],
        positions: &[Positions],
        schema: &SchemaRef,
    ) -> Result<Vec<AggregateCall>> {
        let call = |(call, positions): (&Call, &Positions)| {
            let physical = |argument: &Argument| self.argument(argument, schema);
            let arguments = positions.arguments.iter().map(physical);
            let function = &call.function;
            let order = function.params.order_by.iter().zip(&positions.order);
            let order = order.map(|(sort, argument)| {
                let options = arrow::compute::SortOptions {
                    descending: !sort.asc,
                    nulls_first: sort.nulls_first,
                };
                Ok(PhysicalSortExpr::new(physical(argument)?, options))
            });
            let ignore_nulls = matches!(
                function.params.null_treatment,
                Some(NullTreatment::IgnoreNulls)
            );
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let made = AggregateExprBuilder::new(Arc::clone(&function.func), arguments)
                .schema(Arc::clone(schema))
                .alias(&call.id)
                .order_by(order.collect::<Result<_>>()?)
                .with_ignore_nulls(ignore_nulls)
                .build()
                .map_err(plan_error)?;
            Ok(AggregateCall {
                id: call.id.clone(),
                name: call.id.clone(),
                function: Arc::new(made),
                filter: positions.filter,
                ordered: depends_on_order(function.func.name()),
            })
        };
        calls.iter().zip(positions).map(call).collect()
    }

    fn argument(&self, argument: &Argument, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
        match argument {
            Argument::Column(index) => {
                Ok(Arc::new(Column::new(schema.field(*index).name(), *index)))
            }
            Argument::Constant(expr) => {
                crate::sql::physical(self.context, expr, &DFSchema::empty()).map_err(plan_error)
            }
        }
    }

    /// Columns as the plan has them.
    pub(super) fn output(
        &mut self,
        id: &str,
        stream: Stream,
        node: &Aggregate,
        keys: &[Key],
        calls: &[Call],
    ) -> Result<Stream> {
        let given = self.builder.schema(stream);
        let schema = DFSchema::try_from(Arc::clone(&given)).map_err(plan_error)?;
        let key = |key: &Key| {
            let column = Expr::Column(Name::new_unqualified(&key.name));
            match key.window {
                None => column,
                Some(window) => windows::from_start(column, &key.data_type, window.size),
            }
        };
        let results = node.aggr_expr.iter().map(|expr| {
            let id = call_id(expr)?;
            debug_assert!(calls.iter().any(|call| call.id == id));
            Ok(Expr::Column(Name::new_unqualified(id)))
        });
        let columns = keys
            .iter()
            .map(|found| Ok::<_, WeirError>(key(found)))
            .chain(results);
        let names = node
            .schema
            .fields()
            .iter()
            .map(|field| field.name().clone());
        let columns = names.zip(columns).map(|(name, expr)| {
            let expr = expr?;
            Ok((name, self.expression(&expr, &schema)?))
        });
        let columns: Vec<(String, Expression)> = columns.collect::<Result<_>>()?;
        Ok(self
            .builder
            .operator(format!("{id}.output"), [stream], project(columns)))
    }
}

/// Says which aggregations in update mode a watermark does not bound, because they do not group by its column.
pub(super) fn warn_of_endless_state(plan: &LogicalPlan, mode: OutputMode) {
    // The visitor returns no errors.
    let _visited = plan.apply(|node| {
        if let (LogicalPlan::Aggregate(node), OutputMode::Update) = (node, mode) {
            warn_if_endless(node);
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

fn warn_if_endless(node: &Aggregate) {
    let fields = node.input.schema().fields().iter().zip(marks(&node.input));
    let times: Vec<&str> = fields
        .filter(|(_, marked)| *marked)
        .map(|(field, _)| field.name().as_str())
        .collect();
    let bounded = node.group_expr.iter().any(|key| carries(key, &node.input));
    if !times.is_empty() && !bounded {
        tracing::warn!(
            event_time = times.join(", "),
            "the aggregation keeps every group for ever and no row is late: it does not group by the column with the watermark"
        );
    }
}

/// An aggregate function of the plan.
pub(super) struct Call {
    id: String,
    function: AggregateFunction,
}

/// Where a call finds what it reads.
pub(super) struct Positions {
    arguments: Vec<Argument>,
    order: Vec<Argument>,
    filter: Option<usize>,
}

enum Argument {
    Column(usize),
    /// The same for all rows, so it need not travel with them.
    Constant(Expr),
}

/// The different calls of an aggregation.
pub(super) fn calls(node: &Aggregate) -> Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    for expr in &node.aggr_expr {
        let id = call_id(expr)?;
        if calls.iter().any(|call| call.id == id) {
            continue;
        }
        let Expr::AggregateFunction(function) = expr.clone().unalias_nested().data else {
            return Err(WeirError::internal(format!(
                "{expr} is no aggregate function"
            )));
        };
        calls.push(Call { id, function });
    }
    Ok(calls)
}

pub(super) fn positions(calls: &[Call], columns: &mut Columns) -> Vec<Positions> {
    let mut argument = |expr: &Expr| {
        if expr.any_column_refs() || expr.is_volatile() {
            Argument::Column(columns.of(expr))
        } else {
            Argument::Constant(expr.clone())
        }
    };
    let mut found: Vec<Positions> = calls
        .iter()
        .map(|call| Positions {
            arguments: call
                .function
                .params
                .args
                .iter()
                .map(&mut argument)
                .collect(),
            order: call
                .function
                .params
                .order_by
                .iter()
                .map(|sort| argument(&sort.expr))
                .collect(),
            filter: None,
        })
        .collect();
    for (call, positions) in calls.iter().zip(&mut found) {
        positions.filter = call.function.params.filter.as_ref().map(|f| columns.of(f));
    }
    found
}

/// What a call is, whatever the plan calls it.
fn call_id(expr: &Expr) -> Result<String> {
    Ok(plain(expr)?.schema_name().to_string())
}

/// The expression without aliases and the tables its columns come from.
fn plain(expr: &Expr) -> Result<Expr> {
    let bare = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Name::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    });
    Ok(bare.map_err(plan_error)?.data)
}

pub(super) fn keys(node: &Aggregate) -> Result<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    for expr in &node.group_expr {
        let key = key(expr, node)?;
        let taken = |name: &str| keys.iter().any(|known| known.name == name);
        let mut name = key.name.clone();
        let mut copy = 1;
        while taken(&name) {
            copy += 1;
            name = format!("{} ({copy})", key.name);
        }
        keys.push(Key { name, ..key });
    }
    Ok(keys)
}

fn key(expr: &Expr, node: &Aggregate) -> Result<Key> {
    let schema = node.input.schema();
    let data_type = expr.get_type(schema).map_err(plan_error)?;
    let name = plain(expr)?.schema_name().to_string();
    let timed = carries(expr, &node.input);
    match WindowSpec::of(expr) {
        Some(WindowSpec::Fixed {
            time,
            size,
            slide,
            start,
        }) => Ok(Key {
            name,
            expr: time,
            window: Some(Window { size, slide, start }),
            data_type,
            timed,
        }),
        // The aggregation over sessions makes the window itself.
        Some(WindowSpec::Session { time, .. }) => Ok(Key {
            name,
            expr: time,
            window: None,
            data_type,
            timed,
        }),
        None => Ok(Key {
            name,
            expr: normalized(expr.clone().unalias(), &data_type),
            window: None,
            data_type,
            timed,
        }),
    }
}

fn time(keys: &[Key]) -> Option<TimeKey> {
    let (index, key) = keys.iter().enumerate().find(|(_, key)| key.timed)?;
    Some(match (key.window, &key.data_type) {
        (Some(window), _) => TimeKey::Start {
            key: index,
            size: window.size,
        },
        (None, DataType::Struct(_)) => TimeKey::Window(index),
        (None, _) => TimeKey::Instant(index),
    })
}
