//! The harness's own tests: that a right engine passes every case, that a wrong one is caught, and that
//! values, files and scopes are what they should be. A target of its own because `conformance` prints its
//! own report and runs no `#[test]`.

#![allow(clippy::unwrap_used)]
// What only `main.rs` and `engine.rs` use is dead here.
#![allow(dead_code)]

mod calendar;
mod case;
mod compare;
mod driver;
mod expressions;
mod input;
mod judge;
mod known;
mod report;
mod run;
mod scope;
mod suite;
mod value;
mod ways;
mod words;

#[path = "parts/arrays.rs"]
mod arrays;
#[path = "parts/compare_tests.rs"]
mod compare_tests;
#[path = "parts/echo.rs"]
mod echo;
#[path = "parts/expressions_tests.rs"]
mod expressions_tests;
#[path = "parts/input_tests.rs"]
mod input_tests;
#[path = "parts/report_tests.rs"]
mod report_tests;
#[path = "parts/scope_tests.rs"]
mod scope_tests;
#[path = "parts/suite_tests.rs"]
mod suite_tests;
#[path = "parts/value_tests.rs"]
mod value_tests;
