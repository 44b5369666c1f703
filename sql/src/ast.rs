//! From Spark's syntax tree to one that DataFusion's planner plans the way Spark means it.
//!
//! DataFusion's planner calls back for few constructs. One of them, the dictionary literal, does not exist in Spark's
//! grammar and hands over a name, planned arguments, and the schema: everything whose meaning is Spark's own (literals,
//! calls, CASE, …) is rewritten into such a *hook*, and [`super::provider`] plans it. Generators and LATERAL VIEW
//! become relations that [`super::lateral`] plans.

use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, LambdaFunction, LimitClause, OrderByKind, Query, Select, SelectItem,
    SetExpr, TrimWhereField, TypedString, UnaryOperator, Value, ValueWithSpan, VisitMut,
    VisitorMut,
};

use super::aggregate::aggregate;
use super::grouping::{grouping_window, name_window, replace_window};
use super::hooks::{
    call, case, dot_by_text, hook, like, literal, minus, negate_if, rounding, shift, string,
    structure, take, type_name,
};
use super::interval::interval_literal;
use super::lateral::{Generator, Laterals};
use super::names::column_name;
use super::using::using_columns_first;
use crate::functions::error::SparkError;

/// Names of generators: they make rows.
pub(super) const GENERATORS: &[&str] = &[
    "explode",
    "explode_outer",
    "posexplode",
    "posexplode_outer",
    "inline",
    "inline_outer",
    "stack",
    "json_tuple",
];

/// Rewrites one statement or expression; see the head of this file.
pub(super) struct Rewriter<'a> {
    /// Whether a name (in lower case) is a scalar function.
    pub(super) is_scalar: &'a dyn Fn(&str) -> bool,
    /// The generators found so far.
    pub(super) laterals: Laterals,
}

impl Rewriter<'_> {
    /// Rewrites `node` in place.
    ///
    /// # Errors
    /// Syntax that is understood but has no meaning in Spark.
    pub(super) fn rewrite(&mut self, node: &mut impl VisitMut) -> Result<()> {
        match node.visit(self) {
            ControlFlow::Break(e) => Err(e),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn select(&mut self, select: &mut Select) -> Result<()> {
        if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
            exprs.iter_mut().for_each(protect);
        }
        using_columns_first(select)?;
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else {
                continue;
            };
            if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                || generator_of(expr).is_some()
            {
                continue;
            }
            *item = SelectItem::ExprWithAlias {
                alias: Ident::with_quote('`', column_name(expr)),
                expr: expr.clone(),
            };
        }
        if let Some(window) = grouping_window(&select.group_by)? {
            select
                .projection
                .iter_mut()
                .for_each(|i| name_window(i, &window));
            select
                .projection
                .iter_mut()
                .try_for_each(|i| replace_window(i, &window))?;
            select
                .having
                .iter_mut()
                .try_for_each(|h| replace_window(h, &window))?;
        }
        self.lateral_views(select)?;
        self.select_generator(select)
    }

    fn lateral_views(&mut self, select: &mut Select) -> Result<()> {
        for view in std::mem::take(&mut select.lateral_views) {
            let Some(mut generator) = generator_of(&view.lateral_view) else {
                let message = format!(
                    "LATERAL VIEW needs one of {}, not `{}`",
                    GENERATORS.join(", "),
                    view.lateral_view
                );
                return Err(SparkError::external("UNRESOLVED_ROUTINE", message));
            };
            generator.outer |= view.outer;
            generator.alias = Some(
                view.lateral_view_name
                    .to_string()
                    .trim_matches('`')
                    .to_owned(),
            );
            generator.columns = view
                .lateral_col_alias
                .iter()
                .map(|c| c.value.clone())
                .collect();
            let from = std::mem::take(&mut select.from);
            let factor = self.laterals.add(from, None, generator)?;
            select.from = vec![factor];
        }
        Ok(())
    }

    /// A generator in the SELECT list becomes a relation above FROM and WHERE.
    fn select_generator(&mut self, select: &mut Select) -> Result<()> {
        let expr_of = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(e) => Some((e.clone(), vec![])),
            SelectItem::ExprWithAlias { expr, alias } => {
                Some((expr.clone(), vec![alias.value.clone()]))
            }
            SelectItem::ExprWithAliases { expr, aliases } => Some((
                expr.clone(),
                aliases.iter().map(|a| a.value.clone()).collect(),
            )),
            _ => None,
        };
        let mut seen = false;
        for item in &mut select.projection {
            let Some((expr, columns)) = expr_of(item) else {
                continue;
            };
            let Some(mut generator) = generator_of(&expr) else {
                continue;
            };
            if std::mem::replace(&mut seen, true) {
                return Err(SparkError::external(
                    "UNSUPPORTED_GENERATOR.MULTI_GENERATOR",
                    "only one generator is allowed in one SELECT",
                ));
            }
            generator.columns = columns;
            let alias = format!("__generated{}", self.laterals.len());
            generator.alias = Some(alias.clone());
            let (from, filter) = (std::mem::take(&mut select.from), select.selection.take());
            let factor = self.laterals.add(from, filter, generator)?;
            select.from = vec![factor];
            *item = wildcard_of(&alias)?;
        }
        Ok(())
    }

    fn query(&mut self, query: &mut Query) -> Result<()> {
        if let Some(OrderByKind::Expressions(exprs)) = query.order_by.as_mut().map(|o| &mut o.kind)
        {
            exprs.iter_mut().for_each(|e| protect(&mut e.expr));
            if let SetExpr::Select(select) = query.body.as_ref()
                && let Some(window) = grouping_window(&select.group_by)?
            {
                exprs
                    .iter_mut()
                    .try_for_each(|e| replace_window(&mut e.expr, &window))?;
            }
        }
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            limit.iter_mut().for_each(protect);
            offset.iter_mut().for_each(|o| protect(&mut o.value));
        }
        Ok(())
    }

    #[allow(
        clippy::too_many_lines,
        reason = "one arm for each kind of expression that Spark reads in its own way"
    )]
    fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        let planned = match expr {
            Expr::Value(v) => literal(v),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: inner,
            } => Some(minus(inner)?),
            Expr::UnaryOp {
                op: UnaryOperator::BitwiseNot,
                expr: inner,
            } => Some(call("bitwise_not", [take(inner)])),
            Expr::BinaryOp { left, op, right } => shift(left, op, right),
            Expr::TypedString(TypedString {
                data_type, value, ..
            }) => match &value.value {
                Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => {
                    Some(hook(format!("typed:{data_type}"), [string(s.clone())]))
                }
                _ => None,
            },
            Expr::Cast {
                kind,
                expr: e,
                data_type,
                format: None,
                array: false,
            } => {
                let how = if matches!(kind, CastKind::Cast | CastKind::DoubleColon) {
                    "cast"
                } else {
                    "try_cast"
                };
                Some(hook(format!("{how}:{}", type_name(data_type)), [take(e)]))
            }
            Expr::Interval(interval) => Some(interval_literal(interval)?),
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => Some(case(operand, conditions, else_result)),
            Expr::RLike {
                negated,
                expr: e,
                pattern,
                ..
            } => Some(negate_if(*negated, call("rlike", [take(e), take(pattern)]))),
            Expr::Like { .. } | Expr::ILike { .. } => like(expr),
            Expr::UnaryOp {
                op: op @ UnaryOperator::BangNot,
                ..
            } => {
                *op = UnaryOperator::Not;
                None
            }
            Expr::Extract { field, expr: e, .. } => {
                Some(call("extract", [string(field.to_string()), take(e)]))
            }
            Expr::Position { expr: sub, r#in } => Some(call("locate", [take(sub), take(r#in)])),
            Expr::Ceil { expr: e, field } => rounding("ceil", e, field),
            Expr::Floor { expr: e, field } => rounding("floor", e, field),
            Expr::Substring {
                expr: e,
                substring_from,
                substring_for,
                ..
            } => {
                let rest = [substring_from.take(), substring_for.take()]
                    .into_iter()
                    .flatten()
                    .map(|e| *e);
                Some(call(
                    "substring",
                    std::iter::once(take(e)).chain(rest).collect::<Vec<_>>(),
                ))
            }
            Expr::Trim {
                expr: e,
                trim_where,
                trim_what,
                trim_characters,
            } if trim_characters.is_none() => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let what = trim_what.take().map_or_else(|| string(" "), |w| *w);
                Some(call("__trim", [string(name), take(e), what]))
            }
            Expr::Struct { values, .. } | Expr::Tuple(values) => {
                Some(structure(std::mem::take(values)))
            }
            Expr::Overlay {
                expr: e,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let length = overlay_for.take().map(|e| *e);
                let args = [take(e), take(overlay_what), take(overlay_from)];
                Some(call("overlay", args.into_iter().chain(length)))
            }
            Expr::CompoundFieldAccess { access_chain, .. } => {
                access_chain.iter_mut().for_each(dot_by_text);
                None
            }
            Expr::Lambda(lambda) => {
                fields_of_parameters(lambda);
                None
            }
            Expr::Function(f) => self.function(f),
            _ => None,
        };
        if let Some(planned) = planned {
            *expr = planned;
        }
        Ok(())
    }

    /// A plain call of a scalar function.
    fn function(&self, f: &mut Function) -> Option<Expr> {
        if let Some(planned) = aggregate(f) {
            return Some(planned);
        }
        if f.over.is_some()
            || f.filter.is_some()
            || f.null_treatment.is_some()
            || !f.within_group.is_empty()
            || f.name.0.len() != 1
        {
            return None;
        }
        let name = f.name.0[0].as_ident()?.value.to_lowercase();
        let args = match &f.args {
            FunctionArguments::None => vec![],
            FunctionArguments::List(list)
                if list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
            {
                list.args.clone()
            }
            _ => return None,
        };
        let plain = |a: FunctionArg| match a {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) if !matches!(e, Expr::Lambda(_)) => {
                Some(e)
            }
            _ => None,
        };
        let mut args = args.into_iter().map(plain).collect::<Option<Vec<_>>>()?;
        unit_as_text(&name, &mut args);
        (self.is_scalar)(&name).then(|| call(&name, args))
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        flow(self.query(query))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        let before = self.laterals.len();
        if let Err(e) = self.select(select) {
            return ControlFlow::Break(e);
        }
        for i in before..self.laterals.len() {
            let mut lateral = self.laterals.take(i);
            lateral.visit(self)?;
            self.laterals.put(i, lateral);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DataFusionError> {
        flow(self.expr(expr))
    }
}

/// In `timestampadd(MONTH, 1, ts)` the unit is a word, not a column.
fn unit_as_text(name: &str, args: &mut [Expr]) {
    const WITH_UNIT: [&str; 5] = [
        "timestampadd",
        "timestampdiff",
        "dateadd",
        "datediff",
        "date_diff",
    ];
    if let [Expr::Identifier(unit), _, _] = args
        && WITH_UNIT.contains(&name)
    {
        args[0] = string(unit.value.clone());
    }
}

/// In the body of a lambda `x.v` is the field `v` of its parameter `x`.
fn fields_of_parameters(lambda: &mut LambdaFunction) {
    struct Fields(Vec<String>);
    impl VisitorMut for Fields {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr
                && self.0.contains(&parts[0].value)
            {
                let access = parts[1..].iter();
                let access = access.map(|part| AccessExpr::Dot(string(part.value.clone())));
                *expr = Expr::CompoundFieldAccess {
                    root: Box::new(Expr::Identifier(parts[0].clone())),
                    access_chain: access.collect(),
                };
            }
            ControlFlow::Continue(())
        }
    }
    let parameters = lambda.params.iter();
    let mut fields = Fields(parameters.map(|p| p.name.value.clone()).collect());
    let _never_breaks = lambda.body.visit(&mut fields);
}

fn flow(result: Result<()>) -> ControlFlow<DataFusionError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(e) => ControlFlow::Break(e),
    }
}

/// Marks a bare number that counts columns or rows, so that it stays what DataFusion's planner looks for.
fn protect(expr: &mut Expr) {
    if let Expr::Value(ValueWithSpan {
        value: Value::Number(n, false),
        ..
    }) = expr
        && n.bytes().all(|b| b.is_ascii_digit())
    {
        *n = format!("+{n}");
    }
}

/// The call of a generator, if `expr` is one.
fn generator_of(expr: &Expr) -> Option<Generator> {
    let Expr::Function(f) = expr else { return None };
    let name = f.name.0.last()?.as_ident()?.value.to_lowercase();
    let (base, outer) = match name.strip_suffix("_outer") {
        Some(base) => (base.to_owned(), true),
        None => (name.clone(), false),
    };
    if !GENERATORS.contains(&name.as_str()) {
        return None;
    }
    let FunctionArguments::List(list) = &f.args else {
        return None;
    };
    let args = list.args.iter().map(|a| match a {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e.clone()),
        _ => None,
    });
    Some(Generator {
        name: base,
        args: args.collect::<Option<_>>()?,
        outer,
        alias: None,
        columns: vec![],
    })
}

/// `alias.*`.
fn wildcard_of(alias: &str) -> Result<SelectItem> {
    let mut parser = super::parser(&format!("`{alias}`.*"))?;
    Ok(parser.parse_select_item()?)
}
