//! Nodes that logical plans of streams have beside DataFusion's: the watermark and deduplication.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Column, DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use super::event_time::marks;

/// Declares a column the event time. Rows pass unchanged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct WatermarkNode {
    pub(crate) input: LogicalPlan,
    /// The event-time column.
    pub(crate) column: Column,
    /// How far the watermark stays behind, in milliseconds.
    pub(crate) delay_ms: i64,
}

/// Keeps the first row for each value of the keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct DeduplicateNode {
    pub(crate) input: LogicalPlan,
    /// The key columns.
    pub(crate) keys: Vec<Column>,
    /// Duplicates need to be recognised only as long as the watermark allows them.
    pub(crate) within_watermark: bool,
    /// A key may be forgotten when the watermark has passed the time of its first row by so many milliseconds.
    pub(crate) retention_ms: Option<i64>,
}

impl WatermarkNode {
    /// The node in `plan`, if it is one.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The node as a plan.
    pub(crate) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension {
            node: Arc::new(self),
        })
    }
}

impl DeduplicateNode {
    /// The node in `plan`, if it is one.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<&Self> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The node as a plan.
    pub(crate) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension {
            node: Arc::new(self),
        })
    }
}

/// The column of an expression that a rewrite handed back.
fn as_column(expr: Option<Expr>) -> Result<Column> {
    match expr.map(Expr::unalias) {
        Some(Expr::Column(column)) => Ok(column),
        other => plan_err!("a column is expected, got {other:?}"),
    }
}

/// Positions of the columns that a node itself reads, and of those wanted from it.
fn needed(input: &LogicalPlan, own: &[Column], wanted: &[usize]) -> Option<Vec<Vec<usize>>> {
    let mut indices: Vec<usize> = own
        .iter()
        .map(|column| input.schema().index_of_column(column).ok())
        .collect::<Option<_>>()?;
    indices.extend(wanted);
    indices.sort_unstable();
    indices.dedup();
    Some(vec![indices])
}

impl UserDefinedLogicalNodeCore for WatermarkNode {
    fn name(&self) -> &str {
        "EventTimeWatermark"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![Expr::Column(self.column.clone())]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "EventTimeWatermark: {}, delay {} ms",
            self.column, self.delay_ms
        )
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let Some(input) = inputs.pop() else {
            return plan_err!("a watermark needs an input");
        };
        Ok(Self {
            input,
            column: as_column(exprs.pop())?,
            delay_ms: self.delay_ms,
        })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        needed(
            &self.input,
            std::slice::from_ref(&self.column),
            output_columns,
        )
    }
}

impl UserDefinedLogicalNodeCore for DeduplicateNode {
    fn name(&self) -> &str {
        "Deduplicate"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.keys.iter().cloned().map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        let within = if self.within_watermark {
            " within watermark"
        } else {
            ""
        };
        write!(f, "Deduplicate{within}: {}", keys.join(", "))
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let Some(input) = inputs.pop() else {
            return plan_err!("a deduplication needs an input");
        };
        let keys = exprs
            .into_iter()
            .map(|expr| as_column(Some(expr)))
            .collect::<Result<_>>()?;
        Ok(Self {
            input,
            keys,
            within_watermark: self.within_watermark,
            retention_ms: self.retention_ms,
        })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // By its event time a row is late, whether or not somebody above reads the column.
        let marked = self
            .input
            .schema()
            .columns()
            .into_iter()
            .zip(marks(&self.input));
        let times = marked.filter(|(_, mark)| *mark).map(|(column, _)| column);
        let own: Vec<Column> = self.keys.iter().cloned().chain(times).collect();
        needed(&self.input, &own, output_columns)
    }
}
