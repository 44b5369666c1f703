//! The engine through its public API, with a source, an operator and a sink a user could have written.

mod crash;
mod embed;
mod lifecycle;
mod parts;
mod state;
mod stateful;
mod watermark;

use std::sync::Arc;

use parts::{Ledger, Numbers, RunningSum};
use weir_runtime::*;

/// Numbers → running sum (stateful) → ledger.
fn pipeline(source: Numbers, ledger: &Ledger) -> Topology {
    let mut builder = Topology::builder();
    let numbers = builder.source("numbers", source);
    let summed = builder.operator("sum", [numbers.key_by(["n"])], sum_spec(Arc::default()));
    builder.sink("ledger", summed, Arc::new(ledger.clone()));
    builder.build().expect("a valid topology")
}

fn sum_spec(seen: Arc<std::sync::Mutex<Vec<(u64, i64)>>>) -> OperatorSpec {
    OperatorSpec::new("running_sum", move |_| {
        Ok(RunningSum {
            sum: 0,
            seen: Arc::clone(&seen),
        })
    })
    .stateful()
}

fn config(checkpoint: Option<String>) -> QueryConfig {
    QueryConfig {
        checkpoint,
        parallelism: 2,
        trigger: Trigger::AvailableNow,
        ..QueryConfig::default()
    }
}

/// A checkpoint location in memory that only this test uses.
fn memory_checkpoint() -> String {
    format!("memory://{}", uuid::Uuid::new_v4())
}

/// Runs a query to its end on a runtime of its own; the engine uses its background system.
fn block_on<F: std::future::Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
        .block_on(future)
}
