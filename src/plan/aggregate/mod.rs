//! Aggregations. Keys, arguments and filters become columns first (`aggregate-0.input`), times become windows
//! (`aggregate-0.window`), and the aggregate itself works on columns only; what the plan calls the result is put together
//! above it (`aggregate-0.output`). Where that makes fewer rows, they are aggregated before the exchange as well
//! (`aggregate-0.partial`).

mod calls;
mod keys;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Column as Name, DFSchema};
use datafusion::logical_expr::{Aggregate, Expr};
use weir_operators::{
    AggregateCall, AggregateInput, Aggregation, Expression, Lateness, PartialAggregation,
    WindowAssign, aggregate, assign_windows, changelog_aggregate, grouping_sets, partial_aggregate,
    project,
};
use weir_runtime::{OperatorSpec, OutputMode, Partitioning, Result, Stream};

use super::{Planner, data_error, plan_error};
use crate::functions::{grouping, windows};
use calls::Outcome;
pub(super) use calls::{Columns, Shift, calls, positions, refuse_distinct};
pub(super) use keys::Keys;
use keys::{GROUPING_ID, Window};

impl Planner<'_> {
    pub(super) fn aggregate(&mut self, node: &Aggregate) -> Result<Stream> {
        if super::session::has_session(node) {
            return self.sessions(node);
        }
        self.groups(node, self.changes.tells_before(node))
    }

    /// The stream of an aggregation by keys and fixed windows; `emit_before` says that old rows are told before new ones.
    pub(super) fn groups(&mut self, node: &Aggregate, emit_before: bool) -> Result<Stream> {
        let changing = self.changes.in_output_of(&node.input);
        let input = self.node(&node.input)?;
        let id = self.id("aggregate");
        let keys = Keys::of(node)?;
        let (calls, outcomes) = calls(node)?;
        let mut columns = Columns::of_keys(&keys);
        let positions = positions(&calls, &mut columns);
        let prepared = self.prepare(&id, input, &columns, node.input.schema())?;
        let shift = Shift {
            from: keys.list.len(),
            by: usize::from(keys.sets.is_some()),
        };
        let schema = self.with_grouping_id(prepared, &keys)?;
        let calls = self.calls(&calls, &positions, &schema, shift)?;
        let stages = match changing {
            true => Stages::default(),
            false => self.stages(&keys, &calls),
        };
        let (stream, input) = self.before_exchange(&id, prepared, &keys, &calls, stages)?;
        let aggregation = Aggregation {
            keys: schema.fields()[..keys.names().len()].to_vec(),
            time: keys.time(),
            calls,
            input,
            mode: self.mode,
            emit_before,
            allow_new_aggregates: self.options.allow_new_aggregates,
            errors: data_error,
        };
        let spec = match changing {
            true => {
                refuse_distinct(&aggregation.calls, "results that change")?;
                changelog_aggregate(aggregation, &schema)?
            }
            false => aggregate(aggregation)?,
        };
        let stream = self.exchanged(&id, stream, &keys, spec);
        self.output(&id, stream, node, &keys, &outcomes)
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
            .exprs()
            .iter()
            .map(|(name, expr)| Ok((name.clone(), self.expression(expr, schema)?)));
        let made = made.collect::<Result<Vec<_>>>()?;
        Ok(self
            .builder
            .operator(format!("{id}.input"), [input], project(made)))
    }

    /// The schema of rows once the sets of keys have an id.
    fn with_grouping_id(&self, prepared: Stream, keys: &Keys) -> Result<SchemaRef> {
        let schema = self.builder.schema(prepared);
        match &keys.sets {
            None => Ok(schema),
            Some(sets) => grouping_sets(GROUPING_ID, sets.clone()).schema(&[schema]),
        }
    }

    fn stages(&self, keys: &Keys, calls: &[AggregateCall]) -> Stages {
        let mergeable = calls
            .iter()
            .all(|call| !call.ordered && call.distinct.is_none());
        let panes = keys
            .window()
            .is_some_and(|(_, _, window)| window.has_panes() && keys.sets.is_none());
        Stages {
            panes: mergeable && panes,
            partial: mergeable && (panes || self.parallelism() > 1),
        }
    }

    /// Windows, sets of keys and the partial aggregation; says what comes out.
    fn before_exchange(
        &mut self,
        id: &str,
        prepared: Stream,
        keys: &Keys,
        calls: &[AggregateCall],
        stages: Stages,
    ) -> Result<(Stream, AggregateInput)> {
        let mut stream = self.windows(&format!("{id}.window"), prepared, keys, stages.panes);
        if let Some(sets) = &keys.sets {
            let spec = grouping_sets(GROUPING_ID, sets.clone());
            stream = self.builder.operator(format!("{id}.sets"), [stream], spec);
        }
        if !stages.partial {
            return Ok((stream, AggregateInput::Rows));
        }
        let schema = self.builder.schema(stream);
        let spec = partial_aggregate(PartialAggregation {
            keys: schema.fields()[..keys.names().len()].to_vec(),
            time: keys.time().filter(|_| self.mode != OutputMode::Complete),
            calls: calls.to_vec(),
            errors: data_error,
        })?;
        stream = self
            .builder
            .operator(format!("{id}.partial"), [stream], spec);
        if let (true, Some((column, key, window))) = (stages.panes, keys.window()) {
            let judged = self.judged(keys, &key.name);
            let late = match judged {
                true => Lateness::DropUncounted,
                false => Lateness::Ignore,
            };
            let spec = assign_windows(assign(column, window, false, late));
            stream = self.builder.operator(format!("{id}.panes"), [stream], spec);
        }
        Ok((stream, AggregateInput::States))
    }

    /// Times become windows, or only the newest of each row.
    fn windows(&mut self, id: &str, stream: Stream, keys: &Keys, newest: bool) -> Stream {
        let Some((column, key, window)) = keys.window() else {
            return stream;
        };
        let late = match self.judged(keys, &key.name) {
            true => Lateness::Drop,
            false => Lateness::Ignore,
        };
        let spec = assign_windows(assign(column, window, newest, late));
        self.builder.operator(id, [stream], spec)
    }

    /// Whether rows of a window may be late.
    fn judged(&self, keys: &Keys, name: &str) -> bool {
        let time = keys.time();
        self.mode != OutputMode::Complete
            && time.is_some_and(|time| keys.list[time.key()].name == name)
    }

    /// The exchange and the aggregate.
    fn exchanged(
        &mut self,
        id: &str,
        stream: Stream,
        keys: &Keys,
        mut spec: OperatorSpec,
    ) -> Stream {
        if let Some((_, _, window)) = keys.window() {
            let text = format!("{} {} {}", window.size, window.slide, window.start);
            spec = spec.with_param("window", text);
        }
        if let Some(sets) = &keys.sets {
            let ids: Vec<String> = sets.iter().map(|set| set.id.to_string()).collect();
            spec = spec.with_param("sets", ids.join(" "));
        }
        let names = keys.names();
        let exchange = match names.is_empty() {
            true => Partitioning::Single,
            false => Partitioning::Hash(names),
        };
        self.builder
            .operator(id, [stream.partitioned(exchange)], spec)
    }

    /// Columns as the plan has them.
    pub(super) fn output(
        &mut self,
        id: &str,
        stream: Stream,
        node: &Aggregate,
        keys: &Keys,
        outcomes: &[Outcome],
    ) -> Result<Stream> {
        let given = self.builder.schema(stream);
        let schema = DFSchema::try_from(given).map_err(plan_error)?;
        let column = |name: &str| Expr::Column(Name::new_unqualified(name));
        let mut exprs: Vec<Expr> = Vec::new();
        for key in &keys.list {
            exprs.push(match key.window {
                None => column(&key.name),
                Some(window) => windows::from_start(column(&key.name), &key.data_type, window.size),
            });
        }
        if keys.sets.is_some() {
            let wanted = node.schema.field(exprs.len()).data_type();
            exprs.push(grouping::id_as(column(GROUPING_ID), wanted));
        }
        for outcome in outcomes {
            exprs.push(match (outcome, &keys.sets) {
                (Outcome::Call(id), _) => column(id),
                (Outcome::Grouping(of), Some(_)) => {
                    grouping::bits(column(GROUPING_ID), &keys.bits(of)?)
                }
                (Outcome::Grouping(_), None) => datafusion::logical_expr::lit(0i32),
            });
        }
        let names = node
            .schema
            .fields()
            .iter()
            .map(|field| field.name().clone());
        let columns = names
            .zip(&exprs)
            .map(|(name, expr)| Ok((name, self.expression(expr, &schema)?)));
        let columns: Vec<(String, Expression)> = columns.collect::<Result<_>>()?;
        Ok(self
            .builder
            .operator(format!("{id}.output"), [stream], project(columns)))
    }

    /// Subtasks per task, as far as it is known before the query starts.
    fn parallelism(&self) -> usize {
        self.context.state().config().target_partitions()
    }
}

/// What happens before the exchange.
#[derive(Clone, Copy, Default)]
struct Stages {
    /// Rows are aggregated between two starts of windows and get their windows afterwards.
    panes: bool,
    partial: bool,
}

fn assign(column: usize, window: Window, newest_only: bool, late: Lateness) -> WindowAssign {
    WindowAssign {
        column,
        size: window.size,
        slide: window.slide,
        start: window.start,
        newest_only,
        late,
    }
}
