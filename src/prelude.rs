//! The names most programs need: `use weir::prelude::*;`.

pub use crate::dataframe::DataFrame;
pub use crate::expr::{col, expr};
pub use crate::session::Session;
pub use crate::streams::{StreamingQuery, StreamingQueryManager};
pub use crate::write::DataStreamWriter;
pub use datafusion::logical_expr::{Expr, lit};
pub use weir_runtime::{
    Input, Operator, OperatorContext, OperatorSpec, Outbox, OutputMode, QueryConfig, QueryEvent,
    QueryProgress, Result, Rows, Sink, Source, Topology, Trigger, WeirError,
};
