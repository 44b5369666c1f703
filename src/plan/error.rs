//! Errors of DataFusion as errors of the engine: Spark's condition is found, the fault is the phase's.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use weir_runtime::{Fault, WeirError};

use crate::functions::SparkError;

/// An error of planning.
pub(crate) fn plan_error(error: DataFusionError) -> WeirError {
    convert(error, Fault::Plan)
}

/// An error of running an expression over rows.
pub(crate) fn data_error(error: DataFusionError) -> WeirError {
    convert(error, Fault::Data)
}

fn convert(error: DataFusionError, fault: Fault) -> WeirError {
    if let DataFusionError::External(inner) = &error
        && let Some(own) = inner.downcast_ref::<WeirError>()
    {
        return own.clone();
    }
    let converted = match SparkError::find(&error) {
        Some(spark) => WeirError::new(fault, spark.message.clone()).with_condition(spark.condition),
        None => match error.find_root() {
            DataFusionError::SchemaError(missing, _)
                if matches!(**missing, SchemaError::FieldNotFound { .. }) =>
            {
                WeirError::new(fault, missing.to_string())
                    .with_condition("UNRESOLVED_COLUMN.WITH_SUGGESTION")
            }
            _ => WeirError::new(fault, error.strip_backtrace()),
        },
    };
    converted.with_source(error)
}
