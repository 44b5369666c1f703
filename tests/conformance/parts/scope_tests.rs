//! Which step a case belongs to, by its content.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::case::Case;
use crate::scope::{CURRENT_STEP, place};
use crate::words::{functions, words};

fn step(topic: &str, changes: Value) -> u8 {
    let mut case = json!({
        "name": "x", "about": "", "sources": {"events": {"schema": "v INT"}},
        "pipeline": [{"name": "out", "op": "sql", "query": "SELECT * FROM events"}],
        "output_mode": "append", "steps": [], "columns": [], "types": [], "expect": []
    });
    for (key, value) in changes.as_object().unwrap() {
        case[key] = value.clone();
    }
    place(
        topic,
        &serde_json::from_value::<Case>(case_text(&case)).unwrap(),
    )
    .step
}

/// Raw rows need the text, not the tree; there are none here.
fn case_text(case: &Value) -> Value {
    case.clone()
}

fn query(query: &str) -> Value {
    json!({"pipeline": [{"name": "out", "op": "sql", "query": query}]})
}

#[test]
fn place_queries_by_what_they_use() {
    for (text, expected) in [
        ("SELECT k, v + 1 AS x FROM events WHERE NOT (v > 1)", 1),
        (
            "SELECT CAST(v AS DECIMAL(3,1)) AS n, 'GROUP BY' AS s, `join` FROM events",
            1,
        ),
        ("SELECT id, x FROM events LATERAL VIEW explode(a) t AS x", 1),
        (
            "WITH big AS (SELECT k FROM events) SELECT k FROM (SELECT k FROM big) WHERE k IN ('a', 'b')",
            1,
        ),
        ("SELECT id, s FROM one UNION ALL SELECT id, s FROM two", 1),
        ("SELECT a IS DISTINCT FROM b AS x, c FROM events AS e", 1),
        ("SELECT k, count(*) AS n FROM events GROUP BY k", 2),
        ("SELECT max(v) FROM events", 2),
        ("SELECT DISTINCT k FROM events", 2),
        ("SELECT k FROM events LIMIT 3", 2),
        ("SELECT window(ts, '5 seconds') AS w FROM events", 2),
        ("SELECT from_json(js, 'a INT') AS p FROM events", 4),
        ("SELECT transform(a, x -> x + 1) AS p FROM events", 4),
        ("SELECT e.k FROM events e JOIN dim d ON e.k = d.k", 5),
        (
            "SELECT count(*) FROM events e, dim d WHERE e.k = d.k GROUP BY e.k",
            5,
        ),
        ("SELECT * FROM events WHERE k IN (SELECT k FROM dim)", 5),
        ("SELECT c.name FROM (VALUES ('a', 'b')) AS c(k, name)", 5),
    ] {
        assert_eq!(step("stateless", query(text)), expected, "{text}");
    }
}

#[test]
fn place_other_parts_of_a_case_count_too() {
    let watermark = json!({"pipeline": [
        {"name": "w", "op": "with_watermark", "input": "events", "column": "ts", "delay": "1 second"}]});
    assert_eq!(step("stateless", watermark), 2);
    assert_eq!(step("stateless", json!({"trigger": "available_now"})), 2);
    assert_eq!(step("stateless", json!({"output_mode": "complete"})), 2);
    assert_eq!(
        step(
            "stateless",
            json!({"sources": {"e": {"schema": "v INT", "format": "csv"}}})
        ),
        4
    );
    assert_eq!(
        step(
            "stateless",
            json!({"sources": {"e": {"schema": "v INT", "options": {"sep": ";"}}}})
        ),
        4
    );
    assert_eq!(step("file_source", json!({})), 4);
    assert_eq!(step("a topic nobody knows", json!({})), 1);
}

#[test]
fn place_refusals_at_the_start_need_only_the_check() {
    let error =
        |when: &str, step: Value| json!({"when": when, "step": step, "class": "", "gist": ""});
    let refused = |text: &str, when: &str, step: Value| {
        let mut case = query(text);
        case["expect_error"] = error(when, step);
        case
    };
    let join = "SELECT x.id FROM x LEFT JOIN y ON x.id = y.id";
    assert_eq!(step("unsupported", refused(join, "start", json!(null))), 1);
    assert_eq!(step("unsupported", refused(join, "run", json!(0))), 5);
    let window = "SELECT count(*) FROM events GROUP BY window(v, '5 seconds')";
    assert_eq!(
        step("unsupported", refused(window, "start", json!(null))),
        2
    );
    assert_eq!(
        step(
            "stateless",
            refused("SELECT DISTINCT k FROM events", "start", json!(null))
        ),
        2
    );
}

#[test]
fn place_all_open_cases_leaves_enough_for_the_first_step() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/cases");
    let mut steps: BTreeMap<(String, u8), usize> = BTreeMap::new();
    for topic in std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if !topic.is_dir() {
            continue;
        }
        let name = topic.file_name().unwrap().to_str().unwrap().to_owned();
        for file in std::fs::read_dir(&topic).unwrap() {
            let case = Case::read(&file.unwrap().path()).unwrap();
            *steps
                .entry((name.clone(), place(&name, &case).step))
                .or_default() += 1;
        }
    }
    let count = |topic: &str| {
        let of_topic = steps.iter().filter(|((name, _), _)| name == topic);
        let (now, all) = of_topic.fold((0, 0), |(now, all), ((_, step), count)| {
            (
                now + if *step <= CURRENT_STEP { *count } else { 0 },
                all + count,
            )
        });
        (now, all)
    };
    let (now, all) = count("stateless");
    assert!(now * 10 >= all * 6, "{now} of {all}: {steps:?}");
    for (topic, cases) in [
        ("watermark", 35),
        ("window", 21),
        ("session_window", 15),
        ("aggregate", 38),
        ("output_mode", 19),
        ("dedup", 16),
        ("chained", 8),
        ("trigger", 6),
        ("recovery", 13),
        ("pipelines", 5),
    ] {
        assert_eq!(count(topic).0, cases, "{topic}: {steps:?}");
    }
    assert!(count("unsupported").0 >= 45, "{steps:?}");
    assert_eq!(steps.values().sum::<usize>(), 368);
}

#[test]
fn functions_are_calls_and_nothing_else() {
    let query = "SELECT f(x), 'g(y)', CASE WHEN (a) THEN (b) END, h (z) FROM t AS c(k, n) WHERE x IN (1) AND `i`(2)";
    assert_eq!(functions(&words(query)), ["F", "H"]);
}
