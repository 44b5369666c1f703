//! What DataFusion's SQL planner asks for: tables, functions, types, and the plans of [hooks](super::ast).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, TableReference, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::FieldMetadata;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, PlannerResult, RawBinaryExpr, RawDictionaryExpr,
    RawFieldAccessExpr, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::{
    AggregateUDF, Case, Expr, GetFieldAccess, HigherOrderUDF, Operator, ScalarUDF, TableSource,
    WindowUDF, lit,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType as SqlType};

use crate::functions::cast;
use crate::functions::error::SparkError;
use crate::functions::interval_fields::fields_of;
use crate::functions::{Library, lambdas, operators, resolve};
use crate::types;
use weir_connectors::file::decode::parse::Zone;

/// Plans hooks, operators and field access with Spark's types.
#[derive(Debug)]
pub(super) struct SparkPlanner {
    pub(super) library: Arc<Library>,
}

impl SparkPlanner {
    fn hook(&self, kind: &str, args: Vec<Expr>, schema: &DFSchema) -> Result<Option<Expr>> {
        let Some((what, detail)) = kind.split_once(':') else {
            return Ok(None);
        };
        Ok(Some(match what {
            "fn" => resolve(detail, args, schema, &self.library)?,
            "num" => number(detail)?,
            "typed" => typed(detail, args, self.library.zone)?,
            "cast" => casted(detail, args, schema, false)?,
            "try_cast" => casted(detail, args, schema, true)?,
            "case" => case(detail, args, schema)?,
            "micros" | "months" => interval(what, detail)?,
            "calendar" => calendar(detail)?,
            _ => return Ok(None),
        }))
    }
}

/// A numeric literal: INT, BIGINT if it is too large or ends in L, DECIMAL with a point, DOUBLE with an exponent.
fn number(text: &str) -> Result<Expr> {
    let wrong = || {
        SparkError::external(
            "INVALID_NUMERIC_LITERAL_RANGE",
            format!("{text} is no number that any type holds"),
        )
    };
    if let Some(digits) = text.strip_suffix('L') {
        return digits.parse::<i64>().map(lit).map_err(|_| wrong());
    }
    if text.contains(['e', 'E']) {
        return text.parse::<f64>().map(lit).map_err(|_| wrong());
    }
    if !text.contains('.') {
        if let Ok(v) = text.parse::<i32>() {
            return Ok(lit(v));
        }
        if let Ok(v) = text.parse::<i64>() {
            return Ok(lit(v));
        }
    }
    let scale = text.split_once('.').map_or(0, |(_, f)| f.len());
    let value: i128 = text.replace('.', "").parse().map_err(|_| wrong())?;
    let precision = value.unsigned_abs().to_string().len().max(scale);
    if precision > 38 {
        return Err(wrong());
    }
    Ok(lit(ScalarValue::Decimal128(
        Some(value),
        precision as u8,
        scale as i8,
    )))
}

/// `DATE'…'`, `TIMESTAMP'…'` and the like, folded at once.
fn typed(type_text: &str, args: Vec<Expr>, zone: Zone) -> Result<Expr> {
    let t = parse_type(type_text)?;
    match args.first() {
        Some(Expr::Literal(v, _)) => Ok(lit(cast::constant(v, &t, zone)?)),
        _ => plan_err!("a typed literal needs a text"),
    }
}

fn casted(type_text: &str, args: Vec<Expr>, schema: &DFSchema, lenient: bool) -> Result<Expr> {
    use datafusion::logical_expr::ExprSchemable;
    let Some(arg) = args.into_iter().next() else {
        return plan_err!("CAST needs a value");
    };
    let (from, to) = (arg.get_type(schema)?, parse_type(type_text)?);
    if to == DataType::Utf8
        && let Some(fields) = fields_of(&arg, schema)
    {
        return Ok(cast::interval_text(arg, fields));
    }
    cast::written(arg, &from, &to, lenient)
}

fn parse_type(text: &str) -> Result<DataType> {
    types::parse_type(text).map_err(|e| SparkError::external("UNSUPPORTED_DATATYPE", e.to_string()))
}

fn case(parts: &str, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let mut args = args;
    let otherwise = if parts.contains('e') {
        args.pop().map(Box::new)
    } else {
        None
    };
    let mut args = args.into_iter();
    let operand = if parts.contains('o') {
        args.next().map(Box::new)
    } else {
        None
    };
    let mut branches = vec![];
    while let (Some(when), Some(then)) = (args.next(), args.next()) {
        branches.push((Box::new(when), Box::new(then)));
    }
    operators::case(Case::new(operand, branches, otherwise), schema)
}

fn interval(what: &str, detail: &str) -> Result<Expr> {
    let (n, label) = detail.split_once(' ').unwrap_or((detail, ""));
    let value = match what {
        "micros" => n
            .parse()
            .ok()
            .map(|n| ScalarValue::DurationMicrosecond(Some(n))),
        _ => n
            .parse()
            .ok()
            .map(|n| ScalarValue::IntervalYearMonth(Some(n))),
    };
    let Some(value) = value else {
        return plan_err!("the interval {detail} is too long");
    };
    let label = HashMap::from([(types::INTERVAL_FIELDS_KEY.to_owned(), label.to_owned())]);
    Ok(Expr::Literal(value, Some(FieldMetadata::from(label))))
}

/// An interval given as one text. Without months it is a day-time interval, else a calendar interval.
fn calendar(detail: &str) -> Result<Expr> {
    let numbers: Vec<i64> = detail.split(' ').filter_map(|n| n.parse().ok()).collect();
    let [months, days, micros] = numbers[..] else {
        return plan_err!("the interval {detail} is damaged");
    };
    if months == 0 {
        let micros = days * crate::functions::intervals::DAY_MICROS + micros;
        return Ok(lit(ScalarValue::DurationMicrosecond(Some(micros))));
    }
    if days == 0 && micros == 0 {
        return Ok(lit(ScalarValue::IntervalYearMonth(Some(months as i32))));
    }
    let value = arrow::datatypes::IntervalMonthDayNano::new(
        months as i32,
        days as i32,
        micros.saturating_mul(1000),
    );
    Ok(lit(ScalarValue::IntervalMonthDayNano(Some(value))))
}

fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::MyIntegerDivide => Operator::IntegerDivide,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Spaceship => Operator::IsNotDistinctFrom,
        BinaryOperator::And => Operator::And,
        BinaryOperator::Or => Operator::Or,
        BinaryOperator::BitwiseAnd => Operator::BitwiseAnd,
        BinaryOperator::BitwiseOr => Operator::BitwiseOr,
        BinaryOperator::BitwiseXor | BinaryOperator::PGBitwiseXor => Operator::BitwiseXor,
        BinaryOperator::StringConcat => Operator::StringConcat,
        _ => return None,
    })
}

impl ExprPlanner for SparkPlanner {
    fn plan_dictionary_literal(
        &self,
        raw: RawDictionaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawDictionaryExpr>> {
        let kind = match raw.keys.first() {
            Some(Expr::Literal(ScalarValue::Utf8(Some(kind)), _)) => kind.clone(),
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let args = raw.values.iter().skip(1).cloned().collect();
        match self.hook(&kind, args, schema)? {
            Some(planned) => Ok(PlannerResult::Planned(planned)),
            None => Ok(PlannerResult::Original(raw)),
        }
    }

    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        match operator(&raw.op) {
            Some(op) => {
                operators::binary(op, raw.left, raw.right, schema).map(PlannerResult::Planned)
            }
            None => Ok(PlannerResult::Original(raw)),
        }
    }

    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let planned = match raw.field_access {
            GetFieldAccess::NamedStructField { name } => {
                resolve("__index", vec![raw.expr, lit(name)], schema, &self.library)?
            }
            GetFieldAccess::ListIndex { key } => {
                resolve("__index", vec![raw.expr, *key], schema, &self.library)?
            }
            other => {
                return Ok(PlannerResult::Original(RawFieldAccessExpr {
                    field_access: other,
                    expr: raw.expr,
                }));
            }
        };
        Ok(PlannerResult::Planned(planned))
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let schema = DFSchema::new_with_metadata(
            vec![(qualifier.cloned(), Arc::new(field.clone()))],
            HashMap::new(),
        )?;
        let column = Expr::Column(datafusion::common::Column::new(
            qualifier.cloned(),
            field.name(),
        ));
        let access = |e: Expr, name: &String| {
            resolve(
                "__field",
                vec![e, lit(name.clone())],
                &schema,
                &self.library,
            )
        };
        nested
            .iter()
            .try_fold(column, access)
            .map(PlannerResult::Planned)
    }
}

/// Types as Spark spells them.
#[derive(Debug)]
pub(super) struct SparkTypes;

impl TypePlanner for SparkTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let t = parse_type(&sql_type.to_string())?;
        Ok(Some(Arc::new(Field::new("", t, true))))
    }
}

/// The session as the planner sees it.
pub(super) struct SparkProvider<'a> {
    pub(super) state: &'a SessionState,
    pub(super) tables: HashMap<String, Arc<dyn TableSource>>,
    pub(super) expr_planners: Vec<Arc<dyn ExprPlanner>>,
    pub(super) relation_planners: Vec<Arc<dyn RelationPlanner>>,
}

impl ContextProvider for SparkProvider<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        match self.tables.get(&name.to_string().to_lowercase()) {
            Some(source) => Ok(Arc::clone(source)),
            None => {
                let mut known: Vec<_> = self.tables.keys().map(String::as_str).collect();
                known.sort_unstable();
                Err(SparkError::external(
                    "TABLE_OR_VIEW_NOT_FOUND",
                    format!(
                        "no table or view `{name}`; this query knows {}",
                        known.join(", ")
                    ),
                ))
            }
        }
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.expr_planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relation_planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(SparkTypes))
    }

    /// Plain calls went another way; what is left of a name that takes lambdas has one.
    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if lambdas::named(name).is_some() {
            return None;
        }
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        lambdas::named(name)
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        let own = crate::functions::table().keys().map(|n| (*n).to_owned());
        own.chain(self.state.udfs()).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        lambdas::names().map(str::to_owned).collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}
