//! The equalities of a join: DataFusion's planner leaves those of an ON clause in the condition.

use datafusion::logical_expr::utils::{find_valid_equijoin_key_pair, split_conjunction};
use datafusion::logical_expr::{Expr, Join, Operator};

/// Pairs of (left, right) expressions that must be equal.
pub(super) fn equalities(join: &Join) -> Vec<(Expr, Expr)> {
    let mut pairs = join.on.clone();
    for conjunct in join.filter.iter().flat_map(split_conjunction) {
        if let Expr::BinaryExpr(binary) = conjunct
            && binary.op == Operator::Eq
            // An error means that a column is of neither side: an outer query's.
            && let Ok(Some(pair)) =
                find_valid_equijoin_key_pair(&binary.left, &binary.right, join.left.schema(), join.right.schema())
        {
            pairs.push(pair);
        }
    }
    pairs
}
