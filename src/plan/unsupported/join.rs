//! Refusals that concern joins and set operations (which DataFusion plans as semi and anti joins).

use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use weir_runtime::OutputMode;

use super::{MODE, OPERATION, Problems};
use crate::plan::equality::{Equality, equalities};
use crate::plan::event_time::{carries, marks};
use crate::plan::leaf::is_streaming;
use crate::plan::time_bound::lower_bound;

/// Checks one node.
pub(super) fn check(node: &LogicalPlan, mode: OutputMode, problems: &mut Problems) {
    let LogicalPlan::Join(join) = node else {
        return;
    };
    let streams = (is_streaming(&join.left), is_streaming(&join.right));
    if streams == (false, false) {
        return;
    }
    if set_operation(join, streams, problems) {
        return;
    }
    match streams {
        (true, true) => both(join, mode, problems),
        (true, false) => one(join, Side::Left, problems),
        (false, _) => one(join, Side::Right, problems),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// EXCEPT and INTERSECT compare NULL as equal, which no other join written in SQL does.
fn set_operation(join: &Join, streams: (bool, bool), problems: &mut Problems) -> bool {
    if join.null_equality != NullEquality::NullEqualsNull {
        return false;
    }
    match join.join_type {
        JoinType::LeftAnti if streams.1 => problems.add(
            OPERATION,
            "EXCEPT with a stream on the right is not supported",
        ),
        JoinType::LeftAnti => {}
        JoinType::LeftSemi => problems.add(OPERATION, "INTERSECT with a stream is not supported"),
        _ => return false,
    }
    true
}

fn name(join_type: JoinType) -> &'static str {
    match join_type {
        JoinType::Inner => "an inner",
        JoinType::Left => "a left outer",
        JoinType::Right => "a right outer",
        JoinType::Full => "a full outer",
        JoinType::LeftSemi => "a left semi",
        JoinType::RightSemi => "a right semi",
        JoinType::LeftAnti => "a left anti",
        JoinType::RightAnti => "a right anti",
        JoinType::LeftMark | JoinType::RightMark => "a mark",
    }
}

/// A stream on one side: only what can be said of a stream's row when it arrives.
fn one(join: &Join, stream: Side, problems: &mut Problems) {
    let allowed = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            stream == Side::Left
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            stream == Side::Right
        }
        JoinType::Full => false,
    };
    if !allowed {
        let side = if stream == Side::Left {
            "left"
        } else {
            "right"
        };
        let text = format!(
            "{} join with a stream on the {side} and a bounded table on the other side is not supported",
            name(join.join_type)
        );
        problems.add(OPERATION, text);
    }
}

fn both(join: &Join, mode: OutputMode, problems: &mut Problems) {
    let kind = name(join.join_type);
    match (join.join_type, mode) {
        (
            JoinType::LeftAnti | JoinType::RightAnti | JoinType::LeftMark | JoinType::RightMark,
            _,
        ) => {
            problems.add(
                OPERATION,
                format!("{kind} join of two streams is not supported"),
            );
        }
        (
            JoinType::Left | JoinType::Right | JoinType::Full,
            OutputMode::Update | OutputMode::Complete,
        ) => {
            problems.add(
                MODE,
                format!("{kind} join of two streams needs output mode append, it is {mode}"),
            );
        }
        (_, OutputMode::Complete) => problems.add(
            MODE,
            format!("{kind} join of two streams is not supported in output mode complete"),
        ),
        _ => {}
    }
    let equalities = equalities(join);
    if equalities.is_empty() {
        problems.add(
            OPERATION,
            format!("{kind} join of two streams needs an equality between their columns"),
        );
        return;
    }
    if matches!(
        join.join_type,
        JoinType::Left
            | JoinType::Right
            | JoinType::Full
            | JoinType::LeftSemi
            | JoinType::RightSemi
    ) && !is_bounded(join, &equalities)
    {
        let text = format!(
            "{kind} join of two streams needs watermarks: an event-time column among the equalities, or a condition that \
             bounds the event times of one side by those of the other"
        );
        problems.add(OPERATION, text);
    }
    for side in [&join.left, &join.right] {
        if marks(side).into_iter().filter(|mark| *mark).count() > 1 {
            problems.add(
                "MULTIPLE_EVENT_TIME_COLUMNS",
                "more than one event-time column goes into a join of streams: select one of them",
            );
        }
    }
}

/// Whether the time after which a row has no partner any more is known.
fn is_bounded(join: &Join, equalities: &[Equality]) -> bool {
    let in_keys = equalities.iter().any(|equality| {
        carries(&equality.left, &join.left) || carries(&equality.right, &join.right)
    });
    if in_keys {
        return true;
    }
    let conditions: Vec<Expr> = join.filter.iter().cloned().collect();
    let bound = |own: &LogicalPlan, other: &LogicalPlan| {
        conditions
            .iter()
            .any(|c| lower_bound(c, own, other).is_some())
    };
    match join.join_type {
        JoinType::Left | JoinType::LeftSemi => bound(&join.left, &join.right),
        JoinType::Right | JoinType::RightSemi => bound(&join.right, &join.left),
        _ => bound(&join.left, &join.right) || bound(&join.right, &join.left),
    }
}
