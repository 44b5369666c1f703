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
//! | [`changelog_aggregate`] | the same over results that change |
//! | [`assign_windows`] | the time window of each row |
//! | [`watermark`] | observes event times, from which the query's watermark follows |
//! | [`sessions`] | aggregates each session of each key, with state |
//! | [`dedup`](dedup()) | the first row of each key |
//! | [`limit`](limit()) | the first rows of a query's life |
//! | [`map_batches`] | user code over batches |
//! | [`top_n`] | the first rows of each partition, kept up to date |
//! | [`sort`] | orders and cuts the complete result of an epoch |

mod aggregate;
mod changelog_aggregate;
mod dedup;
mod epoch_time;
mod explode;
mod expression;
mod filter;
mod keys;
mod late;
mod limit;
mod map;
mod multiset;
mod project;
mod row_codec;
mod session;
mod sort;
mod top_n;
mod union;
mod watermark;
mod window;

pub use aggregate::{
    AggregateCall, AggregateInput, Aggregation, Distinct, GroupingSet, PartialAggregation, TimeKey,
    aggregate, grouping_sets, partial_aggregate,
};
pub use changelog_aggregate::changelog_aggregate;
pub use dedup::{Dedup, Forget, dedup};
pub use epoch_time::EpochTime;
pub use explode::{Explode, explode};
pub use expression::{ErrorMap, Expression, data_error};
pub use filter::filter;
pub use limit::limit;
pub use map::map_batches;
pub use project::project;
pub use row_codec::{EncodedRows, RowCodec, fields_from_text, fields_text};
pub use session::{Gap, LIST_OF, SessionAggregation, sessions, stored_sessions};
pub use sort::{SortKey, sort};
pub use top_n::{TopN, top_n};
pub use union::union;
pub use watermark::watermark;
pub use window::{Lateness, WindowAssign, assign_windows};
