//! `select`, with generators (`explode(...)` and its relatives), which make rows and not only a value.

use std::sync::LazyLock;

use arrow::datatypes::DataType;
use datafusion::catalog::view::ViewTable;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, select_expr::SelectExpr};
use futures::FutureExt;
use regex::Regex;
use std::sync::Arc;
use weir_runtime::{Result, WeirError};

use super::DataFrame;
use crate::expr::{col, find};
use crate::plan::plan_error;
use crate::session::Session;

/// A text that begins with the call of a generator.
static GENERATOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^\s*(explode|posexplode|inline|stack|json_tuple)(_outer)?\s*\(")
        .expect("invariant: the pattern is valid")
});

/// The frame with these columns.
pub(super) fn select(frame: &DataFrame, columns: Vec<Expr>) -> Result<DataFrame> {
    let mut generators = columns
        .iter()
        .enumerate()
        .filter_map(|(place, expr)| generator(frame, expr).map(|text| (place, text)));
    let Some((place, text)) = generators.next() else {
        return project(frame, columns);
    };
    if let Some((_, other)) = generators.next() {
        let message =
            format!("only one generator is allowed in one select: '{text}' and '{other}'");
        return Err(
            WeirError::plan(message).with_condition("UNSUPPORTED_GENERATOR.MULTI_GENERATOR")
        );
    }
    drop(generators);
    let generated = generate(frame, &text)?;
    let added = generated.own_columns().split_off(frame.columns().len());
    let mut all = Vec::new();
    for (index, expr) in columns.into_iter().enumerate() {
        match index == place {
            true => all.extend(added.iter().map(|(_, value)| value.clone())),
            false => all.push(frame.resolve(expr)?),
        }
    }
    project(&generated, all)
}

/// The SQL text of a generator call, if `expr` is one.
fn generator(frame: &DataFrame, expr: &Expr) -> Option<String> {
    let (expr, name) = match expr {
        Expr::Alias(alias) => (alias.expr.as_ref(), Some(alias.name.as_str())),
        other => (other, None),
    };
    let Expr::Column(column) = expr else {
        return None;
    };
    let is_generator = column.relation.is_none()
        && GENERATOR.is_match(&column.name)
        && find(frame.plan(), &column.name).is_none();
    is_generator.then(|| match name {
        Some(name) => format!("{} AS `{name}`", column.name),
        None => column.name.clone(),
    })
}

fn project(frame: &DataFrame, columns: Vec<Expr>) -> Result<DataFrame> {
    let mut all: Vec<SelectExpr> = Vec::new();
    for expr in columns {
        match &expr {
            Expr::Column(column) if column.relation.is_none() && column.name == "*" => {
                all.extend(
                    frame
                        .own_columns()
                        .into_iter()
                        .map(|(_, value)| SelectExpr::Expression(value)),
                );
            }
            Expr::Column(column) if column.relation.is_none() && column.name.ends_with(".*") => {
                all.extend(starred(frame, &column.name)?);
            }
            _ => all.push(SelectExpr::Expression(frame.resolve(expr)?)),
        }
    }
    frame.build(|builder| builder.project(all))
}

/// `x.*`: the columns of the frame with the alias `x`, else the fields of the struct `x`.
fn starred(frame: &DataFrame, text: &str) -> Result<Vec<SelectExpr>> {
    let base = text.strip_suffix(".*").unwrap_or(text);
    let schema = frame.plan().schema();
    let of_alias: Vec<SelectExpr> = schema
        .iter()
        .filter(|(qualifier, _)| {
            qualifier.is_some_and(|name| name.table().eq_ignore_ascii_case(base))
        })
        .map(|column| SelectExpr::Expression(Expr::Column(Column::from(column))))
        .collect();
    if !of_alias.is_empty() {
        return Ok(of_alias);
    }
    let fields = match frame
        .resolve(col(base))?
        .get_type(schema)
        .map_err(plan_error)?
    {
        DataType::Struct(fields) => fields,
        other => {
            return Err(WeirError::plan(format!(
                "'{text}': '{base}' is no frame and no struct whose fields could be taken, its type is {other}"
            ))
            .with_condition("CANNOT_RESOLVE_STAR_EXPAND"));
        }
    };
    let field = |name: &String| {
        let path = format!("{base}.`{}`", name.replace('`', "``"));
        Ok(SelectExpr::Expression(
            frame.resolve(col(&path))?.unalias().alias(name),
        ))
    };
    fields.iter().map(|known| field(known.name())).collect()
}

/// The frame's columns and those of the generator, which is planned as SQL over a view.
fn generate(frame: &DataFrame, text: &str) -> Result<DataFrame> {
    let session: &Session = frame.session();
    let name = session.anonymous_name("frame");
    session.add_table(&name, Arc::new(ViewTable::new(frame.plan().clone(), None)))?;
    let query = format!("SELECT {name}.*, {text} FROM {name}");
    // Views are in memory, so nothing waits.
    let planned = crate::sql::plan_query(session.context(), &query).now_or_never();
    session.drop_temp_view(&name)?;
    let planned = planned.ok_or_else(|| WeirError::internal("planning a generator had to wait"))?;
    let plan = planned.map_err(plan_error)?;
    requalified(frame, DataFrame::new(session.clone(), plan))
}

/// The generated frame with the frame's own columns under their own qualifiers, so that expressions over the frame still fit.
fn requalified(frame: &DataFrame, generated: DataFrame) -> Result<DataFrame> {
    let mut columns = Vec::new();
    let names = generated.own_columns();
    for (index, (_, value)) in names.into_iter().enumerate() {
        let own =
            (index < frame.columns().len()).then(|| frame.plan().schema().qualified_field(index));
        columns.push(match own {
            Some((Some(qualifier), field)) => {
                value.alias_qualified(Some(qualifier.clone()), field.name())
            }
            Some((None, field)) => value.alias(field.name()),
            None => value,
        });
    }
    let plan = LogicalPlanBuilder::from(generated.plan().clone())
        .project(columns)
        .and_then(LogicalPlanBuilder::build);
    Ok(DataFrame::new(
        frame.session().clone(),
        plan.map_err(plan_error)?,
    ))
}
