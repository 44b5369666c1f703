//! Aggregate functions under Spark's names.
//!
//! The accumulators are the libraries'; here are only the names Spark has and they have not.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::logical_expr::AggregateUDF;

/// Spark's names for aggregates the libraries call otherwise.
const ALIASES: &[(&str, &str)] = &[
    ("first", "first_value"),
    ("any_value", "first_value"),
    ("last", "last_value"),
    ("mean", "avg"),
    ("every", "bool_and"),
    ("some", "bool_or"),
    ("any", "bool_or"),
    ("approx_count_distinct", "approx_distinct"),
    ("std", "stddev"),
    ("variance", "var_samp"),
    ("percentile_approx", "approx_percentile_cont"),
    ("approx_percentile", "approx_percentile_cont"),
    ("listagg", "string_agg"),
];

/// Adds Spark's names to the aggregates of a session. A name that is taken stays as it is.
pub fn add_spark_names(aggregates: &mut HashMap<String, Arc<AggregateUDF>>) {
    for (alias, name) in ALIASES {
        if let Some(udaf) = aggregates.get(*name).cloned() {
            aggregates.entry((*alias).to_owned()).or_insert(udaf);
        }
    }
}

/// Spark's name for an aggregate as a constant.
pub(crate) fn static_name(name: &str) -> Option<&'static str> {
    ALIASES.iter().map(|(alias, _)| *alias).find(|alias| *alias == name)
}
