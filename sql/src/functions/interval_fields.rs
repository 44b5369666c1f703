//! Which fields an interval names: `INTERVAL DAY TO HOUR` is a day-time interval that is written down to hours. The fields are metadata
//! of a column, see [`INTERVAL_FIELDS_KEY`]; without them an interval has all of its kind.

use datafusion::common::ExprSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};

use super::intervals::{DAY_MICROS, fraction_text};
use super::kernel::Kernel;
use crate::types::INTERVAL_FIELDS_KEY;

const DAY_TIME: [&str; 4] = ["DAY", "HOUR", "MINUTE", "SECOND"];
const YEAR_MONTH: [&str; 2] = ["YEAR", "MONTH"];

/// The fields that the interval `e` names.
pub(crate) fn fields_of(e: &Expr, schema: &dyn ExprSchema) -> Option<String> {
    let (_, field) = e.to_field(schema).ok()?;
    field.metadata().get(INTERVAL_FIELDS_KEY).cloned()
}

/// First and last field of a list of fields.
fn ends(fields: &str, all: &[&str]) -> Option<(usize, usize)> {
    let place = |name: &str| all.iter().position(|known| *known == name);
    let (first, last) = fields.split_once(" TO ").unwrap_or((fields, fields));
    Some((place(first)?, place(last)?))
}

/// The result of an operation on intervals with the fields that the operands name.
pub(super) fn with_fields_of(result: Expr, operands: &[&Expr], schema: &dyn ExprSchema) -> Expr {
    let fields: Option<Vec<String>> = operands.iter().map(|e| fields_of(e, schema)).collect();
    let Some(fields) = fields else { return result };
    for all in [&DAY_TIME[..], &YEAR_MONTH[..]] {
        let ends: Option<Vec<_>> = fields.iter().map(|fields| ends(fields, all)).collect();
        let Some(ends) = ends else { continue };
        let first = ends.iter().map(|ends| ends.0).min();
        let last = ends.iter().map(|ends| ends.1).max();
        if let (Some(first), Some(last)) = (first, last) {
            let fields = match first == last {
                true => all[first].to_owned(),
                false => format!("{} TO {}", all[first], all[last]),
            };
            return Kernel::with_interval(result, &fields);
        }
    }
    result
}

/// A day-time interval written with these fields: `INTERVAL '1 02' DAY TO HOUR`.
pub(crate) fn day_time_text(micros: i64, fields: &str) -> String {
    let (first, last) = ends(fields, &DAY_TIME).unwrap_or((0, 3));
    let sign = if micros < 0 { "-" } else { "" };
    let mut rest = micros.unsigned_abs();
    let sizes = [DAY_MICROS as u64, 3_600_000_000, 60_000_000, 1_000_000];
    let mut text = String::from(sign);
    for (place, size) in sizes.into_iter().enumerate().take(last + 1).skip(first) {
        let count = rest / size;
        rest %= size;
        let before = match place {
            place if place == first => "",
            1 => " ",
            _ => ":",
        };
        match place {
            0 => text.push_str(&format!("{before}{count}")),
            _ => text.push_str(&format!("{before}{count:02}")),
        }
        if place == 3 {
            text.push_str(&fraction_text(rest));
        }
    }
    format!("INTERVAL '{text}' {fields}")
}

/// A year-month interval written with these fields: `INTERVAL '3' YEAR`.
pub(crate) fn year_month_text(months: i32, fields: &str) -> String {
    match fields {
        "YEAR" => format!("INTERVAL '{}' YEAR", months / 12),
        "MONTH" => format!("INTERVAL '{months}' MONTH"),
        _ => super::intervals::year_month_text(months),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_written_with_the_fields_they_name() {
        let micros = 93_784_500_000;
        for (fields, expected) in [
            ("DAY", "INTERVAL '1' DAY"),
            ("DAY TO HOUR", "INTERVAL '1 02' DAY TO HOUR"),
            ("HOUR TO MINUTE", "INTERVAL '26:03' HOUR TO MINUTE"),
            ("MINUTE", "INTERVAL '1563' MINUTE"),
            ("SECOND", "INTERVAL '93784.5' SECOND"),
            ("DAY TO SECOND", "INTERVAL '1 02:03:04.5' DAY TO SECOND"),
        ] {
            assert_eq!(day_time_text(micros, fields), expected);
        }
        assert_eq!(day_time_text(-7_200_000_000, "HOUR"), "INTERVAL '-02' HOUR");
        assert_eq!(year_month_text(-14, "MONTH"), "INTERVAL '-14' MONTH");
        assert_eq!(year_month_text(36, "YEAR"), "INTERVAL '3' YEAR");
    }
}
