//! Cases in which Weir differs from Spark on purpose: `known_differences.toml`, a case and a reason each.
//!
//! The file is a list of `[[difference]]` tables with the keys `case` and `reason`, nothing else; that
//! much of TOML is read here.

use std::collections::BTreeMap;

/// Reasons by case (`topic/name`).
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut differences = BTreeMap::new();
    let mut open: Option<Difference> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let at = |what: &str| format!("known differences, line {}: {what}", number + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "[[difference]]" {
            close(open.replace(Difference::default()), &mut differences).map_err(|e| at(&e))?;
            continue;
        }
        let entry = open
            .as_mut()
            .ok_or_else(|| at("a key before the first [[difference]]"))?;
        let (key, value) = key_and_text(line).ok_or_else(|| at("expected key = \"text\""))?;
        match key {
            "case" => entry.case = Some(value),
            "reason" => entry.reason = Some(value),
            other => {
                return Err(at(&format!(
                    "unknown key '{other}', allowed are case and reason"
                )));
            }
        }
    }
    close(open, &mut differences)?;
    Ok(differences)
}

#[derive(Default)]
struct Difference {
    case: Option<String>,
    reason: Option<String>,
}

fn close(open: Option<Difference>, into: &mut BTreeMap<String, String>) -> Result<(), String> {
    match open {
        None => Ok(()),
        Some(Difference {
            case: Some(case),
            reason: Some(reason),
        }) => match into.insert(case.clone(), reason) {
            None => Ok(()),
            Some(_) => Err(format!("case '{case}' is listed twice")),
        },
        Some(_) => Err("a [[difference]] needs both case and reason".to_owned()),
    }
}

/// `key = "text"`; a JSON string is also a TOML basic string as far as it is needed here.
fn key_and_text(line: &str) -> Option<(&str, String)> {
    let (key, value) = line.split_once('=')?;
    let value = serde_json::from_str(value.trim()).ok()?;
    Some((key.trim(), value))
}
