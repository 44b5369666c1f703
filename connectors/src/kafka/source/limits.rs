//! How much an epoch takes and how it is cut: pure rules, Spark's where Spark has them.

use std::time::Duration;

use super::offsets::{Offsets, TopicPartition};

/// Where an epoch ends that may take about `limit` of the offsets between `begin` and `end`.
///
/// Each partition gets a share in proportion to what it has: rounded up to 1 if it is less, else down. So no partition starves, and
/// an epoch exceeds the limit by at most one offset for each partition whose share was rounded up.
pub(crate) fn limited(begin: &Offsets, end: &Offsets, limit: u64) -> Offsets {
    let size = |at: &TopicPartition, end: i64| {
        let begin = begin.get(at)?;
        let size = u64::try_from(end.saturating_sub(begin)).ok()?;
        (size > 0).then_some((begin, size))
    };
    let total: u128 = end
        .iter()
        .filter_map(|(at, end)| size(at, end))
        .map(|(_, size)| u128::from(size))
        .sum();
    if total <= u128::from(limit) {
        return end.clone();
    }
    let cut = |(at, end): (&TopicPartition, i64)| {
        let end = match size(at, end) {
            None => end,
            Some((begin, size)) => {
                let share = (u128::from(limit) * u128::from(size) / total).max(1);
                let share = i64::try_from(share).unwrap_or(i64::MAX);
                end.min(begin.saturating_add(share))
            }
        };
        (at.clone(), end)
    };
    end.iter().map(cut).collect()
}

/// Whether an epoch waits for more offsets: there are fewer than `min`, and less than `max_delay` has passed since the last epoch
/// (`since_last`; `None` before the first, which never waits).
pub(crate) fn waits(
    available: u64,
    min: u64,
    since_last: Option<Duration>,
    max_delay: Duration,
) -> bool {
    available < min && since_last.is_some_and(|since| since < max_delay)
}

/// A run of offsets of one partition, `from` to before `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) at: TopicPartition,
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// All that the epoch reads of the partition.
    pub(crate) whole: bool,
}

impl Range {
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.to.saturating_sub(self.from)).unwrap_or(0)
    }
}

/// The ranges of (begin, end) in the order of partitions and offsets, cut so that none holds more than `max_records` and, after
/// that, so that there are about `min_partitions` of them: big ranges are cut further, small ones stay whole.
pub(crate) fn ranges(
    begin: &Offsets,
    end: &Offsets,
    min_partitions: Option<u64>,
    max_records: Option<u64>,
) -> Vec<Range> {
    let whole = end.iter().filter_map(|(at, to)| {
        let from = begin.get(at)?;
        (to > from).then(|| Range {
            at: at.clone(),
            from,
            to,
            whole: true,
        })
    });
    let cut = whole.flat_map(|range| {
        let parts = max_records.map_or(1, |max| range.size().div_ceil(max.max(1)));
        divide(range, parts)
    });
    let ranges: Vec<Range> = cut.collect();
    match min_partitions {
        Some(min) if min > ranges.len() as u64 => cut_further(ranges, min),
        _ => ranges,
    }
}

fn cut_further(ranges: Vec<Range>, min_partitions: u64) -> Vec<Range> {
    let total: u64 = ranges.iter().map(Range::size).sum();
    let stays = |range: &Range| parts(range.size(), total, min_partitions) == 1;
    let staying = ranges.iter().filter(|range| stays(range)).count() as u64;
    let to_cut: u64 = ranges
        .iter()
        .filter(|range| !stays(range))
        .map(Range::size)
        .sum();
    let wanted = min_partitions.saturating_sub(staying).max(1);
    ranges
        .into_iter()
        .flat_map(|range| {
            let count = match stays(&range) {
                true => 1,
                false => parts(range.size(), to_cut, wanted),
            };
            divide(range, count)
        })
        .collect()
}

/// `size / total * wanted`, rounded to the nearest, at least 1.
fn parts(size: u64, total: u64, wanted: u64) -> u64 {
    let (size, total, wanted) = (
        u128::from(size),
        u128::from(total.max(1)),
        u128::from(wanted),
    );
    let rounded = (2 * size * wanted + total) / (2 * total);
    u64::try_from(rounded).unwrap_or(u64::MAX).max(1)
}

/// Cuts a range into `count` pieces of nearly the same size, fewer if it has fewer offsets; the last takes what is left.
fn divide(range: Range, count: u64) -> Vec<Range> {
    let count = count.min(range.size()).max(1);
    if count == 1 {
        return vec![range];
    }
    let mut from = range.from;
    (0..count)
        .map(|part| {
            let left = range.to - from;
            let size = left / i64::try_from(count - part).unwrap_or(i64::MAX);
            let piece = Range {
                at: range.at.clone(),
                from,
                to: from + size,
                whole: false,
            };
            from += size;
            piece
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn offsets(values: &[i64]) -> Offsets {
        (0..)
            .zip(values)
            .map(|(p, value)| (at(p), *value))
            .collect()
    }

    #[test]
    fn p102_shares_are_in_proportion_and_nobody_starves() {
        let end = limited(&offsets(&[0, 0, 0]), &offsets(&[101, 11, 1]), 10);
        assert_eq!(end, offsets(&[8, 1, 1]));
    }

    #[test]
    fn limit_above_what_is_there_takes_everything() {
        let (begin, end) = (offsets(&[5, 5]), offsets(&[8, 5]));
        assert_eq!(limited(&begin, &end, 3), end);
        assert_eq!(limited(&begin, &end, u64::MAX), end);
        assert_eq!(limited(&begin, &end, 2), offsets(&[7, 5]));
    }

    #[test]
    fn limit_leaves_alone_what_has_no_begin_or_lies_behind() {
        let begin = offsets(&[10, 10]);
        let end = offsets(&[4, 30, 9]);
        assert_eq!(limited(&begin, &end, 5), offsets(&[4, 15, 9]));
    }

    #[test]
    fn min_offsets_wait_until_enough_or_too_long_but_never_the_first_time() {
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(60));
        assert!(waits(9, 10, Some(short), long));
        assert!(!waits(10, 10, Some(short), long));
        assert!(!waits(9, 10, Some(long), long));
        assert!(!waits(0, 10, None, long));
    }

    fn shape(ranges: &[Range]) -> Vec<(i32, i64, i64)> {
        ranges
            .iter()
            .map(|range| (range.at.partition, range.from, range.to))
            .collect()
    }

    #[test]
    fn ranges_are_whole_partitions_without_options() {
        let ranges = ranges(&offsets(&[0, 5, 3]), &offsets(&[10, 5, 4]), None, None);
        assert_eq!(shape(&ranges), [(0, 0, 10), (2, 3, 4)]);
        assert!(ranges.iter().all(|range| range.whole));
    }

    #[test]
    fn max_records_are_applied_first_then_min_partitions() {
        let (begin, end) = (offsets(&[0, 0]), offsets(&[100, 10]));
        let cut = ranges(&begin, &end, None, Some(40));
        assert_eq!(
            shape(&cut),
            [(0, 0, 33), (0, 33, 66), (0, 66, 100), (1, 0, 10)]
        );
        let cut = ranges(&begin, &end, Some(5), None);
        assert_eq!(
            shape(&cut),
            [
                (0, 0, 25),
                (0, 25, 50),
                (0, 50, 75),
                (0, 75, 100),
                (1, 0, 10)
            ]
        );
        let cut = ranges(&begin, &end, Some(6), Some(50));
        assert_eq!(cut.len(), 7);
        assert_eq!(ranges(&begin, &end, Some(2), None).len(), 2);
    }

    #[test]
    fn a_range_is_never_cut_into_more_pieces_than_offsets() {
        let cut = ranges(&offsets(&[7]), &offsets(&[9]), Some(10), None);
        assert_eq!(shape(&cut), [(0, 7, 8), (0, 8, 9)]);
    }

    proptest! {
        #[test]
        fn limited_epochs_move_every_partition_and_stay_near_the_limit(
            sizes in prop::collection::vec(0_i64..10_000, 1..8),
            limit in 1_u64..20_000,
        ) {
            let begin: Offsets = (0..).zip(&sizes).map(|(p, _)| (at(p), 100)).collect();
            let end: Offsets = (0..).zip(&sizes).map(|(p, size)| (at(p), 100 + size)).collect();
            let cut = limited(&begin, &end, limit);
            let mut ones = 0;
            for (at, to) in cut.iter() {
                let size = end.get(at).unwrap_or(0) - 100;
                prop_assert!(to >= 100 && to - 100 <= size);
                prop_assert!(size == 0 || to > 100);
                ones += u64::from(to == 101);
            }
            prop_assert!(begin.distance_to(&cut) <= limit + ones);
        }

        #[test]
        fn ranges_cover_every_offset_once_in_order(
            sizes in prop::collection::vec(0_i64..500, 1..6),
            min in proptest::option::of(1_u64..40),
            max in proptest::option::of(1_u64..100),
        ) {
            let begin: Offsets = (0..).zip(&sizes).map(|(p, _)| (at(p), 3)).collect();
            let end: Offsets = (0..).zip(&sizes).map(|(p, size)| (at(p), 3 + size)).collect();
            let cut = ranges(&begin, &end, min, max);
            let mut next = begin.clone();
            for range in &cut {
                prop_assert_eq!(next.get(&range.at), Some(range.from));
                prop_assert!(range.to > range.from);
                prop_assert!(max.is_none_or(|max| range.size() <= max));
                next.insert(range.at.clone(), range.to);
            }
            prop_assert_eq!(next, end);
        }
    }
}
