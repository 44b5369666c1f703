//! Queries grouped by a time window, in which the word `window` (or `session_window`) means the window.

use std::ops::ControlFlow;

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, GroupByExpr, Ident, SelectItem, VisitMut, VisitorMut,
};

use super::hooks::string;
use super::names::column_name;
use crate::functions::error::SparkError;

/// The window call that a query groups by. Spark allows one.
pub(super) fn grouping_window(group_by: &GroupByExpr) -> Result<Option<Expr>> {
    let GroupByExpr::Expressions(exprs, _) = group_by else {
        return Ok(None);
    };
    let mut windows = exprs.iter().filter(|e| window_name(e).is_some());
    let first = windows.next();
    if windows.any(|w| Some(w) != first) {
        return Err(SparkError::external(
            "UNSUPPORTED_FEATURE.MULTIPLE_WINDOWS",
            "only one time window is allowed in one query",
        ));
    }
    Ok(first.cloned())
}

fn window_name(expr: &Expr) -> Option<String> {
    let Expr::Function(f) = expr else { return None };
    let name = f.name.to_string().to_lowercase();
    matches!(name.as_str(), "window" | "session_window").then_some(name)
}

/// `SELECT window.start` keeps its name when the word becomes a call.
pub(super) fn name_window(item: &mut SelectItem, window: &Expr) {
    let SelectItem::UnnamedExpr(expr) = item else {
        return;
    };
    let first = match expr {
        Expr::Identifier(i) => &i.value,
        Expr::CompoundIdentifier(parts) => &parts[0].value,
        _ => return,
    };
    if window_name(window).is_some_and(|w| w.eq_ignore_ascii_case(first)) {
        *item = SelectItem::ExprWithAlias {
            alias: Ident::with_quote('`', column_name(expr)),
            expr: expr.clone(),
        };
    }
}

/// In a query grouped by `window(…)` the word `window` means that call.
pub(super) fn replace_window(node: &mut impl VisitMut, window: &Expr) -> Result<()> {
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
                Expr::Function(f) if f.name.to_string().eq_ignore_ascii_case("window_time") => {
                    self.inside -= 1
                }
                Expr::Identifier(i)
                    if self.inside == 0 && i.value.eq_ignore_ascii_case(&self.name) =>
                {
                    *expr = self.window.clone()
                }
                Expr::CompoundIdentifier(parts)
                    if self.inside == 0 && parts[0].value.eq_ignore_ascii_case(&self.name) =>
                {
                    let access = parts[1..]
                        .iter()
                        .map(|p| AccessExpr::Dot(string(p.value.clone())))
                        .collect();
                    *expr = Expr::CompoundFieldAccess {
                        root: Box::new(self.window.clone()),
                        access_chain: access,
                    };
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let Some(name) = window_name(window) else {
        return Ok(());
    };
    let mut replace = Replace {
        name,
        window,
        inside: 0,
    };
    let _never_breaks = node.visit(&mut replace);
    Ok(())
}
