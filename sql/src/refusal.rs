//! Refusals of DataFusion's planner under Spark's error conditions.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

use crate::functions::error::SparkError;

/// `error` with the condition Spark has for it; errors that have one already, or that Spark has no word for, stay.
pub(super) fn named(error: DataFusionError) -> DataFusionError {
    if SparkError::find(&error).is_some() {
        return error;
    }
    let text = error.strip_backtrace();
    let condition = match error.find_root() {
        DataFusionError::SchemaError(e, _) => match e.as_ref() {
            SchemaError::FieldNotFound { .. } => "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            SchemaError::AmbiguousReference { .. } => "AMBIGUOUS_REFERENCE",
            _ => return error,
        },
        DataFusionError::Plan(m) if m.starts_with("Invalid function") => "UNRESOLVED_ROUTINE",
        DataFusionError::Plan(m) if m.contains("must be in GROUP BY") => "MISSING_AGGREGATION",
        DataFusionError::Plan(m) if m.contains("not allowed in the WHERE clause") => {
            "INVALID_WHERE_CONDITION"
        }
        DataFusionError::Plan(m) if m.contains("different number of columns") => {
            "NUM_COLUMNS_MISMATCH"
        }
        _ => return error,
    };
    SparkError::external(condition, text)
}
