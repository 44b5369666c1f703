//! Expressions: DataFusion's [`Expr`], with columns and SQL text that are resolved when a frame takes them.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan};
use weir_runtime::{Result, WeirError};

use crate::plan::plan_error;
use crate::session::Session;

/// A column by name, in any letter case; `a.b` is column `b` of the frame `a`, or field `b` of the column `a`.
pub fn col(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// An expression in Spark SQL, such as `upper(name)` or `window(ts, '5 minutes')`; `AS` names it.
pub fn expr(text: &str) -> Expr {
    col(text)
}

/// Something a frame takes as a column: a name or an expression.
pub trait IntoColumn {
    /// The expression.
    fn into_column(self) -> Expr;
}

impl IntoColumn for Expr {
    fn into_column(self) -> Expr {
        self
    }
}

impl IntoColumn for &str {
    fn into_column(self) -> Expr {
        col(self)
    }
}

impl IntoColumn for String {
    fn into_column(self) -> Expr {
        col(&self)
    }
}

impl IntoColumn for &String {
    fn into_column(self) -> Expr {
        col(self)
    }
}

/// Something that is an SQL text or an expression: a condition.
pub trait IntoCondition {
    /// The expression.
    fn into_condition(self) -> Expr;
}

impl IntoCondition for Expr {
    fn into_condition(self) -> Expr {
        self
    }
}

impl IntoCondition for &str {
    fn into_condition(self) -> Expr {
        expr(self)
    }
}

/// The expression with its columns found in `plan` and its texts parsed.
pub(crate) fn resolve(session: &Session, expr: Expr, plan: &LogicalPlan) -> Result<Expr> {
    if let Expr::Column(column) = &expr {
        return resolve_one(session, column, plan).map_err(plan_error);
    }
    let resolved = expr.transform_up(|node| match &node {
        Expr::Column(column) => Ok(Transformed::yes(
            resolve_one(session, column, plan)?.unalias(),
        )),
        _ => Ok(Transformed::no(node)),
    });
    resolved.map(|resolved| resolved.data).map_err(plan_error)
}

/// A column that was found keeps the spelling that was asked for, as in Spark.
fn resolve_one(
    session: &Session,
    column: &Column,
    plan: &LogicalPlan,
) -> datafusion::common::Result<Expr> {
    if column.relation.is_some() {
        return Ok(Expr::Column(column.clone()));
    }
    match find(plan, &column.name) {
        Some(Expr::Column(found))
            if found.name != column.name && found.name.eq_ignore_ascii_case(&column.name) =>
        {
            Ok(Expr::Column(found).alias(&column.name))
        }
        Some(found) => Ok(found),
        None => crate::sql::parse_expr(session.context(), &column.name, plan.schema()),
    }
}

/// The one column of this name: letter by letter, else in any letter case.
pub(crate) fn find(plan: &LogicalPlan, name: &str) -> Option<Expr> {
    let name = name
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'))
        .unwrap_or(name);
    let columns = || {
        plan.schema()
            .iter()
            .map(|(qualifier, field)| Column::from((qualifier, field)))
    };
    let exact: Vec<Column> = columns().filter(|column| column.name == name).collect();
    let found = if exact.is_empty() {
        columns()
            .filter(|column| column.name.eq_ignore_ascii_case(name))
            .collect()
    } else {
        exact
    };
    match found.as_slice() {
        [one] => Some(Expr::Column(one.clone())),
        _ => None,
    }
}

/// The column of this name.
pub(crate) fn column(plan: &LogicalPlan, name: &str) -> Result<Column> {
    if let Some(Expr::Column(column)) = find(plan, name) {
        return Ok(column);
    }
    let names: Vec<&str> = plan
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let times = names
        .iter()
        .filter(|known| known.eq_ignore_ascii_case(name))
        .count();
    let (condition, what) = match times {
        0 => ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "does not exist"),
        _ => ("AMBIGUOUS_REFERENCE", "is ambiguous"),
    };
    Err(WeirError::plan(format!(
        "column '{name}' {what}, columns: {}",
        names.join(", ")
    ))
    .with_condition(condition))
}

/// Spark's types and rewrites over a plan built by hand.
pub(crate) fn analyzed(session: &Session, plan: LogicalPlan) -> Result<LogicalPlan> {
    crate::sql::analyze(session.context(), plan).map_err(plan_error)
}
