//! The processing time of an epoch inside an expression, which `current_timestamp()` is on a stream: the epoch's plan fixes it, so that
//! a replay gives the same rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

const ZONE: &str = "UTC";

/// The place of the epoch's time: a TIMESTAMP that [`Expression::at`](crate::expression::Expression::at) gives a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EpochTime;

impl EpochTime {
    /// Whether `expr` is the place itself.
    pub(crate) fn is(expr: &Arc<dyn PhysicalExpr>) -> bool {
        let any: &dyn std::any::Any = expr.as_ref();
        any.is::<Self>()
    }

    /// The value that stands in its place.
    pub(crate) fn literal(epoch_ms: i64) -> Arc<dyn PhysicalExpr> {
        let micros = epoch_ms.saturating_mul(1000);
        Arc::new(Literal::new(ScalarValue::TimestampMicrosecond(
            Some(micros),
            Some(ZONE.into()),
        )))
    }
}

impl fmt::Display for EpochTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("current_timestamp()")
    }
}

impl PhysicalExpr for EpochTime {
    fn return_field(&self, _input_schema: &Schema) -> Result<FieldRef> {
        let t = DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into()));
        Ok(Arc::new(Field::new("current_timestamp", t, true)))
    }

    fn evaluate(&self, _batch: &RecordBatch) -> Result<ColumnarValue> {
        internal_err!("the time of the epoch is asked for where no epoch is known")
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![]
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
