//! Nothing of its own: see its `Cargo.toml`.
