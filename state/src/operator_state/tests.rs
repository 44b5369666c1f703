//! State against models and across restarts; damage of files.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::TableKind;

mod chain;
mod damage;
mod large;
mod model;

/// A checkpoint in memory of its own.
fn memory() -> CheckpointLocation {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("state-tests-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    CheckpointLocation::open(&format!("memory://{name}")).expect("location")
}

fn spec(name: &str, kind: TableKind) -> TableSpec {
    TableSpec {
        name: name.to_string(),
        kind,
        version: 1,
        key: "k".to_string(),
        value: "v".to_string(),
    }
}

fn keyed() -> TableSpec {
    spec("keyed", TableKind::Keyed)
}

fn config(location: &CheckpointLocation, subtask: u32, generation: u64) -> StateConfig {
    StateConfig::new(location.clone(), "agg", subtask, generation)
}

fn set(table: &mut Table, key: &[u8], value: &[u8]) {
    let slot = table.touch(0, 0, key);
    table.set(slot, value);
}

/// All entries of a table as (key, value).
fn entries(table: &mut Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    table
        .scan(&mut |entry| {
            all.push((entry.key.to_vec(), entry.value.to_vec()));
            Ok(())
        })
        .expect("scan");
    all
}
