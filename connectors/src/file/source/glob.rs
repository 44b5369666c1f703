//! Globs for one name of a path: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, as Hadoop has them.

use ::glob::{MatchOptions, Pattern};
use weir_runtime::{Result, WeirError};

/// Most patterns the braces of one glob may stand for.
const MAX_PATTERNS: usize = 1_000;

/// A pattern for one name.
#[derive(Debug, Clone)]
pub(crate) struct NameGlob {
    /// The name matches if one of these does: the alternatives of the braces.
    patterns: Vec<Pattern>,
}

impl NameGlob {
    /// `what` is the name in the error.
    ///
    /// # Errors
    /// If the glob is malformed.
    pub(crate) fn new(what: &str, glob: &str) -> Result<Self> {
        let refused = |reason: String| {
            WeirError::config(format!(
                "{what} is no valid glob: '{glob}': {reason}; allowed are *, ?, [abc], [!a-z] and {{a,b}}"
            ))
        };
        let mut patterns = Vec::new();
        for text in expand(glob).map_err(|reason| refused(reason.to_owned()))? {
            // Hadoop also negates with `^`.
            let text = text.replace("[^", "[!");
            patterns.push(Pattern::new(&text).map_err(|error| refused(error.msg.to_owned()))?);
        }
        Ok(Self { patterns })
    }

    /// Whether a name matches.
    pub(crate) fn is_match(&self, name: &str) -> bool {
        let options = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        self.patterns
            .iter()
            .any(|pattern| pattern.matches_with(name, options))
    }
}

/// The globs without braces that a glob with braces stands for.
fn expand(glob: &str) -> Result<Vec<String>, &'static str> {
    let mut done = Vec::new();
    let mut todo = vec![glob.to_owned()];
    while let Some(text) = todo.pop() {
        if todo.len() + done.len() >= MAX_PATTERNS {
            return Err("its braces stand for too many names");
        }
        let Some(open) = text.rfind('{') else {
            if text.contains('}') {
                return Err("a brace is closed that was not opened");
            }
            done.push(text);
            continue;
        };
        // The last opened brace has no braces inside.
        let length = text[open..].find('}').ok_or("a brace is not closed")?;
        let (before, after) = (&text[..open], &text[open + length + 1..]);
        for choice in text[open + 1..open + length].split(',') {
            todo.push(format!("{before}{choice}{after}"));
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_matches_as_hadoop_does() {
        for (glob, name, expected) in [
            ("*.json", "a.json", true),
            ("*.json", "a.jsonl", false),
            ("part-?", "part-1", true),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("{a,b{1,2}}.csv", "b2.csv", true),
            ("{a,b{1,2}}.csv", "b.csv", false),
            ("città*", "città-1", true),
        ] {
            assert_eq!(
                NameGlob::new("x", glob).expect(glob).is_match(name),
                expected,
                "{glob} {name}"
            );
        }
    }

    #[test]
    fn glob_malformed_is_refused_with_the_reason() {
        for glob in ["{a", "a}", "[a", "***"] {
            let error = NameGlob::new("option 'pathGlobFilter'", glob).expect_err(glob);
            assert!(
                error.message().contains("pathGlobFilter") && error.message().contains(glob),
                "{error}"
            );
        }
    }
}
