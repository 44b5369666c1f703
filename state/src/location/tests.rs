//! Tests of the location: every backend, every step.
