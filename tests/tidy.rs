//! What the house rules say about the tree itself: who may import whom, a head on every file, no file that grew too long, and that the
//! project speaks of itself alone.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines.
const LONGEST: usize = 500;

/// Files that may be longer, each with the reason.
const LONG: [(&str, &str); 1] = [(
    "connectors/src/file/options.rs",
    "the one table of options: name, default and meaning of each",
)];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a readable tree") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() && !matches!(name, "target" | ".git" | "cases") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn all() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    rust_files(&root(), &mut paths);
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let name = path
                .strip_prefix(root())
                .expect("inside the root")
                .to_string_lossy()
                .into_owned();
            (name, fs::read_to_string(&path).expect("text"))
        })
        .collect()
}

fn offenders(rule: impl Fn(&str, &str) -> bool) -> Vec<String> {
    all()
        .into_iter()
        .filter(|(name, text)| rule(name, text))
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn every_file_has_a_head_that_says_what_it_is() {
    let without = offenders(|_, text| !text.starts_with("//!"));
    assert!(without.is_empty(), "no `//!` at the top of {without:?}");
}

#[test]
fn no_file_is_too_long() {
    let excused = |name: &str| LONG.iter().any(|(long, _)| *long == name);
    let long = offenders(|name, text| text.lines().count() > LONGEST && !excused(name));
    assert!(long.is_empty(), "more than {LONGEST} lines: {long:?}");
}

#[test]
fn crates_point_one_way() {
    let forbidden: [(&str, &[&str]); 5] = [
        (
            "state/src",
            &[
                "weir_runtime",
                "weir_operators",
                "weir_connectors",
                "actix",
                "arrow::",
                "datafusion",
            ],
        ),
        (
            "runtime/src",
            &["weir_operators", "weir_connectors", "datafusion"],
        ),
        (
            "operators/src",
            &["weir_connectors", "weir_state", "actix", "tokio"],
        ),
        ("connectors/src", &["weir_operators", "weir_sql"]),
        ("sql/src", &["weir_operators", "weir_state", "actix"]),
    ];
    for (directory, names) in forbidden {
        let importing = offenders(|name, text| {
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            name.starts_with(directory)
                && !name.contains("/tests")
                && code
                    .into_iter()
                    .any(|line| names.iter().any(|banned| line.contains(banned)))
        });
        assert!(
            importing.is_empty(),
            "{directory} must not use {names:?}: {importing:?}"
        );
    }
}

#[test]
fn actix_stays_in_the_actor_files() {
    let allowed = [
        "runtime/src/coordinator.rs",
        "runtime/src/executor.rs",
        "runtime/src/generation.rs",
        "runtime/src/listener.rs",
        "runtime/src/query.rs",
        "runtime/src/supervisor.rs",
        "runtime/src/system.rs",
        "runtime/src/task.rs",
    ];
    let importing = offenders(|name, text| {
        let library = name.starts_with("runtime/src")
            || name.starts_with("connectors/src")
            || name.starts_with("sql/src")
            || name.starts_with("src/");
        library
            && !allowed.contains(&name)
            && !name.starts_with("connectors/src/actor")
            && text.contains("use actix")
    });
    assert!(
        importing.is_empty(),
        "only actors know actix: {importing:?}"
    );
}

#[test]
fn the_operators_and_traits_of_users_know_no_actor() {
    for name in [
        "operator.rs",
        "source.rs",
        "sink.rs",
        "chain.rs",
        "protocol.rs",
        "align.rs",
        "layout.rs",
    ] {
        let text = fs::read_to_string(root().join("runtime/src").join(name)).expect("the file");
        let code: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        assert!(
            !code.iter().any(|line| line.contains("actix")),
            "{name} mentions actix"
        );
    }
}

#[test]
fn one_arrow_in_the_lock_file() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).expect("the lock file");
    for name in [
        "arrow-schema",
        "arrow-array",
        "parquet",
        "object_store",
        "datafusion",
    ] {
        let versions = lock
            .lines()
            .filter(|line| *line == format!("name = \"{name}\""))
            .count();
        assert_eq!(versions, 1, "{name} is there {versions} times");
    }
}

/// What a line of the list of seeded faults says behind `key = `, up to `end`.
fn said<'a>(fault: &'a str, key: &str, end: &str) -> &'a str {
    let begin = format!("{key} = {end}");
    let (_, rest) = fault.split_once(&begin).expect("the key");
    rest.split_once(end).expect("its end").0
}

#[test]
fn seeded_faults_are_about_the_tree_as_it_is() {
    let list = fs::read_to_string(root().join("tests/seeded_faults.toml")).expect("the list");
    let stale: Vec<&str> = list
        .split("[[fault]]")
        .skip(1)
        .filter(|fault| {
            let file = root().join(said(fault, "file", "\""));
            let text = fs::read_to_string(file).unwrap_or_default();
            text.matches(said(fault, "find", "'''")).count() != 1
        })
        .map(|fault| said(fault, "name", "\""))
        .collect();
    assert!(stale.is_empty(), "not once in their files: {stale:?}");
}
