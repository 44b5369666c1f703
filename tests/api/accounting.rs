//! Invariant E9: every row that came in is used, filtered or counted as bad; nothing is logged and dropped.

use weir::prelude::*;

use crate::support::{Home, session};

/// Runs ten records, two of them broken, through a filter and an explode; what progress and metrics say.
async fn run(mode: &str) -> (QueryProgress, Vec<(String, weir::runtime::OperatorCounts)>) {
    let home = Home::new();
    let mut lines: Vec<String> = (0..8)
        .map(|id| format!(r#"{{"id":{id},"tags":["a","b","c"]}}"#))
        .collect();
    lines.insert(3, "{broken".to_owned());
    lines.insert(6, r#"{"id":"many","tags":["x"]}"#.to_owned());
    home.put("in/a.json", &lines.join("\n"));
    let session = session();
    let query = session
        .read_stream()
        .schema("id BIGINT, tags ARRAY<STRING>")
        .option("mode", mode)
        .json(&home.text("in"))
        .unwrap()
        .filter("id >= 4")
        .unwrap()
        .select_expr(&["id", "explode(tags) AS tag"])
        .unwrap()
        .write_stream()
        .format("noop")
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for (uid, _, subtask) in query.metrics().operators() {
        let sum: &mut weir::runtime::OperatorCounts = counts.entry(uid).or_default();
        sum.rows_in += subtask.rows_in;
        sum.rows_out += subtask.rows_out;
        sum.filtered += subtask.filtered;
        sum.bad += subtask.bad;
    }
    (query.last_progress().unwrap(), counts.into_iter().collect())
}

#[tokio::test]
async fn e9_rows_in_are_rows_used_filtered_or_bad() {
    // A broken line becomes a row of nulls in permissive mode; both modes count it.
    for (mode, read) in [("PERMISSIVE", 10), ("DROPMALFORMED", 8)] {
        let (progress, counts) = run(mode).await;
        assert_eq!(progress.num_input_rows, read, "{mode}");
        assert_eq!(progress.sources[0].metrics["badRecords"], "2", "{mode}");
        let (_, filter) = counts
            .iter()
            .find(|(uid, _)| uid.starts_with("filter"))
            .unwrap();
        assert_eq!(filter.rows_in, read, "{mode}");
        assert_eq!(
            filter.rows_in,
            filter.rows_out + filter.filtered,
            "{mode}: {filter:?}"
        );
        assert_eq!((filter.rows_out, filter.bad), (4, 0), "{mode}");
        let (_, explode) = counts
            .iter()
            .find(|(uid, _)| uid.starts_with("explode"))
            .unwrap();
        assert_eq!((explode.rows_in, explode.rows_out), (4, 12), "{mode}");
        assert_eq!(progress.sink.num_output_rows, 12, "{mode}");
    }
}

#[tokio::test]
async fn e9_failfast_names_file_and_line_of_the_record_that_ends_the_query() {
    let home = Home::new();
    home.put("in/a.json", "{\"id\":1}\n{\"id\":oops}\n");
    let query = session()
        .read_stream()
        .schema("id BIGINT")
        .option("mode", "FAILFAST")
        .json(&home.text("in"))
        .unwrap()
        .write_stream()
        .format("noop")
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    let error = query.await_termination().await.unwrap_err();
    assert_eq!(error.fault(), weir::Fault::Data);
    let text = error.to_string();
    assert!(text.contains("a.json") && text.contains('2'), "{text}");
    assert_eq!(
        query.last_progress(),
        None,
        "nothing of the epoch was committed"
    );
}
