//! Conformance: streaming queries with the results Apache Spark gave, run through Weir.
//!
//! `cargo test --test conformance [-- TEXT]` runs the cases of the steps that have come, those whose
//! `topic/name` contains TEXT, and ends with exactly one line `N passed, M failed`; it fails if M is not 0.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CONFORMANCE_DIR` | run the cases of this directory (one sub-directory a topic) instead of `cases/` |
//! | `CONFORMANCE_REPORT` | write one JSON line a case to this file |
//! | `CONFORMANCE_ALL=1` | also run the cases of steps that have not come |
//! | `CONFORMANCE_EPOCHS=0` | compare step by step only, not epoch by epoch |
//! | `CONFORMANCE_WAYS` | run stateful cases in these ways (`straight`, `restarted`, `rescaled`, `replayed`), all by default |
//! | `CONFORMANCE_SECONDS` | how long one case may take in one way, 60 by default |
//!
//! `case.rs` reads a case, `scope.rs` says which step it belongs to, `input.rs` makes the files, `run.rs`
//! does the steps through `driver.rs` in one of the ways of `ways.rs`, `value.rs` spells what came out, `judge.rs` and `compare.rs` compare,
//! `expressions.rs` counts columns.

mod calendar;
mod case;
mod collector;
mod compare;
mod driver;
mod engine;
mod expressions;
mod input;
mod judge;
mod known;
mod report;
mod run;
mod scope;
mod suite;
mod value;
mod ways;
mod words;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use suite::Suite;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match conform(&arguments) {
        Ok(code) => code,
        Err(error) => {
            println!("{error}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

fn conform(arguments: &[String]) -> Result<ExitCode, String> {
    let entries = suite(arguments)?.run(engine::engine())?;
    if let Some(path) = env::var_os("CONFORMANCE_REPORT") {
        report::write_lines(Path::new(&path), &entries)
            .map_err(|e| format!("{}: {e}", Path::new(&path).display()))?;
    }
    print!("{}", report::summary(&entries));
    let failed = entries
        .iter()
        .any(|entry| entry.status == report::Status::Fail);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn suite(arguments: &[String]) -> Result<Suite, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let known = here.join("known_differences.toml");
    let known = std::fs::read_to_string(&known).map_err(|e| format!("{}: {e}", known.display()))?;
    let seconds = match env::var("CONFORMANCE_SECONDS") {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("CONFORMANCE_SECONDS is '{text}', expected a whole number"))?,
        Err(_) => 60,
    };
    Ok(Suite {
        directory: env::var_os("CONFORMANCE_DIR").map_or_else(|| here.join("cases"), PathBuf::from),
        filter: filter(arguments),
        all: env::var("CONFORMANCE_ALL").is_ok_and(|value| value == "1"),
        strict: env::var("CONFORMANCE_EPOCHS").map_or(true, |value| value != "0"),
        ways: ways::parse(&env::var("CONFORMANCE_WAYS").unwrap_or_else(|_| "all".to_owned()))?,
        limit: Duration::from_secs(seconds),
        known: known::parse(&known)?,
    })
}

/// The first argument that is no option of the usual test harness, which `cargo test` hands to every target.
fn filter(arguments: &[String]) -> String {
    const WITH_VALUE: &[&str] = &[
        "--test-threads",
        "--skip",
        "--format",
        "--color",
        "--logfile",
        "-Z",
    ];
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if WITH_VALUE.contains(&argument.as_str()) {
            arguments.next();
        } else if !argument.starts_with('-') {
            return argument.clone();
        }
    }
    String::new()
}
