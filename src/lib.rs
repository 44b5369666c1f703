//! Weir: embeddable, actor-based dataflow. Streams as tables, exactly-once, inside your own process.

pub mod functions;
pub mod sql;
pub mod types;
