//! Values that an expression could not read and made NULL, as the user asked: counted where they are met.
//!
//! Expressions know nothing of the operator that evaluates them, but they run on its thread and inside one call of it. What they
//! report there, the engine adds to the counters of the operator and of the source the rows come from.

use std::cell::Cell;

thread_local! {
    static REPORTED: Cell<u64> = const { Cell::new(0) };
}

/// Says that so many of the values an expression was given could not be read (a payload that is no JSON, bytes that are not of the
/// schema). Counts for the operator that evaluates the expression, on this thread; outside of a streaming query nobody counts.
pub fn report_malformed(values: usize) {
    REPORTED.with(|reported| reported.set(reported.get().saturating_add(values as u64)));
}

/// Runs a call of an operator; also gives the number of values that were reported in it.
pub(crate) fn counting<T>(call: impl FnOnce() -> T) -> (T, u64) {
    REPORTED.with(|reported| reported.set(0));
    let outcome = call();
    (outcome, REPORTED.with(Cell::take))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_values_are_counted_in_the_call_they_are_reported_in() {
        report_malformed(7);
        let (outcome, counted) = counting(|| {
            report_malformed(2);
            report_malformed(1);
            "done"
        });
        assert_eq!((outcome, counted), ("done", 3));
        assert_eq!(counting(|| ()).1, 0);
    }
}
