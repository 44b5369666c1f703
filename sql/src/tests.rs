//! Spark's answers to small queries, run as batches.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::{MemTable, ViewTable};
use datafusion::logical_expr::{Expr, LogicalPlan, col, lit};
use datafusion::prelude::SessionContext;

use super::{Generate, analyze, parse_expr, physical, plan_query, session_context};
use crate::functions::SparkError;
use crate::functions::json::{JsonDecoder, ParseMode, RecordDecoder};
use crate::functions::windows::WindowSpec;
use crate::types::{parse_schema, type_name};

/// One table as the batch of its rows, which are written as JSON.
fn batch(ddl: &str, rows: &[&str]) -> RecordBatch {
    let schema = parse_schema(ddl).expect("schema of a test");
    let texts = StringArray::from(rows.to_vec());
    let decoded = RecordDecoder
        .decode(&texts, schema.fields(), ParseMode::FailFast, "")
        .expect("rows of a test");
    RecordBatch::try_new(schema, decoded.as_struct().columns().to_vec()).expect("batch of a test")
}

/// A session with the table `events`.
fn session() -> SessionContext {
    let ctx = session_context("UTC", 1).expect("session");
    let rows = [
        r#"{"ts": "2026-01-01T00:00:01Z", "k": "a", "v": 1, "a": [1, 2, null], "m": {"x": 1}}"#,
        r#"{"ts": "2026-01-01T00:00:07Z", "k": "b", "v": 3, "a": [], "m": {}}"#,
        r#"{"ts": null, "k": null, "v": null}"#,
    ];
    let events = batch(
        "ts TIMESTAMP, k STRING, v BIGINT, a ARRAY<INT>, m MAP<STRING, INT>",
        &rows,
    );
    let table = MemTable::try_new(events.schema(), vec![vec![events]]).expect("table");
    ctx.register_table("events", Arc::new(table))
        .expect("table");
    ctx
}

/// Column names with types, and rows as text.
async fn answer(sql: &str) -> Result<(String, Vec<String>)> {
    let ctx = session();
    let plan = plan_query(&ctx, sql).await?;
    let columns = plan
        .schema()
        .fields()
        .iter()
        .map(|f| format!("{} {}", f.name(), type_name(f.data_type())));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let batches = ctx.execute_logical_plan(plan).await?.collect().await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = vec![];
    for batch in batches {
        let cells: Vec<_> = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
            .collect::<Result<_, _>>()?;
        rows.extend((0..batch.num_rows()).map(|i| {
            cells
                .iter()
                .map(|c| c.value(i).to_string())
                .collect::<Vec<_>>()
                .join("|")
        }));
    }
    Ok((columns, rows))
}

/// Spark's condition of the error that a query ends in.
async fn condition(sql: &str) -> String {
    match answer(sql).await {
        Ok((_, rows)) => format!("no error but {rows:?}"),
        Err(e) => SparkError::find(&e).map_or_else(|| e.to_string(), |s| s.condition.to_owned()),
    }
}

#[tokio::test]
async fn literals_have_sparks_types() -> Result<()> {
    let (columns, rows) = answer("SELECT 1 AS i, 1L AS l, 1.50 AS d, 1e0 AS x, -2147483648 AS n, 2147483648 AS b, NULL AS v, array(1, 2) AS a, map('k', 1) AS m, named_struct('p', 1) AS s").await?;
    assert_eq!(
        columns,
        "i INT, l BIGINT, d DECIMAL(3,2), x DOUBLE, n INT, b BIGINT, v VOID, a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<p: INT>"
    );
    assert_eq!(
        rows,
        ["1|1|1.50|1.0|-2147483648|2147483648|NULL|[1, 2]|{k: 1}|{p: 1}"]
    );
    Ok(())
}

#[tokio::test]
async fn arithmetic_has_sparks_types() -> Result<()> {
    let sql = "SELECT v + 1 AS a, CAST(v AS INT) + CAST(1 AS TINYINT) AS b, v / 2 AS c, v DIV 2 AS d, v % 2 AS e, v * 1.5 AS f, -v AS g, 10 DIV 3 + 1 AS h FROM events WHERE v = 3";
    let (columns, rows) = answer(sql).await?;
    assert_eq!(
        columns,
        "a BIGINT, b INT, c DOUBLE, d BIGINT, e BIGINT, f DECIMAL(23,1), g BIGINT, h BIGINT"
    );
    assert_eq!(rows, ["4|4|1.5|1|1|4.5|-3|4"]);
    Ok(())
}

#[tokio::test]
async fn data_errors_carry_sparks_condition() {
    for (sql, wanted) in [
        ("SELECT 10 / (v - 1) FROM events", "DIVIDE_BY_ZERO"),
        ("SELECT v % (v - 1) FROM events", "REMAINDER_BY_ZERO"),
        (
            "SELECT v + 9223372036854775807 FROM events",
            "ARITHMETIC_OVERFLOW",
        ),
        (
            "SELECT CAST(v AS TINYINT) * CAST(100 AS TINYINT) FROM events",
            "BINARY_ARITHMETIC_OVERFLOW",
        ),
        ("SELECT CAST(k AS INT) FROM events", "CAST_INVALID_INPUT"),
        (
            "SELECT CAST(v * 1000 AS TINYINT) FROM events",
            "CAST_OVERFLOW",
        ),
        (
            "SELECT CAST(v * 100 AS DECIMAL(3,1)) FROM events",
            "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        ),
        ("SELECT a[7] FROM events WHERE v = 1", "INVALID_ARRAY_INDEX"),
        (
            "SELECT from_json(k, 'x INT', map('mode', 'FAILFAST')) FROM events",
            "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
        ),
        (
            "SELECT sum(v + 9223372036854775804) FROM events",
            "ARITHMETIC_OVERFLOW",
        ),
    ] {
        assert_eq!(condition(sql).await, wanted, "{sql}");
    }
}

#[tokio::test]
async fn plans_that_spark_refuses_are_refused() {
    for (sql, wanted) in [
        ("SELECT kk FROM events", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("SELECT no_such(k) FROM events", "UNRESOLVED_ROUTINE"),
        ("SELECT m + v FROM events", "DATATYPE_MISMATCH"),
        (
            "SELECT k, v FROM events UNION ALL SELECT k FROM events",
            "NUM_COLUMNS_MISMATCH",
        ),
        (
            "SELECT k FROM events WHERE count(*) > 1",
            "INVALID_WHERE_CONDITION",
        ),
        (
            "SELECT k, v, count(*) FROM events GROUP BY k",
            "MISSING_AGGREGATION",
        ),
        ("SELEKT k FROM events", "PARSE_SYNTAX_ERROR"),
        ("SELECT k FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND"),
        (
            "SELECT count(*) FROM events GROUP BY window(v, '5 seconds')",
            "DATATYPE_MISMATCH",
        ),
        (
            "SELECT count(*) FROM events GROUP BY window(ts, '0 seconds')",
            "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
        ),
        (
            "SELECT count(*) FROM events GROUP BY window(ts, '1 month')",
            "DATATYPE_MISMATCH",
        ),
        (
            "SELECT count(*) FROM events GROUP BY window(ts, '5 seconds', '6 seconds')",
            "DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION",
        ),
        (
            "SELECT count(*) FROM events GROUP BY window(ts, '5 seconds'), window(ts, '6 seconds')",
            "UNSUPPORTED_FEATURE.MULTIPLE_WINDOWS",
        ),
    ] {
        assert_eq!(condition(sql).await, wanted, "{sql}");
    }
}

#[tokio::test]
async fn try_functions_give_null() -> Result<()> {
    let (_, rows) = answer("SELECT try_divide(1, v - 1) AS a, try_add(9223372036854775807, v) AS b, try_cast(k AS INT) AS c, get(a, 9) AS d, try_element_at(a, 9) AS e, m['no'] AS f FROM events WHERE v = 1").await?;
    assert_eq!(rows, ["NULL|NULL|NULL|NULL|NULL|NULL"]);
    Ok(())
}

#[tokio::test]
async fn names_resolve_without_case_and_keep_the_querys_spelling() -> Result<()> {
    let (columns, rows) =
        answer("SELECT K, Count(*), v + 1, E.V AS n FROM EVENTS e WHERE V = 3 GROUP BY k, v")
            .await?;
    assert_eq!(
        columns,
        "K STRING, count(1) BIGINT, (v + 1) BIGINT, n BIGINT"
    );
    assert_eq!(rows, ["b|1|4|3"]);
    Ok(())
}

#[tokio::test]
async fn explode_drops_empty_and_null_arrays_outer_keeps_them() -> Result<()> {
    let (columns, rows) = answer("SELECT k, x FROM events LATERAL VIEW explode(a) t AS x").await?;
    assert_eq!(columns, "k STRING, x INT");
    assert_eq!(rows, ["a|1", "a|2", "a|NULL"]);
    let (_, rows) = answer("SELECT k, posexplode_outer(a) AS (p, x) FROM events").await?;
    assert_eq!(
        rows,
        [
            "a|0|1",
            "a|1|2",
            "a|2|NULL",
            "b|NULL|NULL",
            "NULL|NULL|NULL"
        ]
    );
    let (columns, rows) = answer("SELECT explode(m) FROM events WHERE v > 0").await?;
    assert_eq!(
        (columns.as_str(), rows),
        ("key STRING, value INT", vec!["x|1".to_owned()])
    );
    Ok(())
}

#[tokio::test]
async fn union_widens_below_the_expressions_above_it() -> Result<()> {
    let (columns, _) = answer("SELECT n + 1 AS m FROM (SELECT CAST(v AS INT) AS n FROM events UNION ALL SELECT v FROM events)").await?;
    assert_eq!(columns, "m BIGINT");
    Ok(())
}

#[tokio::test]
async fn window_groups_keep_their_marker_and_run_in_a_batch() -> Result<()> {
    let sql = "SELECT window.start AS s, count(*) AS n FROM events GROUP BY window(ts, '10 seconds', '5 seconds') ORDER BY s";
    let plan = plan_query(&session(), sql).await?;
    let mut spec = None;
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    plan.apply(|node| {
        if let LogicalPlan::Aggregate(a) = node {
            spec = a.group_expr.iter().find_map(WindowSpec::of);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    assert!(
        matches!(
            spec,
            Some(WindowSpec::Fixed {
                size: 10_000_000,
                slide: 5_000_000,
                start: 0,
                ..
            })
        ),
        "{spec:?}"
    );
    let (columns, rows) = answer(sql).await?;
    assert_eq!(columns, "s TIMESTAMP, n BIGINT");
    assert_eq!(
        rows,
        [
            "2025-12-31T23:59:55Z|1",
            "2026-01-01T00:00:00Z|2",
            "2026-01-01T00:00:05Z|1"
        ]
    );
    Ok(())
}

#[tokio::test]
async fn joins_using_show_the_column_once_and_first() -> Result<()> {
    let (columns, rows) =
        answer("SELECT * FROM events JOIN (VALUES (1L, 'one')) AS d(v, label) USING (v)").await?;
    let (shown, rest) = columns.split_at(9);
    assert_eq!(
        (shown, rest.ends_with("label STRING")),
        ("v BIGINT,", true),
        "{columns}"
    );
    assert_eq!(rows.len(), 1);
    Ok(())
}

#[tokio::test]
async fn analyze_twice_changes_nothing() -> Result<()> {
    let ctx = session();
    let plan = plan_query(&ctx, "SELECT k, CASE WHEN v > '1' THEN 1 ELSE 2.5 END AS c, x FROM events LATERAL VIEW explode(a) t AS x WHERE v IN (1, 2L)").await?;
    let again = analyze(&ctx, plan.clone())?;
    assert_eq!(
        plan.display_indent_schema().to_string(),
        again.display_indent_schema().to_string()
    );
    Ok(())
}

#[tokio::test]
async fn views_are_read_with_the_types_they_have() -> Result<()> {
    let ctx = session();
    let view = plan_query(
        &ctx,
        "SELECT v * 2 AS Twice FROM events LATERAL VIEW explode(a) t AS x",
    )
    .await?;
    ctx.register_table("doubled", Arc::new(ViewTable::new(view, None)))?;
    let plan = plan_query(&ctx, "SELECT twice + 1 AS w FROM doubled").await?;
    let mut generates = 0;
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    plan.apply(|node| {
        generates += usize::from(Generate::of(node).is_some());
        Ok(TreeNodeRecursion::Continue)
    })?;
    assert_eq!(generates, 1);
    let rows: usize = ctx
        .execute_logical_plan(plan)
        .await?
        .collect()
        .await?
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(rows, 3);
    Ok(())
}

#[tokio::test]
async fn expressions_run_over_batches() -> Result<()> {
    let ctx = session();
    let events = batch(
        "k STRING, v INT",
        &[r#"{"k": "7", "v": 1}"#, r#"{"k": "x", "v": 2}"#],
    );
    let schema = DFSchema::try_from(events.schema())?;
    let now = datafusion::physical_expr::expressions::lit(0);
    let sum = parse_expr(&ctx, "V + 1 AS w", &schema)?;
    assert!(matches!(&sum, Expr::Alias(a) if a.name == "w"));
    let out = physical(&ctx, &sum, &schema, &now)?
        .evaluate(&events)?
        .into_array(2)?;
    assert_eq!(
        out.as_primitive::<arrow::datatypes::Int32Type>().values(),
        &[2, 3]
    );
    let built = physical(&ctx, &(col("v") * lit(i32::MAX)), &schema, &now)?;
    let error = built.evaluate(&events).expect_err("2 * i32::MAX overflows");
    assert_eq!(
        SparkError::find(&error).map(|e| e.condition),
        Some("ARITHMETIC_OVERFLOW")
    );
    assert!(parse_expr(&ctx, "nope + 1", &schema).is_err());
    assert!(parse_expr(&ctx, "*", &schema).is_err());
    let nulls = parse_expr(&ctx, "coalesce(try_cast(k AS INT), v) > 1", &schema)?;
    let out = physical(&ctx, &nulls, &schema, &now)?
        .evaluate(&events)?
        .into_array(2)?;
    assert_eq!(out.as_boolean().true_count() + out.null_count(), 2);
    Ok(())
}
