//! Aggregations over session windows: as [aggregations](super::aggregate), with the time and the gap as columns of their own, and
//! the session among the columns that come out. The exchange is by the other keys.

use datafusion::logical_expr::{Aggregate, Expr};
use weir_operators::{Gap, SessionAggregation, sessions};
use weir_runtime::{Partitioning, Result, Stream, WeirError};

use super::aggregate::{Columns, Keys, Shift, calls, positions, refuse_distinct};
use super::{Planner, data_error};
use crate::functions::windows::{self, WindowSpec};

/// Columns of the time and the gap.
const TIME: &str = "__time";
const GAP: &str = "__gap";

impl Planner<'_> {
    /// The stream of an aggregation that groups by a session window.
    pub(super) fn sessions(&mut self, node: &Aggregate) -> Result<Stream> {
        let input = self.node(&node.input)?;
        let id = self.id("session");
        let (place, time, gap) = session(node)?;
        let keys = Keys::of(node)?;
        let (calls, outcomes) = calls(node)?;
        let constant = windows::constant_gap(&gap);
        let others = keys
            .list
            .iter()
            .enumerate()
            .filter(|(key, _)| *key != place);
        let mut columns: Vec<(String, Expr)> = others
            .map(|(_, key)| (key.name.clone(), key.expr.clone()))
            .collect();
        let width = columns.len();
        columns.push((TIME.to_owned(), time.clone()));
        if constant.is_none() {
            let micros = windows::gap_micros(time, gap.clone());
            columns.push((GAP.to_owned(), micros));
        }
        let mut columns = Columns::new(columns);
        let positions = positions(&calls, &mut columns);
        let prepared = self.prepare(&id, input, &columns, node.input.schema())?;
        let schema = self.builder.schema(prepared);
        let names: Vec<String> = schema.fields()[..width]
            .iter()
            .map(|field| field.name().clone())
            .collect();
        let calls = self.calls(&calls, &positions, &schema, Shift::default())?;
        refuse_distinct(&calls, "session windows")?;
        let spec = sessions(SessionAggregation {
            calls,
            input: schema,
            keys: width,
            time: width,
            gap: constant.map_or(Gap::Column(width + 1), Gap::Fixed),
            gap_text: constant.map_or_else(|| gap.to_string(), |micros| format!("{micros} us")),
            window: (keys.list[place].name.clone(), place),
            mode: self.mode,
            emit_before: self.changes.tells_before(node),
            errors: data_error,
        })?;
        let exchange = match names.as_slice() {
            [] => Partitioning::Single,
            names => Partitioning::Hash(names.to_vec()),
        };
        let stream = self
            .builder
            .operator(id.clone(), [prepared.partitioned(exchange)], spec);
        self.output(&id, stream, node, &keys, &outcomes)
    }
}

/// Whether an aggregation groups by a session window.
pub(super) fn has_session(node: &Aggregate) -> bool {
    session(node).is_ok()
}

/// Place, time and gap of the session window among the keys.
fn session(node: &Aggregate) -> Result<(usize, Expr, Expr)> {
    let mut keys = node.group_expr.iter().enumerate();
    let found = keys.find_map(|(place, key)| match WindowSpec::of(key) {
        Some(WindowSpec::Session { time, gap }) => Some((place, time, gap)),
        _ => None,
    });
    found.ok_or_else(|| WeirError::internal("an aggregation over sessions has no session window"))
}
