//! The delay of a watermark.

use weir_runtime::{Result, WeirError};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Milliseconds of a delay text; a month counts 31 days, as in Spark.
///
/// # Errors
/// If the text is no interval, or is negative.
pub(crate) fn delay_ms(text: &str) -> Result<i64> {
    let parsed = crate::functions::intervals::parse_interval(text);
    let millis = parsed.and_then(|(months, days, micros)| {
        let days = i64::from(months)
            .checked_mul(31)?
            .checked_add(i64::from(days))?;
        days.checked_mul(DAY_MS)?
            .checked_add(micros.div_euclid(1000))
    });
    let millis = millis.ok_or_else(|| {
        WeirError::plan(format!("the delay '{text}' of a watermark is no interval, allowed: a number and a unit such as '10 minutes'"))
            .with_condition("CANNOT_PARSE_INTERVAL")
    })?;
    if millis < 0 {
        return Err(WeirError::plan(format!(
            "the delay '{text}' of a watermark is negative, allowed: zero or more"
        )));
    }
    Ok(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_intervals_of_fixed_length_and_not_negative() {
        assert_eq!(delay_ms("10 minutes").expect("delay"), 600_000);
        assert_eq!(delay_ms("1 month").expect("delay"), 31 * DAY_MS);
        assert_eq!(
            delay_ms("soon").expect_err("no interval").condition(),
            Some("CANNOT_PARSE_INTERVAL")
        );
        assert!(
            delay_ms("-5 seconds")
                .expect_err("negative")
                .to_string()
                .contains("negative")
        );
    }
}
