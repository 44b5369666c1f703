//! Placeholder while dependencies build.

pub mod file;
