//! Field cases: what went wrong for people who run streaming jobs, each as a small test that names its case.

mod payloads;
mod recovery;
pub(crate) mod stage;
mod state;
mod time;
mod two_inputs;
mod windows;
mod zones;
