//! From what was read and what the cluster has, what could be read next: a pure judgement over one view of the cluster.

use std::collections::BTreeMap;

use super::cluster::View;
use super::limits::limited;
use super::loss::Loss;
use super::offsets::Offsets;

/// What the next epoch could read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outlook {
    /// Where each partition goes on.
    pub(crate) begin: Offsets,
    /// Where each of them ends at the moment.
    pub(crate) end: Offsets,
    /// Those of `begin` that do not follow from where the last epoch ended: new partitions, and where records are lost.
    pub(crate) starts: Offsets,
    /// What is not there any more.
    pub(crate) losses: Vec<Loss>,
    /// Ids of topics that are new or have changed.
    pub(crate) topic_ids: BTreeMap<String, String>,
}

impl Outlook {
    /// `from` is where the last epoch ended, `topic_ids` are those of the topics it read, `fixed` is the end of a bounded run:
    /// what is beyond it and partitions it does not name are left alone.
    pub(crate) fn of(
        from: &Offsets,
        topic_ids: &BTreeMap<String, String>,
        view: &View,
        fixed: Option<&Offsets>,
    ) -> Self {
        let mut outlook = Self::default();
        for (topic, info) in &view.topics {
            if let Some(id) = info
                .id
                .as_ref()
                .filter(|id| topic_ids.get(topic) != Some(*id))
            {
                outlook.topic_ids.insert(topic.clone(), id.clone());
            }
        }
        for (at, wanted) in from.iter() {
            let recreated =
                topic_ids.contains_key(&at.topic) && outlook.topic_ids.contains_key(&at.topic);
            let there = view.bounds.get(at).copied();
            let loss = Loss::judge(at, wanted, recreated, there);
            let begin = match &loss {
                None => Some(wanted),
                Some(loss) => loss.resume(),
            };
            if let Some(begin) = begin {
                outlook.begin.insert(at.clone(), begin);
                if loss.is_some() {
                    outlook.starts.insert(at.clone(), begin);
                }
            }
            outlook.losses.extend(loss);
        }
        outlook.find_ends(from, view, fixed);
        outlook
    }

    fn find_ends(&mut self, from: &Offsets, view: &View, fixed: Option<&Offsets>) {
        for (at, bounds) in &view.bounds {
            let end = match fixed {
                None => bounds.latest,
                Some(fixed) => match fixed.get(at) {
                    Some(end) => end,
                    // Found after the end of the run was fixed. Where it was read before, it stays where it is.
                    None => {
                        if let Some(begin) = self.begin.get(at) {
                            self.end.insert(at.clone(), begin);
                        }
                        continue;
                    }
                },
            };
            if !from.contains(at) {
                self.begin.insert(at.clone(), bounds.earliest);
                self.starts.insert(at.clone(), bounds.earliest);
            }
            let begin = self.begin.get(at).unwrap_or(bounds.earliest);
            // A partition that became shorter than the fixed end; one that is lost as a whole is counted above.
            if end > bounds.latest && !self.losses.iter().any(|loss| loss.at() == at) {
                self.losses
                    .extend(Loss::judge(at, end, false, Some(*bounds)));
            }
            self.end
                .insert(at.clone(), end.min(bounds.latest).max(begin));
        }
    }

    /// Where the next epoch ends that takes about `limit` offsets.
    ///
    /// An end that looks like where the last epoch ended would be no epoch at all, although a topic that was created again may be
    /// that long by chance: then an epoch that reads nothing takes note of the new beginning first.
    pub(crate) fn end_of_epoch(&self, from: &Offsets, limit: Option<u64>) -> Offsets {
        let end = match limit {
            Some(limit) => limited(&self.begin, &self.end, limit),
            None => self.end.clone(),
        };
        if end != *from || self.starts.is_empty() {
            return end;
        }
        let begin = end
            .iter()
            .map(|(at, end)| (at.clone(), self.begin.get(at).unwrap_or(end)));
        begin.collect()
    }

    /// Offsets that could be read.
    pub(crate) fn available(&self) -> u64 {
        self.begin.distance_to(&self.end)
    }

    /// Offsets known to be lost.
    pub(crate) fn lost(&self) -> u64 {
        self.losses.iter().map(Loss::lost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::source::describe::TopicInfo;
    use crate::kafka::source::loss::Bounds;
    use crate::kafka::source::offsets::TopicPartition;

    fn at(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(topic, partition)
    }

    fn view(id: &str, bounds: &[(i64, i64)]) -> View {
        let partitions: Vec<i32> = (0..).zip(bounds).map(|(p, _)| p).collect();
        let info = TopicInfo {
            id: Some(id.to_owned()),
            partitions,
        };
        View {
            topics: [("t".to_owned(), info)].into(),
            bounds: (0..)
                .zip(bounds)
                .map(|(p, (earliest, latest))| {
                    let bounds = Bounds {
                        earliest: *earliest,
                        latest: *latest,
                    };
                    (at("t", p), bounds)
                })
                .collect(),
        }
    }

    fn offsets(values: &[i64]) -> Offsets {
        (0..)
            .zip(values)
            .map(|(p, value)| (at("t", p), *value))
            .collect()
    }

    fn ids(id: &str) -> BTreeMap<String, String> {
        [("t".to_owned(), id.to_owned())].into()
    }

    #[test]
    fn known_partitions_go_on_where_they_ended() {
        let outlook = Outlook::of(
            &offsets(&[5, 7]),
            &ids("a"),
            &view("a", &[(0, 9), (7, 7)]),
            None,
        );
        assert_eq!(outlook.begin, offsets(&[5, 7]));
        assert_eq!(outlook.end, offsets(&[9, 7]));
        assert_eq!(outlook.available(), 4);
        assert!(outlook.starts.is_empty() && outlook.losses.is_empty());
        assert!(outlook.topic_ids.is_empty());
    }

    #[test]
    fn p091_new_partitions_begin_at_their_earliest_offset() {
        let outlook = Outlook::of(
            &offsets(&[5]),
            &ids("a"),
            &view("a", &[(0, 5), (3, 13)]),
            None,
        );
        assert_eq!(outlook.begin, offsets(&[5, 3]));
        assert_eq!(outlook.starts, [(at("t", 1), 3)].into_iter().collect());
        assert_eq!(outlook.available(), 10);
    }

    #[test]
    fn partitions_that_are_gone_are_a_loss_and_leave_the_offsets() {
        let outlook = Outlook::of(&offsets(&[5, 7]), &ids("a"), &view("a", &[(0, 6)]), None);
        assert_eq!(outlook.losses.len(), 1);
        assert!(outlook.losses[0].to_string().starts_with("t-1: "));
        assert_eq!(outlook.end, offsets(&[6]));
    }

    #[test]
    fn p089_expired_offsets_move_the_beginning() {
        let outlook = Outlook::of(&offsets(&[20]), &ids("a"), &view("a", &[(60, 100)]), None);
        assert_eq!(outlook.lost(), 40);
        assert_eq!(outlook.begin, offsets(&[60]));
        assert_eq!(outlook.starts, offsets(&[60]));
    }

    #[test]
    fn p090_another_id_is_another_topic_whatever_its_length() {
        let outlook = Outlook::of(&offsets(&[100]), &ids("a"), &view("b", &[(0, 150)]), None);
        assert_eq!(outlook.losses.len(), 1);
        assert_eq!(outlook.begin, offsets(&[0]));
        assert_eq!(outlook.topic_ids, ids("b"));
    }

    #[test]
    fn a_topic_whose_id_was_never_known_is_not_taken_for_another_one() {
        let outlook = Outlook::of(
            &offsets(&[10]),
            &BTreeMap::new(),
            &view("b", &[(0, 15)]),
            None,
        );
        assert!(outlook.losses.is_empty());
        assert_eq!(outlook.topic_ids, ids("b"));
    }

    #[test]
    fn fixed_ends_cut_what_came_later() {
        let fixed = offsets(&[8]);
        let view = view("a", &[(0, 20), (0, 5)]);
        let outlook = Outlook::of(&offsets(&[5]), &ids("a"), &view, Some(&fixed));
        assert_eq!(outlook.begin, offsets(&[5]));
        assert_eq!(outlook.end, offsets(&[8]));
        // Read before, but not part of the run.
        let outlook = Outlook::of(&offsets(&[5, 2]), &ids("a"), &view, Some(&fixed));
        assert_eq!(outlook.end, offsets(&[8, 2]));
    }

    #[test]
    fn a_partition_shorter_than_its_fixed_end_is_a_loss() {
        let fixed = offsets(&[8]);
        let outlook = Outlook::of(
            &offsets(&[5]),
            &ids("a"),
            &view("a", &[(0, 6)]),
            Some(&fixed),
        );
        assert_eq!(outlook.losses.len(), 1);
        assert_eq!(outlook.begin, offsets(&[5]));
        assert_eq!(outlook.end, offsets(&[6]));
    }

    #[test]
    fn p090_a_topic_created_again_with_the_same_length_is_read_all_the_same() {
        let from = offsets(&[3]);
        let outlook = Outlook::of(&from, &ids("a"), &view("b", &[(0, 3)]), None);
        assert_eq!(outlook.available(), 3);
        assert_eq!(outlook.end_of_epoch(&from, None), offsets(&[0]));
        let next = Outlook::of(&offsets(&[0]), &ids("b"), &view("b", &[(0, 3)]), None);
        assert_eq!(next.end_of_epoch(&offsets(&[0]), Some(2)), offsets(&[2]));
    }
}
