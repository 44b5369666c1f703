//! Reads `sasl.jaas.config`, the Java client's text for credentials, as far as it says user name and password:
//! `org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";`.

/// What a login text says.
#[derive(PartialEq, Eq)]
pub(super) struct Login {
    /// Last part of the module's name, such as `ScramLoginModule`.
    pub(super) module: String,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    /// They are those of a delegation token (`tokenauth`).
    pub(super) is_token: bool,
}

/// `None` if the text is not of the form `module flag key="value" … ;`.
pub(super) fn parse(text: &str) -> Option<Login> {
    let mut words = words(text.trim().strip_suffix(';')?)?.into_iter();
    let module = words.next()?;
    let flag = words.next()?;
    let flags = ["required", "requisite", "sufficient", "optional"];
    if !flags.iter().any(|known| flag.eq_ignore_ascii_case(known)) {
        return None;
    }
    let mut login = Login {
        module: module.rsplit('.').next().unwrap_or_default().to_owned(),
        username: None,
        password: None,
        is_token: false,
    };
    for word in words {
        let (name, value) = word.split_once('=')?;
        match name {
            "username" => login.username = Some(value.to_owned()),
            "password" => login.password = Some(value.to_owned()),
            "tokenauth" => login.is_token = value.eq_ignore_ascii_case("true"),
            _ => {}
        }
    }
    Some(login)
}

/// Words separated by white space; quotes (single or double) hold one together and fall away, a backslash keeps the next letter.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (_, '\\') => word.get_or_insert_default().push(letters.next()?),
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}
