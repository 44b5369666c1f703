//! LATERAL VIEW and generators in SELECT as relations.
//!
//! The rewritten syntax tree holds a table named `__generate` with a number; the number leads to a [`Lateral`], which
//! [`LateralPlanner`] plans as a [`Generate`] node over its input.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result, TableReference, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr as PlanExpr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr, Join, JoinOperator, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use super::analyze::analyze_plan;
use super::generate::Generate;
use crate::functions::coerce::{array_of, cast_to, common_of, element_type, map_types};
use crate::functions::error::SparkError;
use crate::functions::kernel::Kernel;
use crate::functions::{collections, json, maps, structs};

/// The table name that stands for a generator.
const MARK: &str = "__generate";

/// A generator call as written.
#[derive(Debug, Clone)]
pub(super) struct Generator {
    /// Name in lower case, without `_outer`.
    pub(super) name: String,
    pub(super) args: Vec<Expr>,
    /// Rows without anything to generate are kept.
    pub(super) outer: bool,
    /// The relation name of the generated columns.
    pub(super) alias: Option<String>,
    /// Names of the generated columns; empty for the generator's own.
    pub(super) columns: Vec<String>,
}

/// A generator and what it runs over.
#[derive(Debug, Clone)]
pub(super) struct Lateral {
    from: Vec<TableWithJoins>,
    filter: Option<Expr>,
    generator: Generator,
}

impl Lateral {
    /// Shows every part of the syntax tree in here to `visitor`.
    pub(super) fn visit<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break> {
        self.from.visit(visitor)?;
        self.filter.visit(visitor)?;
        self.generator.args.visit(visitor)
    }
}

/// The generators of one statement.
#[derive(Debug, Default)]
pub(super) struct Laterals(Vec<Option<Lateral>>);

impl Laterals {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a generator over `from` filtered by `filter`; gives the relation that stands for it.
    pub(super) fn add(
        &mut self,
        from: Vec<TableWithJoins>,
        filter: Option<Expr>,
        generator: Generator,
    ) -> Result<TableWithJoins> {
        let mut parser = super::parser(&format!("{MARK}.`{}`", self.0.len()))?;
        self.0.push(Some(Lateral {
            from,
            filter,
            generator,
        }));
        Ok(TableWithJoins {
            relation: parser.parse_table_factor()?,
            joins: vec![],
        })
    }

    /// Takes a generator out while it is rewritten.
    pub(super) fn take(&mut self, i: usize) -> Lateral {
        self.0[i]
            .take()
            .expect("invariant: a generator is rewritten once")
    }

    /// Puts it back.
    pub(super) fn put(&mut self, i: usize, lateral: Lateral) {
        self.0[i] = Some(lateral);
    }
}

/// Plans generators, and settles the types of every relation before the query above it looks at them.
#[derive(Debug)]
pub(super) struct LateralPlanner {
    laterals: Vec<Lateral>,
    /// Set while a relation goes through the default planner, which asks this planner again first.
    pass: AtomicBool,
}

impl LateralPlanner {
    pub(super) fn new(laterals: Laterals) -> Self {
        Self {
            laterals: laterals.0.into_iter().flatten().collect(),
            pass: AtomicBool::new(false),
        }
    }

    fn default_plan(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        self.pass.store(true, Ordering::Relaxed);
        let plan = context.plan(relation);
        self.pass.store(false, Ordering::Relaxed);
        plan
    }

    fn input(
        &self,
        from: Vec<TableWithJoins>,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let mut from = from.into_iter();
        let Some(mut first) = from.next() else {
            return LogicalPlanBuilder::empty(true).build();
        };
        let nested = |t: TableWithJoins| match t.joins.is_empty() {
            true => t.relation,
            false => TableFactor::NestedJoin {
                table_with_joins: Box::new(t),
                alias: None,
            },
        };
        for other in from {
            let join_operator =
                JoinOperator::CrossJoin(datafusion::sql::sqlparser::ast::JoinConstraint::None);
            first.joins.push(Join {
                relation: nested(other),
                global: false,
                join_operator,
            });
        }
        context.plan(nested(first))
    }

    fn generate(
        &self,
        lateral: Lateral,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let mut input = self.input(lateral.from, context)?;
        if let Some(filter) = lateral.filter {
            let predicate = context.sql_to_expr(filter, input.schema())?;
            input = LogicalPlanBuilder::from(input).filter(predicate)?.build()?;
        }
        let generator = lateral.generator;
        let schema = Arc::clone(input.schema());
        let args = generator.args.into_iter().map(|a| {
            let expr = context.sql_to_expr(a, &schema)?;
            super::analyze::coerce_expr(expr, &schema)
        });
        let args = args.collect::<Result<Vec<_>>>()?;
        let made = generated(&generator.name, args, &schema)?;
        let fields = named(made.fields, &generator.columns, &generator.name)?;
        let qualifier = generator.alias.map(TableReference::bare);
        let node = Generate::try_new(
            input,
            made.list,
            made.position,
            generator.outer,
            qualifier,
            fields,
        )?;
        Ok(node.into_plan())
    }
}

impl RelationPlanner for LateralPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if self.pass.swap(false, Ordering::Relaxed) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        if let TableFactor::Table {
            sample: Some(_), ..
        }
        | TableFactor::Derived {
            sample: Some(_), ..
        } = &relation
        {
            return Err(SparkError::external(
                "UNSUPPORTED_FEATURE.SAMPLE",
                "TABLESAMPLE is not supported",
            ));
        }
        if let Some(i) = marked(&relation) {
            let Some(lateral) = self.laterals.get(i).cloned() else {
                return plan_err!("no generator number {i}");
            };
            let plan = self.generate(lateral, context)?;
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
                plan, None,
            ))));
        }
        match relation {
            TableFactor::Derived { .. }
            | TableFactor::Table { .. }
            | TableFactor::NestedJoin { .. } => {
                let plan = analyze_plan(self.default_plan(relation, context)?)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
                    plan, None,
                ))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

fn marked(relation: &TableFactor) -> Option<usize> {
    let TableFactor::Table { name, .. } = relation else {
        return None;
    };
    let parts: Vec<_> = name.0.iter().filter_map(|p| p.as_ident()).collect();
    match parts.as_slice() {
        [mark, number] if mark.value == MARK => number.value.parse().ok(),
        _ => None,
    }
}

/// What a generator makes: an array for each row, and the columns its elements become.
pub(super) struct Generated {
    pub(super) list: PlanExpr,
    pub(super) position: bool,
    pub(super) fields: Vec<Field>,
}

/// Plans a generator call over typed arguments.
///
/// # Errors
/// Arguments of types the generator does not take.
pub(super) fn generated(name: &str, args: Vec<PlanExpr>, schema: &DFSchema) -> Result<Generated> {
    let refuse = |types: &[DataType]| {
        let types = crate::functions::coerce::list_types(types);
        Err(SparkError::external(
            "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
            format!("{name} does not accept {types}"),
        ))
    };
    let types = args
        .iter()
        .map(|a| a.get_type(schema))
        .collect::<Result<Vec<_>>>()?;
    let position = name == "posexplode";
    match (name, types.as_slice()) {
        ("explode" | "posexplode", [t]) => {
            let list = args[0].clone();
            if let (Some((k, v)), Some(entries)) = (map_types(t), maps::entries_type(t)) {
                let list = maps::entries(list, entries);
                let fields = vec![Field::new("key", k, true), Field::new("value", v, true)];
                return Ok(Generated {
                    list,
                    position,
                    fields,
                });
            }
            match element_type(t) {
                Some(e) => Ok(Generated {
                    list,
                    position,
                    fields: vec![Field::new("col", e, true)],
                }),
                None => refuse(&types),
            }
        }
        ("inline", [t]) => match element_type(t) {
            Some(DataType::Struct(fields)) => {
                let fields = fields
                    .iter()
                    .map(|f| f.as_ref().clone().with_nullable(true))
                    .collect();
                Ok(Generated {
                    list: args[0].clone(),
                    position,
                    fields,
                })
            }
            _ => refuse(&types),
        },
        ("stack", _) => stack(args, &types, schema),
        ("json_tuple", _) => {
            let args = args
                .into_iter()
                .map(|a| cast_to(a, &DataType::Utf8, schema))
                .collect::<Result<Vec<_>>>()?;
            let fields = (0..args.len().saturating_sub(1))
                .map(|i| Field::new(format!("c{i}"), DataType::Utf8, true))
                .collect();
            Ok(Generated {
                list: json::tuple(args)?,
                position,
                fields,
            })
        }
        _ => refuse(&types),
    }
}

/// `stack(n, v1, …, vk)`: n rows of ceil(k / n) columns.
fn stack(args: Vec<PlanExpr>, types: &[DataType], schema: &DFSchema) -> Result<Generated> {
    let wrong = |text: &str| {
        Err(SparkError::external(
            "WRONG_NUM_ARGS",
            format!("stack: {text}"),
        ))
    };
    let rows = match args.first() {
        Some(PlanExpr::Literal(v, _)) => match v.cast_to(&DataType::Int64)? {
            datafusion::scalar::ScalarValue::Int64(Some(n)) if n > 0 => n as usize,
            _ => return wrong("the number of rows must be positive"),
        },
        _ => return wrong("the number of rows must be a constant"),
    };
    let values = &args[1..];
    let width = values.len().div_ceil(rows);
    let mut fields = Vec::with_capacity(width);
    for c in 0..width {
        let column: Vec<_> = types[1..].iter().skip(c).step_by(width).cloned().collect();
        fields.push(Field::new(
            format!("col{c}"),
            common_of(&column, "stack")?,
            true,
        ));
    }
    let row = |r: usize| -> Result<PlanExpr> {
        let cells = fields
            .iter()
            .enumerate()
            .map(|(c, f)| match values.get(r * width + c) {
                Some(v) => cast_to(v.clone(), f.data_type(), schema),
                None => Ok(PlanExpr::Literal(
                    datafusion::scalar::ScalarValue::try_from(f.data_type())?,
                    None,
                )),
            });
        Ok(structs::struct_of(
            fields.clone().into(),
            cells.collect::<Result<_>>()?,
        ))
    };
    let rows = (0..rows).map(row).collect::<Result<Vec<_>>>()?;
    let element = DataType::Struct(fields.clone().into());
    let list = collections::array_from(array_of(element), rows);
    debug_assert!(Kernel::of(&list, "array").is_some());
    Ok(Generated {
        list,
        position: false,
        fields,
    })
}

/// The generated columns under the names given. `posexplode` has its position in front.
fn named(fields: Vec<Field>, columns: &[String], generator: &str) -> Result<Vec<Field>> {
    let mut fields = fields;
    if generator == "posexplode" {
        fields.insert(0, Field::new("pos", DataType::Int32, true));
    }
    if columns.is_empty() {
        return Ok(fields);
    }
    if columns.len() != fields.len() {
        let message = format!(
            "{generator} makes {} columns, {} names were given",
            fields.len(),
            columns.len()
        );
        return Err::<_, DataFusionError>(SparkError::external(
            "NUM_TABLE_VALUE_ALIASES_MISMATCH",
            message,
        ));
    }
    Ok(fields
        .into_iter()
        .zip(columns)
        .map(|(f, n)| f.with_name(n))
        .collect())
}
