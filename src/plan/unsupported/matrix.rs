//! Every query shape of Spark's operation × output mode matrix, planned in each mode and compared with what Spark said.
//!
//! `mode_matrix.json` holds Spark 4.3.0's verdicts as measured; [`SHAPES`] says how each is written here, [`DECIDED`] where this
//! engine answers otherwise on purpose.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::tests::{planned, session, stream};
use super::*;
use crate::dataframe::DataFrame;
use crate::session::Session;

/// How a shape of the matrix is written.
enum Shape {
    Sql(&'static str),
    /// By calls of frames.
    Frame(fn(&Session) -> Result<DataFrame>),
    /// A query with a join or a subquery, which do not run yet: refused by name where Spark accepts.
    Later(&'static str),
    /// There is no way to write it; the reason.
    Absent(&'static str),
}
use Shape::{Absent, Frame, Later, Sql};

fn table(session: &Session, name: &str) -> DataFrame {
    futures::executor::block_on(session.table(name)).unwrap()
}

fn sql_over(session: &Session, frame: &DataFrame, sql: &str) -> Result<DataFrame> {
    frame.create_or_replace_temp_view("below")?;
    futures::executor::block_on(session.sql(sql))
}

const WINDOWED: &str = "SELECT window, count(*) AS n FROM below GROUP BY window(ts, '5 seconds')";
const NO_PYTHON: &str = "functions of the user over groups are custom operators of a topology here";

#[rustfmt::skip] // one line per shape
const SHAPES: &[(&str, Shape)] = &[
    ("select/filter/withColumn", Sql("SELECT k, v + 1 AS w FROM events WHERE v > 3")),
    ("explode", Sql("SELECT k, x FROM events LATERAL VIEW explode(map_keys(m)) AS x")),
    ("map/flatMap via mapInPandas", Absent("functions over batches are operators of a topology here")),
    ("union stream+stream", Sql("SELECT k FROM events UNION ALL SELECT id FROM others")),
    ("union stream+static", Sql("SELECT k FROM events UNION ALL SELECT k FROM dim")),
    ("repartition", Frame(|s| table(s, "events").repartition(3))),
    ("repartitionByRange", Absent("frames have no repartition by range")),
    ("coalesce", Frame(|s| table(s, "events").coalesce(1))),
    ("groupBy(key) agg, no watermark", Sql("SELECT k, count(*) AS n FROM events GROUP BY k")),
    ("global agg, no watermark", Sql("SELECT count(*) AS n FROM events")),
    ("groupBy(key) agg, watermark on other col", Sql("SELECT k, count(*) AS n FROM e GROUP BY k")),
    ("groupBy(event-time col) with watermark", Sql("SELECT ts, count(*) AS n FROM e GROUP BY ts")),
    ("groupBy(window) no watermark", Sql("SELECT window, count(*) AS n FROM events GROUP BY window(ts, '5 seconds')")),
    ("groupBy(window,key) with watermark", Sql("SELECT window, k, count(*) AS n FROM e GROUP BY window(ts, '5 seconds'), k")),
    ("groupBy(sliding window) with watermark", Sql("SELECT window, count(*) AS n FROM e GROUP BY window(ts, '10 seconds', '5 seconds')")),
    ("session_window + key, watermark", Sql("SELECT k, count(*) AS n FROM e GROUP BY session_window(ts, '5 seconds'), k")),
    ("session_window + key, no watermark", Sql("SELECT k, count(*) AS n FROM events GROUP BY session_window(ts, '5 seconds'), k")),
    ("session_window only (no key), watermark", Sql("SELECT count(*) AS n FROM e GROUP BY session_window(ts, '5 seconds')")),
    ("session_window dynamic gap", Sql("SELECT k, count(*) AS n FROM e GROUP BY session_window(ts, CASE WHEN k = 'a' THEN '5 seconds' ELSE '10 seconds' END), k")),
    ("agg then withWatermark after", Frame(|s| {
        let sql = "SELECT ts, count(*) AS n FROM below GROUP BY ts";
        sql_over(s, &table(s, "events"), sql)?.with_watermark("ts", "10 seconds")
    })),
    ("count distinct", Sql("SELECT window, count(DISTINCT v) AS n FROM e GROUP BY window(ts, '5 seconds')")),
    ("approx_count_distinct", Sql("SELECT window, approx_count_distinct(v) AS n FROM e GROUP BY window(ts, '5 seconds')")),
    ("collect_list", Sql("SELECT window, collect_list(v) AS n FROM e GROUP BY window(ts, '5 seconds')")),
    ("percentile (exact)", Sql("SELECT window, median(v) AS n FROM e GROUP BY window(ts, '5 seconds')")),
    ("percentile_approx", Sql("SELECT window, percentile_approx(v, 0.5) AS n FROM e GROUP BY window(ts, '5 seconds')")),
    ("agg FILTER(WHERE)", Sql("SELECT window, count(*) FILTER (WHERE v > 1) AS n FROM e GROUP BY window(ts, '5 seconds')")),
    ("rollup", Sql("SELECT k, count(*) AS n FROM events GROUP BY ROLLUP (k)")),
    ("cube", Sql("SELECT k, count(*) AS n FROM events GROUP BY CUBE (k)")),
    ("pivot", Absent("SQL refuses PIVOT for streams and tables alike")),
    ("sort on raw", Sql("SELECT * FROM events ORDER BY v")),
    ("sort on agg", Sql("SELECT window, count(*) AS n FROM e GROUP BY window(ts, '5 seconds') ORDER BY n")),
    ("sortWithinPartitions", Absent("frames have no sort within partitions")),
    ("limit on raw", Sql("SELECT k FROM events LIMIT 2")),
    ("limit on agg", Sql("SELECT window, count(*) AS n FROM e GROUP BY window(ts, '5 seconds') LIMIT 2")),
    ("offset", Frame(|s| table(s, "events").offset(2))),
    ("sample", Absent("SQL refuses TABLESAMPLE for streams and tables alike")),
    ("distinct()", Frame(|s| table(s, "events").drop(&["m"])?.distinct())),
    ("dropDuplicates(key) no wm", Frame(|s| table(s, "events").drop_duplicates(&["k"]))),
    ("dropDuplicates(key) wm not in keys", Frame(|s| table(s, "e").drop_duplicates(&["k"]))),
    ("dropDuplicates(key,ts) wm", Frame(|s| table(s, "e").drop_duplicates(&["k", "ts"]))),
    ("dropDuplicatesWithinWatermark(key)", Frame(|s| table(s, "e").drop_duplicates_within_watermark(&["k"]))),
    ("dropDuplicatesWithinWatermark no wm", Frame(|s| table(s, "events").drop_duplicates_within_watermark(&["k"]))),
    ("row_number over window", Sql("SELECT k, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM events")),
    ("monotonically_increasing_id", Sql("SELECT monotonically_increasing_id() AS id FROM events")),
    ("rand()", Sql("SELECT k, rand() AS r FROM events")),
    ("current_timestamp()", Sql("SELECT k, current_timestamp() AS t FROM events")),
    ("scalar subquery on static", Later("SELECT k, (SELECT max(label) FROM dim) AS l FROM events")),
    ("IN subquery static", Later("SELECT k FROM events WHERE k IN (SELECT k FROM dim)")),
    ("NOT IN subquery static", Later("SELECT k FROM events WHERE k NOT IN (SELECT k FROM dim)")),
    ("intersect stream+stream", Later("SELECT k FROM events INTERSECT SELECT id FROM others")),
    ("except stream-static", Later("SELECT k FROM events EXCEPT SELECT k FROM dim")),
    ("except(distinct) stream-static", Later("SELECT k FROM events EXCEPT DISTINCT SELECT k FROM dim")),
    ("except static-stream", Later("SELECT k FROM dim EXCEPT SELECT k FROM events")),
    ("stream-static inner", Later("SELECT e.k FROM events e JOIN dim d ON e.k = d.k")),
    ("stream-static cross", Later("SELECT e.k FROM events e CROSS JOIN dim d")),
    ("stream-static left", Later("SELECT e.k FROM events e LEFT JOIN dim d ON e.k = d.k")),
    ("stream-static right", Later("SELECT e.k FROM events e RIGHT JOIN dim d ON e.k = d.k")),
    ("stream-static full", Later("SELECT e.k FROM events e FULL JOIN dim d ON e.k = d.k")),
    ("stream-static left_semi", Later("SELECT e.k FROM events e LEFT SEMI JOIN dim d ON e.k = d.k")),
    ("stream-static left_anti", Later("SELECT e.k FROM events e LEFT ANTI JOIN dim d ON e.k = d.k")),
    ("static-stream inner", Later("SELECT e.k FROM dim d JOIN events e ON e.k = d.k")),
    ("static-stream left", Later("SELECT e.k FROM dim d LEFT JOIN events e ON e.k = d.k")),
    ("static-stream right", Later("SELECT e.k FROM dim d RIGHT JOIN events e ON e.k = d.k")),
    ("static-stream full", Later("SELECT e.k FROM dim d FULL JOIN events e ON e.k = d.k")),
    ("static-stream left_semi", Later("SELECT d.k FROM dim d LEFT SEMI JOIN events e ON e.k = d.k")),
    ("static-stream left_anti", Later("SELECT d.k FROM dim d LEFT ANTI JOIN events e ON e.k = d.k")),
    ("ss inner, no wm, equi", Later("SELECT e.k FROM events e JOIN others o ON e.k = o.id")),
    ("ss inner, wm, range", Later("SELECT e.k FROM e JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss inner non-equi", Later("SELECT e.k FROM e JOIN o ON o.cts > e.ts AND o.cts < e.ts + INTERVAL 5 SECONDS")),
    ("ss cross", Later("SELECT e.k FROM events e CROSS JOIN others o")),
    ("ss left, no wm", Later("SELECT e.k FROM events e LEFT JOIN others o ON e.k = o.id")),
    ("ss left, wm both, range", Later("SELECT e.k FROM e LEFT JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss left, wm right only, range", Later("SELECT e.k FROM events e LEFT JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss left, wm left only, range", Later("SELECT e.k FROM e LEFT JOIN others o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss left, wm both, equi only", Later("SELECT e.k FROM e LEFT JOIN o ON e.k = o.id")),
    ("ss right, wm both, range", Later("SELECT e.k FROM e RIGHT JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss right, wm left only, range", Later("SELECT e.k FROM e RIGHT JOIN others o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss right, wm right only, range", Later("SELECT e.k FROM events e RIGHT JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss full, wm both, range", Later("SELECT e.k FROM e FULL JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss full, wm one side, range", Later("SELECT e.k FROM e FULL JOIN others o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss left_semi, wm both, range", Later("SELECT e.k FROM e LEFT SEMI JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss left_semi, no wm", Later("SELECT e.k FROM events e LEFT SEMI JOIN others o ON e.k = o.id")),
    ("ss left_anti, wm both, range", Later("SELECT e.k FROM e LEFT ANTI JOIN o ON e.k = o.id AND o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS")),
    ("ss inner on window col", Later(
        "SELECT a.n FROM (SELECT window AS w, count(*) AS n FROM e GROUP BY window(ts, '5 seconds')) a JOIN \
         (SELECT window AS w, count(*) AS m FROM o GROUP BY window(cts, '5 seconds')) b ON a.w = b.w",
    )),
    ("agg(window) -> agg(window_time)", Sql(
        "SELECT window(t, '10 seconds') AS w, sum(n) AS s FROM (SELECT window_time(window) AS t, n FROM \
         (SELECT window, count(*) AS n FROM e GROUP BY window(ts, '5 seconds'))) GROUP BY window(t, '10 seconds')",
    )),
    ("agg(window) -> agg(window(window))", Sql(
        "SELECT window(w, '10 seconds') AS u, sum(n) AS s FROM \
         (SELECT window AS w, count(*) AS n FROM e GROUP BY window(ts, '5 seconds')) GROUP BY window(w, '10 seconds')",
    )),
    ("dedup -> agg(window)", Frame(|s| sql_over(s, &table(s, "e").drop_duplicates(&["k", "ts"])?, WINDOWED))),
    ("dedup(no ts) -> agg(window)", Frame(|s| sql_over(s, &table(s, "e").drop_duplicates(&["k"])?, WINDOWED))),
    ("agg(window) -> dedup", Frame(|s| sql_over(s, &table(s, "e"), WINDOWED)?.drop_duplicates(&["window"]))),
    ("ss inner range -> agg(window)", Later(
        "SELECT window, count(*) AS n FROM (SELECT e.ts AS ts FROM e JOIN o ON e.k = o.id AND \
         o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS) GROUP BY window(ts, '5 seconds')",
    )),
    ("ss left range -> agg(window)", Later(
        "SELECT window, count(*) AS n FROM (SELECT e.ts AS ts FROM e LEFT JOIN o ON e.k = o.id AND \
         o.cts BETWEEN e.ts AND e.ts + INTERVAL 5 SECONDS) GROUP BY window(ts, '5 seconds')",
    )),
    ("agg(no wm) -> agg", Sql("SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM events GROUP BY k) GROUP BY n")),
    ("applyInPandasWithState append/NoTimeout", Absent(NO_PYTHON)),
    ("applyInPandasWithState update/NoTimeout", Absent(NO_PYTHON)),
    ("applyInPandasWithState append/EventTime no wm", Absent(NO_PYTHON)),
    ("applyInPandasWithState append -> agg", Absent(NO_PYTHON)),
    ("agg -> applyInPandasWithState append", Absent(NO_PYTHON)),
    ("two applyInPandasWithState", Absent(NO_PYTHON)),
    ("transformWithState Append/None", Absent(NO_PYTHON)),
    ("transformWithState Update/ProcessingTime", Absent(NO_PYTHON)),
    ("transformWithState Append/EventTime no wm", Absent(NO_PYTHON)),
    ("transformWithState Append -> agg(window)", Absent(NO_PYTHON)),
    ("agg(window) -> transformWithState Append", Absent(NO_PYTHON)),
    ("two withWatermark same stream (two cols)", Frame(|s| {
        stream(s, "two", "a TIMESTAMP, b TIMESTAMP").with_watermark("a", "1 second")?.with_watermark("b", "1 second")
    })),
    ("withWatermark twice same col", Frame(|s| table(s, "e").with_watermark("ts", "20 seconds"))),
    ("withWatermark twice + window agg", Frame(|s| {
        sql_over(s, &table(s, "e").with_watermark("ts", "20 seconds")?, WINDOWED)
    })),
    ("withWatermark nested field", Frame(|s| {
        let nested = table(s, "events").select_expr(&["named_struct('t', ts) AS s", "k"])?;
        nested.with_watermark("s.t", "1 second")
    })),
    ("withWatermark on string col", Frame(|s| table(s, "events").with_watermark("k", "1 second"))),
    ("withWatermark negative delay", Frame(|s| {
        sql_over(s, &table(s, "events").with_watermark("ts", "-1 second")?, WINDOWED)
    })),
    ("withWatermark 1 month", Frame(|s| table(s, "events").with_watermark("ts", "1 month"))),
];

/// Shape, mode, whether it is accepted here, and why Spark's verdict is not followed.
#[rustfmt::skip] // one line per decision
const DECIDED: &[(&str, OutputMode, bool, &str)] = &[
    ("count distinct", OutputMode::Append, true, "exact distinct counts run"),
    ("count distinct", OutputMode::Update, true, "exact distinct counts run"),
    ("count distinct", OutputMode::Complete, true, "exact distinct counts run"),
    ("session_window + key, watermark", OutputMode::Update, true, "sessions that merge are told as changes"),
    ("session_window + key, no watermark", OutputMode::Update, true, "sessions that merge are told as changes"),
    ("session_window dynamic gap", OutputMode::Update, true, "sessions that merge are told as changes"),
    ("session_window only (no key), watermark", OutputMode::Append, true, "one key group without a key"),
    ("session_window only (no key), watermark", OutputMode::Update, true, "one key group without a key"),
    ("session_window only (no key), watermark", OutputMode::Complete, true, "one key group without a key"),
    ("agg(window) -> agg(window_time)", OutputMode::Update, true, "old results are taken back"),
    ("agg(window) -> agg(window(window))", OutputMode::Update, true, "old results are taken back"),
    ("agg(no wm) -> agg", OutputMode::Update, true, "old results are taken back"),
];

fn mode_name(mode: OutputMode) -> String {
    mode.to_string()
}

/// Spark's verdicts by shape; a query that fails when it runs counts as refused.
fn verdicts() -> BTreeMap<String, Value> {
    let matrix: Value = serde_json::from_str(include_str!("mode_matrix.json")).unwrap();
    let queries = matrix["queries"].as_object().unwrap();
    queries
        .iter()
        .map(|(name, modes)| (name.clone(), modes.clone()))
        .collect()
}

fn frame(shape: &Shape, session: &Session) -> Option<Result<DataFrame>> {
    match shape {
        Sql(text) | Later(text) => Some(futures::executor::block_on(session.sql(text))),
        Frame(make) => Some(make(session)),
        Absent(_) => None,
    }
}

/// What is wrong with our verdict, if anything.
fn differs(shape: &Shape, accepted: bool, ours: &Result<()>) -> Option<String> {
    let error = ours.as_ref().err();
    let not_yet = error.is_some_and(|error| error.condition() == Some("NOT_YET_SUPPORTED"));
    let refused = error.is_some_and(|error| error.fault() == weir_runtime::Fault::Plan);
    let fine = match (accepted, shape) {
        (true, Later(_)) => not_yet,
        (true, _) => ours.is_ok(),
        (false, Later(_)) => refused,
        (false, _) => refused && !not_yet,
    };
    (!fine).then(|| format!("accepted: {accepted}, here: {ours:?}"))
}

#[test]
fn every_shape_of_the_matrix_is_accepted_or_refused_as_decided() {
    let session = session();
    let mut wrong = Vec::new();
    let shapes: BTreeMap<&str, &Shape> =
        SHAPES.iter().map(|(name, shape)| (*name, shape)).collect();
    for (name, modes) in verdicts() {
        let shape = shapes[name.as_str()];
        for mode in [OutputMode::Append, OutputMode::Update, OutputMode::Complete] {
            let Some(frame) = frame(shape, &session) else {
                continue;
            };
            let spark = modes[mode_name(mode)] == "accepted";
            let decided = DECIDED
                .iter()
                .find(|(of, at, ..)| *of == name && *at == mode);
            let accepted = decided.map_or(spark, |(_, _, accepted, _)| *accepted);
            let ours = frame.and_then(|frame| planned(&frame, mode));
            wrong.extend(
                differs(shape, accepted, &ours).map(|what| format!("{name} in {mode}: {what}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_list_of_shapes_is_that_of_the_matrix_and_decisions_differ_from_it() {
    let verdicts = verdicts();
    let listed: BTreeSet<&str> = SHAPES.iter().map(|(name, _)| *name).collect();
    let known: BTreeSet<&str> = verdicts.keys().map(String::as_str).collect();
    assert_eq!(listed, known);
    for (name, mode, accepted, why) in DECIDED {
        let spark = verdicts[*name][mode_name(*mode)] == "accepted";
        assert_ne!(
            spark, *accepted,
            "{name} in {mode} is what Spark says: {why}"
        );
    }
    let reasons = SHAPES.iter().filter_map(|(_, shape)| match shape {
        Absent(reason) => Some(reason),
        _ => None,
    });
    assert!(reasons.into_iter().all(|reason| !reason.is_empty()));
}
