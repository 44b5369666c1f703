//! The worked example (JSON files → purchases over 100 → Parquet) and stateful queries over the same files under crashes, kills,
//! damage and competing writers: whatever happens, every row is in the output exactly once.

mod crash_at_every_point;
mod damage;
mod disk_full;
mod field_cases;
mod kill_process;
mod queries;
mod replay;
mod shop;
mod state_size;
mod target;

#[path = "../support/moments.rs"]
mod moments;
