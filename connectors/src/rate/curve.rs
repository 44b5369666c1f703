//! [`Curve`]: how many rows there are after so many seconds, and when each row happened. Whole-number arithmetic, so
//! that a replay gives the same rows on every machine.

/// Rows per second, reached step by step over a ramp-up time. The rule is Spark's (`rowsPerSecond`, `rampUpTime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Curve {
    pub(super) rows_per_second: u64,
    pub(super) ramp_up_s: u64,
}

impl Curve {
    /// Number of rows of the first `seconds` seconds; the row with value `v` happens in second `s` if
    /// `rows_after(s) <= v < rows_after(s + 1)`.
    ///
    /// While ramping up, second `s` (from 0) has `s + 1` steps of `rows_per_second / (ramp_up + 1)` rows, at least one
    /// row each; after that every second has `rows_per_second` rows. With 10 rows and 4 seconds: 0, 2, 6, 12, 20, 30.
    pub(super) fn rows_after(self, seconds: u64) -> u64 {
        let ramp = u128::from(seconds.min(self.ramp_up_s));
        let step = u128::from((self.rows_per_second / self.ramp_up_s.saturating_add(1)).max(1));
        let ramped = step.saturating_mul(ramp * (ramp + 1) / 2);
        let flat = u128::from(seconds - seconds.min(self.ramp_up_s));
        let rows = ramped.saturating_add(flat * u128::from(self.rows_per_second));
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    /// The second in which value `value` happens.
    pub(super) fn second_of(self, value: u64) -> u64 {
        let (mut low, mut high) = (0, u64::MAX - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rows_after(middle + 1) > value {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The rows `from..to`, at most `most` of them: milliseconds since the start, in order. The rows of a second are
    /// spread evenly over it, rounded to whole milliseconds as Spark does.
    pub(super) fn millis(self, from: u64, to: u64, most: usize) -> Vec<u64> {
        let mut second = self.second_of(from);
        let (mut first, mut next) = (self.rows_after(second), self.rows_after(second + 1));
        let mut millis = Vec::new();
        for value in (from..to).take(most) {
            while value >= next {
                second += 1;
                (first, next) = (next, self.rows_after(second + 1));
            }
            millis.push(
                second
                    .saturating_mul(1000)
                    .saturating_add(spread(value - first, next - first)),
            );
        }
        millis
    }
}

/// Row `index` of `count` rows in one second: `index * 1000 / count` milliseconds, half rounded up.
fn spread(index: u64, count: u64) -> u64 {
    let (index, count) = (u128::from(index), u128::from(count));
    u64::try_from((2000 * index + count) / (2 * count)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(curve: Curve, seconds: std::ops::Range<u64>) -> Vec<u64> {
        seconds.map(|second| curve.rows_after(second)).collect()
    }

    #[test]
    fn rows_after_ramps_up_as_spark_does() {
        let curve = Curve {
            rows_per_second: 10,
            ramp_up_s: 4,
        };
        assert_eq!(rows(curve, 0..7), [0, 2, 6, 12, 20, 30, 40]);
        let slow = Curve {
            rows_per_second: 2,
            ramp_up_s: 5,
        };
        assert_eq!(rows(slow, 0..8), [0, 1, 3, 6, 10, 15, 17, 19]);
        let plain = Curve {
            rows_per_second: 3,
            ramp_up_s: 0,
        };
        assert_eq!(rows(plain, 0..4), [0, 3, 6, 9]);
    }

    #[test]
    fn rows_after_far_in_the_future_does_not_overflow() {
        let curve = Curve {
            rows_per_second: u64::MAX,
            ramp_up_s: u64::MAX,
        };
        assert_eq!(curve.rows_after(u64::MAX), u64::MAX);
        assert_eq!(
            Curve {
                rows_per_second: 1,
                ramp_up_s: 0
            }
            .second_of(u64::MAX - 2),
            u64::MAX - 2
        );
    }

    #[test]
    fn second_of_is_the_inverse_of_rows_after() {
        for curve in [(1, 0), (7, 0), (10, 4), (2, 5), (1000, 3)] {
            let curve = Curve {
                rows_per_second: curve.0,
                ramp_up_s: curve.1,
            };
            for value in 0..200 {
                let second = curve.second_of(value);
                assert!(curve.rows_after(second) <= value && value < curve.rows_after(second + 1));
            }
        }
    }

    #[test]
    fn millis_are_even_inside_a_second_and_independent_of_the_cut() {
        let curve = Curve {
            rows_per_second: 3,
            ramp_up_s: 0,
        };
        assert_eq!(
            curve.millis(0, 7, 100),
            [0, 333, 667, 1000, 1333, 1667, 2000]
        );
        assert_eq!(curve.millis(4, 7, 2), [1333, 1667]);
        let ramp = Curve {
            rows_per_second: 10,
            ramp_up_s: 4,
        };
        assert_eq!(ramp.millis(0, 6, 100), [0, 500, 1000, 1250, 1500, 1750]);
        assert!(curve.millis(5, 5, 100).is_empty());
    }
}
