//! The equalities of a join: DataFusion's planner leaves those of an ON clause in the condition.

use datafusion::common::NullEquality;
use datafusion::logical_expr::utils::{find_valid_equijoin_key_pair, split_conjunction};
use datafusion::logical_expr::{Expr, Join, Operator};

/// Two expressions, one over each side, that must be equal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Equality {
    pub(super) left: Expr,
    pub(super) right: Expr,
    /// NULL equals NULL (`<=>`).
    pub(super) null_safe: bool,
}

/// All equalities between the sides.
pub(super) fn equalities(join: &Join) -> Vec<Equality> {
    let null_safe = join.null_equality == NullEquality::NullEqualsNull;
    let equality = |(left, right), null_safe| Equality {
        left,
        right,
        null_safe,
    };
    let mut found: Vec<Equality> = join
        .on
        .iter()
        .map(|pair| equality(pair.clone(), null_safe))
        .collect();
    for conjunct in join.filter.iter().flat_map(split_conjunction) {
        if let Expr::BinaryExpr(binary) = conjunct
            && matches!(binary.op, Operator::Eq | Operator::IsNotDistinctFrom)
            // An error means that a column is of neither side: an outer query's.
            && let Ok(Some(pair)) = find_valid_equijoin_key_pair(
                &binary.left,
                &binary.right,
                join.left.schema(),
                join.right.schema(),
            )
        {
            found.push(equality(pair, binary.op == Operator::IsNotDistinctFrom));
        }
    }
    found
}
