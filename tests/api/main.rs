//! The user's view: what programs over sessions, frames, writers and queries see.
#![allow(missing_docs, clippy::unwrap_used)]

mod accounting;
mod changes;
mod complete;
mod distinct;
mod field;
mod files;
mod frames;
mod manager;
mod refusals;
mod restart_changes;
mod sessions;
mod sinks;
mod state_reader;
mod support;
mod user_state;
mod worked_example;
mod zones;
