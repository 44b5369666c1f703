//! What became of the cases, for people on standard output and for programs in a file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use crate::expressions::Expressions;

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    Pass,
    Fail,
    /// Differs from Spark, on purpose.
    KnownDifference,
    /// Of a step that has not come; not run.
    NotYet {
        step: u8,
    },
}

impl Status {
    fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::KnownDifference => "known_difference",
            Self::NotYet { .. } => "not_yet",
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// `topic/name`.
    pub(crate) case: String,
    pub(crate) status: Status,
    pub(crate) why: String,
    /// Counted by column, where the case is a list of expressions that was run.
    pub(crate) expressions: Option<Expressions>,
}

/// Writes one JSON object a line, in the order of the cases.
pub(crate) fn write_lines(path: &Path, entries: &[Entry]) -> std::io::Result<()> {
    let mut text = String::new();
    for entry in entries {
        let mut line = json!({"case": entry.case, "status": entry.status.name(), "why": entry.why});
        if let Some(expressions) = &entry.expressions {
            let failed: Vec<_> = expressions
                .failed
                .iter()
                .map(|(column, _)| column)
                .collect();
            line["expressions"] = json!({"passed": expressions.passed, "failed": failed});
        }
        text.push_str(&line.to_string());
        text.push('\n');
    }
    std::fs::write(path, text)
}

/// The text for people; its last line is `N passed, M failed`.
pub(crate) fn summary(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let mark = match entry.status {
            Status::Fail => "FAIL ",
            Status::KnownDifference => "KNOWN",
            Status::Pass if entry.why.starts_with(AGREES) => "NOTE ",
            _ => continue,
        };
        line(
            &mut text,
            format_args!("{mark} {}: {}", entry.case, entry.why),
        );
    }
    line(
        &mut text,
        format_args!(
            "{:<22}{:>6}{:>6}{:>7}{:>9}",
            "topic", "pass", "fail", "known", "not yet"
        ),
    );
    for (topic, counts) in by_topic(entries) {
        let [pass, fail, known, not_yet] = counts;
        line(
            &mut text,
            format_args!("{topic:<22}{pass:>6}{fail:>6}{known:>7}{not_yet:>9}"),
        );
    }
    expressions(&mut text, entries);
    line(&mut text, format_args!("{}", others(entries)));
    let passed = count(entries, |status| *status == Status::Pass);
    let failed = count(entries, |status| *status == Status::Fail);
    line(&mut text, format_args!("{passed} passed, {failed} failed"));
    text
}

/// How many expressions passed, by topic, and which did not.
fn expressions(text: &mut String, entries: &[Entry]) {
    let mut topics: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for entry in entries {
        let Some(expressions) = &entry.expressions else {
            continue;
        };
        for (column, why) in &expressions.failed {
            line(text, format_args!("EXPR  {}: {column}: {why}", entry.case));
        }
        let topic = entry.case.split('/').next().unwrap_or_default();
        let (passed, all) = topics.entry(topic).or_default();
        *passed += expressions.passed;
        *all += expressions.passed + expressions.failed.len();
    }
    for (topic, (passed, all)) in topics {
        let percent = 100.0 * passed as f64 / all.max(1) as f64;
        line(
            text,
            format_args!("{topic}: {passed} of {all} expressions passed ({percent:.1} %)"),
        );
    }
}

/// How the remark begins on a listed difference that is none.
pub(crate) const AGREES: &str = "listed as a known difference, but agrees";

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("invariant: writing to a String does not fail");
}

fn by_topic(entries: &[Entry]) -> BTreeMap<&str, [usize; 4]> {
    let mut topics: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for entry in entries {
        let topic = entry.case.split('/').next().unwrap_or_default();
        let column = match entry.status {
            Status::Pass => 0,
            Status::Fail => 1,
            Status::KnownDifference => 2,
            Status::NotYet { .. } => 3,
        };
        topics.entry(topic).or_default()[column] += 1;
    }
    topics
}

/// The line before the last: what is neither passed nor failed.
fn others(entries: &[Entry]) -> String {
    let known = count(entries, |status| *status == Status::KnownDifference);
    let mut steps: BTreeMap<u8, usize> = BTreeMap::new();
    for entry in entries {
        if let Status::NotYet { step } = entry.status {
            *steps.entry(step).or_default() += 1;
        }
    }
    let not_yet: usize = steps.values().sum();
    let steps: Vec<String> = steps
        .iter()
        .map(|(step, cases)| format!("step {step}: {cases}"))
        .collect();
    format!(
        "{} cases, {known} known differences, {not_yet} not yet ({})",
        entries.len(),
        steps.join(", ")
    )
}

fn count(entries: &[Entry], of: impl Fn(&Status) -> bool) -> usize {
    entries.iter().filter(|entry| of(&entry.status)).count()
}
