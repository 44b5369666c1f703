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
    AccessExpr, BinaryOperator, CeilFloorKind, DateTimeField, DictionaryField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, Interval, LimitClause, OrderByKind, Query, Select, SelectItem, SetExpr, TrimWhereField,
    TypedString, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use super::lateral::{Generator, Laterals};
use super::names::column_name;
use crate::functions::error::SparkError;
use crate::functions::intervals::{DAY_MICROS, decimal_micros, parse_interval};

/// Names of generators: they make rows.
pub(super) const GENERATORS: &[&str] =
    &["explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"];

/// A hook: a dictionary literal whose first key says what it is and whose other values are arguments.
fn hook(kind: impl Into<String>, args: impl IntoIterator<Item = Expr>) -> Expr {
    let field = |key: String, value: Expr| DictionaryField { key: Ident::new(key), value: Box::new(value) };
    let mut fields = vec![field(kind.into(), Expr::Value(Value::Null.into()))];
    fields.extend(args.into_iter().map(|a| field(String::new(), a)));
    Expr::Dictionary(fields)
}

fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    hook(format!("fn:{name}"), args)
}

fn string(text: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.into()).into())
}

/// A numeric literal as a hook: its sign and digits, with `L` behind a BIGINT.
fn number(text: String) -> Expr {
    hook(format!("num:{text}"), [])
}

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
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) || generator_of(expr).is_some() {
                continue;
            }
            *item = SelectItem::ExprWithAlias { alias: Ident::with_quote('`', column_name(expr)), expr: expr.clone() };
        }
        if let Some(window) = grouping_window(&select.group_by)? {
            select.projection.iter_mut().for_each(|i| name_window(i, &window));
            select.projection.iter_mut().try_for_each(|i| replace_window(i, &window))?;
            select.having.iter_mut().try_for_each(|h| replace_window(h, &window))?;
        }
        self.lateral_views(select)?;
        self.select_generator(select)
    }

    fn lateral_views(&mut self, select: &mut Select) -> Result<()> {
        for view in std::mem::take(&mut select.lateral_views) {
            let Some(mut generator) = generator_of(&view.lateral_view) else {
                let message = format!("LATERAL VIEW needs one of {}, not `{}`", GENERATORS.join(", "), view.lateral_view);
                return Err(SparkError::external("UNRESOLVED_ROUTINE", message));
            };
            generator.outer |= view.outer;
            generator.alias = Some(view.lateral_view_name.to_string().trim_matches('`').to_owned());
            generator.columns = view.lateral_col_alias.iter().map(|c| c.value.clone()).collect();
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
            SelectItem::ExprWithAlias { expr, alias } => Some((expr.clone(), vec![alias.value.clone()])),
            SelectItem::ExprWithAliases { expr, aliases } => Some((expr.clone(), aliases.iter().map(|a| a.value.clone()).collect())),
            _ => None,
        };
        let mut seen = false;
        for item in &mut select.projection {
            let Some((expr, columns)) = expr_of(item) else { continue };
            let Some(mut generator) = generator_of(&expr) else { continue };
            if std::mem::replace(&mut seen, true) {
                return Err(SparkError::external("UNSUPPORTED_GENERATOR.MULTI_GENERATOR", "only one generator is allowed in one SELECT"));
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
        if let Some(OrderByKind::Expressions(exprs)) = query.order_by.as_mut().map(|o| &mut o.kind) {
            exprs.iter_mut().for_each(|e| protect(&mut e.expr));
            if let SetExpr::Select(select) = query.body.as_ref()
                && let Some(window) = grouping_window(&select.group_by)?
            {
                exprs.iter_mut().try_for_each(|e| replace_window(&mut e.expr, &window))?;
            }
        }
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            limit.iter_mut().for_each(protect);
            offset.iter_mut().for_each(|o| protect(&mut o.value));
        }
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        let planned = match expr {
            Expr::Value(v) => literal(v),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => Some(minus(inner)?),
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => Some(call("bitwise_not", [take(inner)])),
            Expr::BinaryOp { left, op, right } => shift(left, op, right),
            Expr::TypedString(TypedString { data_type, value, .. }) => match &value.value {
                Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => Some(hook(format!("typed:{data_type}"), [string(s.clone())])),
                _ => None,
            },
            Expr::Interval(interval) => Some(interval_literal(interval)?),
            Expr::Case { operand, conditions, else_result, .. } => Some(case(operand, conditions, else_result)),
            Expr::RLike { negated, expr: e, pattern, .. } => Some(negate_if(*negated, call("rlike", [take(e), take(pattern)]))),
            Expr::Like { negated, any: true, expr: e, pattern, .. } => any_like(*negated, e, pattern),
            Expr::Extract { field, expr: e, .. } => Some(call("extract", [string(field.to_string()), take(e)])),
            Expr::Position { expr: sub, r#in } => Some(call("locate", [take(sub), take(r#in)])),
            Expr::Ceil { expr: e, field } => rounding("ceil", e, field),
            Expr::Floor { expr: e, field } => rounding("floor", e, field),
            Expr::Substring { expr: e, substring_from, substring_for, .. } => {
                let rest = [substring_from.take(), substring_for.take()].into_iter().flatten().map(|e| *e);
                Some(call("substring", std::iter::once(take(e)).chain(rest).collect::<Vec<_>>()))
            }
            Expr::Trim { expr: e, trim_where, trim_what, trim_characters } if trim_characters.is_none() => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let what = trim_what.take().map_or_else(|| string(" "), |w| *w);
                Some(call("__trim", [string(name), take(e), what]))
            }
            Expr::Struct { values, .. } => Some(structure(std::mem::take(values))),
            Expr::CompoundFieldAccess { access_chain, .. } => {
                access_chain.iter_mut().for_each(dot_by_text);
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
        if f.over.is_some() || f.filter.is_some() || f.null_treatment.is_some() || !f.within_group.is_empty() || f.name.0.len() != 1 {
            return None;
        }
        let name = f.name.0[0].as_ident()?.value.to_lowercase();
        let args = match &f.args {
            FunctionArguments::None => vec![],
            FunctionArguments::List(list) if list.duplicate_treatment.is_none() && list.clauses.is_empty() => list.args.clone(),
            _ => return None,
        };
        let plain = |a: FunctionArg| match a {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) if !matches!(e, Expr::Lambda(_)) => Some(e),
            _ => None,
        };
        let args = args.into_iter().map(plain).collect::<Option<Vec<_>>>()?;
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

fn flow(result: Result<()>) -> ControlFlow<DataFusionError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(e) => ControlFlow::Break(e),
    }
}

fn take(e: &mut Expr) -> Expr {
    std::mem::replace(e, Expr::Value(Value::Null.into()))
}

/// Marks a bare number that counts columns or rows, so that it stays what DataFusion's planner looks for.
fn protect(expr: &mut Expr) {
    if let Expr::Value(ValueWithSpan { value: Value::Number(n, false), .. }) = expr
        && n.bytes().all(|b| b.is_ascii_digit())
    {
        *n = format!("+{n}");
    }
}

fn literal(v: &ValueWithSpan) -> Option<Expr> {
    match &v.value {
        Value::Number(n, _) if n.starts_with('+') => None,
        Value::Number(n, long) => Some(number(format!("{n}{}", if *long { "L" } else { "" }))),
        _ => None,
    }
}

/// A minus in front of a literal belongs to it: `-9223372036854775808` is a BIGINT.
fn minus(inner: &mut Expr) -> Result<Expr> {
    if let Expr::Dictionary(fields) = inner
        && let Some(digits) = fields.first().and_then(|f| f.key.value.strip_prefix("num:"))
        && !digits.starts_with('-')
    {
        return Ok(number(format!("-{digits}")));
    }
    Ok(call("negative", [take(inner)]))
}

fn shift(left: &mut Expr, op: &BinaryOperator, right: &mut Expr) -> Option<Expr> {
    let name = match op {
        BinaryOperator::PGBitwiseShiftLeft => "shiftleft",
        BinaryOperator::PGBitwiseShiftRight => "shiftright",
        _ => return None,
    };
    Some(call(name, [take(left), take(right)]))
}

fn negate_if(negated: bool, e: Expr) -> Expr {
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(e) } } else { e }
}

fn case(operand: &mut Option<Box<Expr>>, conditions: &mut [datafusion::sql::sqlparser::ast::CaseWhen], otherwise: &mut Option<Box<Expr>>) -> Expr {
    let kind = format!("case:{}{}", if operand.is_some() { "o" } else { "" }, if otherwise.is_some() { "e" } else { "" });
    let mut args: Vec<Expr> = operand.take().map(|e| *e).into_iter().collect();
    for branch in conditions {
        args.push(take(&mut branch.condition));
        args.push(take(&mut branch.result));
    }
    args.extend(otherwise.take().map(|e| *e));
    hook(kind, args)
}

/// `x LIKE ANY ('a', 'b')` as a chain of LIKEs.
fn any_like(negated: bool, e: &mut Expr, pattern: &mut Expr) -> Option<Expr> {
    let patterns = match pattern {
        Expr::Tuple(items) => std::mem::take(items),
        Expr::Nested(one) => vec![take(one)],
        _ => return None,
    };
    let like = |p: Expr| Expr::Like {
        negated: false,
        any: false,
        expr: Box::new(e.clone()),
        pattern: Box::new(p),
        escape_char: None,
    };
    let any = patterns.into_iter().map(like).reduce(|a, b| Expr::BinaryOp { left: Box::new(a), op: BinaryOperator::Or, right: Box::new(b) })?;
    Some(negate_if(negated, Expr::Nested(Box::new(any))))
}

fn rounding(name: &str, e: &mut Expr, field: &CeilFloorKind) -> Option<Expr> {
    match field {
        CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => Some(call(name, [take(e)])),
        CeilFloorKind::Scale(scale) => {
            let mut scale = Expr::Value(scale.clone());
            if let Expr::Value(v) = &scale
                && let Some(planned) = literal(v)
            {
                scale = planned;
            }
            Some(call(name, [take(e), scale]))
        }
        CeilFloorKind::DateTimeField(_) => None,
    }
}

/// `struct(a, b AS c)`.
fn structure(values: Vec<Expr>) -> Expr {
    if !values.iter().any(|v| matches!(v, Expr::Named { .. })) {
        return call("struct", values);
    }
    let mut args = vec![];
    for (i, value) in values.into_iter().enumerate() {
        let (name, value) = match value {
            Expr::Named { expr, name } => (name.value, *expr),
            other => (match &other {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => column_name(&other),
                _ => format!("col{}", i + 1),
            }, other),
        };
        args.extend([string(name), value]);
    }
    call("named_struct", args)
}

/// Behind anything but a column the planner wants field names as texts.
fn dot_by_text(access: &mut AccessExpr) {
    if let AccessExpr::Dot(Expr::Identifier(field)) = access {
        *access = AccessExpr::Dot(string(field.value.clone()));
    }
}

/// `INTERVAL '1 02:03' DAY TO MINUTE`, `INTERVAL 5 SECONDS`, `INTERVAL '5 seconds'`.
fn interval_literal(interval: &Interval) -> Result<Expr> {
    let bad = |text: &str| SparkError::external("INVALID_INTERVAL_FORMAT", format!("'{text}' is no interval: {interval}"));
    let text = match interval.value.as_ref() {
        Expr::Value(v) => match &v.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            other => return Err(bad(&other.to_string())),
        },
        Expr::Dictionary(fields) => match fields.first().and_then(|f| f.key.value.strip_prefix("num:")) {
            Some(digits) => digits.to_owned(),
            None => return Err(bad(&interval.value.to_string())),
        },
        other => return Err(bad(&other.to_string())),
    };
    let Some(first) = &interval.leading_field else {
        let (months, days, micros) = parse_interval(&text).ok_or_else(|| bad(&text))?;
        return Ok(hook(format!("calendar:{months} {days} {micros}"), []));
    };
    let unit = |f: &DateTimeField| f.to_string().to_uppercase().trim_end_matches('S').to_owned();
    let (from, to) = (unit(first), interval.last_field.as_ref().map(unit));
    let label = to.as_ref().map_or_else(|| from.clone(), |to| format!("{from} TO {to}"));
    if matches!(from.as_str(), "YEAR" | "MONTH") {
        let months = year_month(&text, &from, to.as_deref()).ok_or_else(|| bad(&text))?;
        return Ok(hook(format!("months:{months} {label}"), []));
    }
    let micros = day_time(&text, &from, to.as_deref()).ok_or_else(|| bad(&text))?;
    Ok(hook(format!("micros:{micros} {label}"), []))
}

fn signed(text: &str) -> (i64, &str) {
    match text.trim().strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.trim().trim_start_matches('+')),
    }
}

fn year_month(text: &str, from: &str, to: Option<&str>) -> Option<i64> {
    let (sign, text) = signed(text);
    let months = match (from, to) {
        ("YEAR", Some(_)) => {
            let (y, m) = text.split_once('-')?;
            y.parse::<i64>().ok()?.checked_mul(12)?.checked_add(m.parse().ok()?)?
        }
        ("YEAR", None) => text.parse::<i64>().ok()?.checked_mul(12)?,
        _ => text.parse().ok()?,
    };
    Some(sign * months)
}

fn day_time(text: &str, from: &str, to: Option<&str>) -> Option<i64> {
    let (sign, text) = signed(text);
    if to.is_none() {
        return Some(sign * unit_micros(text, from)?);
    }
    let (days, clock) = match from {
        "DAY" => text.split_once(' ')?,
        _ => ("0", text),
    };
    let first = match from {
        "DAY" | "HOUR" => 0,
        "MINUTE" => 1,
        _ => 2,
    };
    let mut micros = days.parse::<i64>().ok()?.checked_mul(DAY_MICROS)?;
    for (i, part) in clock.split(':').enumerate() {
        micros = micros.checked_add(unit_micros(part, ["HOUR", "MINUTE", "SECOND"].get(first + i)?)?)?;
    }
    Some(sign * micros)
}

fn unit_micros(text: &str, unit: &str) -> Option<i64> {
    let size = match unit {
        "WEEK" => 7 * DAY_MICROS,
        "DAY" => DAY_MICROS,
        "HOUR" => 3_600_000_000,
        "MINUTE" => 60_000_000,
        "SECOND" => return decimal_micros(text),
        "MILLISECOND" => 1000,
        "MICROSECOND" => 1,
        _ => return None,
    };
    text.parse::<i64>().ok()?.checked_mul(size)
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
    let FunctionArguments::List(list) = &f.args else { return None };
    let args = list.args.iter().map(|a| match a {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e.clone()),
        _ => None,
    });
    Some(Generator { name: base, args: args.collect::<Option<_>>()?, outer, alias: None, columns: vec![] })
}

/// `alias.*`.
fn wildcard_of(alias: &str) -> Result<SelectItem> {
    let mut parser = super::parser(&format!("`{alias}`.*"))?;
    Ok(parser.parse_select_item()?)
}

/// The window call that a query groups by. Spark allows one.
fn grouping_window(group_by: &GroupByExpr) -> Result<Option<Expr>> {
    let GroupByExpr::Expressions(exprs, _) = group_by else { return Ok(None) };
    let mut windows = exprs.iter().filter(|e| window_name(e).is_some());
    let first = windows.next();
    if windows.any(|w| Some(w) != first) {
        return Err(SparkError::external("UNSUPPORTED_FEATURE.MULTIPLE_WINDOWS", "only one time window is allowed in one query"));
    }
    Ok(first.cloned())
}

fn window_name(expr: &Expr) -> Option<String> {
    let Expr::Function(f) = expr else { return None };
    let name = f.name.to_string().to_lowercase();
    matches!(name.as_str(), "window" | "session_window").then_some(name)
}

/// `SELECT window.start` keeps its name when the word becomes a call.
fn name_window(item: &mut SelectItem, window: &Expr) {
    let SelectItem::UnnamedExpr(expr) = item else { return };
    let first = match expr {
        Expr::Identifier(i) => &i.value,
        Expr::CompoundIdentifier(parts) => &parts[0].value,
        _ => return,
    };
    if window_name(window).is_some_and(|w| w.eq_ignore_ascii_case(first)) {
        *item = SelectItem::ExprWithAlias { alias: Ident::with_quote('`', column_name(expr)), expr: expr.clone() };
    }
}

/// In a query grouped by `window(…)` the word `window` means that call.
fn replace_window(node: &mut impl VisitMut, window: &Expr) -> Result<()> {
    struct Replace<'a> {
        name: String,
        window: &'a Expr,
        inside: usize,
    }
    impl VisitorMut for Replace<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(f) = expr
                && f.name.to_string().eq_ignore_ascii_case("window_time")
            {
                self.inside += 1;
            }
            ControlFlow::Continue(())
        }
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(f) if f.name.to_string().eq_ignore_ascii_case("window_time") => self.inside -= 1,
                Expr::Identifier(i) if self.inside == 0 && i.value.eq_ignore_ascii_case(&self.name) => *expr = self.window.clone(),
                Expr::CompoundIdentifier(parts) if self.inside == 0 && parts[0].value.eq_ignore_ascii_case(&self.name) => {
                    let access = parts[1..].iter().map(|p| AccessExpr::Dot(string(p.value.clone()))).collect();
                    *expr = Expr::CompoundFieldAccess { root: Box::new(self.window.clone()), access_chain: access };
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let Some(name) = window_name(window) else { return Ok(()) };
    let mut replace = Replace { name, window, inside: 0 };
    let _never_breaks = node.visit(&mut replace);
    Ok(())
}
