//! `get_json_object` paths: `$.a.b[1]`, `$['odd name']`, `[*]` and `.*`.

use serde_json::Value;

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(usize),
    Every,
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

impl JsonPath {
    /// `None` for text that is no path; Spark's answer is then NULL.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.strip_prefix('$')?;
        let mut steps = vec![];
        while !rest.is_empty() {
            if let Some(field) = rest.strip_prefix('.') {
                let end = field.find(['.', '[']).unwrap_or(field.len());
                let name = &field[..end];
                if name.is_empty() {
                    return None;
                }
                steps.push(if name == "*" {
                    Step::Every
                } else {
                    Step::Field(name.to_owned())
                });
                rest = &field[end..];
                continue;
            }
            let inner = rest.strip_prefix('[')?;
            let end = inner.find(']')?;
            steps.push(subscript(&inner[..end])?);
            rest = &inner[end + 1..];
        }
        Some(Self(steps))
    }

    /// What the path finds in `value`: nothing, one value, or (behind `[*]`) a list of values.
    pub(super) fn find(&self, value: &Value) -> Option<Value> {
        let wild = self.0.contains(&Step::Every);
        let mut found = vec![];
        walk(value, &self.0, &mut found);
        match (found.len(), wild) {
            (0, _) => None,
            (1, _) => Some(found.remove(0)).filter(|v| !v.is_null()),
            (_, true) => Some(Value::Array(found)),
            _ => found.into_iter().next(),
        }
    }
}

fn subscript(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::Every);
    }
    if let Some(name) = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        return Some(Step::Field(name.to_owned()));
    }
    text.parse().ok().map(Step::Index)
}

fn walk(value: &Value, steps: &[Step], found: &mut Vec<Value>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(value.clone());
        return;
    };
    match (step, value) {
        (Step::Field(name), Value::Object(map)) => {
            if let Some(v) = map.get(name) {
                walk(v, rest, found);
            }
        }
        (Step::Index(i), Value::Array(items)) => {
            if let Some(v) = items.get(*i) {
                walk(v, rest, found);
            }
        }
        (Step::Every, Value::Array(items)) => {
            if rest.is_empty() {
                found.push(value.clone());
            } else {
                items.iter().for_each(|v| walk(v, rest, found));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn find_wildcard_gives_the_whole_array() {
        let value: Value = serde_json::from_str(r#"{"a": {"b": [10, 20]}}"#).unwrap();
        let find = |p: &str| {
            JsonPath::parse(p)
                .and_then(|p| p.find(&value))
                .map(|v| v.to_string())
        };
        assert_eq!(find("$.a.b[1]").as_deref(), Some("20"));
        assert_eq!(find("$.a.b[*]").as_deref(), Some("[10,20]"));
        assert_eq!(find("$['a']").as_deref(), Some(r#"{"b":[10,20]}"#));
        assert_eq!(find("$.zz"), None);
        assert!(JsonPath::parse("a.b").is_none());
    }
}
