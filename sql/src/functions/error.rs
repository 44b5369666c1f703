//! Errors that row values cause, named as Spark names them.
//!
//! Spark's error conditions (`DIVIDE_BY_ZERO`, `CAST_INVALID_INPUT`, …) are part of its contract: users match on them.
//! They travel inside [`DataFusionError::External`] because every kernel returns DataFusion errors.

use datafusion::error::DataFusionError;

/// An error caused by data or by a plan that Spark refuses, with Spark's error condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[{condition}] {message}")]
pub struct SparkError {
    /// Spark's error condition, such as `DIVIDE_BY_ZERO`.
    pub condition: &'static str,
    /// What happened, with the first value that caused it.
    pub message: String,
}

impl SparkError {
    /// An error as the DataFusion error that kernels return.
    pub fn external(condition: &'static str, message: impl Into<String>) -> DataFusionError {
        DataFusionError::External(Box::new(Self {
            condition,
            message: message.into(),
        }))
    }

    /// The Spark error inside `error`, however deeply contexts, shared errors or Arrow wrap it.
    pub fn find(error: &DataFusionError) -> Option<&SparkError> {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(e) = source {
            if let Some(found) = e.downcast_ref::<SparkError>() {
                return Some(found);
            }
            if let Some(DataFusionError::External(inner)) = e.downcast_ref::<DataFusionError>()
                && let Some(found) = inner.downcast_ref::<SparkError>()
            {
                return Some(found);
            }
            source = e.source();
        }
        None
    }
}

/// The operands have types that the operation does not accept (Spark's `DATATYPE_MISMATCH` family).
pub(crate) fn mismatch(message: impl Into<String>) -> DataFusionError {
    SparkError::external("DATATYPE_MISMATCH", message)
}
