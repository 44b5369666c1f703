//! Hooks: syntax that carries a name and arguments through DataFusion's planner to [`super::provider`].

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CaseWhen, CeilFloorKind, DataType, DateTimeField,
    DictionaryField, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, UnaryOperator,
    Value, ValueWithSpan,
};

use super::names::column_name;

/// A hook: a dictionary literal whose first key says what it is and whose other values are arguments.
pub(super) fn hook(kind: impl Into<String>, args: impl IntoIterator<Item = Expr>) -> Expr {
    let field = |key: String, value: Expr| DictionaryField {
        key: Ident::new(key),
        value: Box::new(value),
    };
    let mut fields = vec![field(kind.into(), Expr::Value(Value::Null.into()))];
    fields.extend(args.into_iter().map(|a| field(String::new(), a)));
    Expr::Dictionary(fields)
}

pub(super) fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    hook(format!("fn:{name}"), args)
}

pub(super) fn string(text: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.into()).into())
}

/// A numeric literal as a hook: its sign and digits, with `L` behind a BIGINT.
pub(super) fn number(text: String) -> Expr {
    hook(format!("num:{text}"), [])
}

pub(super) fn take(e: &mut Expr) -> Expr {
    std::mem::replace(e, Expr::Value(Value::Null.into()))
}

pub(super) fn literal(v: &ValueWithSpan) -> Option<Expr> {
    match &v.value {
        Value::Number(n, _) if n.starts_with('+') => None,
        Value::Number(n, long) => Some(number(format!("{n}{}", if *long { "L" } else { "" }))),
        _ => None,
    }
}

/// A minus in front of a literal belongs to it: `-9223372036854775808` is a BIGINT.
pub(super) fn minus(inner: &mut Expr) -> Result<Expr> {
    if let Expr::Dictionary(fields) = inner
        && let Some(digits) = fields
            .first()
            .and_then(|f| f.key.value.strip_prefix("num:"))
        && !digits.starts_with('-')
    {
        return Ok(number(format!("-{digits}")));
    }
    Ok(call("negative", [take(inner)]))
}

pub(super) fn shift(left: &mut Expr, op: &BinaryOperator, right: &mut Expr) -> Option<Expr> {
    let name = match op {
        BinaryOperator::PGBitwiseShiftLeft => "shiftleft",
        BinaryOperator::PGBitwiseShiftRight => "shiftright",
        _ => return None,
    };
    Some(call(name, [take(left), take(right)]))
}

pub(super) fn negate_if(negated: bool, e: Expr) -> Expr {
    if negated {
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(e),
        }
    } else {
        e
    }
}

pub(super) fn case(
    operand: &mut Option<Box<Expr>>,
    conditions: &mut [CaseWhen],
    otherwise: &mut Option<Box<Expr>>,
) -> Expr {
    let kind = format!(
        "case:{}{}",
        if operand.is_some() { "o" } else { "" },
        if otherwise.is_some() { "e" } else { "" }
    );
    let mut args: Vec<Expr> = operand.take().map(|e| *e).into_iter().collect();
    for branch in conditions {
        args.push(take(&mut branch.condition));
        args.push(take(&mut branch.result));
    }
    args.extend(otherwise.take().map(|e| *e));
    hook(kind, args)
}

/// A LIKE or ILIKE in Spark's meaning: `LIKE ANY ('a', 'b')` and `LIKE ALL (…)` are chains, an escape letter other than the
/// backslash is replaced by it. `None` if there is nothing to do.
pub(super) fn like(e: &mut Expr) -> Option<Expr> {
    let (Expr::Like {
        negated,
        any,
        expr,
        pattern,
        escape_char,
    }
    | Expr::ILike {
        negated,
        any,
        expr,
        pattern,
        escape_char,
    }) = e
    else {
        return None;
    };
    let escape = escape_char.take().and_then(|escape| match escape.value {
        Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) if s != "\\" => Some(s),
        _ => None,
    });
    let (patterns, op) = match several(*any, pattern) {
        Some(chain) => chain,
        None if escape.is_none() => return None,
        None => (vec![take(pattern)], BinaryOperator::Or),
    };
    let (negated, expr) = (*negated, expr.clone());
    let insensitive = matches!(e, Expr::ILike { .. });
    let one = |pattern: Expr| {
        let pattern = Box::new(match &escape {
            Some(escape) => call("__like_pattern", [pattern, string(escape.clone())]),
            None => pattern,
        });
        let (expr, any, escape_char) = (expr.clone(), false, None);
        match insensitive {
            true => Expr::ILike {
                negated,
                any,
                expr,
                pattern,
                escape_char,
            },
            false => Expr::Like {
                negated,
                any,
                expr,
                pattern,
                escape_char,
            },
        }
    };
    let chain = patterns
        .into_iter()
        .map(one)
        .reduce(|a, b| Expr::BinaryOp {
            left: Box::new(a),
            op: op.clone(),
            right: Box::new(b),
        })?;
    Some(Expr::Nested(Box::new(chain)))
}

/// The patterns of `ANY (…)`, `SOME (…)` or `ALL (…)`, and how their answers go together.
fn several(any: bool, pattern: &mut Expr) -> Option<(Vec<Expr>, BinaryOperator)> {
    match pattern {
        Expr::Dictionary(_) if any => Some((struct_values(pattern)?, BinaryOperator::Or)),
        Expr::Nested(one) if any => Some((vec![take(one)], BinaryOperator::Or)),
        Expr::Function(f) => {
            let op = match f.name.to_string().to_lowercase().as_str() {
                "all" => BinaryOperator::And,
                "any" | "some" => BinaryOperator::Or,
                _ => return None,
            };
            let FunctionArguments::List(list) = &f.args else {
                return None;
            };
            let patterns = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e.clone()),
                _ => None,
            });
            Some((patterns.collect::<Option<_>>()?, op))
        }
        _ => None,
    }
}

/// The values of a tuple, which was made a struct already.
fn struct_values(e: &mut Expr) -> Option<Vec<Expr>> {
    let Expr::Dictionary(fields) = e else {
        return None;
    };
    let is_struct = fields.first().is_some_and(|f| f.key.value == "fn:struct");
    is_struct.then(|| fields.drain(1..).map(|f| *f.value).collect())
}

/// A type as Spark spells it.
pub(super) fn type_name(t: &DataType) -> String {
    match t {
        DataType::Map(key, value) => format!("MAP<{}, {}>", type_name(key), type_name(value)),
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::Parenthesis(element),
        ) => format!("ARRAY<{}>", type_name(element)),
        DataType::Struct(fields, _) => {
            let fields = fields.iter().map(|field| match &field.field_name {
                Some(name) => format!("{name}: {}", type_name(&field.field_type)),
                None => type_name(&field.field_type),
            });
            format!("STRUCT<{}>", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

pub(super) fn rounding(name: &str, e: &mut Expr, field: &CeilFloorKind) -> Option<Expr> {
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
pub(super) fn structure(values: Vec<Expr>) -> Expr {
    if !values.iter().any(|v| matches!(v, Expr::Named { .. })) {
        return call("struct", values);
    }
    let mut args = vec![];
    for (i, value) in values.into_iter().enumerate() {
        let (name, value) = match value {
            Expr::Named { expr, name } => (name.value, *expr),
            other => (
                match &other {
                    Expr::Identifier(_) | Expr::CompoundIdentifier(_) => column_name(&other),
                    _ => format!("col{}", i + 1),
                },
                other,
            ),
        };
        args.extend([string(name), value]);
    }
    call("named_struct", args)
}

/// Behind anything but a column the planner wants field names as texts.
pub(super) fn dot_by_text(access: &mut AccessExpr) {
    if let AccessExpr::Dot(Expr::Identifier(field)) = access {
        *access = AccessExpr::Dot(string(field.value.clone()));
    }
}
