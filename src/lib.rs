//! Weir: embeddable, actor-based dataflow. Streams as tables, exactly-once, inside your own process.
//!
//! A stream is a table that never ends: the same DataFrame or SQL code runs over it, and every answer is exactly-once across
//! crashes. A query runs as actors in the process that starts it; there is no cluster to run.
//!
//! ```
//! use weir::prelude::*;
//!
//! # async fn example() -> weir::Result<()> {
//! # let home = tempfile::tempdir().map_err(|e| WeirError::external(e.to_string()))?;
//! # let path = |name: &str| home.path().join(name).display().to_string();
//! # let (input, output, checkpoint) = (path("in"), path("out"), path("checkpoint"));
//! # std::fs::create_dir(&input).map_err(|e| WeirError::external(e.to_string()))?;
//! # std::fs::write(format!("{input}/a.json"), "{\"user\":\"ann\",\"action\":\"purchase\",\"amount\":120.5}\n{\"user\":\"bob\",\"action\":\"view\"}\n")
//! #     .map_err(|e| WeirError::external(e.to_string()))?;
//! let session = Session::builder().time_zone("UTC").build()?;
//!
//! // A directory of JSON files as a stream: files that appear later are read too.
//! let events = session
//!     .read_stream()
//!     .schema("user STRING, action STRING, amount DOUBLE")
//!     .option("maxFilesPerTrigger", 10)
//!     .json(&input)?;
//!
//! // Nothing runs yet: this describes a table.
//! let purchases = events.filter("action = 'purchase' AND amount > 100")?.select(["user", "amount"])?;
//!
//! // The checkpoint is what makes it exactly-once: run the program again and only new files are read.
//! let query = purchases
//!     .write_stream()
//!     .format("parquet")
//!     .option("checkpointLocation", &checkpoint)
//!     .trigger(Trigger::AvailableNow)
//!     .start_path(&output)
//!     .await?;
//! query.await_termination().await?;
//!
//! let written = session.read().parquet(&output).await?;
//! assert_eq!(written.count().await?, 1);
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! The layers below are public too: a [`Topology`] is a dataflow written by hand, from sources, operators and sinks, built in or
//! your own.

mod dataframe;
mod expr;
mod interval;
mod plan;
pub mod prelude;
mod read;
mod session;
mod streams;
mod write;

pub use dataframe::{DataFrame, GroupedFrame};
pub use expr::{IntoColumn, IntoCondition, col, expr};
pub use read::{DataFrameReader, DataStreamReader, IntoSchema};
pub use session::{RuntimeConf, ScalarFn, Session, SessionBuilder};
pub use streams::{ListenerId, StreamingQuery, StreamingQueryManager};
pub use write::{CHANGE_TYPE, DataStreamWriter, EpochChanges, IntoOutputMode};

pub use datafusion::logical_expr::{Expr, lit};
pub use weir_connectors as connectors;
pub use weir_operators as operators;
pub use weir_runtime as runtime;
pub use weir_runtime::{
    Fault, Operator, OperatorSpec, OutputMode, QueryConfig, QueryEvent, QueryListener,
    QueryProgress, QueryStatus, Result, Sink, Source, Topology, TopologyBuilder, Trigger,
    WeirError,
};
pub use weir_sql as sql;
pub use weir_sql::{functions, types};
pub use weir_state as state;
