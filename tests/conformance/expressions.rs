//! Cases of many columns, counted by column: a case whose query is one SELECT of expressions over the rows of a stream is
//! run again column by column when it does not pass as a whole.

use crate::case::{Case, Op};

/// Topics whose cases are lists of expressions.
const TOPICS: &[&str] = &["expressions", "functions"];

/// What became of the expressions of one case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Expressions {
    pub(crate) passed: usize,
    /// Column and why, for each one that did not pass.
    pub(crate) failed: Vec<(String, String)>,
}

impl Expressions {
    /// All of a case that passed as a whole.
    pub(crate) fn all_of(case: &Case) -> Self {
        Self {
            passed: case.columns.len().saturating_sub(1),
            failed: vec![],
        }
    }
}

/// Whether the expressions of a case are counted: a case of one SELECT whose columns are known.
pub(crate) fn counts(topic: &str, case: &Case) -> bool {
    let one = matches!(case.pipeline.as_slice(), [Op::Sql { query, .. }]
        if items(query).is_some_and(|items| items.len() == case.columns.len()));
    TOPICS.contains(&topic) && one && case.expect_error.is_none()
}

/// The case with the first column, which tells the rows apart, and column `index` alone.
pub(crate) fn only(mut case: Case, index: usize) -> Case {
    if let [Op::Sql { query, .. }] = case.pipeline.as_mut_slice()
        && let Some(items) = items(query)
    {
        let rest = from(query).map_or("", |at| &query[at..]);
        *query = format!("SELECT {}, {} {rest}", items[0], items[index]);
    }
    let pick = |row: &mut Vec<serde_json::Value>| *row = vec![row[0].clone(), row[index].clone()];
    for step in &mut case.expect {
        step.rows.iter_mut().for_each(pick);
        for epoch in &mut step.batches {
            epoch.rows.iter_mut().for_each(pick);
        }
    }
    case.columns = vec![case.columns[0].clone(), case.columns[index].clone()];
    case.types = vec![case.types[0].clone(), case.types[index].clone()];
    case
}

/// The expressions between SELECT and FROM.
pub(crate) fn items(query: &str) -> Option<Vec<String>> {
    let body = query.strip_prefix("SELECT ")?;
    let end = from(query)? - "SELECT ".len();
    let mut items = vec![String::new()];
    for (letter, outside) in letters(&body[..end]) {
        match (letter, outside, items.last_mut()) {
            (',', true, _) => items.push(String::new()),
            (letter, _, Some(item)) => item.push(letter),
            (_, _, None) => return None,
        }
    }
    Some(items.iter().map(|item| item.trim().to_owned()).collect())
}

/// Where the FROM of the query begins.
pub(crate) fn from(query: &str) -> Option<usize> {
    let mut at = 0;
    for (letter, outside) in letters(query) {
        if outside && query[at..].starts_with(" FROM ") {
            return Some(at + 1);
        }
        at += letter.len_utf8();
    }
    None
}

/// Every letter, and whether it stands outside of brackets and texts.
fn letters(text: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut depth, mut quote, mut escaped) = (0_i32, None, false);
    text.chars().map(move |letter| {
        match (quote, letter) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(letter),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            (None, _) => {}
        }
        (letter, quote.is_none() && depth == 0)
    })
}
