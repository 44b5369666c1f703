//! The files a case's rows become.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::case::{Case, Step, added_files};
use crate::input::{Inbox, place, source_directory, table_file};

fn case(steps: &str) -> Case {
    let text = format!(
        r#"{{"name": "x", "about": "", "sources": {{"a": {{"schema": "v INT"}}, "b": {{"schema": "v INT"}}}},
            "tables": {{"dim": {{"schema": "k STRING", "rows": [{{"k": "ü"}}]}}}}, "pipeline": [], "output_mode": "append",
            "steps": [{steps}], "columns": [], "types": [], "expect": []}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn files(added: &str) -> Vec<Vec<String>> {
    added_files(serde_json::from_str(added).unwrap()).unwrap()
}

#[test]
fn added_files_rows_keep_their_text_on_one_line() {
    assert_eq!(
        files("[{\"n\": 1.50,\n   \"s\": \"a\\nb\"}, \"raw, \\\"line\\\"\", {}]"),
        [["{\"n\": 1.50,\"s\": \"a\\nb\"}", "raw, \"line\"", "{}"]]
    );
    assert_eq!(files("[]"), [Vec::<String>::new()]);
    assert_eq!(
        files(r#"{"files": [[{"v": 1}], []]}"#),
        [vec![r#"{"v": 1}"#.to_owned()], vec![]]
    );
}

#[test]
fn inbox_files_appear_only_when_placed_and_age_in_order() {
    let home = tempfile::tempdir().unwrap();
    let case = case(
        r#"{"add": {"b": [{"v": 1}], "a": {"files": [[{"v": 2}], []]}}}, {"add": {}}, {"add": {"a": ["x"]}}"#,
    );
    let mut inbox = Inbox::create(&case, home.path()).unwrap();
    let [a, b] = ["a", "b"].map(|name| source_directory(home.path(), name));
    assert_eq!(
        fs::read_to_string(table_file(home.path(), "dim")).unwrap(),
        "{\"k\": \"ü\"}\n"
    );

    let staged = inbox.stage(&case.steps[0]).unwrap();
    assert_eq!(staged.len(), 3);
    assert_eq!(
        fs::read_dir(&a).unwrap().count() + fs::read_dir(&b).unwrap().count(),
        0
    );
    place(&staged).unwrap();
    assert_eq!(
        fs::read_to_string(a.join("part-00001")).unwrap(),
        "{\"v\": 2}\n"
    );
    assert_eq!(fs::read_to_string(a.join("part-00002")).unwrap(), "");
    assert_eq!(
        fs::read_to_string(b.join("part-00003")).unwrap(),
        "{\"v\": 1}\n"
    );

    assert!(inbox.stage(&case.steps[1]).unwrap().is_empty());
    place(&inbox.stage(&case.steps[2]).unwrap()).unwrap();
    let modified = |path: std::path::PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_010);
    assert_eq!(modified(a.join("part-00001")), start);
    assert_eq!(
        modified(a.join("part-00004")),
        start + Duration::from_secs(30)
    );
}

#[test]
fn case_restart_spellings_are_all_read() {
    let case = case(
        r#"{"restart": true}, {"restart": {"lose_commit": true}}, {"restart": {"config": {"k": "v"}}}"#,
    );
    assert!(
        case.steps
            .iter()
            .all(|step| matches!(step, Step::Restart(_)))
    );
}
