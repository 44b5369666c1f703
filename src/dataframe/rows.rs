//! Methods that choose, combine and order rows.

use std::sync::Arc;

use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, LogicalPlan, Partitioning, SortExpr, Union,
};
use weir_runtime::{Result, WeirError};

use super::{DataFrame, GroupedFrame};
use crate::expr::{IntoColumn, IntoCondition, column, find};
use crate::plan::{DeduplicateNode, plan_error};

impl DataFrame {
    /// The rows for which a condition, an expression or its SQL text, is true.
    ///
    /// # Errors
    /// If the condition is not boolean or a column does not exist.
    pub fn filter(&self, condition: impl IntoCondition) -> Result<DataFrame> {
        let condition = self.resolve(condition.into_condition())?;
        self.build(|builder| builder.filter(condition.unalias()))
    }

    /// The same as [`filter`](Self::filter).
    ///
    /// # Errors
    /// As there.
    pub fn where_(&self, condition: impl IntoCondition) -> Result<DataFrame> {
        self.filter(condition)
    }

    /// The rows of both; columns match by position.
    ///
    /// # Errors
    /// If the numbers of columns differ or their types have nothing in common.
    pub fn union(&self, other: &DataFrame) -> Result<DataFrame> {
        let (own, others) = (self.columns().len(), other.columns().len());
        if own != others {
            let message = format!(
                "UNION needs inputs of the same width; one has {own} columns, another {others}"
            );
            return Err(WeirError::plan(message).with_condition("NUM_COLUMNS_MISMATCH"));
        }
        let inputs = vec![Arc::new(self.plan.clone()), Arc::new(other.plan.clone())];
        self.with(LogicalPlan::Union(
            Union::try_new_with_loose_types(inputs).map_err(plan_error)?,
        ))
    }

    /// The rows of both; columns match by name. A column that only one has is an error, or null with `allow_missing`.
    ///
    /// # Errors
    /// If a column is missing or types have nothing in common.
    pub fn union_by_name(&self, other: &DataFrame, allow_missing: bool) -> Result<DataFrame> {
        let only_other: Vec<String> = other
            .columns()
            .into_iter()
            .filter(|name| find(&self.plan, name).is_none())
            .collect();
        let names: Vec<String> = self.columns().into_iter().chain(only_other).collect();
        let left = self.by_names(&names, allow_missing)?;
        left.union(&other.by_names(&names, allow_missing)?)
    }

    fn by_names(&self, names: &[String], allow_missing: bool) -> Result<DataFrame> {
        let columns = names.iter().map(|name| match find(&self.plan, name) {
            Some(found) => Ok(found),
            None if allow_missing => {
                Ok(Expr::Literal(datafusion::common::ScalarValue::Null, None).alias(name))
            }
            None => column(&self.plan, name).map(Expr::Column),
        });
        self.select(columns.collect::<Result<Vec<_>>>()?)
    }

    /// The rows without duplicates: the first of equal ones is kept.
    ///
    /// # Errors
    /// None by itself.
    pub fn distinct(&self) -> Result<DataFrame> {
        self.drop_duplicates(&[])
    }

    /// The first row for each value of these columns; of all columns if none are given.
    ///
    /// Over a stream every key is remembered for ever, unless the event time is one of the columns, or the setting
    /// `weir.dropDuplicates.retention` (an interval such as `1 hour`, read when this is called) bounds it: a key is then forgotten
    /// when the watermark has passed the event time of its first row by so much.
    ///
    /// # Errors
    /// If a column does not exist.
    pub fn drop_duplicates(&self, columns: &[&str]) -> Result<DataFrame> {
        self.deduplicate(columns, false)
    }

    /// As [`drop_duplicates`](Self::drop_duplicates), forgetting a key when the watermark has passed its first row's time and
    /// the delay. For streams only.
    ///
    /// # Errors
    /// If a column does not exist or the frame is bounded.
    pub fn drop_duplicates_within_watermark(&self, columns: &[&str]) -> Result<DataFrame> {
        if !self.is_streaming() {
            return Err(WeirError::plan(
                "dropDuplicatesWithinWatermark is not supported on bounded data: use drop_duplicates",
            ));
        }
        self.deduplicate(columns, true)
    }

    fn deduplicate(&self, columns: &[&str], within_watermark: bool) -> Result<DataFrame> {
        let keys: Vec<Column> = match columns {
            [] => self.plan.schema().columns(),
            names => names
                .iter()
                .map(|name| column(&self.plan, name))
                .collect::<Result<_>>()?,
        };
        if self.is_streaming() {
            return self.with(
                DeduplicateNode {
                    input: self.plan.clone(),
                    keys,
                    within_watermark,
                    retention_ms: self.session.settings().duplicates_retention_ms(),
                }
                .into_plan(),
            );
        }
        if columns.is_empty() {
            return self.with(LogicalPlan::Distinct(Distinct::All(Arc::new(
                self.plan.clone(),
            ))));
        }
        let all = self
            .own_columns()
            .into_iter()
            .map(|(_, value)| value)
            .collect();
        let on = keys.into_iter().map(Expr::Column).collect();
        let distinct =
            DistinctOn::try_new(on, all, None, Arc::new(self.plan.clone())).map_err(plan_error)?;
        self.with(LogicalPlan::Distinct(Distinct::On(distinct)))
    }

    /// The first `rows` rows.
    ///
    /// # Errors
    /// If the number is too large.
    pub fn limit(&self, rows: usize) -> Result<DataFrame> {
        let rows = Self::count_literal(rows)?;
        self.build(|builder| builder.limit_by_expr(None, Some(rows)))
    }

    /// All rows but the first `rows`.
    ///
    /// # Errors
    /// If the number is too large.
    pub fn offset(&self, rows: usize) -> Result<DataFrame> {
        let rows = Self::count_literal(rows)?;
        self.build(|builder| builder.limit_by_expr(Some(rows), None))
    }

    /// Rows in ascending order of these columns, nulls first. For descending order give `expr.sort(false, false)` to
    /// [`sort`](Self::sort).
    ///
    /// # Errors
    /// If a column does not exist.
    pub fn order_by<C: IntoColumn>(
        &self,
        columns: impl IntoIterator<Item = C>,
    ) -> Result<DataFrame> {
        self.sort(
            columns
                .into_iter()
                .map(|column| column.into_column().sort(true, true)),
        )
    }

    /// Rows in this order.
    ///
    /// # Errors
    /// If a column does not exist.
    pub fn sort(&self, order: impl IntoIterator<Item = SortExpr>) -> Result<DataFrame> {
        let order = order.into_iter().map(|key| {
            Ok(SortExpr {
                expr: self.resolve(key.expr)?,
                ..key
            })
        });
        let order = order.collect::<Result<Vec<_>>>()?;
        self.build(|builder| builder.sort(order))
    }

    /// Groups by these columns, names or expressions.
    ///
    /// # Errors
    /// If a column does not exist.
    pub fn group_by<C: IntoColumn>(
        &self,
        keys: impl IntoIterator<Item = C>,
    ) -> Result<GroupedFrame> {
        let keys = self.resolve_all(keys.into_iter().map(IntoColumn::into_column))?;
        Ok(GroupedFrame::new(self.clone(), keys))
    }

    /// Pairs of rows with equal values in the columns `on`, which appear once in the result. `how` is Spark's name of the join:
    /// inner, left, right, full, left_semi, left_anti.
    ///
    /// # Errors
    /// If a column does not exist in both or the join type is unknown.
    pub fn join(&self, other: &DataFrame, on: &[&str], how: &str) -> Result<DataFrame> {
        let join_type = join_type(how)?;
        let other = &self.told_apart(other)?;
        let keys = |frame: &DataFrame| {
            on.iter()
                .map(|name| column(&frame.plan, name))
                .collect::<Result<Vec<_>>>()
        };
        let (left, right) = (keys(self)?, keys(other)?);
        let joined = self.build(|builder| {
            builder.join(
                other.plan.clone(),
                join_type,
                (left.clone(), right.clone()),
                None,
            )
        })?;
        if matches!(join_type, JoinType::LeftSemi | JoinType::LeftAnti) {
            return Ok(joined);
        }
        let chosen = left
            .iter()
            .zip(&right)
            .map(|(left, right)| key(left, right, join_type));
        let rest = |frame: &DataFrame, keys: &[Column]| {
            let columns = frame
                .plan
                .schema()
                .columns()
                .into_iter()
                .filter(|column| !keys.contains(column));
            columns.map(Expr::Column).collect::<Vec<_>>()
        };
        let columns: Vec<Expr> = chosen
            .chain(rest(self, &left))
            .chain(rest(other, &right))
            .collect();
        joined.select(columns)
    }

    /// Pairs of rows for which a condition holds; all columns of both remain.
    ///
    /// # Errors
    /// If a column does not exist or is ambiguous, or the join type is unknown.
    pub fn join_on(
        &self,
        other: &DataFrame,
        condition: impl IntoCondition,
        how: &str,
    ) -> Result<DataFrame> {
        let join_type = join_type(how)?;
        let other = &self.told_apart(other)?;
        let both = self.build(|builder| builder.cross_join(other.plan.clone()))?;
        let condition = both.resolve(condition.into_condition())?;
        self.build(|builder| builder.join_on(other.plan.clone(), join_type, [condition.unalias()]))
    }

    /// The other frame of a join, under a name of its own if columns of both would have the same qualified name.
    fn told_apart(&self, other: &DataFrame) -> Result<DataFrame> {
        let clash = other
            .plan
            .schema()
            .columns()
            .iter()
            .any(|column| self.plan.schema().has_column(column));
        if clash {
            other.alias(&self.session.anonymous_name("other"))
        } else {
            Ok(other.clone())
        }
    }

    /// The same rows over `partitions` subtasks, batch by batch.
    ///
    /// # Errors
    /// If the number is 0.
    pub fn repartition(&self, partitions: usize) -> Result<DataFrame> {
        if partitions == 0 {
            return Err(WeirError::plan(
                "repartition into 0 partitions, allowed: 1 or more",
            ));
        }
        self.build(|builder| builder.repartition(Partitioning::RoundRobinBatch(partitions)))
    }

    /// The same rows over `partitions` subtasks, equal values of the columns together.
    ///
    /// # Errors
    /// If the number is 0 or a column does not exist.
    pub fn repartition_by(&self, partitions: usize, columns: &[&str]) -> Result<DataFrame> {
        if partitions == 0 {
            return Err(WeirError::plan(
                "repartition into 0 partitions, allowed: 1 or more",
            ));
        }
        let keys = columns
            .iter()
            .map(|name| column(&self.plan, name).map(Expr::Column))
            .collect::<Result<Vec<_>>>()?;
        self.build(|builder| builder.repartition(Partitioning::Hash(keys, partitions)))
    }

    /// The same rows over at most `partitions` subtasks.
    ///
    /// # Errors
    /// If the number is 0.
    pub fn coalesce(&self, partitions: usize) -> Result<DataFrame> {
        self.repartition(partitions.min(self.session.parallelism().max(partitions.min(1))))
    }
}

/// The key column of a join's result.
fn key(left: &Column, right: &Column, join_type: JoinType) -> Expr {
    let (left, right) = (Expr::Column(left.clone()), right);
    match join_type {
        JoinType::Right => Expr::Column(right.clone()),
        JoinType::Full => {
            let name = right.name.clone();
            datafusion::functions::expr_fn::coalesce(vec![left, Expr::Column(right.clone())])
                .alias(name)
        }
        _ => left,
    }
}

fn join_type(how: &str) -> Result<JoinType> {
    match how.to_ascii_lowercase().replace('_', "").as_str() {
        "inner" => Ok(JoinType::Inner),
        "left" | "leftouter" => Ok(JoinType::Left),
        "right" | "rightouter" => Ok(JoinType::Right),
        "full" | "outer" | "fullouter" => Ok(JoinType::Full),
        "semi" | "leftsemi" => Ok(JoinType::LeftSemi),
        "anti" | "leftanti" => Ok(JoinType::LeftAnti),
        _ => Err(WeirError::plan(format!(
            "join type '{how}' is unknown, allowed: inner, left, right, full, left_semi, left_anti"
        ))),
    }
}
