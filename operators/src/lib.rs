//! Streaming operators over Arrow batches: one file per operator, each a plain state machine and a function that describes it.
//!
//! Expressions are DataFusion's physical expressions, evaluated on whole batches. Nothing here knows of actors, edges or
//! barriers: an operator is tested by calling [`process`](weir_runtime::Operator::process) on it.
//!
//! | operator | what it does |
//! | --- | --- |
//! | [`filter`] | keeps the rows for which a condition is true |
//! | [`project`] | computes columns |
//! | [`explode`] | one row per element of an array or map |
//! | [`union`] | several inputs as one stream |
//! | [`aggregate`](aggregate()) | groups rows and aggregates each group, with state |
//! | [`partial_aggregate`] | aggregates before an exchange |
//! | [`grouping_sets`] | repeats rows for several sets of keys |
//! | [`assign_windows`] | the time window of each row |
//! | [`watermark`] | observes event times, from which the query's watermark follows |
//! | [`map_batches`] | user code over batches |

mod aggregate;
mod explode;
mod expression;
mod filter;
mod map;
mod project;
mod row_codec;
mod union;
mod watermark;
mod window;

pub use aggregate::{
    AggregateCall, AggregateInput, Aggregation, Distinct, GroupingSet, PartialAggregation, TimeKey,
    aggregate, grouping_sets, partial_aggregate,
};
pub use explode::{Explode, explode};
pub use expression::{ErrorMap, Expression, data_error};
pub use filter::filter;
pub use map::map_batches;
pub use project::project;
pub use row_codec::{EncodedRows, RowCodec, fields_from_text, fields_text};
pub use union::union;
pub use watermark::watermark;
pub use window::{Lateness, WindowAssign, assign_windows};
