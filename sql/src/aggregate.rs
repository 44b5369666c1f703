//! Aggregates under Spark's names as aggregates that the libraries have.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, NullTreatment,
    ObjectName, Value,
};

use super::hooks::{hook, take};

/// Spark's name and the library's.
const RENAMED: &[(&str, &str)] = &[
    ("first", "first_value"),
    ("any_value", "first_value"),
    ("last", "last_value"),
    ("mean", "avg"),
    ("every", "bool_and"),
    ("some", "bool_or"),
    ("any", "bool_or"),
    ("approx_count_distinct", "approx_distinct"),
    ("std", "stddev"),
    ("variance", "var_samp"),
    ("listagg", "string_agg"),
    ("count_if", "count"),
    ("approx_percentile", "percentile_approx"),
];

/// Window functions whose results Spark has as INT.
const NUMBERS: &[&str] = &["row_number", "rank", "dense_rank", "ntile"];

/// Renames an aggregate in place; gives the expression around it if the renamed call alone does not say it.
pub(super) fn aggregate(f: &mut Function) -> Option<Expr> {
    let name = f.name.to_string().to_lowercase();
    if f.over.is_some() && NUMBERS.contains(&name.as_str()) {
        let number = hook("cast:BIGINT", [Expr::Function(f.clone())]);
        return Some(hook("cast:INT", [number]));
    }
    if name == "regr_count" {
        return Some(hook("cast:BIGINT", [Expr::Function(f.clone())]));
    }
    if name == "grouping" {
        return Some(hook("cast:TINYINT", [Expr::Function(f.clone())]));
    }
    if name == "grouping_id" {
        f.name = ObjectName::from(vec![Ident::new("grouping")]);
        return Some(hook("cast:BIGINT", [Expr::Function(f.clone())]));
    }
    let (_, target) = RENAMED.iter().find(|(spark, _)| *spark == name)?;
    f.name = ObjectName::from(vec![Ident::new(*target)]);
    let FunctionArguments::List(list) = &mut f.args else {
        return None;
    };
    let mut args: Vec<&mut Expr> = list.args.iter_mut().filter_map(expr_of).collect();
    match (name.as_str(), args.as_mut_slice()) {
        ("first" | "last" | "any_value", [_, ignore]) => {
            if is_true(ignore) {
                f.null_treatment = Some(NullTreatment::IgnoreNulls);
            }
            list.args.truncate(1);
        }
        ("approx_count_distinct", _) => {
            list.args.truncate(1);
            return Some(hook("cast:BIGINT", [Expr::Function(f.clone())]));
        }
        ("count_if", [test]) => {
            **test = hook(
                "case:",
                [take(test), Expr::Value(Value::Boolean(true).into())],
            )
        }
        _ => {}
    }
    None
}

fn expr_of(arg: &mut FunctionArg) -> Option<&mut Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e),
        _ => None,
    }
}

fn is_true(e: &Expr) -> bool {
    matches!(e, Expr::Value(v) if v.value == Value::Boolean(true))
}
