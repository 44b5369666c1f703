//! Names: which column a word means whatever its case, and how Spark calls a column that has no alias.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, Query, Select, SelectItem, Subscript, TableFactor, UnaryOperator,
    Value, VisitMut, VisitorMut,
};

/// The spellings that exist: columns of tables, aliases, tables, lambda parameters.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    exact: HashSet<String>,
    by_lower: HashMap<String, String>,
}

impl Spellings {
    /// Adds a name that exists. The first spelling of a name is the one other spellings mean.
    pub(super) fn add(&mut self, name: &str) {
        self.exact.insert(name.to_owned());
        self.by_lower
            .entry(name.to_lowercase())
            .or_insert_with(|| name.to_owned());
    }

    /// The existing spelling of `name`, or `name` itself if there is none.
    pub(super) fn of<'a>(&'a self, name: &'a str) -> &'a str {
        if self.exact.contains(name) {
            return name;
        }
        self.by_lower
            .get(&name.to_lowercase())
            .map_or(name, String::as_str)
    }

    fn correct(&self, ident: &mut Ident) {
        let spelling = self.of(&ident.value);
        if spelling != ident.value {
            ident.value = spelling.to_owned();
        }
    }
}

/// Collects the names that a query itself defines.
pub(super) struct Definitions<'a>(pub(super) &'a mut Spellings);

impl Definitions<'_> {
    fn alias(&mut self, alias: Option<&datafusion::sql::sqlparser::ast::TableAlias>) {
        if let Some(alias) = alias {
            self.0.add(&alias.name.value);
            alias.columns.iter().for_each(|c| self.0.add(&c.name.value));
        }
    }
}

impl VisitorMut for Definitions<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|w| &w.cte_tables) {
            self.alias(Some(&cte.alias));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => self.0.add(&alias.value),
                SelectItem::ExprWithAliases { aliases, .. } => {
                    aliases.iter().for_each(|a| self.0.add(&a.value))
                }
                _ => {}
            }
        }
        for view in &select.lateral_views {
            self.0.add(&view.lateral_view_name.to_string());
            view.lateral_col_alias
                .iter()
                .for_each(|c| self.0.add(&c.value));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                if let Some(last) = name.0.last().and_then(|p| p.as_ident()) {
                    self.0.add(&last.value);
                }
                self.alias(alias.as_ref());
            }
            TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } => {
                self.alias(alias.as_ref())
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            lambda.params.iter().for_each(|p| self.0.add(&p.name.value));
        }
        ControlFlow::Continue(())
    }
}

/// Gives every reference the spelling that exists; a column selected under another spelling keeps that as its name.
pub(super) struct References<'a>(pub(super) &'a Spellings);

impl VisitorMut for References<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else {
                continue;
            };
            let last = match expr {
                Expr::Identifier(ident) => ident.clone(),
                Expr::CompoundIdentifier(parts) => match parts.last() {
                    Some(last) => last.clone(),
                    None => continue,
                },
                _ => continue,
            };
            if self.0.of(&last.value) != last.value {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: last,
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.0.correct(ident),
            Expr::CompoundIdentifier(parts) => {
                parts.iter_mut().take(2).for_each(|p| self.0.correct(p))
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Runs `visitor`, which never breaks, over `node`.
pub(super) fn walk<V: VisitorMut<Break = ()>>(node: &mut impl VisitMut, visitor: &mut V) {
    let _never_breaks = node.visit(visitor);
}

/// The name that Spark gives a column without alias.
pub(super) fn column_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => {
            parts.last().map_or_else(String::new, |p| p.value.clone())
        }
        Expr::Nested(inner) => column_name(inner),
        Expr::CompoundFieldAccess { root, access_chain } => access_name(root, access_chain),
        Expr::Subquery(_) => "scalarsubquery()".into(),
        other => text(other),
    }
}

fn access_name(root: &Expr, chain: &[AccessExpr]) -> String {
    match chain.last() {
        Some(AccessExpr::Dot(Expr::Identifier(field))) => field.value.clone(),
        Some(AccessExpr::Subscript(Subscript::Index { index })) => {
            let inner = if chain.len() == 1 {
                text(root)
            } else {
                access_name(root, &chain[..chain.len() - 1])
            };
            format!("{inner}[{}]", text(index))
        }
        _ => text(root),
    }
}

/// An expression inside a name.
fn text(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(_) => column_name(expr),
        Expr::CompoundIdentifier(parts) => parts
            .iter()
            .map(|p| p.value.as_str())
            .collect::<Vec<_>>()
            .join("."),
        Expr::Nested(inner) => text(inner),
        Expr::CompoundFieldAccess { root, access_chain } => access_name(root, access_chain),
        Expr::Value(v) => match &v.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            Value::Number(n, _) => n.clone(),
            Value::Null => "NULL".into(),
            other => other.to_string(),
        },
        Expr::BinaryOp { left, op, right } => {
            format!("({} {} {})", text(left), operator(op), text(right))
        }
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            Expr::Value(_) => format!("-{}", text(expr)),
            _ => format!("(- {})", text(expr)),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => format!("(NOT {})", text(expr)),
        Expr::IsNull(e) => format!("({} IS NULL)", text(e)),
        Expr::IsNotNull(e) => format!("({} IS NOT NULL)", text(e)),
        Expr::Cast {
            expr, data_type, ..
        } => format!("CAST({} AS {data_type})", text(expr)),
        Expr::InList {
            expr,
            list,
            negated,
        } => {
            let list = list.iter().map(text).collect::<Vec<_>>().join(", ");
            let inside = format!("({} IN ({list}))", text(expr));
            if *negated {
                format!("(NOT {inside})")
            } else {
                inside
            }
        }
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => case(operand.as_deref(), conditions, else_result.as_deref()),
        Expr::Function(f) => function(f),
        other => other.to_string(),
    }
}

fn operator(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::NotEq => "<>".into(),
        BinaryOperator::MyIntegerDivide => "div".into(),
        other => other.to_string(),
    }
}

fn case(operand: Option<&Expr>, conditions: &[CaseWhen], otherwise: Option<&Expr>) -> String {
    let mut out = String::from("CASE");
    for branch in conditions {
        let test = match operand {
            Some(operand) => format!("({} = {})", text(operand), text(&branch.condition)),
            None => text(&branch.condition),
        };
        out.push_str(&format!(" WHEN {test} THEN {}", text(&branch.result)));
    }
    if let Some(e) = otherwise {
        out.push_str(&format!(" ELSE {}", text(e)));
    }
    out + " END"
}

/// Functions whose columns are called after the value alone.
const NAMED_BY_VALUE: &[&str] = &[
    "from_json",
    "to_json",
    "from_avro",
    "to_avro",
    "from_protobuf",
    "to_protobuf",
];

fn function(f: &Function) -> String {
    if f.over.is_some() || f.filter.is_some() {
        return f.to_string();
    }
    let FunctionArguments::List(list) = &f.args else {
        return format!("{}()", f.name.to_string().to_lowercase());
    };
    let name = f.name.to_string().to_lowercase();
    // Schemas and options, which may hold secrets, are no part of these names.
    let named_by = if NAMED_BY_VALUE.contains(&name.as_str()) {
        1
    } else {
        list.args.len()
    };
    let args = list.args.iter().take(named_by).map(|a| match a {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => text(e),
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" => "1".into(),
        other => other.to_string(),
    });
    let distinct = if list.duplicate_treatment.is_some() {
        "DISTINCT "
    } else {
        ""
    };
    format!("{name}({distinct}{})", args.collect::<Vec<_>>().join(", "))
}
