//! Spark's SQL dialect: sqlparser's own, corrected where it differs from Spark.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence, SparkSqlDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

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

    fn require_interval_qualifier(&self) -> bool {
        false
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        let binding = self.prec_value(Precedence::MulDivModOp);
        Some(parser.parse_subexpr(binding).map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }
}
