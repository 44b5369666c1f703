//! Refusals that concern single nodes: sorting, limits, sets, windows, watermarks, deduplication.

use arrow::datatypes::DataType;
use datafusion::common::ExprSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, Limit, LogicalPlan, SkipType};
use weir_runtime::OutputMode;

use super::{MODE, OPERATION, Problems, aggregations, subtree};
use crate::plan::event_time::marks;
use crate::plan::leaf::is_streaming;
use crate::plan::nodes::{DeduplicateNode, WatermarkNode};
use crate::types::type_name;

/// Checks one node of the plan of a query.
pub(super) fn check(
    node: &LogicalPlan,
    plan: &LogicalPlan,
    mode: OutputMode,
    problems: &mut Problems,
) {
    if !is_streaming(node) {
        return;
    }
    match node {
        LogicalPlan::Sort(_) if mode != OutputMode::Complete || aggregations(node).is_empty() => {
            problems.add(
                OPERATION,
                "sorting a stream needs output mode complete and an aggregation below it",
            );
        }
        LogicalPlan::Limit(limit) => self::limit(limit, mode, problems),
        LogicalPlan::Distinct(Distinct::On(_)) => problems.add(
            OPERATION,
            "DISTINCT ON is not supported on streams: use drop_duplicates",
        ),
        LogicalPlan::Union(union) if union.inputs.iter().any(|input| !is_streaming(input)) => {
            problems.add(OPERATION, "a union of a stream and a bounded table is not supported: all inputs must be streams");
        }
        _ => {}
    }
    if let Some(watermark) = WatermarkNode::of(node) {
        self::watermark(watermark, problems);
    }
    if let Some(deduplicate) = DeduplicateNode::of(node) {
        self::deduplicate(deduplicate, plan, mode, problems);
    }
    functions(node, problems);
}

fn limit(limit: &Limit, mode: OutputMode, problems: &mut Problems) {
    if !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0))) {
        problems.add(OPERATION, "OFFSET is not supported on streams");
    }
    if mode == OutputMode::Update && limit.fetch.is_some() {
        problems.add(OPERATION, "LIMIT on a stream is not supported in output mode update: use append, or complete over an aggregation");
    }
}

fn watermark(node: &WatermarkNode, problems: &mut Problems) {
    let field = node.input.schema().field_from_column(&node.column);
    let allowed = |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, Some(_)));
    if let Ok(field) = field {
        let is_time = match field.data_type() {
            DataType::Struct(fields) => fields
                .find("end")
                .is_some_and(|(_, end)| allowed(end.data_type())),
            other => allowed(other),
        };
        if !is_time {
            let message = format!(
                "the watermark's column '{}' is {}, allowed: TIMESTAMP or a window of it",
                node.column.name,
                type_name(field.data_type())
            );
            problems.add("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE", message);
        }
    }
    if node.delay_ms < 0 {
        problems.add(
            OPERATION,
            format!(
                "the watermark's delay of {} ms is negative, allowed: 0 or more",
                node.delay_ms
            ),
        );
    }
    if subtree(&node.input)
        .into_iter()
        .any(|below| WatermarkNode::of(below).is_some())
    {
        let message = format!(
            "the watermark on '{}' redefines one below it: a stream has one watermark",
            node.column.name
        );
        problems.add(OPERATION, message);
    }
}

fn deduplicate(
    node: &DeduplicateNode,
    plan: &LogicalPlan,
    mode: OutputMode,
    problems: &mut Problems,
) {
    for key in &node.keys {
        let field = node.input.schema().field_from_column(key);
        if field.is_ok_and(|field| has_map(field.data_type())) {
            let message = format!(
                "the key '{}' of a deduplication is or holds a map, which cannot be compared",
                key.name
            );
            problems.add("UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE", message);
        }
    }
    if mode == OutputMode::Complete && aggregations(plan).is_empty() {
        problems.add(MODE, "deduplication is not supported in output mode complete without an aggregation above it");
    }
    let marked = marks(&node.input).into_iter().filter(|mark| *mark).count();
    if node.within_watermark && marked == 0 {
        problems.add(
            OPERATION,
            "dropDuplicatesWithinWatermark needs a watermark below it: call withWatermark first",
        );
    }
    if node.retention_ms.is_some() && !node.within_watermark && marked == 0 {
        problems.add(
            OPERATION,
            "the setting weir.dropDuplicates.retention needs a watermark below drop_duplicates: call withWatermark first",
        );
    }
    if marked > 1 {
        problems.add(
            "MULTIPLE_EVENT_TIME_COLUMNS",
            "more than one event-time column goes into a deduplication: select one of them",
        );
    }
}

fn has_map(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(_, _) => true,
        DataType::List(field) | DataType::LargeList(field) => has_map(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
        _ => false,
    }
}

fn functions(node: &LogicalPlan, problems: &mut Problems) {
    // The visitor returns no errors.
    let _visited = node.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::ScalarFunction(call) = expr
                && call.func.name() == "monotonically_increasing_id"
            {
                problems.add(
                    OPERATION,
                    "monotonically_increasing_id() is not supported on streams",
                );
            }
            Ok(TreeNodeRecursion::Continue)
        })
    });
}
