//! Grouping and aggregation.

use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::Expr;
use weir_runtime::Result;

use super::DataFrame;
use crate::expr::IntoColumn;

/// A frame grouped by keys, on its way to an aggregation.
#[derive(Clone)]
pub struct GroupedFrame {
    frame: DataFrame,
    keys: Vec<Expr>,
}

impl GroupedFrame {
    pub(super) fn new(frame: DataFrame, keys: Vec<Expr>) -> Self {
        Self { frame, keys }
    }

    /// One row per group: the keys, then these aggregates, such as `expr("sum(v) AS total")`.
    ///
    /// # Errors
    /// If an expression does not fit.
    pub fn agg<C: IntoColumn>(self, aggregates: impl IntoIterator<Item = C>) -> Result<DataFrame> {
        let aggregates = self
            .frame
            .resolve_all(aggregates.into_iter().map(IntoColumn::into_column))?;
        self.frame
            .build(|builder| builder.aggregate(self.keys, aggregates))
    }

    /// One row per group: the keys and the number of rows, `count`.
    ///
    /// # Errors
    /// None by itself.
    pub fn count(self) -> Result<DataFrame> {
        self.agg([count_all().alias("count")])
    }
}
