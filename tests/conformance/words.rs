//! The words of a query, just well enough to see what a case needs.
//!
//! Not a parser: it knows names, keywords, numbers, texts and symbols, so that a keyword inside a text
//! or a column named like a function is not taken for what it is not.

/// One word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// A name or keyword, in upper case.
    Name(String),
    /// A number, a quoted text or a quoted name: never a keyword.
    Value,
    /// Any other character; `->` is one of its own.
    Symbol(char),
    /// The arrow of a lambda function.
    Arrow,
}

/// Words before which a `(` opens no argument list.
const NO_FUNCTION: &[&str] = &[
    "ALL",
    "AND",
    "ANY",
    "AS",
    "BETWEEN",
    "BY",
    "CUBE",
    "DECIMAL",
    "DISTINCT",
    "ELSE",
    "EXCEPT",
    "EXISTS",
    "FILTER",
    "FOR",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INTERSECT",
    "JOIN",
    "LIKE",
    "NOT",
    "ON",
    "OR",
    "OVER",
    "PIVOT",
    "REPEATABLE",
    "ROLLUP",
    "SELECT",
    "SETS",
    "TABLESAMPLE",
    "THEN",
    "UNION",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Cuts a query into words.
pub(crate) fn words(query: &str) -> Vec<Word> {
    let chars: Vec<char> = query.chars().collect();
    let mut words = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let end = match c {
            '\'' | '"' | '`' => quoted_end(&chars, at),
            c if is_name(c) => at + chars[at..].iter().take_while(|c| is_name(**c)).count(),
            '-' if chars.get(at + 1) == Some(&'>') => at + 2,
            _ => at + 1,
        };
        match c {
            c if c.is_whitespace() => {}
            '\'' | '"' | '`' => words.push(Word::Value),
            c if c.is_ascii_digit() => words.push(Word::Value),
            c if is_name(c) => {
                let name: String = chars[at..end].iter().collect();
                words.push(Word::Name(name.to_uppercase()));
            }
            _ if end == at + 2 => words.push(Word::Arrow),
            c => words.push(Word::Symbol(c)),
        }
        at = end;
    }
    words
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn quoted_end(chars: &[char], start: usize) -> usize {
    let quote = chars[start];
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' if quote != '`' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// Whether the words contain these names in a row.
pub(crate) fn has(words: &[Word], names: &[&str]) -> bool {
    words
        .windows(names.len())
        .any(|window| window.iter().zip(names).all(|(word, name)| is(word, name)))
}

fn is(word: &Word, name: &str) -> bool {
    match word {
        Word::Name(found) => found == name,
        Word::Symbol(found) => name.len() == 1 && name.starts_with(*found),
        Word::Value | Word::Arrow => false,
    }
}

/// The functions that are called.
pub(crate) fn functions(words: &[Word]) -> Vec<&str> {
    let mut functions = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Word::Name(name) = word else { continue };
        let opens = words.get(at + 1) == Some(&Word::Symbol('('));
        // `AS c(x, y)` and `) c(x, y)` name columns.
        let alias = at > 0 && (is(&words[at - 1], "AS") || is(&words[at - 1], ")"));
        if opens && !alias && !NO_FUNCTION.contains(&name.as_str()) {
            functions.push(name.as_str());
        }
    }
    functions
}

/// Whether a FROM names more than one relation, parted by commas: `FROM a, b`, `FROM a AS x, b AS y`.
pub(crate) fn has_comma_join(words: &[Word]) -> bool {
    let starts = words.iter().enumerate().filter(|(at, word)| {
        // `a IS DISTINCT FROM b` compares.
        is(word, "FROM") && (*at == 0 || !is(&words[at - 1], "DISTINCT"))
    });
    starts.into_iter().any(|(at, _)| {
        let rest = words[at + 1..].iter().filter(|word| !is(word, "AS"));
        let names = rest
            .clone()
            .take(3)
            .take_while(|word| matches!(word, Word::Name(_)));
        let count = names.count();
        (1..=2).contains(&count) && rest.clone().nth(count) == Some(&Word::Symbol(','))
    })
}
