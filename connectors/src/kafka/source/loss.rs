//! Is what should be read next still there? A pure judgement over what the checkpoint wants and what the broker has.

use std::fmt;

use super::offsets::TopicPartition;

/// What a partition holds: offsets from `earliest` to before `latest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) earliest: i64,
    pub(crate) latest: i64,
}

/// Records that should have been read are not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    at: TopicPartition,
    wanted: i64,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The partition or its topic does not exist.
    Gone,
    /// The topic has another id than when it was read.
    Recreated(Bounds),
    /// Deleted by retention or on request.
    Expired(Bounds),
    /// The partition ends before what was read.
    Beyond(Bounds),
}

impl Loss {
    /// What is wrong with reading `at` from `wanted` on, given what the broker has (`None`: no such partition) and whether the
    /// topic is another one by the same name. `None`: nothing.
    pub(crate) fn judge(
        at: &TopicPartition,
        wanted: i64,
        recreated: bool,
        there: Option<Bounds>,
    ) -> Option<Self> {
        let kind = match there {
            None => Kind::Gone,
            Some(bounds) if recreated => Kind::Recreated(bounds),
            Some(bounds) if wanted < bounds.earliest => Kind::Expired(bounds),
            Some(bounds) if wanted > bounds.latest => Kind::Beyond(bounds),
            Some(_) => return None,
        };
        Some(Self {
            at: at.clone(),
            wanted,
            kind,
        })
    }

    /// The partition.
    pub(crate) fn at(&self) -> &TopicPartition {
        &self.at
    }

    /// Deleted by retention or on request: certain at once, while the others may be what a broker does not know yet.
    pub(crate) fn is_expiry(&self) -> bool {
        matches!(self.kind, Kind::Expired(_))
    }

    /// Where reading goes on if the loss is accepted; `None` if there is nothing to read. Never at the end of what is there.
    pub(crate) fn resume(&self) -> Option<i64> {
        match self.kind {
            Kind::Gone => None,
            Kind::Recreated(bounds) | Kind::Expired(bounds) | Kind::Beyond(bounds) => {
                Some(bounds.earliest)
            }
        }
    }

    /// Offsets known to be lost; what a deleted topic held beyond the last read is not known.
    pub(crate) fn lost(&self) -> u64 {
        match self.kind {
            Kind::Expired(bounds) => u64::try_from(bounds.earliest - self.wanted).unwrap_or(0),
            _ => 0,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, wanted) = (&self.at, self.wanted);
        match self.kind {
            Kind::Gone => write!(
                f,
                "{at}: wanted {wanted}, but the partition does not exist any more"
            ),
            Kind::Recreated(Bounds { earliest, latest }) => write!(
                f,
                "{at}: wanted {wanted}, but topic '{}' was deleted and created again and now has offsets {earliest} to {latest}",
                at.topic
            ),
            Kind::Expired(Bounds { earliest, .. }) => write!(
                f,
                "{at}: wanted {wanted}, earliest {earliest}, {} offsets lost",
                self.lost()
            ),
            Kind::Beyond(Bounds { latest, .. }) => write!(
                f,
                "{at}: wanted {wanted}, but the partition ends at {latest}: topic '{}' was deleted and created again, or its log was truncated",
                at.topic
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(wanted: i64, recreated: bool, there: Option<(i64, i64)>) -> Option<Loss> {
        let bounds = there.map(|(earliest, latest)| Bounds { earliest, latest });
        Loss::judge(&TopicPartition::new("t", 0), wanted, recreated, bounds)
    }

    #[test]
    fn nothing_is_lost_between_earliest_and_latest() {
        for wanted in [60, 80, 100] {
            assert_eq!(judge(wanted, false, Some((60, 100))), None);
        }
        assert_eq!(judge(5, false, Some((5, 5))), None);
    }

    #[test]
    fn p089_expired_offsets_are_counted_and_reading_goes_on_at_the_earliest() {
        let loss = judge(20, false, Some((60, 100))).expect("loss");
        assert_eq!(
            loss.to_string(),
            "t-0: wanted 20, earliest 60, 40 offsets lost"
        );
        assert_eq!((loss.resume(), loss.lost()), (Some(60), 40));
    }

    #[test]
    fn p090_a_topic_created_again_is_found_by_its_end_or_its_id() {
        let shorter = judge(100, false, Some((0, 5))).expect("loss");
        assert!(
            shorter
                .to_string()
                .starts_with("t-0: wanted 100, but the partition ends at 5")
        );
        assert_eq!(shorter.resume(), Some(0));
        let longer = judge(100, true, Some((0, 150))).expect("loss");
        assert!(longer.to_string().contains("now has offsets 0 to 150"));
        assert_eq!((longer.resume(), longer.lost()), (Some(0), 0));
    }

    #[test]
    fn a_partition_that_is_gone_has_nowhere_to_go_on() {
        let loss = judge(3, false, None).expect("loss");
        assert_eq!(loss.resume(), None);
        assert_eq!(
            loss.to_string(),
            "t-0: wanted 3, but the partition does not exist any more"
        );
    }
}
