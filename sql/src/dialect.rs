//! Spark's SQL dialect: sqlparser's own, corrected where it differs from Spark.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Interval, ObjectName, TrimWhereField,
};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence, SparkSqlDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::hooks;

/// Spark SQL as Spark parses it: `DIV` binds like `*`, texts know backslash escapes, intervals need no unit outside
/// their text.
#[derive(Debug, Default)]
pub(super) struct SparkDialect(SparkSqlDialect);

impl SparkDialect {
    /// The dialect; it has no state.
    pub(super) const NEW: SparkDialect = SparkDialect(SparkSqlDialect);
}

macro_rules! same_as_spark {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            self.0.$name()
        })*
    };
}

impl Dialect for SparkDialect {
    same_as_spark!(
        supports_filter_during_aggregation,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_lambda_functions,
        supports_select_wildcard_except,
        supports_struct_literal,
        supports_nested_comments,
        supports_long_type_as_bigint,
        supports_values_as_table_factor,
        supports_bang_not_operator,
        supports_select_item_multi_column_alias,
        supports_cte_without_as,
        supports_map_literal_with_angle_brackets,
    );

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn ignores_wildcard_escapes(&self) -> bool {
        true
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn require_interval_qualifier(&self) -> bool {
        false
    }

    /// `exists(array, x -> …)` is a function call, `EXISTS (SELECT …)` is not. Intervals have signs and several units, TRIM a side
    /// without letters.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if is_interval(parser) {
            return Some(interval(parser));
        }
        if let Some(side) = bare_trim(parser) {
            return Some(trim(parser, side));
        }
        let is_keyword = |n: usize, wanted: &[Keyword]| match &parser.peek_nth_token_ref(n).token {
            Token::Word(w) => wanted.contains(&w.keyword),
            _ => false,
        };
        let call = is_keyword(0, &[Keyword::EXISTS])
            && parser.peek_nth_token_ref(1).token == Token::LParen
            && !is_keyword(
                2,
                &[
                    Keyword::SELECT,
                    Keyword::WITH,
                    Keyword::VALUES,
                    Keyword::FROM,
                    Keyword::TABLE,
                ],
            )
            && parser.peek_nth_token_ref(2).token != Token::LParen;
        if !call {
            return None;
        }
        parser.next_token();
        Some(parser.parse_function(ObjectName::from(vec![Ident::new("exists")])))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if parser.parse_keyword(Keyword::DIV) {
            let binding = self.prec_value(Precedence::MulDivModOp);
            return Some(parser.parse_subexpr(binding).map(|right| Expr::BinaryOp {
                left: Box::new(expr.clone()),
                op: BinaryOperator::MyIntegerDivide,
                right: Box::new(right),
            }));
        }
        let unsigned_shift = parser.peek_token_ref().token == Token::ShiftRight
            && parser.peek_nth_token_ref(1).token == Token::Gt;
        if !unsigned_shift {
            return None;
        }
        parser.next_token();
        parser.next_token();
        let binding = self.prec_value(Precedence::Caret);
        Some(
            parser
                .parse_subexpr(binding)
                .map(|right| hooks::call("shiftrightunsigned", [expr.clone(), right])),
        )
    }
}

fn is_interval(parser: &Parser) -> bool {
    let keyword =
        matches!(&parser.peek_token_ref().token, Token::Word(w) if w.keyword == Keyword::INTERVAL);
    let sign = usize::from(is_sign(parser, 1));
    keyword && is_amount(parser, 1 + sign)
}

fn is_sign(parser: &Parser, n: usize) -> bool {
    matches!(
        parser.peek_nth_token_ref(n).token,
        Token::Minus | Token::Plus
    )
}

fn is_amount(parser: &Parser, n: usize) -> bool {
    matches!(
        parser.peek_nth_token_ref(n).token,
        Token::Number(_, _) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)
    )
}

/// An interval's sign and amount.
fn amount(parser: &mut Parser) -> Result<String, ParserError> {
    let negative = match is_sign(parser, 0) {
        true => parser.next_token().token == Token::Minus,
        false => false,
    };
    let text = match parser.next_token().token {
        Token::Number(text, _)
        | Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text) => text,
        other => return parser.expected("an interval's amount", TokenWithSpan::wrap(other)),
    };
    Ok(match (negative, text.trim().strip_prefix('-')) {
        (false, _) => text,
        (true, Some(positive)) => positive.to_owned(),
        (true, None) => format!("-{}", text.trim()),
    })
}

/// `INTERVAL '1-2' YEAR TO MONTH`, `INTERVAL -5 HOURS 30 MINUTES`, `INTERVAL '5 hours'`.
fn interval(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.next_token();
    let first = amount(parser)?;
    let literal = |text: String, leading_field, last_field| {
        Expr::Interval(Interval {
            value: Box::new(hooks::string(text)),
            leading_field,
            leading_precision: None,
            last_field,
            fractional_seconds_precision: None,
        })
    };
    if !parser.next_token_is_temporal_unit() {
        return Ok(literal(first, None, None));
    }
    let unit = parser.parse_date_time_field()?;
    if parser.parse_keyword(Keyword::TO) {
        let last = parser.parse_date_time_field()?;
        return Ok(literal(first, Some(unit), Some(last)));
    }
    let mut parts = vec![format!("{first} {unit}")];
    while continues(parser) {
        let next = amount(parser)?;
        parts.push(format!("{next} {}", parser.parse_date_time_field()?));
    }
    Ok(match parts.len() {
        1 => literal(first, Some(unit), None),
        _ => literal(parts.join(" "), None, None),
    })
}

/// Whether an amount and a unit follow.
fn continues(parser: &Parser) -> bool {
    let sign = usize::from(is_sign(parser, 0));
    let unit = &parser.peek_nth_token_ref(sign + 1).token;
    let units = [
        "YEAR",
        "MONTH",
        "WEEK",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
    ];
    let is_unit = |word: &str| {
        let word = word.to_uppercase();
        units.contains(&word.strip_suffix('S').unwrap_or(&word))
    };
    is_amount(parser, sign) && matches!(unit, Token::Word(w) if is_unit(&w.value))
}

/// The side of `TRIM(BOTH FROM …)`, if that is what follows.
fn bare_trim(parser: &Parser) -> Option<TrimWhereField> {
    let keyword = |n: usize| match &parser.peek_nth_token_ref(n).token {
        Token::Word(w) => w.keyword,
        _ => Keyword::NoKeyword,
    };
    let opened = keyword(0) == Keyword::TRIM && parser.peek_nth_token_ref(1).token == Token::LParen;
    if !opened || keyword(3) != Keyword::FROM {
        return None;
    }
    match keyword(2) {
        Keyword::BOTH => Some(TrimWhereField::Both),
        Keyword::LEADING => Some(TrimWhereField::Leading),
        Keyword::TRAILING => Some(TrimWhereField::Trailing),
        _ => None,
    }
}

fn trim(parser: &mut Parser, side: TrimWhereField) -> Result<Expr, ParserError> {
    for _ in 0..4 {
        parser.next_token();
    }
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Trim {
        expr,
        trim_where: Some(side),
        trim_what: None,
        trim_characters: None,
    })
}
