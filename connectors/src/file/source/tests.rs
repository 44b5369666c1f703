//! The rules of the file source, one by one.

#![allow(clippy::unwrap_used)]

mod listing;
mod reading;
mod support;

use std::time::Duration;

use weir_runtime::{Admission, Fault, Source};

use super::*;
use support::*;

#[tokio::test]
async fn files_come_by_modification_time_then_path_also_across_a_restart() {
    // P065.
    let dirs = Dirs::new();
    for (name, id) in [("e", 5), ("b", 2), ("a", 1), ("d", 4), ("c", 3)] {
        dirs.put(&format!("{name}.json"), &[id], 0);
    }
    dirs.put("z-first.json", &[0], -5);
    let two = || dirs.source(|source| source.max_files_per_trigger(2));
    let mut driver = Driver::start(&dirs, two()).await;
    assert_eq!(driver.trigger().await, Some(vec![0, 1]));
    let mut driver = driver.restart(two()).await;
    assert_eq!(driver.trigger().await, Some(vec![2, 3]));
    assert_eq!(driver.trigger().await, Some(vec![4, 5]));
    assert_eq!(driver.trigger().await, None);
    let mut driver = driver.restart(two()).await;
    assert_eq!(driver.trigger().await, None, "nothing is read again");
}

#[tokio::test]
async fn latest_first_takes_the_newest_first_and_ignores_the_age_limit_with_a_limit() {
    // P060.
    let dirs = Dirs::new();
    for day in 0..6 {
        dirs.put(&format!("f{day}.json"), &[day], -day * 10 * 86_400);
    }
    let mut driver = Driver::start(
        &dirs,
        dirs.source(|source| source.latest_first(true).max_files_per_trigger(1)),
    )
    .await;
    for day in 0..6 {
        assert_eq!(driver.trigger().await, Some(vec![day]));
    }
    assert_eq!(driver.trigger().await, None);
}

#[tokio::test]
async fn max_bytes_takes_what_fits_and_at_least_one_file() {
    let dirs = Dirs::new();
    for id in 0..4 {
        dirs.put(&format!("{id}.json"), &[id], id);
    }
    let size = std::fs::metadata(dirs.input.path().join("0.json"))
        .unwrap()
        .len();
    let bytes = |bytes| dirs.source(|source| source.max_bytes_per_trigger(bytes));
    let mut driver = Driver::start(&dirs, bytes(size * 2 + 1)).await;
    assert_eq!(driver.trigger().await, Some(vec![0, 1]));
    let mut driver = driver.restart(bytes(1)).await;
    assert_eq!(driver.trigger().await, Some(vec![2]));
}

#[tokio::test]
async fn admission_everything_ignores_limits() {
    let dirs = Dirs::new();
    for id in 0..4 {
        dirs.put(&format!("{id}.json"), &[id], id);
    }
    let mut driver =
        Driver::start(&dirs, dirs.source(|source| source.max_files_per_trigger(1))).await;
    assert_eq!(
        driver.trigger_with(Admission::Everything).await,
        Some(vec![0, 1, 2, 3])
    );
}

#[tokio::test]
async fn max_file_age_counts_from_the_newest_file_after_the_first_listing() {
    // P061.
    let dirs = Dirs::new();
    let source = || dirs.source(|source| source.max_file_age(Duration::from_secs(3_600)));
    dirs.put("old.json", &[1], -100_000);
    dirs.put("new.json", &[2], 0);
    let mut driver = Driver::start(&dirs, source()).await;
    assert_eq!(
        driver.trigger().await,
        Some(vec![1, 2]),
        "not on the first listing"
    );
    dirs.put("younger-than-the-limit.json", &[3], -3_000);
    dirs.put("older.json", &[4], -4_000);
    assert_eq!(driver.trigger().await, Some(vec![3]));
    let mut driver = driver.restart(source()).await;
    assert_eq!(driver.trigger().await, None, "also after a restart");
}

#[tokio::test]
async fn file_name_only_takes_a_name_once() {
    let dirs = Dirs::new();
    dirs.put("x/a.json", &[1], 0);
    dirs.put("y/a.json", &[2], 1);
    dirs.put("y/b.json", &[3], 1);
    let source = || dirs.source(|source| source.file_name_only(true).recursive_file_lookup(true));
    let mut driver = Driver::start(&dirs, source()).await;
    assert_eq!(driver.trigger().await, Some(vec![1, 3]));
    dirs.put("z/b.json", &[4], 2);
    let mut driver = driver.restart(source()).await;
    assert_eq!(driver.trigger().await, None);
}

#[tokio::test]
async fn file_rewritten_or_appended_to_is_not_read_again() {
    // P055, P062.
    let dirs = Dirs::new();
    dirs.put("a.json", &[1], 0);
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    assert_eq!(driver.trigger().await, Some(vec![1]));
    dirs.put("a.json", &[1, 2], 50);
    assert_eq!(driver.trigger().await, None);
    std::fs::rename(
        dirs.input.path().join("a.json"),
        dirs.input.path().join("b.json"),
    )
    .unwrap();
    assert_eq!(
        driver.trigger().await,
        Some(vec![1, 2]),
        "another name is another file"
    );
}

#[tokio::test]
async fn planned_epoch_is_replayed_from_the_log_whatever_the_directory_holds() {
    let dirs = Dirs::new();
    dirs.put("a.json", &[1], 0);
    dirs.put("b.json", &[2], 1);
    let source = || dirs.source(|source| source.max_files_per_trigger(2));
    let mut driver = Driver::start(&dirs, source()).await;
    let (start, end) = driver.plan().await.unwrap();
    let before = driver
        .source
        .splits(Epoch(0), start.as_ref(), &end)
        .await
        .unwrap();
    dirs.put("0-earlier.json", &[0], -5);
    let mut driver = driver.restart(source()).await;
    let after = driver
        .source
        .splits(Epoch(0), start.as_ref(), &end)
        .await
        .unwrap();
    assert_eq!(before, after);
    assert_eq!(driver.read(&after).unwrap(), vec![1, 2]);
    driver.commit(&end).await;
    assert_eq!(driver.trigger().await, Some(vec![0]));
}

#[tokio::test]
async fn epoch_logged_but_never_planned_is_chosen_anew() {
    let dirs = Dirs::new();
    dirs.put("a.json", &[1], 0);
    let source = || dirs.source(|source| source);
    let mut driver = Driver::start(&dirs, source()).await;
    let end = driver
        .source
        .latest(None, Admission::Limited)
        .await
        .unwrap()
        .unwrap();
    driver.source.log(Epoch(0), None, &end).await.unwrap();
    // Crash before the plan: the log's file is void.
    dirs.put("b.json", &[2], 1);
    let mut driver = driver.restart(source()).await;
    assert_eq!(driver.trigger().await, Some(vec![1, 2]));
}

#[tokio::test]
async fn planned_file_that_is_gone_or_changed_is_an_error_that_names_it() {
    let dirs = Dirs::new();
    for change in ["gone", "grown", "touched"] {
        let name = format!("{change}.json");
        dirs.put(&name, &[1], 0);
        let mut driver = Driver::start(
            &dirs.share(),
            dirs.source(|source| source.path_glob_filter(name.clone())),
        )
        .await;
        let (start, end) = driver.plan().await.unwrap();
        let splits = driver
            .source
            .splits(Epoch(0), start.as_ref(), &end)
            .await
            .unwrap();
        match change {
            "gone" => std::fs::remove_file(dirs.input.path().join(&name)).unwrap(),
            "grown" => dirs.put(&name, &[1, 2], 0),
            _ => dirs.put(&name, &[1], 9),
        }
        let error = driver.read(&splits).unwrap_err();
        assert_eq!(error.fault(), Fault::Data);
        assert!(error.message().contains(&name), "{error}");
    }
}

#[tokio::test]
async fn file_that_is_gone_before_it_is_planned_is_left_out() {
    let dirs = Dirs::new();
    for id in 0..4 {
        dirs.put(&format!("{id}.json"), &[id], id);
    }
    let mut driver =
        Driver::start(&dirs, dirs.source(|source| source.max_files_per_trigger(1))).await;
    driver.source.fix_end().await.unwrap();
    assert_eq!(driver.trigger().await, Some(vec![0]));
    std::fs::remove_file(dirs.input.path().join("1.json")).unwrap();
    assert_eq!(driver.trigger().await, Some(vec![2]));
}

#[tokio::test]
async fn file_that_cannot_be_looked_at_before_it_is_planned_is_an_error_that_names_it() {
    let dirs = Dirs::new();
    for id in 0..2 {
        dirs.put(&format!("{id}.json"), &[id], id);
    }
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    driver.source.fix_end().await.unwrap();
    // A link to itself is there and can be followed nowhere.
    let file = dirs.input.path().join("1.json");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let latest = driver.source.latest(None, Admission::Everything).await;
    let error = latest.unwrap_err();
    assert_eq!(error.fault(), Fault::External, "{error}");
    assert!(error.message().contains("1.json"), "{error}");
}

#[tokio::test]
async fn fixed_end_takes_nothing_that_arrives_later() {
    let dirs = Dirs::new();
    for id in 0..3 {
        dirs.put(&format!("{id}.json"), &[id], id);
    }
    let mut driver =
        Driver::start(&dirs, dirs.source(|source| source.max_files_per_trigger(2))).await;
    driver.source.fix_end().await.unwrap();
    assert_eq!(
        driver.source.backlog().map(|b| (b.done, b.total)),
        Some((0, 3))
    );
    assert_eq!(driver.trigger().await, Some(vec![0, 1]));
    dirs.put("9.json", &[9], 9);
    assert_eq!(
        driver.source.backlog().map(|b| (b.done, b.total)),
        Some((2, 3))
    );
    assert_eq!(driver.trigger().await, Some(vec![2]));
    assert_eq!(driver.trigger().await, None);
    assert_eq!(
        driver.source.backlog().map(|b| (b.done, b.total)),
        Some((3, 3))
    );
}

#[tokio::test]
async fn offsets_of_another_source_or_a_lost_log_are_refused() {
    let dirs = Dirs::new();
    dirs.put("a.json", &[1], 0);
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    let rate = serde_json::json!(4);
    let error = driver
        .source
        .latest(Some(&rate), Admission::Limited)
        .await
        .unwrap_err();
    assert_eq!(error.fault(), Fault::Checkpoint);
    let error = driver
        .source
        .splits(Epoch(0), None, &files::offset(0))
        .await
        .unwrap_err();
    assert!(error.message().contains("sources"), "{error}");
}

#[tokio::test]
async fn seen_files_survive_many_epochs_and_compactions() {
    let dirs = Dirs::new();
    let source = || dirs.source(|source| source.max_files_per_trigger(1));
    let mut driver = Driver::start(&dirs, source()).await;
    for id in 0..25 {
        dirs.put(&format!("{id}.json"), &[id], id);
        assert_eq!(driver.trigger().await, Some(vec![id]));
    }
    let logs = std::fs::read_dir(dirs.checkpoint.path().join("sources/0")).unwrap();
    let names: Vec<String> = logs
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.iter().any(|name| name.ends_with(".compact")) && names.len() < 25,
        "{names:?}"
    );
    let mut driver = driver.restart(source()).await;
    assert_eq!(driver.trigger().await, None);
}

#[tokio::test]
async fn log_line_has_sparks_fields_and_the_size() {
    let dirs = Dirs::new();
    dirs.put("a b.json", &[1], 7);
    let mut driver = Driver::start(&dirs, dirs.source(|source| source)).await;
    driver.trigger().await;
    let text = std::fs::read_to_string(dirs.checkpoint.path().join("sources/0/0")).unwrap();
    let path = format!("file://{}/a%20b.json", dirs.input.path().display());
    assert!(text.contains(&format!("\"path\":\"{path}\"")), "{text}");
    assert!(
        text.contains("\"batchId\":0")
            && text.contains("\"timestamp\":")
            && text.contains("\"size\":9"),
        "{text}"
    );
}

#[test]
fn fingerprint_has_the_path_and_not_the_limits() {
    let dirs = Dirs::new();
    let a = dirs
        .source(|source| source.max_files_per_trigger(1))
        .fingerprint();
    let b = dirs
        .source(|source| source.max_files_per_trigger(2))
        .fingerprint();
    assert_eq!(a, b);
    assert_ne!(a, Dirs::new().source(|source| source).fingerprint());
}

#[test]
fn from_options_reads_every_option_and_refuses_bad_ones() {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    let good = map(&[
        ("MaxFilesPerTrigger", "10"),
        ("mode", "failfast"),
        ("latestFirst", "TRUE"),
        ("maxFileAge", "1h"),
    ]);
    let config = FileSourceConfig::from_options("JSON", "/in", Some(schema()), &good).unwrap();
    assert_eq!(
        (config.max_files_per_trigger, config.latest_first),
        (Some(10), true)
    );
    assert_eq!(config.max_file_age, Duration::from_secs(3_600));
    let text = FileSourceConfig::from_options("text", "/in", None, &map(&[("wholetext", "true")]))
        .unwrap();
    assert_eq!(text.schema.field(0).name(), "value");
    let no_schema = FileSourceConfig::from_options("json", "/in", None, &map(&[])).unwrap_err();
    assert!(
        no_schema.message().contains("schema must be specified"),
        "{no_schema}"
    );
    for bad in [
        ("maxFilesPerTrigger", "0"),
        ("maxFilesPerTrigger", "-1"),
        ("maxFilesPerTrigger", "abc"),
        ("maxBytesPerTrigger", "1k"),
        ("maxFileAge", "soon"),
        ("mode", "lenient"),
        ("latestFirst", "yes"),
        ("cleanSource", "shred"),
        ("cleanSource", "archive"),
        ("badRecordsPath", "/bad"),
        ("encoding", "utf-7"),
        ("timestampFormat", "YYYY"),
        ("modifiedBefore", "2024-01-01"),
        ("header", "true"),
        ("discardCachedInputRatio", "7"),
        ("path", "/other"),
    ] {
        let given = match bad.0 {
            "badRecordsPath" => map(&[bad, ("mode", "PERMISSIVE")]),
            _ => map(&[bad]),
        };
        let error =
            FileSourceConfig::from_options("json", "/in", Some(schema()), &given).unwrap_err();
        assert_eq!(error.fault(), Fault::Config, "{bad:?}");
        assert!(
            error.message().contains(bad.0) && error.message().contains(bad.1)
                || bad.0 == "header"
                || bad.0 == "badRecordsPath"
                || bad.0 == "modifiedBefore",
            "{error}"
        );
    }
    let both = map(&[("maxFilesPerTrigger", "1"), ("maxBytesPerTrigger", "1")]);
    let error = FileSourceConfig::from_options("csv", "/in", Some(schema()), &both).unwrap_err();
    assert!(
        error.message().contains("maxFilesPerTrigger")
            && error.message().contains("maxBytesPerTrigger"),
        "{error}"
    );
    assert!(JsonSource::new("/in").build().is_err(), "no schema");
    assert!(
        JsonSource::new("/in")
            .schema(schema())
            .max_files_per_trigger(0)
            .build()
            .is_err()
    );
}
