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
    if let DataFusionError::External(inner) = error.find_root()
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
            root => WeirError::new(fault, text(root)),
        },
    };
    converted.with_source(error)
}

/// What an error of DataFusion says, without its kind; syntax trees in it are cut off.
fn text(error: &DataFusionError) -> String {
    let text = match error {
        DataFusionError::Plan(text) | DataFusionError::Execution(text) => text.clone(),
        DataFusionError::NotImplemented(text) => format!(
            "not supported: {}",
            text.split('{').next().unwrap_or(text).trim()
        ),
        other => other.strip_backtrace(),
    };
    let end = text
        .find(DataFusionError::BACK_TRACE_SEP)
        .unwrap_or(text.len());
    text[..end].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_spark_are_found_and_texts_have_no_kind() {
        let spark =
            SparkError::external("DIVIDE_BY_ZERO", "division by zero").context("while evaluating");
        let error = data_error(spark);
        assert_eq!(
            (error.condition(), error.message(), error.fault()),
            (Some("DIVIDE_BY_ZERO"), "division by zero", Fault::Data)
        );
        assert_eq!(
            plan_error(DataFusionError::Plan("no such thing".into())).message(),
            "no such thing"
        );
        let tree =
            DataFusionError::NotImplemented("Unsupported ast node Pivot { table: x }".into());
        assert_eq!(
            plan_error(tree).message(),
            "not supported: Unsupported ast node Pivot"
        );
    }

    #[test]
    fn errors_of_the_engine_pass_through_as_they_are() {
        let own = WeirError::data("from a function of the user").with_condition("MINE");
        let error = plan_error(DataFusionError::External(Box::new(own)));
        assert_eq!(
            (error.condition(), error.fault()),
            (Some("MINE"), Fault::Data)
        );
    }
}
