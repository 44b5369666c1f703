//! The report's two forms, and the list of known differences.

use crate::expressions::Expressions;
use crate::known;
use crate::report::{Entry, Status, summary, write_lines};

fn entry(case: &str, status: Status, why: &str) -> Entry {
    Entry {
        case: case.to_owned(),
        status,
        why: why.to_owned(),
        expressions: None,
    }
}

fn entries() -> Vec<Entry> {
    vec![
        entry("a/one", Status::Pass, ""),
        entry("a/two", Status::Fail, "step 0: \"x\""),
        entry("b/three", Status::KnownDifference, "on purpose"),
        entry("b/four", Status::NotYet { step: 4 }, "step 4: lambda"),
    ]
}

#[test]
fn summary_ends_with_passed_and_failed_alone() {
    let text = summary(&entries());
    let mut lines = text.lines().rev();
    assert_eq!(lines.next(), Some("1 passed, 1 failed"));
    assert_eq!(
        lines.next(),
        Some("4 cases, 1 known differences, 1 not yet (step 4: 1)")
    );
    assert!(text.contains("FAIL  a/two: step 0: \"x\"\n"), "{text}");
    assert!(text.contains("KNOWN b/three: on purpose\n"), "{text}");
    assert!(!text.contains("a/one"), "{text}");
}

#[test]
fn summary_counts_expressions_by_topic_and_tells_those_that_failed() {
    let mut entries = entries();
    entries[0].expressions = Some(Expressions {
        passed: 3,
        failed: vec![],
    });
    entries[1].expressions = Some(Expressions {
        passed: 4,
        failed: vec![("x".to_owned(), "not that".to_owned())],
    });
    let text = summary(&entries);
    assert!(text.contains("EXPR  a/two: x: not that\n"), "{text}");
    assert!(
        text.contains("a: 7 of 8 expressions passed (87.5 %)\n"),
        "{text}"
    );
}

#[test]
fn write_lines_one_json_object_a_case() {
    let file = tempfile::NamedTempFile::new().unwrap();
    write_lines(file.path(), &entries()).unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        lines[1],
        r#"{"case":"a/two","status":"fail","why":"step 0: \"x\""}"#
    );
    assert_eq!(
        lines[3],
        r#"{"case":"b/four","status":"not_yet","why":"step 4: lambda"}"#
    );
}

#[test]
fn known_parse_differences_with_reasons() {
    let text = "# a comment\n[[difference]]\ncase = \"a/x\"\nreason = \"say \\\"why\\\"\"\n\n[[difference]]\nreason = \"r\"\ncase = \"b/y\"\n";
    let known = known::parse(text).unwrap();
    assert_eq!(known.len(), 2);
    assert_eq!(known["a/x"], "say \"why\"");
}

#[test]
fn known_parse_mistakes_name_the_line() {
    for (text, expected) in [
        (
            "case = \"a\"",
            "line 1: a key before the first [[difference]]",
        ),
        (
            "[[difference]]\nx = \"a\"",
            "line 2: unknown key 'x', allowed are case and reason",
        ),
        (
            "[[difference]]\ncase = a",
            "line 2: expected key = \"text\"",
        ),
        ("[[difference]]\ncase = \"a\"", "needs both case and reason"),
        (
            "[[difference]]\ncase = \"a\"\nreason = \"\"\n[[difference]]\ncase = \"a\"\nreason = \"\"",
            "case 'a' is listed twice",
        ),
    ] {
        let error = known::parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn known_differences_file_of_the_project_is_well_formed() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/conformance/known_differences.toml"
    );
    known::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
}
