//! Tables as text, as Spark prints them: the sink `console` and what a DataFrame's `show` needs.

mod format;
mod number;
mod sink;
#[cfg(test)]
mod tests;
mod time;
mod value;

pub use format::{ShowOptions, show_string};
pub use sink::{ConsoleSink, OPTIONS, Truncate};
