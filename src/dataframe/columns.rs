//! Methods that choose and compute columns.

use datafusion::logical_expr::Expr;
use weir_runtime::{Result, WeirError};

use super::DataFrame;
use super::generate::select;
use crate::expr::{IntoColumn, column, expr, find};

impl DataFrame {
    /// These columns: names, `*`, `x.*` for the fields of a struct or the columns of the frame with that alias, or expressions; `explode(...)` among them makes a row per element.
    ///
    /// # Errors
    /// If a column does not exist or types do not fit.
    pub fn select<C: IntoColumn>(&self, columns: impl IntoIterator<Item = C>) -> Result<DataFrame> {
        select(
            self,
            columns.into_iter().map(IntoColumn::into_column).collect(),
        )
    }

    /// These expressions in Spark SQL.
    ///
    /// # Errors
    /// If a text is no expression, a column does not exist or types do not fit.
    pub fn select_expr(&self, texts: &[&str]) -> Result<DataFrame> {
        select(self, texts.iter().map(|text| expr(text)).collect())
    }

    /// All columns and one more, or another value for the one of this name.
    ///
    /// # Errors
    /// If the expression does not fit.
    pub fn with_column(&self, name: &str, value: impl IntoColumn) -> Result<DataFrame> {
        self.with_columns([(name, value.into_column())])
    }

    /// [`with_column`](Self::with_column) for several at once; all see the frame as it is.
    ///
    /// # Errors
    /// If an expression does not fit.
    pub fn with_columns<'a>(
        &self,
        columns: impl IntoIterator<Item = (&'a str, Expr)>,
    ) -> Result<DataFrame> {
        let mut all = self.own_columns();
        for (name, value) in columns {
            let value = (name.to_owned(), value.alias(name));
            match all
                .iter_mut()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
            {
                Some(known) => *known = value,
                None => all.push(value),
            }
        }
        select(self, all.into_iter().map(|(_, value)| value).collect())
    }

    /// The frame with one column under another name; unchanged if there is no such column, as in Spark.
    ///
    /// # Errors
    /// If the new names clash.
    pub fn with_column_renamed(&self, from: &str, to: &str) -> Result<DataFrame> {
        if find(&self.plan, from).is_none() {
            return Ok(self.clone());
        }
        let renamed = self.own_columns().into_iter().map(|(name, value)| {
            match name.eq_ignore_ascii_case(from) {
                true => value.alias(to),
                false => value,
            }
        });
        select(self, renamed.collect())
    }

    /// The frame without these columns; names that do not exist are ignored, as in Spark.
    ///
    /// # Errors
    /// If no column is left.
    pub fn drop(&self, names: &[&str]) -> Result<DataFrame> {
        let dropped = |name: &str| names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
        let kept: Vec<Expr> = self
            .own_columns()
            .into_iter()
            .filter(|(name, _)| !dropped(name))
            .map(|(_, value)| value)
            .collect();
        if kept.is_empty() {
            return Err(WeirError::plan(format!(
                "dropping {} leaves no column",
                names.join(", ")
            )));
        }
        select(self, kept)
    }

    /// Declares the event-time column: the query's watermark stays `delay` (such as `10 minutes`) behind the largest time seen.
    /// On bounded data it has no effect.
    ///
    /// # Errors
    /// If the column does not exist or the delay is no interval or negative. A column that is no timestamp is refused when the
    /// query starts.
    pub fn with_watermark(&self, event_time: &str, delay: &str) -> Result<DataFrame> {
        let column = column(&self.plan, event_time)?;
        let delay_ms = crate::interval::delay_ms(delay)?;
        if !self.is_streaming() {
            return Ok(self.clone());
        }
        let node = crate::plan::WatermarkNode {
            input: self.plan.clone(),
            column,
            delay_ms,
        };
        self.with(node.into_plan())
    }

    /// The columns as they are, by name.
    pub(super) fn own_columns(&self) -> Vec<(String, Expr)> {
        let columns = self.plan.schema().columns();
        columns
            .into_iter()
            .map(|column| (column.name.clone(), Expr::Column(column)))
            .collect()
    }
}
