//! Which step of the project a case belongs to.
//!
//! The engine grows in steps; a case whose step has not come is listed as `not_yet` and not run. The step
//! follows from what the case contains (its topic, the operators and functions of its queries, its
//! options), never from whether it happens to pass. The few cases the rule places wrongly are listed by
//! name, each with the reason.

use crate::case::{Case, Op, Trigger, When};
use crate::words::{Word, functions, has, has_comma_join, words};

/// The newest step whose cases are run.
pub(crate) const CURRENT_STEP: u8 = 4;

/// Files to files, stateless.
const FOUNDATION: u8 = 1;
/// Watermarks, aggregation, windows, sessions, deduplication, limits, output modes, triggers, recovery of state.
const STATE: u8 = 2;
/// Breadth: all reader options and formats, all expressions and functions.
const BREADTH: u8 = 4;
/// Joins of every kind.
const JOINS: u8 = 5;

/// A step and why the case needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) step: u8,
    pub(crate) why: String,
}

/// Topics of which every case with one input belongs to the step of state, whatever functions it uses.
const STATE_TOPICS: &[&str] = &[
    "aggregate",
    "chained",
    "dedup",
    "output_mode",
    "pipelines",
    "recovery",
    "session_window",
    "trigger",
    "unsupported",
    "watermark",
    "window",
];

/// Cases the rule would place elsewhere: topic, name, step, reason.
const LISTED: &[(&str, &str, u8, &str)] = &[(
    "stateless",
    "union_of_watermarked_and_plain",
    FOUNDATION,
    "a watermark that no stateful operator uses is only recorded in the plan",
)];

/// Cases that the rule places in later steps but that pass already; they are run so that they stay so.
const AHEAD: &str = include_str!("ahead.txt");

/// Functions that belong to the foundation: what a first filter-and-project query uses.
const FOUNDATION_FUNCTIONS: &[&str] = &[
    "ABS",
    "ARRAY",
    "CAST",
    "COALESCE",
    "CONCAT",
    "ELEMENT_AT",
    "EXPLODE",
    "EXPLODE_OUTER",
    "GET",
    "GREATEST",
    "IF",
    "IFNULL",
    "ISNOTNULL",
    "ISNULL",
    "LEAST",
    "LENGTH",
    "LOWER",
    "MAP",
    "NAMED_STRUCT",
    "NULLIF",
    "NVL",
    "NVL2",
    "ROUND",
    "SIZE",
    "SPLIT",
    "STRUCT",
    "SUBSTR",
    "SUBSTRING",
    "TRIM",
    "TRY_CAST",
    "UPPER",
];

/// Functions that make a query an aggregation even without GROUP BY.
const AGGREGATES: &[&str] = &[
    "ANY_VALUE",
    "APPROX_COUNT_DISTINCT",
    "ARRAY_AGG",
    "AVG",
    "COLLECT_LIST",
    "COLLECT_SET",
    "COUNT",
    "COUNT_IF",
    "FIRST",
    "LAST",
    "LISTAGG",
    "MAX",
    "MAX_BY",
    "MEAN",
    "MEDIAN",
    "MIN",
    "MIN_BY",
    "MODE",
    "PERCENTILE",
    "STDDEV",
    "SUM",
    "VARIANCE",
];

/// Functions of event time.
const TIME_WINDOWS: &[&str] = &["SESSION_WINDOW", "WINDOW", "WINDOW_TIME"];

/// Where a case of a topic belongs.
pub(crate) fn place(topic: &str, case: &Case) -> Placed {
    if let Some((_, _, step, why)) = LISTED
        .iter()
        .find(|(listed, name, ..)| *listed == topic && *name == case.name)
    {
        return placed(*step, *why);
    }
    if is_ahead(topic, &case.name) {
        return placed(FOUNDATION, "of a later step, passes already");
    }
    let needs = if is_refused_at_start(topic, case) {
        refusal_needs(case)
    } else {
        needs(topic, case)
    };
    let of_state = STATE_TOPICS.contains(&topic);
    needs
        .into_iter()
        .map(|need| match need.step {
            BREADTH if of_state => placed(STATE, format!("topic {topic}")),
            _ => need,
        })
        .max_by_key(|need| need.step)
        .unwrap_or_else(|| placed(FOUNDATION, "stateless"))
}

/// Whether the query of a case keeps state, or its settings are about it.
pub(crate) fn is_stateful(topic: &str, case: &Case) -> bool {
    topic == "recovery" || needs(topic, case).iter().any(|need| need.step == STATE)
}

fn is_ahead(topic: &str, name: &str) -> bool {
    AHEAD
        .lines()
        .any(|line| line.split_once('/') == Some((topic, name)))
}

fn placed(step: u8, why: impl Into<String>) -> Placed {
    Placed {
        step,
        why: why.into(),
    }
}

/// A plan that must be refused before anything runs needs the check, not the operator.
fn is_refused_at_start(topic: &str, case: &Case) -> bool {
    let at_start = |error: &crate::case::ExpectError| error.when == When::Start;
    topic == "unsupported" && case.expect_error.as_ref().is_some_and(at_start)
}

/// What refusing needs: only the arguments of time windows cannot be judged without the functions themselves.
fn refusal_needs(case: &Case) -> Vec<Placed> {
    let mut needs = Vec::new();
    for query in queries(case) {
        need_any(
            &mut needs,
            STATE,
            "a function of event time",
            &query,
            TIME_WINDOWS,
        );
    }
    needs
}

fn needs(topic: &str, case: &Case) -> Vec<Placed> {
    let mut needs = Vec::new();
    needs.extend(topic_need(topic));
    let stateful_op = case.pipeline.iter().any(|op| !matches!(op, Op::Sql { .. }));
    need(
        &mut needs,
        stateful_op,
        STATE,
        "a watermark or deduplication step",
    );
    need(
        &mut needs,
        case.trigger != Trigger::Default,
        STATE,
        "a trigger other than the default",
    );
    need(
        &mut needs,
        !case.config.is_empty(),
        STATE,
        "settings of watermark and no-data epochs",
    );
    need(
        &mut needs,
        case.output_mode == "complete",
        STATE,
        "complete mode",
    );
    let plain = |source: &crate::case::Source| source.format == "json" && source.options.is_empty();
    need(
        &mut needs,
        !case.sources.values().all(plain),
        BREADTH,
        "reader options or another format",
    );
    need(&mut needs, !case.tables.is_empty(), JOINS, "a static table");
    for query in queries(case) {
        query_needs(&query, &mut needs);
    }
    needs
}

fn topic_need(topic: &str) -> Option<Placed> {
    let step = match topic {
        "recovery" | "unsupported" => return None,
        topic if STATE_TOPICS.contains(&topic) => STATE,
        "types_nulls" | "functions" | "expressions" | "file_source" => BREADTH,
        "join_stream_static" | "join_stream_stream" => JOINS,
        _ => return None,
    };
    Some(placed(step, format!("topic {topic}")))
}

fn queries(case: &Case) -> impl Iterator<Item = Vec<Word>> {
    case.pipeline.iter().filter_map(|op| match op {
        Op::Sql { query, .. } => Some(words(query)),
        _ => None,
    })
}

fn query_needs(query: &[Word], needs: &mut Vec<Placed>) {
    for keywords in [
        &["GROUP", "BY"][..],
        &["HAVING"],
        &["SELECT", "DISTINCT"],
        &["(", "DISTINCT"],
        &["LIMIT"],
        &["OFFSET"],
        &["ORDER", "BY"],
        &["PIVOT"],
    ] {
        need(needs, has(query, keywords), STATE, &keywords.join(" "));
    }
    for keywords in [
        &["JOIN"][..],
        &["EXCEPT"],
        &["INTERSECT"],
        &["EXISTS", "(", "SELECT"],
        &["VALUES"],
        &["IN", "(", "SELECT"],
    ] {
        need(needs, has(query, keywords), JOINS, &keywords.join(" "));
    }
    need(needs, has_comma_join(query), JOINS, "a join by commas");
    need_any(needs, STATE, "an aggregate function", query, AGGREGATES);
    need_any(
        needs,
        STATE,
        "a function of event time",
        query,
        TIME_WINDOWS,
    );
    need(
        needs,
        query.contains(&Word::Arrow),
        BREADTH,
        "a lambda function",
    );
    need(needs, has(query, &["TABLESAMPLE"]), BREADTH, "TABLESAMPLE");
    for function in functions(query) {
        let known = [FOUNDATION_FUNCTIONS, AGGREGATES, TIME_WINDOWS];
        let breadth = !known.iter().any(|list| list.contains(&function));
        need(needs, breadth, BREADTH, &format!("the function {function}"));
    }
}

fn need(needs: &mut Vec<Placed>, found: bool, step: u8, why: &str) {
    if found {
        needs.push(placed(step, why));
    }
}

fn need_any(needs: &mut Vec<Placed>, step: u8, why: &str, query: &[Word], names: &[&str]) {
    let called = functions(query)
        .into_iter()
        .find(|name| names.contains(name));
    if let Some(name) = called {
        needs.push(placed(step, format!("{why}, {name}")));
    }
}
