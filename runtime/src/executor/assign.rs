//! Which subtask reads which split.

use crate::source::Split;

/// Spreads splits over subtasks so that the heaviest subtask is as light as a greedy choice makes it; deterministic, and each
/// subtask reads its splits in the order of the plan.
pub(super) fn assign(splits: Vec<Split>, subtasks: usize) -> Vec<Vec<(u32, Split)>> {
    let mut by_weight: Vec<(u32, Split)> = (0_u32..).zip(splits).collect();
    by_weight.sort_by_key(|(index, split)| (std::cmp::Reverse(split.weight), *index));
    let mut load = vec![0_u64; subtasks];
    let mut assigned = vec![Vec::new(); subtasks];
    for (index, split) in by_weight {
        let lightest = (0..subtasks)
            .min_by_key(|subtask| (load[*subtask], *subtask))
            .unwrap_or(0);
        load[lightest] += split.weight.max(1);
        assigned[lightest].push((index, split));
    }
    for splits in &mut assigned {
        splits.sort_by_key(|(index, _)| *index);
    }
    assigned
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn split(weight: u64) -> Split {
        Split {
            name: format!("s{weight}"),
            payload: Value::Null,
            weight,
        }
    }

    #[test]
    fn splits_are_spread_by_weight_and_read_in_plan_order() {
        let assigned = assign(vec![split(5), split(1), split(4), split(2)], 2);
        let weights: Vec<Vec<u64>> = assigned
            .iter()
            .map(|splits| splits.iter().map(|(_, s)| s.weight).collect())
            .collect();
        assert_eq!(weights, [vec![5, 1], vec![4, 2]]);
    }

    #[test]
    fn every_split_is_assigned_once_also_with_more_subtasks_than_splits() {
        let assigned = assign(vec![split(1)], 3);
        assert_eq!(assigned.iter().map(Vec::len).sum::<usize>(), 1);
        assert_eq!(assigned.len(), 3);
    }
}
