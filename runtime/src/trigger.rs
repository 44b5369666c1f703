//! When the next epoch starts: a pure function of trigger and time.

use std::time::Duration;

use crate::error::{Result, WeirError};

/// How often epochs are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trigger {
    /// The next epoch as soon as the last one is committed.
    #[default]
    Default,
    /// At multiples of the interval since 1970 (Spark's rule); at once, with a warning, when the last epoch took longer.
    ProcessingTime(Duration),
    /// Everything that is there at the start, in as many epochs as the sources' limits make; then the query ends.
    AvailableNow,
    /// Everything that is there at the start in one epoch, limits ignored; then the query ends. Prefer `AvailableNow`.
    Once,
}

impl Trigger {
    /// A processing-time trigger from Spark's interval text, such as `30 seconds` or `1 minute`.
    ///
    /// # Errors
    /// If the text is not an interval, is negative, or has months or years.
    pub fn processing_time(interval: &str) -> Result<Self> {
        let refuse = |why: &str| WeirError::invalid_option("processingTime", interval, why);
        let interval_ms = parse_interval_ms(interval).map_err(|why| refuse(&why))?;
        let interval_ms = u64::try_from(interval_ms).map_err(|_| refuse("zero or more"))?;
        Ok(if interval_ms == 0 {
            Self::Default
        } else {
            Self::ProcessingTime(Duration::from_millis(interval_ms))
        })
    }

    /// True if the query ends by itself.
    pub fn is_bounded(&self) -> bool {
        matches!(self, Self::AvailableNow | Self::Once)
    }
}

/// Milliseconds of an interval text: whole or decimal numbers with units from microseconds to weeks, with or without the word
/// `interval`. The fault, in words, if it is none.
pub fn parse_interval_ms(text: &str) -> std::result::Result<i64, String> {
    const ALLOWED: &str = "a number and a unit, such as '10 seconds' (microseconds to weeks)";
    let lower = text.trim().to_ascii_lowercase();
    let body = lower.strip_prefix("interval ").unwrap_or(&lower);
    let words: Vec<&str> = body.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(ALLOWED.to_owned());
    }
    let mut total_us: i64 = 0;
    for pair in words.chunks(2) {
        let number = pair[0].trim_matches('\'');
        let unit_us: i64 = match pair[1].trim_end_matches('s') {
            "microsecond" => 1,
            "millisecond" => 1_000,
            "second" => 1_000_000,
            "minute" => 60_000_000,
            "hour" => 3_600_000_000,
            "day" => 86_400_000_000,
            "week" => 604_800_000_000,
            "month" | "year" => {
                return Err("units up to weeks; months and years have no fixed length".to_owned());
            }
            _ => return Err(ALLOWED.to_owned()),
        };
        total_us = scaled(number, unit_us)
            .and_then(|us| total_us.checked_add(us))
            .ok_or_else(|| ALLOWED.to_owned())?;
    }
    Ok(total_us.div_euclid(1000))
}

fn scaled(number: &str, unit_us: i64) -> Option<i64> {
    if let Ok(whole) = number.parse::<i64>() {
        return whole.checked_mul(unit_us);
    }
    let value = number
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())?
        * unit_us as f64;
    (value.abs() < 9e18).then_some(value as i64)
}

/// When to plan again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextStart {
    /// Wait from now, in milliseconds.
    pub wait_ms: u64,
    /// How long the last epoch took, if that was longer than the interval.
    pub falling_behind_ms: Option<u64>,
}

/// The next start after an epoch (or an idle look) that began at `started_ms`, now being `now_ms`. `idle` says that nothing was
/// there; then the default trigger looks again after `polling_delay_ms`.
pub fn next_start(
    trigger: Trigger,
    started_ms: i64,
    now_ms: i64,
    idle: bool,
    polling_delay_ms: u64,
) -> NextStart {
    let at_once = NextStart {
        wait_ms: 0,
        falling_behind_ms: None,
    };
    match trigger {
        Trigger::ProcessingTime(interval) => {
            let interval_ms = i64::try_from(interval.as_millis())
                .unwrap_or(i64::MAX)
                .max(1);
            let elapsed = now_ms.saturating_sub(started_ms);
            if elapsed > interval_ms {
                return NextStart {
                    wait_ms: 0,
                    falling_behind_ms: Some(elapsed.unsigned_abs()),
                };
            }
            let next = now_ms
                .div_euclid(interval_ms)
                .saturating_add(1)
                .saturating_mul(interval_ms);
            NextStart {
                wait_ms: next.saturating_sub(now_ms).unsigned_abs(),
                falling_behind_ms: None,
            }
        }
        _ if idle => NextStart {
            wait_ms: polling_delay_ms,
            falling_behind_ms: None,
        },
        _ => at_once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processing_time_is_aligned_to_multiples_of_the_interval() {
        let trigger = Trigger::processing_time("10 seconds").expect("interval");
        assert_eq!(
            next_start(trigger, 10_000, 14_000, false, 10),
            NextStart {
                wait_ms: 6_000,
                falling_behind_ms: None
            }
        );
        assert_eq!(
            next_start(trigger, 20_000, 20_000, true, 10).wait_ms,
            10_000
        );
    }

    #[test]
    fn processing_time_starts_at_once_and_warns_when_behind() {
        let trigger = Trigger::processing_time("10 seconds").expect("interval");
        let next = next_start(trigger, 10_000, 24_000, false, 10);
        assert_eq!(
            next,
            NextStart {
                wait_ms: 0,
                falling_behind_ms: Some(14_000)
            }
        );
        assert_eq!(
            next_start(trigger, 10_000, 20_000, false, 10).falling_behind_ms,
            None,
            "exactly on time is not behind"
        );
    }

    #[test]
    fn default_trigger_goes_on_at_once_and_polls_when_idle() {
        assert_eq!(next_start(Trigger::Default, 0, 5, false, 10).wait_ms, 0);
        assert_eq!(next_start(Trigger::Default, 0, 5, true, 10).wait_ms, 10);
    }

    #[test]
    fn interval_texts_of_spark_are_understood() {
        for (text, ms) in [
            ("10 seconds", 10_000),
            ("1 minute", 60_000),
            ("interval 2 hours 1 second", 7_201_000),
            ("1.5 seconds", 1_500),
            ("0 seconds", 0),
            ("100 milliseconds", 100),
            ("'3' days", 259_200_000),
            ("-1 second", -1_000),
        ] {
            assert_eq!(parse_interval_ms(text), Ok(ms), "{text}");
        }
        for text in ["", "soon", "10", "1 month", "1 fortnight", "x seconds"] {
            assert!(parse_interval_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn negative_trigger_is_refused_and_zero_means_as_fast_as_possible() {
        assert!(Trigger::processing_time("-1 second").is_err());
        assert_eq!(
            Trigger::processing_time("0 seconds").expect("zero"),
            Trigger::Default
        );
    }
}
