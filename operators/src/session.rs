//! Aggregation over session windows, with state (SPEC 7.3).
//!
//! A row covers the time from its own to the end of its gap; rows of one key whose ranges overlap or touch are one session. A
//! session is complete when the watermark reaches its end; it is never opened again. A row that lies between two sessions makes
//! them one.
//!
//! The table has one entry per key: the list of its open sessions, with the intermediate states of the aggregates, which
//! expires when the first of them is complete. In an epoch rows make [fragments](fragments) of sessions, which are the groups of
//! the accumulators; at its end fragments and stored sessions are united key by key ([merge](merge)), their states merged in
//! one pass, and the lists written.

mod changes;
mod emit;
mod evict;
mod fragments;
mod list;
mod merge;
mod operator;
mod replay;
mod states;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use weir_runtime::{ChangelogMode, OperatorSpec, OutputMode, Result, WeirError};
use weir_runtime::{TableKind, TableSpec};

use crate::aggregate::{AggregateCall, Calls, calls_text};
use crate::expression::ErrorMap;
use crate::row_codec::{columns_text, fields_text};
use operator::Sessionizer;

/// What stands in front of the fields in the text of a table whose values are lists of sessions.
pub const LIST_OF: &str = "list of ";

/// The sessions in a value of such a table: when each ends, in microseconds, and its row of the fields. For readers of a
/// checkpoint.
///
/// # Errors
/// Items are errors where the list is damaged.
pub fn stored_sessions(value: &[u8]) -> impl Iterator<Item = Result<(i64, &[u8])>> {
    list::sessions(value).map(|stored| stored.map(|stored| (stored.end, stored.row)))
}

/// How long after a row its session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// So many microseconds; if they are not positive all rows are left out.
    Fixed(i64),
    /// The microseconds that this column (BIGINT) has; rows where it is null or not positive are left out.
    Column(usize),
}

/// An aggregation over sessions.
#[derive(Debug, Clone)]
pub struct SessionAggregation {
    /// Columns of the input.
    pub input: SchemaRef,
    /// Number of key columns, which come first in the input; rows of each combination have their own sessions. Floating-point
    /// keys must be normalised, so that equal ones have equal bits.
    pub keys: usize,
    /// Position of the time: a timestamp in microseconds; rows without a time are left out.
    pub time: usize,
    /// The gap.
    pub gap: Gap,
    /// The gap as text, for the checkpoint: another one is another query.
    pub gap_text: String,
    /// The aggregates.
    pub calls: Vec<AggregateCall>,
    /// Name of the session column of the output, a struct of `start` and `end`, and its place among the keys.
    pub window: (String, usize),
    /// Which sessions an epoch emits: append the complete ones, update those that changed, complete all.
    pub mode: OutputMode,
    /// In update mode a session whose range became another is deleted before the new one is inserted; of one whose range stays
    /// the old value is emitted before the new one only if this is set.
    pub emit_before: bool,
    /// Translates errors of the functions.
    pub errors: ErrorMap,
}

impl SessionAggregation {
    fn time_type(&self) -> &DataType {
        self.input.field(self.time).data_type()
    }

    fn key_fields(&self) -> Fields {
        self.input.fields()[..self.keys].iter().cloned().collect()
    }

    /// Start, end and states of a session.
    fn state_fields(&self, calls: &Calls) -> Fields {
        let time = |name| Arc::new(Field::new(name, self.time_type().clone(), false));
        let bounds = [time("start"), time("end")];
        bounds
            .into_iter()
            .chain(calls.state.iter().cloned())
            .collect()
    }

    fn output(&self, calls: &Calls) -> SchemaRef {
        let bound = |name| Field::new(name, self.time_type().clone(), true);
        let window = DataType::Struct(Fields::from(vec![bound("start"), bound("end")]));
        let mut fields: Vec<FieldRef> = self.key_fields().iter().cloned().collect();
        let (name, place) = &self.window;
        fields.insert(*place, Arc::new(Field::new(name, window, true)));
        fields.extend(calls.results());
        Arc::new(Schema::new(fields))
    }

    fn check(&self) -> Result<()> {
        let width = self.input.fields().len();
        let column = |index: usize| (index < width).then(|| self.input.field(index).data_type());
        let problem = match column(self.time) {
            Some(DataType::Timestamp(TimeUnit::Microsecond, _)) => match self.gap {
                _ if self.keys > width || self.window.1 > self.keys => "its keys do not exist",
                Gap::Column(gap) if column(gap) != Some(&DataType::Int64) => {
                    "the gap is no number of microseconds"
                }
                _ => return Ok(()),
            },
            _ => "the time is no timestamp in microseconds",
        };
        Err(WeirError::plan(format!(
            "aggregation over session windows: {problem}"
        )))
    }
}

/// An operator that aggregates over sessions; see the [module](self). Its exchange is by the key columns, or to a single
/// subtask if there are none.
///
/// # Errors
/// If a function has no state or a type cannot be kept in state.
pub fn sessions(aggregation: SessionAggregation) -> Result<OperatorSpec> {
    aggregation.check()?;
    let calls = Arc::new(Calls::new(aggregation.calls.clone(), aggregation.errors)?);
    let keys = aggregation.key_fields();
    let mode = aggregation.mode;
    let table = TableSpec {
        name: "sessions".to_owned(),
        kind: match mode {
            OutputMode::Complete => TableKind::Keyed,
            _ => TableKind::Expiring,
        },
        version: 1,
        key: fields_text(&keys),
        value: format!(
            "{LIST_OF}{}",
            fields_text(&aggregation.state_fields(&calls))
        ),
    };
    let names: Vec<&str> = keys.iter().map(|key| key.name().as_str()).collect();
    let call_text = calls_text(&calls.list);
    let detail = format!(
        "gap {} by ({}): {call_text}",
        aggregation.gap_text,
        names.join(", ")
    );
    let (output, gap) = (aggregation.output(&calls), aggregation.gap_text.clone());
    let made = Arc::clone(&output);
    let spec = OperatorSpec::new("session", move |_| {
        Sessionizer::new(&aggregation, Arc::clone(&calls), Arc::clone(&made))
    })
    .with_schema(output)
    .with_detail(detail)
    .with_param("keys", columns_text(&keys))
    .with_param("aggregates", call_text)
    .with_param("gap", gap)
    .with_param("mode", mode.to_string())
    .with_tables(vec![table])
    .with_state_name("sessionWindowStateStoreSaveExec")
    .with_changelog(match mode {
        OutputMode::Update => ChangelogMode::Changelog,
        _ => ChangelogMode::AppendOnly,
    });
    Ok(match mode {
        OutputMode::Complete => spec,
        _ => spec.with_watermark_epochs(),
    })
}
