//! From the condition of a join of two streams: how far behind the other side's event time a row can still find partners.
//!
//! `right.t BETWEEN left.t AND left.t + 10 s` says `left.t >= right.t - 10 s`: once the right side's watermark is at W, left rows
//! older than W - 10 s find no partner any more. Without such a bound the state of an outer join would never be complete.

use datafusion::common::Column;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::scalar::ScalarValue;

use super::event_time::marks;

/// A sum of columns, each plus or minus, and a constant in microseconds.
#[derive(Debug, Default, Clone, PartialEq)]
struct Sum {
    columns: Vec<(Column, i64)>,
    micros: i64,
}

/// The smallest `time of own - watermarked time of other`, in microseconds, that the condition allows: `Some(b)` says that every
/// pair has `own >= other + b`. `None` if the condition gives no such bound.
pub(super) fn lower_bound(condition: &Expr, own: &LogicalPlan, other: &LogicalPlan) -> Option<i64> {
    let bounds = split_conjunction(condition)
        .into_iter()
        .filter_map(|conjunct| bound_of(conjunct, own, other));
    bounds.max()
}

fn bound_of(conjunct: &Expr, own: &LogicalPlan, other: &LogicalPlan) -> Option<i64> {
    let Expr::BinaryExpr(comparison) = conjunct else {
        return None;
    };
    // The side that is larger or equal minus the other one: not negative.
    let (large, small) = match comparison.op {
        Operator::Gt | Operator::GtEq => (&comparison.left, &comparison.right),
        Operator::Lt | Operator::LtEq => (&comparison.right, &comparison.left),
        _ => return None,
    };
    let difference = sum(large)?.minus(sum(small)?);
    let [(first, first_sign), (second, second_sign)] = difference.columns.as_slice() else {
        return None;
    };
    let (own_sign, other_column, other_sign) = match (has(own, first), has(other, second)) {
        (true, true) => (*first_sign, second, *second_sign),
        _ if has(own, second) && has(other, first) => (*second_sign, first, *first_sign),
        _ => return None,
    };
    let index = other.schema().maybe_index_of_column(other_column)?;
    let watermarked = marks(other).get(index) == Some(&true);
    // own - other + micros >= 0
    (own_sign == 1 && other_sign == -1 && watermarked).then_some(-difference.micros)
}

fn has(plan: &LogicalPlan, column: &Column) -> bool {
    plan.schema().maybe_index_of_column(column).is_some()
}

fn sum(expr: &Expr) -> Option<Sum> {
    match expr {
        Expr::Column(column) => Some(Sum {
            columns: vec![(column.clone(), 1)],
            micros: 0,
        }),
        Expr::Alias(alias) => sum(&alias.expr),
        Expr::Cast(cast) => sum(&cast.expr),
        Expr::Literal(value, _) => Some(Sum {
            columns: Vec::new(),
            micros: micros(value)?,
        }),
        Expr::BinaryExpr(binary) if binary.op == Operator::Plus => {
            Some(sum(&binary.left)?.plus(sum(&binary.right)?))
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::Minus => {
            Some(sum(&binary.left)?.minus(sum(&binary.right)?))
        }
        Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
            ("add", [left, right]) => Some(sum(left)?.plus(sum(right)?)),
            ("subtract", [left, right]) => Some(sum(left)?.minus(sum(right)?)),
            _ => None,
        },
        _ => None,
    }
}

fn micros(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::DurationMicrosecond(micros) => *micros,
        _ => None,
    }
}

impl Sum {
    fn plus(mut self, other: Sum) -> Sum {
        for (column, sign) in other.columns {
            match self.columns.iter_mut().find(|(known, _)| *known == column) {
                Some((_, known)) => *known += sign,
                None => self.columns.push((column, sign)),
            }
        }
        self.columns.retain(|(_, sign)| *sign != 0);
        self.micros = self.micros.saturating_add(other.micros);
        self
    }

    fn minus(self, other: Sum) -> Sum {
        let columns = other
            .columns
            .into_iter()
            .map(|(column, sign)| (column, -sign))
            .collect();
        self.plus(Sum {
            columns,
            micros: other.micros.saturating_neg(),
        })
    }
}
