//! The DataFusion session that everything is planned and run in.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_spark::SessionStateBuilderSpark;

use super::analyze::ExpandWindows;
use super::generate::{Generate, GenerateExec};
use crate::functions::aggregates;

/// A session state with Spark's functions (datafusion-spark over DataFusion), Spark's defaults for SQL, and the
/// physical plan of [`Generate`]. `target_partitions` is the parallelism of batch queries.
///
/// # Errors
/// None today; the signature leaves room for settings that may be refused.
pub fn session_state(time_zone: &str, target_partitions: usize) -> Result<SessionState> {
    let mut config = SessionConfig::new()
        .with_target_partitions(target_partitions.max(1))
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(true);
    let options = config.options_mut();
    options.execution.time_zone = Some(time_zone.to_owned());
    options.execution.enable_ansi_mode = true;
    options.execution.parquet.schema_force_view_types = false;
    // In INT96 Spark keeps instants.
    options.execution.parquet.coerce_int96 = Some("us".to_owned());
    options.execution.parquet.coerce_int96_tz = Some("UTC".to_owned());
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.default_null_ordering = "nulls_min".to_owned();
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_spark_features()
        .with_query_planner(Arc::new(SparkQueryPlanner))
        .build();
    aggregates::register(&mut state)?;
    state.add_analyzer_rule(Arc::new(ExpandWindows));
    Ok(state)
}

/// A context over [`session_state`].
///
/// # Errors
/// As [`session_state`].
pub fn session_context(time_zone: &str, target_partitions: usize) -> Result<SessionContext> {
    Ok(SessionContext::new_with_state(session_state(
        time_zone,
        target_partitions,
    )?))
}

#[derive(Debug)]
struct SparkQueryPlanner;

#[async_trait]
impl QueryPlanner for SparkQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(GeneratePlanner)]);
        planner.create_physical_plan(plan, state).await
    }
}

struct GeneratePlanner;

#[async_trait]
impl ExtensionPlanner for GeneratePlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        state: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(generate), Some(input)) = (
            node.as_any().downcast_ref::<Generate>(),
            physical_inputs.first(),
        ) else {
            return Ok(None);
        };
        let list = planner.create_physical_expr(
            &generate.list,
            generate.input.schema(),
            state,
            context,
        )?;
        Ok(Some(Arc::new(GenerateExec::new(
            Arc::clone(input),
            generate.generator(list),
        ))))
    }
}
