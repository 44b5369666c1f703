//! Aggregates that differ from the libraries' or that they lack, one file per family.
//!
//! | file | functions |
//! | --- | --- |
//! | `averages.rs` | avg, try_avg |
//! | `sums.rs` | sum, try_sum |
//! | `extremes.rs` | min, max, min_by, max_by |
//! | `collect.rs` | collect_list, array_agg, collect_set, string_agg (listagg), first_value, last_value, any_value |
//! | `moments.rs` | variances, standard deviations, skewness, kurtosis |
//! | `percentile.rs` | percentile, median, percentile_approx, mode |
//!
//! Spark's other names are other words for these or for aggregates of the libraries; `crate::aggregate` translates them.

mod averages;
mod collect;
mod extremes;
mod moments;
mod percentile;
mod rows;
mod sums;
mod udaf;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::AggregateUDF;

use averages::Average;
use collect::{Collect, End, Joined};
use extremes::{Extreme, ExtremeBy};
use moments::OfMoments;
use percentile::{Approximate, Mode, Percentile};
use sums::Sum;
use udaf::SparkAggregate;

/// Puts Spark's aggregates in the place of the libraries'.
///
/// # Errors
/// If the libraries lack an aggregate these build on.
pub fn register(state: &mut SessionState) -> Result<()> {
    for udaf in functions(state)? {
        state.register_udaf(Arc::new(udaf))?;
    }
    Ok(())
}

/// Whether the result of an aggregate follows the order of its rows.
pub fn depends_on_order(name: &str) -> bool {
    const ORDERED: &[&str] = &[
        "first_value",
        "last_value",
        "any_value",
        "max_by",
        "min_by",
        "array_agg",
        "collect_list",
        "collect_set",
        "string_agg",
        "nth_value",
    ];
    ORDERED.contains(&name)
}

/// What equal arguments mean to an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// The result is the same with and without them.
    Indifferent,
    /// Each counts.
    Counted,
    /// A library's aggregate whose accumulators cannot be fed with distinct values alone.
    Unknown,
}

/// What DISTINCT means for an aggregate.
pub fn duplicates(name: &str) -> Duplicates {
    match name {
        "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" | "collect_set"
        | "first_value" | "any_value" | "approx_distinct" | "max_by" | "min_by" => {
            Duplicates::Indifferent
        }
        "count" | "sum" | "try_sum" | "avg" | "try_avg" | "collect_list" | "array_agg"
        | "string_agg" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp" | "stddev"
        | "skewness" | "kurtosis" | "percentile" | "median" | "percentile_approx" | "mode" => {
            Duplicates::Counted
        }
        _ => Duplicates::Unknown,
    }
}

fn functions(state: &SessionState) -> Result<Vec<AggregateUDF>> {
    let inner = state.udaf("sum")?;
    let mut all = vec![
        sum("sum", false, Some(inner)),
        sum("try_sum", true, None),
        average("avg", false),
        average("try_avg", true),
        SparkAggregate::udaf(Joined),
        SparkAggregate::udaf(Approximate),
        SparkAggregate::udaf(Mode),
        percentile("percentile", None),
        percentile("median", Some(0.5)),
    ];
    for (name, largest) in [("min", false), ("max", true)] {
        let inner = state.udaf(name)?;
        all.push(SparkAggregate::udaf(Extreme { largest, inner }));
        all.push(SparkAggregate::udaf(ExtremeBy { largest }));
    }
    for (name, distinct) in [
        ("collect_list", false),
        ("array_agg", false),
        ("collect_set", true),
    ] {
        all.push(SparkAggregate::udaf(Collect { name, distinct }));
    }
    for (name, last) in [
        ("first_value", false),
        ("any_value", false),
        ("last_value", true),
    ] {
        all.push(SparkAggregate::udaf(End { name, last }));
    }
    all.extend(of_moments());
    Ok(all)
}

fn sum(name: &'static str, lenient: bool, inner: Option<Arc<AggregateUDF>>) -> AggregateUDF {
    SparkAggregate::udaf(Sum {
        name,
        lenient,
        inner,
    })
}

fn average(name: &'static str, lenient: bool) -> AggregateUDF {
    SparkAggregate::udaf(Average { name, lenient })
}

fn percentile(name: &'static str, fixed: Option<f64>) -> AggregateUDF {
    SparkAggregate::udaf(Percentile { name, fixed })
}

fn of_moments() -> Vec<AggregateUDF> {
    let of = |name, higher, result| {
        SparkAggregate::udaf(OfMoments {
            name,
            higher,
            result,
        })
    };
    vec![
        of("var_pop", false, moments::var_pop),
        of("var_samp", false, moments::var_samp),
        of("stddev_pop", false, moments::stddev_pop),
        of("stddev_samp", false, moments::stddev_samp),
        of("stddev", false, moments::stddev_samp),
        of("skewness", true, moments::skewness),
        of("kurtosis", true, moments::kurtosis),
    ]
}
