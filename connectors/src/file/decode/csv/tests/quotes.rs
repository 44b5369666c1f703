//! Quotes in odd places, what escapes them, and separators of several characters, beside what Spark makes of the same lines
//! (`spark.json`, by `tests/spark/record_csv.py`).

use serde_json::Value;

use super::*;

const COLUMNS: &str = "c0 string, c1 string, c2 string, bad string";

/// Our row for lines that Spark reads otherwise, by options and line.
fn departures() -> BTreeMap<(String, String), String> {
    let mut rows = BTreeMap::new();
    let mut options = "";
    for line in include_str!("departures.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        match line
            .strip_prefix("    ")
            .and_then(|pair| pair.rsplit_once(" => "))
        {
            Some((line, row)) => {
                rows.insert((options.to_owned(), line.to_owned()), row.to_owned());
            }
            None => options = line,
        }
    }
    rows
}

/// One record as the reader gives it, `~` for NULL.
fn record(line: &str, given: &[(&str, &str)]) -> String {
    let mut settings = settings(COLUMNS, ParseMode::Permissive);
    settings.corrupt_column = "bad".to_owned();
    let options = options(given);
    let whole = try_read(line.as_bytes(), usize::MAX, settings.clone(), &options)
        .unwrap()
        .0;
    for step in [1, 3] {
        let cut = try_read(line.as_bytes(), step, settings.clone(), &options)
            .unwrap()
            .0;
        assert_eq!(
            rows(&cut),
            rows(&whole),
            "{line} read {step} bytes at a time"
        );
    }
    rows(&whole).join("\n")
}

#[test]
fn odd_quotes_and_long_separators_are_read_as_spark_reads_them() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("spark.json")).unwrap();
    let mut departures = departures();
    let mut differing = Vec::new();
    for case in &cases {
        let named = case["options"].to_string();
        let options: BTreeMap<String, String> = serde_json::from_str(&named).unwrap();
        let given: Vec<(&str, &str)> = options
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        for pair in case["records"].as_array().unwrap() {
            let line = pair[0].as_str().unwrap();
            let values = pair[1].as_array().unwrap();
            let values: Vec<&str> = values
                .iter()
                .map(|value| value.as_str().unwrap_or("~"))
                .collect();
            let spark = values.join("|");
            let ours = departures.remove(&(named.clone(), line.to_owned()));
            assert_ne!(
                ours.as_ref(),
                Some(&spark),
                "{line} {named} is no departure"
            );
            let expected = ours.unwrap_or(spark);
            let read = record(line, &given);
            if read != expected {
                differing.push(format!(
                    "{line}  {named}\n  expected {expected}\n  read     {read}"
                ));
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(departures.is_empty(), "no such lines: {departures:?}");
}

#[test]
fn raise_error_is_an_error_in_every_mode_and_names_the_line() {
    let given = options(&[("unescapedQuoteHandling", "raise_error")]);
    for mode in [
        ParseMode::Permissive,
        ParseMode::DropMalformed,
        ParseMode::FailFast,
    ] {
        let file = b"\"a\",b\nc,\"d\"e\n";
        let error = try_read(file, 1, settings("a string, b string", mode), &given).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("line 2") && error.contains("RAISE_ERROR"),
            "{error}"
        );
    }
    assert!(try_options(&[("unescapedQuoteHandling", "IGNORE")]).is_err());
}

#[test]
fn quote_taken_as_text_never_swallows_the_lines_behind_it() {
    let file = b"\"a \"b\" c,1\n\"x\",2\ny,3\n";
    let given = [("unescapedQuoteHandling", "STOP_AT_CLOSING_QUOTE")];
    let settings = settings("a string, n long", ParseMode::Permissive);
    let (batch, bad) = try_read(file, 1, settings, &options(&given)).unwrap();
    assert_eq!(
        (&rows(&batch)[1..], bad.count),
        (&["x|2".to_owned(), "y|3".to_owned()][..], 1)
    );
}

#[test]
fn separators_are_spelt_as_in_spark() {
    for (sep, line) in [
        ("\\t", "a\tb"),
        ("\\\\", "a\\b"),
        ("\\t|", "a\t|b"),
        ("::", "a::b"),
        ("\\u0000", "a\0b"),
    ] {
        assert_eq!(
            read(line.as_bytes(), "a string, b string", &[("sep", sep)]),
            ["a|b"],
            "{sep}"
        );
    }
    for sep in ["", "\\", "\\x", "\n", "a\nb"] {
        assert!(try_options(&[("sep", sep)]).is_err(), "{sep:?}");
    }
}
