//! Spark SQL on DataFusion: parsing, planning, types.
//!
//! DataFusion parses, resolves names and builds plans; this crate bends it where Spark differs. [`plan_query`] gives a
//! plan with Spark's types that nothing has optimized, [`parse_expr`] one expression over a schema, [`physical`] its
//! executable form.
//!
//! Nodes that may come out: `TableScan`, `SubqueryAlias`, `Projection`, `Filter`, `Union`, [`Generate`] (an
//! `Extension`), `Join`, `Aggregate`, `Distinct`, `Sort`, `Limit`, `Window`, `Values`, `EmptyRelation`; subqueries stay
//! inside expressions.

mod aggregate;
mod analyze;
mod ast;
mod dialect;
pub mod functions;
mod generate;
mod grouping;
mod hooks;
mod interval;
mod lateral;
mod names;
mod provider;
mod raw;
mod refusal;
mod session;
pub mod types;
mod using;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, TableReference, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, create_physical_expr};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{SelectItem, Statement};
use datafusion::sql::sqlparser::parser::Parser;

pub use generate::{Generate, Generator};
pub use session::{session_context, session_state};

use crate::functions::coerce::timestamp;
use crate::functions::error::SparkError;
use crate::functions::kernel::{Kernel, session_zone};
use crate::functions::{Library, table};
use lateral::{LateralPlanner, Laterals};
use names::{Definitions, References, Spellings};
use provider::{SparkPlanner, SparkProvider};

static DIALECT: dialect::SparkDialect = dialect::SparkDialect::NEW;

/// A parser over `text` in Spark's dialect.
fn parser(text: &str) -> Result<Parser<'static>> {
    let text = raw::usual_literals(text);
    Parser::new(&DIALECT)
        .try_with_sql(&text)
        .map_err(|e| SparkError::external("PARSE_SYNTAX_ERROR", e.to_string()))
}

fn syntax(
    e: datafusion::sql::sqlparser::parser::ParserError,
) -> datafusion::error::DataFusionError {
    SparkError::external("PARSE_SYNTAX_ERROR", e.to_string())
}

/// Plans one SELECT over the tables and views of `ctx`, with Spark's names and types and without any optimization.
///
/// # Errors
/// Text that is no single query, names that do not exist (with what exists), types that Spark refuses.
pub async fn plan_query(ctx: &SessionContext, sql: &str) -> Result<LogicalPlan> {
    let mut parser = parser(sql)?;
    let mut statements = parser.parse_statements().map_err(syntax)?;
    let mut statement = match (statements.pop(), statements.is_empty()) {
        (Some(s @ Statement::Query(_)), true) => s,
        _ => {
            return Err(SparkError::external(
                "PARSE_SYNTAX_ERROR",
                "one SELECT is expected",
            ));
        }
    };
    let state = ctx.state();
    let tables = tables(&state, &statement).await?;
    let mut spellings = Spellings::default();
    for source in tables.values() {
        source
            .schema()
            .fields()
            .iter()
            .for_each(|f| spellings.add(f.name()));
    }
    names::walk(&mut statement, &mut Definitions(&mut spellings));
    names::walk(&mut statement, &mut References(&spellings));
    let planning = Planning::new(&state)?;
    let laterals = planning.rewrite(&mut statement)?;
    let provider = planning.provider(tables, laterals);
    let planned = SqlToRel::new(&provider).sql_statement_to_plan(statement);
    planned
        .and_then(analyze::analyze_plan)
        .map_err(refusal::named)
}

/// Every table the statement reads, by its name in lower case.
async fn tables(
    state: &SessionState,
    statement: &Statement,
) -> Result<HashMap<String, Arc<dyn TableSource>>> {
    let wrapped = DfStatement::Statement(Box::new(statement.clone()));
    let (references, _) = resolve_table_references(&wrapped, false)?;
    let mut found: HashMap<String, Arc<dyn TableSource>> = HashMap::new();
    for reference in references {
        if let Some(source) = table_source(state, &reference).await? {
            found.insert(reference.to_string().to_lowercase(), source);
        }
    }
    Ok(found)
}

async fn table_source(
    state: &SessionState,
    reference: &TableReference,
) -> Result<Option<Arc<dyn TableSource>>> {
    let Ok(schema) = state.schema_for_ref(reference.clone()) else {
        return Ok(None);
    };
    let wanted = reference.table();
    let names = schema.table_names();
    let exact = names.iter().find(|n| *n == wanted);
    let Some(name) = exact.or_else(|| names.iter().find(|n| n.eq_ignore_ascii_case(wanted))) else {
        return Ok(None);
    };
    Ok(schema.table(name).await?.map(provider_as_source))
}

/// Parses one expression over the columns of `schema`, for `selectExpr`, `filter("…")` and `expr("…")`. `a AS b` gives an alias.
///
/// # Errors
/// As [`plan_query`]; `*` is refused.
pub fn parse_expr(ctx: &SessionContext, text: &str, schema: &DFSchema) -> Result<Expr> {
    let mut parser = parser(text)?;
    let mut item = parser.parse_select_item().map_err(syntax)?;
    parser
        .expect_token(&datafusion::sql::sqlparser::tokenizer::Token::EOF)
        .map_err(syntax)?;
    let mut spellings = Spellings::default();
    schema.fields().iter().for_each(|f| spellings.add(f.name()));
    names::walk(&mut item, &mut Definitions(&mut spellings));
    let written = match &item {
        SelectItem::UnnamedExpr(e) => Some(names::column_name(e)),
        _ => None,
    };
    names::walk(&mut item, &mut References(&spellings));
    let state = ctx.state();
    let planning = Planning::new(&state)?;
    let laterals = planning.rewrite(&mut item)?;
    let provider = planning.provider(HashMap::new(), laterals);
    let (expr, alias) = match item {
        SelectItem::UnnamedExpr(e) => (e, written),
        SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value)),
        _ => {
            return Err(SparkError::external(
                "INVALID_USAGE_OF_STAR_OR_REGEX",
                format!("`{text}` is not one expression"),
            ));
        }
    };
    let planned = SqlToRel::new(&provider)
        .sql_to_expr(expr, schema, &mut PlannerContext::new())
        .map_err(refusal::named)?;
    let planned = analyze::coerce_expr(planned, schema)?;
    Ok(match (planned, alias) {
        (Expr::Column(c), Some(name)) if c.name == name => Expr::Column(c),
        (planned, Some(name)) => planned.alias(name),
        (planned, None) => planned,
    })
}

/// The executable form of `expr` over batches of `schema`, after Spark's coercions. Nothing is folded or reordered, so
/// an error is raised for exactly the rows that cause it. `now` is what gives the time of the epoch where a query runs.
///
/// # Errors
/// Types that Spark refuses; columns that `schema` lacks.
pub fn physical(
    ctx: &SessionContext,
    expr: &Expr,
    schema: &DFSchema,
    now: &Arc<dyn PhysicalExpr>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let expr = analyze::coerce_expr(expr.clone(), schema)?;
    let expr = expr.transform_up(|e| Ok(epoch_time(e)))?.data;
    let expr = expand_macros(ctx, expr, schema)?;
    let mut properties = ExecutionProps::new();
    properties.config_options = Some(Arc::clone(ctx.state().config_options()));
    let physical = create_physical_expr(&expr, schema, &properties, &Default::default())?;
    let bind = |node: Arc<dyn PhysicalExpr>| {
        let any: &dyn std::any::Any = node.as_ref();
        let function = any.downcast_ref::<ScalarFunctionExpr>();
        Ok(
            match function.is_some_and(|f| f.fun().name() == EPOCH_TIME) {
                true => Transformed::yes(Arc::clone(now)),
                false => Transformed::no(node),
            },
        )
    };
    Ok(physical.transform_up(bind)?.data)
}

/// The name of the call that stands for the time of the epoch until the expression is executable.
const EPOCH_TIME: &str = "epoch_time";

/// In a stream the time is that of the epoch.
fn epoch_time(e: Expr) -> Transformed<Expr> {
    match &e {
        Expr::ScalarFunction(f) if f.func.name() == "now" => Transformed::yes(Kernel::call(
            EPOCH_TIME,
            timestamp(),
            "",
            |_| plan_err!("the time of an epoch is known in streams only"),
            vec![],
        )),
        _ => Transformed::no(e),
    }
}

/// Functions that libraries define by what they simplify to cannot run as they are.
fn expand_macros(ctx: &SessionContext, expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let info = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(ctx.state().config_options()))
        .with_query_execution_start_time(Some(chrono::Utc::now()))
        .build();
    let expand = |e: Expr| match e {
        Expr::ScalarFunction(f) => match f.func.simplify(f.args.clone(), &info)? {
            ExprSimplifyResult::Simplified(simple) => Ok(Transformed::yes(simple)),
            ExprSimplifyResult::Original(_) => Ok(Transformed::no(Expr::ScalarFunction(f))),
        },
        other => Ok(Transformed::no(other)),
    };
    Ok(expr.transform_up(expand)?.data)
}

/// Spark's types and rewrites over a plan built by hand. Plans from [`plan_query`] went through it; twice changes nothing.
///
/// # Errors
/// Types that Spark refuses, aggregates in a filter, inputs of a UNION that do not match.
pub fn analyze(_ctx: &SessionContext, plan: LogicalPlan) -> Result<LogicalPlan> {
    analyze::analyze_plan(plan).map_err(refusal::named)
}

/// What planning one statement needs of the session.
struct Planning<'a> {
    state: &'a SessionState,
    library: Arc<Library>,
}

impl<'a> Planning<'a> {
    fn new(state: &'a SessionState) -> Result<Self> {
        let library = Library {
            functions: state.scalar_functions().clone(),
            zone: session_zone(state.config_options())?,
        };
        Ok(Self {
            state,
            library: Arc::new(library),
        })
    }

    fn rewrite(
        &self,
        node: &mut impl datafusion::sql::sqlparser::ast::VisitMut,
    ) -> Result<Laterals> {
        let is_scalar =
            |name: &str| table().contains_key(name) || self.library.functions.contains_key(name);
        let mut rewriter = ast::Rewriter {
            is_scalar: &is_scalar,
            laterals: Laterals::default(),
        };
        rewriter.rewrite(node)?;
        Ok(rewriter.laterals)
    }

    fn provider(
        &self,
        tables: HashMap<String, Arc<dyn TableSource>>,
        laterals: Laterals,
    ) -> SparkProvider<'a> {
        let mut expr_planners: Vec<Arc<dyn datafusion::logical_expr::planner::ExprPlanner>> =
            vec![Arc::new(SparkPlanner {
                library: Arc::clone(&self.library),
            })];
        expr_planners.extend(self.state.expr_planners().iter().cloned());
        SparkProvider {
            state: self.state,
            tables,
            expr_planners,
            relation_planners: vec![Arc::new(LateralPlanner::new(laterals))],
        }
    }
}
