//! Sessions in a zone other than UTC: what queries compute, and what is written, is in that zone.

use weir::prelude::*;

use crate::support::{Home, add, stream};

fn session(zone: &str) -> Session {
    Session::builder()
        .parallelism(2)
        .config("weir.progressBar", false)
        .time_zone(zone)
        .build()
        .unwrap()
}

/// 2026-07-01T12:00:00Z, in summer time.
const NOON: i64 = 1_782_907_200;

#[tokio::test]
async fn a_streaming_query_computes_on_the_clock_of_its_session() {
    for (zone, expected) in [
        ("UTC", "2026-07-01 12:00:00|12|2026-07-01|1782907200"),
        (
            "Europe/Rome",
            "2026-07-01 14:00:00|14|2026-07-01|1782900000",
        ),
        (
            "America/Los_Angeles",
            "2026-07-01 05:00:00|5|2026-07-01|1782932400",
        ),
        ("+14:00", "2026-07-02 02:00:00|2|2026-07-02|1782856800"),
    ] {
        let session = session(zone);
        let (rows, frame) = stream(&session);
        let texts = frame
            .select([
                "concat_ws('|', CAST(timestamp_seconds(v) AS STRING), hour(timestamp_seconds(v)), \
                 CAST(timestamp_seconds(v) AS DATE), unix_seconds(CAST('2026-07-01 12:00:00' AS TIMESTAMP))) AS text",
            ])
            .unwrap();
        let query = texts
            .write_stream()
            .format("memory")
            .query_name("texts")
            .start()
            .await
            .unwrap();
        add(&rows, &[NOON]);
        query.process_all_available().await.unwrap();
        let found = session
            .sql("SELECT text FROM texts")
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&found)
            .unwrap()
            .to_string();
        assert!(text.contains(expected), "{zone}: {text}");
        query.stop().await;
    }
}

#[tokio::test]
async fn files_show_the_clock_of_the_session() {
    for (format, expected) in [
        ("json", r#"{"at":"2026-07-01T14:00:00.000+02:00"}"#),
        ("csv", "2026-07-01T14:00:00.000+02:00"),
    ] {
        let (home, session) = (Home::new(), session("Europe/Rome"));
        let (rows, frame) = stream(&session);
        let query = frame
            .select(["timestamp_seconds(v) AS at"])
            .unwrap()
            .write_stream()
            .format(format)
            .checkpoint(&home.text("checkpoint"))
            .option("path", home.text("out"))
            .start()
            .await
            .unwrap();
        add(&rows, &[NOON]);
        query.process_all_available().await.unwrap();
        query.stop().await;
        let written: String = std::fs::read_dir(home.path("out"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        assert!(written.contains(expected), "{format}: {written}");
    }
}

#[tokio::test]
async fn a_zone_that_is_none_is_refused_with_what_is_allowed() {
    let error = Session::builder()
        .time_zone("Mars/Base")
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("Europe/Rome"), "{error}");
    let session = session("UTC");
    assert!(
        session
            .conf()
            .set("spark.sql.session.timeZone", "soon")
            .is_err()
    );
    session
        .conf()
        .set("spark.sql.session.timeZone", "Asia/Tokyo")
        .unwrap();
    let frame = session
        .sql("SELECT hour(TIMESTAMP'2026-01-01 00:00:00Z') AS h")
        .await
        .unwrap();
    let found = frame.collect().await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&found)
        .unwrap()
        .to_string();
    assert!(text.contains("| 9 |"), "{text}");
}
