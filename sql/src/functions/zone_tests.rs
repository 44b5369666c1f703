//! Sessions in a zone other than UTC: what Spark 4.3.0 gave in Europe/Rome for each expression, as text.

use arrow::array::{Array, AsArray};
use datafusion::prelude::SessionContext;

use super::testing::column;
use crate::session_context;

async fn text(ctx: &SessionContext, expr: &str) -> String {
    let (_, values) = column(ctx, &format!("SELECT CAST({expr} AS STRING) AS v"))
        .await
        .unwrap_or_else(|e| panic!("{expr}: {e}"));
    match values.is_null(0) {
        true => "NULL".to_owned(),
        false => values.as_string::<i32>().value(0).to_owned(),
    }
}

async fn check(zone: &str, expectations: &[(&str, &str)]) {
    let ctx = session_context(zone, 1).expect("session");
    for (expr, expected) in expectations {
        assert_eq!(text(&ctx, expr).await, *expected, "{expr} in {zone}");
    }
}

#[tokio::test]
async fn casts_read_and_write_the_clock_of_the_session() {
    check(
        "Europe/Rome",
        &[
            (
                "CAST('2026-07-01 12:00:00' AS TIMESTAMP)",
                "2026-07-01 12:00:00",
            ),
            (
                "unix_seconds(CAST('2026-07-01 12:00:00' AS TIMESTAMP))",
                "1782900000",
            ),
            // 02:30 does not exist on the first day of summer time, and is twice on the last.
            (
                "CAST('2026-03-29 02:30:00' AS TIMESTAMP)",
                "2026-03-29 03:30:00",
            ),
            (
                "unix_seconds(CAST('2026-10-25 02:30:00' AS TIMESTAMP))",
                "1792888200",
            ),
            ("TIMESTAMP'2026-07-01 12:00:00Z'", "2026-07-01 14:00:00"),
            ("TIMESTAMP'2026-01-01 12:00:00Z'", "2026-01-01 13:00:00"),
            (
                "CAST(TIMESTAMP'2026-07-01 23:30:00Z' AS DATE)",
                "2026-07-02",
            ),
            (
                "unix_seconds(CAST(DATE'2026-07-01' AS TIMESTAMP))",
                "1782856800",
            ),
            (
                "CAST(TIMESTAMP'2026-07-01 12:00:00Z' AS TIMESTAMP_NTZ)",
                "2026-07-01 14:00:00",
            ),
            (
                "unix_seconds(CAST(TIMESTAMP_NTZ'2026-07-01 12:00:00' AS TIMESTAMP))",
                "1782900000",
            ),
            // The clock of 1890 was that of the city.
            ("TIMESTAMP'1890-01-01 00:00:00Z'", "1890-01-01 00:49:56"),
            (
                "array(TIMESTAMP'2026-07-01 12:00:00Z')",
                "[2026-07-01 14:00:00]",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn fields_and_units_are_those_of_the_clock() {
    check(
        "Europe/Rome",
        &[
            ("hour(TIMESTAMP'2026-07-01 12:00:00Z')", "14"),
            ("day(TIMESTAMP'2026-06-30 23:00:00Z')", "1"),
            ("extract(HOUR FROM TIMESTAMP'2026-07-01 12:00:00Z')", "14"),
            (
                "date_trunc('DAY', TIMESTAMP'2026-07-01 12:00:00Z')",
                "2026-07-01 00:00:00",
            ),
            (
                "date_trunc('MONTH', TIMESTAMP'2026-04-15 12:00:00Z')",
                "2026-04-01 00:00:00",
            ),
            (
                "datediff(TIMESTAMP'2026-06-30 22:30:00Z', DATE'2026-06-30')",
                "1",
            ),
            (
                "months_between(TIMESTAMP'2026-03-31 22:30:00Z', TIMESTAMP'2026-02-28 23:30:00Z')",
                "1.0",
            ),
            (
                "make_timestamp(2026, 7, 1, 12, 0, 0)",
                "2026-07-01 12:00:00",
            ),
            ("current_timezone()", "Europe/Rome"),
        ],
    )
    .await;
}

#[tokio::test]
async fn patterns_and_json_are_in_the_zone() {
    check(
        "Europe/Rome",
        &[
            (
                "date_format(TIMESTAMP'2026-07-01 12:00:00Z', 'yyyy-MM-dd HH:mm XXX VV z')",
                "2026-07-01 14:00 +02:00 Europe/Rome CEST",
            ),
            ("unix_seconds(to_timestamp('01/07/2026 12:00', 'dd/MM/yyyy HH:mm'))", "1782900000"),
            ("from_unixtime(0)", "1970-01-01 01:00:00"),
            ("unix_timestamp('1970-01-01 01:00:00')", "0"),
            (
                "to_json(named_struct('t', TIMESTAMP'2026-07-01 12:00:00Z'))",
                "{\"t\":\"2026-07-01T14:00:00.000+02:00\"}",
            ),
            ("unix_seconds(from_json('{\"t\":\"2026-07-01 12:00:00\"}', 't TIMESTAMP').t)", "1782900000"),
            (
                "to_json(named_struct('t', TIMESTAMP'2026-07-01 12:00:00Z'), map('timeZone', 'UTC'))",
                "{\"t\":\"2026-07-01T12:00:00.000Z\"}",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn days_and_months_are_added_on_the_clock_and_windows_are_aligned_to_utc() {
    check(
        "Europe/Rome",
        &[
            ("TIMESTAMP'2026-03-28 12:00:00' + INTERVAL '1' DAY", "2026-03-29 12:00:00"),
            ("TIMESTAMP'2026-03-28 12:00:00' + INTERVAL '24' HOUR", "2026-03-29 12:00:00"),
            ("TIMESTAMP'2026-03-28 12:00:00' + INTERVAL '1' MONTH", "2026-04-28 12:00:00"),
            (
                "TIMESTAMP'2026-03-30 00:00:00' - TIMESTAMP'2026-03-29 00:00:00'",
                "INTERVAL '1 00:00:00' DAY TO SECOND",
            ),
            ("timestampadd(DAY, 1, TIMESTAMP'2026-03-28 12:00:00')", "2026-03-29 12:00:00"),
            ("timestampdiff(DAY, TIMESTAMP'2026-03-28 12:00:00', TIMESTAMP'2026-03-30 12:00:00')", "2"),
            ("timestampdiff(HOUR, TIMESTAMP'2026-03-29 00:00:00', TIMESTAMP'2026-03-30 00:00:00')", "24"),
            (
                "size(sequence(TIMESTAMP'2026-03-28 00:00:00', TIMESTAMP'2026-03-31 00:00:00', INTERVAL '1' DAY))",
                "4",
            ),
            ("window(TIMESTAMP'2026-07-01 12:00:00Z', '1 day').start", "2026-07-01 02:00:00"),
            ("from_utc_timestamp(TIMESTAMP'2026-07-01 12:00:00Z', 'Asia/Tokyo')", "2026-07-01 23:00:00"),
        ],
    )
    .await;
}

#[tokio::test]
async fn zones_are_regions_and_offsets() {
    check(
        "+05:30",
        &[("TIMESTAMP'2026-01-01 00:00:00Z'", "2026-01-01 05:30:00")],
    )
    .await;
    check(
        "America/Los_Angeles",
        &[("TIMESTAMP'2026-07-01 00:00:00Z'", "2026-06-30 17:00:00")],
    )
    .await;
    check(
        "UTC",
        &[("TIMESTAMP'2026-07-01 00:00:00'", "2026-07-01 00:00:00")],
    )
    .await;
}
