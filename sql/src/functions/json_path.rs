//! `get_json_object` paths: `$.a.b[1]`, `$['odd name']`, `[*]` and `.*`.

use serde_json::value::RawValue;

use super::json_text::{Entries, compact, first_value};

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

    /// What the path finds in a JSON text: a text bare, other values as compact JSON. Several values, which only a path with `[*]`
    /// finds, are a JSON array; one that such a path finds keeps its quotes. Of a key that is there twice the first counts; what
    /// follows the first value of the text is not looked at.
    pub(super) fn find(&self, text: &str) -> Option<String> {
        let mut found = vec![];
        walk(first_value(text)?.get(), &self.0, &mut found);
        let wild = self.0.contains(&Step::Every);
        match found.as_slice() {
            [] | ["null"] => None,
            [one] if wild => compact(one),
            [one, ..] if !wild => plain(one),
            several => {
                let several: Option<Vec<String>> = several.iter().map(|v| compact(v)).collect();
                Some(format!("[{}]", several?.join(",")))
            }
        }
    }
}

/// A value as `get_json_object` and `json_tuple` give it: a text bare, the rest as compact JSON, null as NULL.
pub(super) fn plain(value: &str) -> Option<String> {
    match value.as_bytes().first() {
        Some(b'n') => None,
        Some(b'"') => serde_json::from_str(value).ok(),
        _ => compact(value),
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

fn walk<'t>(value: &'t str, steps: &[Step], found: &mut Vec<&'t str>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(value);
        return;
    };
    match (step, value.as_bytes().first()) {
        (Step::Field(name), Some(b'{')) => {
            let entries: Option<Entries<'t>> = serde_json::from_str(value).ok();
            let entries = entries.map_or(vec![], |entries| entries.0);
            if let Some((_, inner)) = entries.iter().find(|(key, _)| key == name) {
                walk(inner.get(), rest, found);
            }
        }
        (Step::Index(_) | Step::Every, Some(b'[')) => {
            let items: Vec<&'t RawValue> = serde_json::from_str(value).unwrap_or_default();
            match step {
                Step::Index(i) => {
                    if let Some(item) = items.get(*i) {
                        walk(item.get(), rest, found);
                    }
                }
                _ if rest.is_empty() => found.push(value),
                _ => items.iter().for_each(|item| walk(item.get(), rest, found)),
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn find_wildcard_gives_the_whole_array_and_keeps_the_quotes_of_one_value() {
        let text = r#"{"a": {"b": [10, 20], "c": [{"d": "x"}, {}]}}"#;
        let find = |path: &str| JsonPath::parse(path).and_then(|path| path.find(text));
        assert_eq!(find("$.a.b[1]").as_deref(), Some("20"));
        assert_eq!(find("$.a.b[*]").as_deref(), Some("[10,20]"));
        assert_eq!(find("$.a.c[*].d").as_deref(), Some("\"x\""));
        assert_eq!(find("$.a.c[0].d").as_deref(), Some("x"));
        assert_eq!(find("$['a'].b").as_deref(), Some("[10,20]"));
        assert_eq!(find("$.zz"), None);
        assert!(JsonPath::parse("a.b").is_none());
    }

    proptest! {
        #[test]
        fn any_path_in_any_text_finds_something_or_nothing(path in "\\$[.\\[\\]*'a0-9]{0,10}", text in "[\\[\\]{}\",:a0-9. ne-]{0,24}") {
            if let Some(path) = JsonPath::parse(&path) {
                let _found = path.find(&text);
            }
        }
    }
}
