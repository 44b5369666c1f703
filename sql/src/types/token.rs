//! The words of a schema text.
//!
//! A schema text has few kinds of words and no context, so it is cut completely before it is
//! parsed; every word keeps the position it came from, which is what error messages point at.

use super::ddl::DdlError;

/// One word and where it starts (characters from 1, as a person counts).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) position: usize,
}

/// What a word is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Letters, digits and underscores: a name, a keyword or a number.
    Word(String),
    /// A name in backticks, without them.
    Quoted(String),
    /// A text in single or double quotes, without them.
    Text(String),
    /// One of `< > ( ) , :`, or any other character, which no rule will accept.
    Symbol(char),
    /// The end of the text.
    End,
}

impl TokenKind {
    /// The word as an error message shows it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("'{word}'"),
            Self::Quoted(name) => format!("'`{}`'", name.replace('`', "``")),
            Self::Text(text) => format!("the text '{text}'"),
            Self::Symbol(symbol) => format!("'{symbol}'"),
            Self::End => "the end of the text".to_owned(),
        }
    }
}

/// Cuts `text` into words; the last one is always [`TokenKind::End`].
pub(super) fn tokenize(text: &str) -> Result<Vec<Token>, DdlError> {
    let mut cutter = Cutter {
        chars: text.chars().collect(),
        at: 0,
    };
    let mut tokens = Vec::new();
    loop {
        let token = cutter.next_token()?;
        let done = token.kind == TokenKind::End;
        tokens.push(token);
        if done {
            return Ok(tokens);
        }
    }
}

struct Cutter {
    chars: Vec<char>,
    at: usize,
}

impl Cutter {
    fn next_token(&mut self) -> Result<Token, DdlError> {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
        let position = self.at + 1;
        let kind = match self.peek() {
            None => TokenKind::End,
            Some('`') => TokenKind::Quoted(self.quoted_name(position)?),
            Some(quote @ ('\'' | '"')) => TokenKind::Text(self.quoted_text(quote, position)?),
            Some(c) if is_word(c) => TokenKind::Word(self.word()),
            Some(c) => {
                self.at += 1;
                TokenKind::Symbol(c)
            }
        };
        Ok(Token { kind, position })
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }

    /// A backtick inside the name is written twice.
    fn quoted_name(&mut self, position: usize) -> Result<String, DdlError> {
        self.at += 1;
        let mut name = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            if c != '`' {
                name.push(c);
            } else if self.peek() == Some('`') {
                self.at += 1;
                name.push('`');
            } else {
                return Ok(name);
            }
        }
        Err(DdlError::Unclosed {
            position,
            what: "name in backticks",
        })
    }

    /// A quote inside the text is written twice or after a backslash; `\n`, `\t`, `\r` are control characters.
    fn quoted_text(&mut self, quote: char, position: usize) -> Result<String, DdlError> {
        self.at += 1;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.at += 1;
            match (c, self.peek()) {
                ('\\', Some(escaped)) => {
                    self.at += 1;
                    text.push(unescaped(escaped));
                }
                (c, Some(next)) if c == quote && next == quote => {
                    self.at += 1;
                    text.push(quote);
                }
                (c, _) if c == quote => return Ok(text),
                (c, _) => text.push(c),
            }
        }
        Err(DdlError::Unclosed {
            position,
            what: "text in quotes",
        })
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        other => other,
    }
}
