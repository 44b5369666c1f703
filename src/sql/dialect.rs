//! Spark's SQL dialect: sqlparser's own, corrected where it differs from Spark.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence, SparkSqlDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

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

    /// `exists(array, x -> …)` is a function call, `EXISTS (SELECT …)` is not.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
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
