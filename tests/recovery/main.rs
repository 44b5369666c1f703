//! The worked example (JSON files → purchases over 100 → Parquet) under crashes, kills, damage and competing writers: whatever
//! happens, every purchase is in the output exactly once.

mod crash_at_every_point;
mod damage;
mod field_cases;
mod kill_process;
mod replay;
mod shop;
