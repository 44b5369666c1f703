//! Which subtask reads which split.

use crate::source::Split;

/// Gives splits with a home to it and spreads the others over subtasks so that the heaviest subtask is as light as a greedy choice
/// makes it; deterministic, and each subtask reads its splits in the order of the plan.
pub(super) fn assign(
    splits: Vec<Split>,
    subtasks: usize,
    home: impl Fn(&Split) -> Option<usize>,
) -> Vec<Vec<(u32, Split)>> {
    let mut load = vec![0_u64; subtasks];
    let mut assigned = vec![Vec::new(); subtasks];
    let mut anywhere = Vec::new();
    for (index, split) in (0_u32..).zip(splits) {
        match home(&split).filter(|subtask| *subtask < subtasks) {
            Some(subtask) => {
                load[subtask] += split.weight.max(1);
                assigned[subtask].push((index, split));
            }
            None => anywhere.push((index, split)),
        }
    }
    anywhere.sort_by_key(|(index, split)| (std::cmp::Reverse(split.weight), *index));
    for (index, split) in anywhere {
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
        let assigned = assign(vec![split(5), split(1), split(4), split(2)], 2, |_| None);
        let weights: Vec<Vec<u64>> = assigned
            .iter()
            .map(|splits| splits.iter().map(|(_, s)| s.weight).collect())
            .collect();
        assert_eq!(weights, [vec![5, 1], vec![4, 2]]);
    }

    #[test]
    fn every_split_is_assigned_once_also_with_more_subtasks_than_splits() {
        let assigned = assign(vec![split(1)], 3, |_| None);
        assert_eq!(assigned.iter().map(Vec::len).sum::<usize>(), 1);
        assert_eq!(assigned.len(), 3);
    }

    #[test]
    fn splits_with_a_home_go_there_and_count_as_load() {
        let home = |split: &Split| (split.weight == 5).then_some(1);
        let assigned = assign(vec![split(5), split(1), split(4)], 2, home);
        let weights: Vec<Vec<u64>> = assigned
            .iter()
            .map(|splits| splits.iter().map(|(_, s)| s.weight).collect())
            .collect();
        assert_eq!(weights, [vec![1, 4], vec![5]]);
        // A home that is not there is none.
        let assigned = assign(vec![split(5)], 1, |_| Some(3));
        assert_eq!(assigned[0].len(), 1);
    }
}
