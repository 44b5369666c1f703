//! Offsets by topic and partition, and their JSON: Spark's `{"topic":{"0":next}}`, next being one more than the last offset read.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// One partition of one topic; ordered by name, then number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: String,
    /// Number of the partition, from 0.
    pub partition: i32,
}

impl TopicPartition {
    pub(crate) fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

/// `topic-partition`, as everybody writes it.
impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A number for each of some partitions: offsets, or what an option says in their place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offsets(BTreeMap<TopicPartition, i64>);

impl Offsets {
    pub(crate) fn get(&self, partition: &TopicPartition) -> Option<i64> {
        self.0.get(partition).copied()
    }

    pub(crate) fn insert(&mut self, partition: TopicPartition, offset: i64) {
        self.0.insert(partition, offset);
    }

    pub(crate) fn contains(&self, partition: &TopicPartition) -> bool {
        self.0.contains_key(partition)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of partitions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, i64)> {
        self.0
            .iter()
            .map(|(partition, offset)| (partition, *offset))
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.0.keys()
    }

    /// Takes over every entry of `others`.
    pub(crate) fn overlay(&mut self, others: &Offsets) {
        for (partition, offset) in others.iter() {
            self.insert(partition.clone(), offset);
        }
    }

    /// Offsets between these and `end`, in partitions that both have.
    pub(crate) fn distance_to(&self, end: &Offsets) -> u64 {
        let sizes = end
            .iter()
            .filter_map(|(partition, end)| Some(end.saturating_sub(self.get(partition)?)));
        sizes.filter_map(|size| u64::try_from(size).ok()).sum()
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut topics = Map::new();
        for (at, offset) in self.iter() {
            let partitions = topics
                .entry(at.topic.clone())
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(partitions) = partitions {
                partitions.insert(at.partition.to_string(), offset.into());
            }
        }
        Value::Object(topics)
    }

    /// `None` if the value is not of the form `{"topic":{"0":1}}`, with no partition twice.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let mut offsets = Self::default();
        for (topic, partitions) in value.as_object()? {
            for (partition, offset) in partitions.as_object()? {
                let partition = partition.parse().ok().filter(|number: &i32| *number >= 0)?;
                let at = TopicPartition::new(topic, partition);
                if offsets.contains(&at) {
                    return None;
                }
                offsets.insert(at, offset.as_i64()?);
            }
        }
        Some(offsets)
    }
}

impl FromIterator<(TopicPartition, i64)> for Offsets {
    fn from_iter<I: IntoIterator<Item = (TopicPartition, i64)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl fmt::Display for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_json().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_sparks_with_partitions_in_numeric_order() {
        let text = r#"{"b":{"0":1},"a":{"10":7,"2":5}}"#;
        let offsets = Offsets::from_json(&serde_json::from_str(text).expect("json")).expect("form");
        assert_eq!(offsets.to_string(), r#"{"a":{"2":5,"10":7},"b":{"0":1}}"#);
        assert_eq!(offsets.get(&TopicPartition::new("a", 10)), Some(7));
    }

    #[test]
    fn json_of_another_form_is_refused() {
        for value in [
            json!(3),
            json!({"t": 3}),
            json!({"t": {"x": 3}}),
            json!({"t": {"-1": 3}}),
            json!({"t": {"0": "3"}}),
            json!({"t": {"0": 1.5}}),
            json!({"t": {"0": 1, "00": 2}}),
        ] {
            assert!(Offsets::from_json(&value).is_none(), "{value}");
        }
    }

    #[test]
    fn distance_counts_only_what_lies_ahead() {
        let at = |partition| TopicPartition::new("t", partition);
        let begin = Offsets::from_iter([(at(0), 5), (at(1), 9)]);
        let end = Offsets::from_iter([(at(0), 7), (at(1), 3), (at(2), 100)]);
        assert_eq!(begin.distance_to(&end), 2);
    }
}
