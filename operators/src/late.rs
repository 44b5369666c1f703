//! Rows that came too late: counted, and given to whoever reads them.

use arrow::array::BooleanArray;
use weir_runtime::{OperatorContext, Outbox, Result, Rows};

/// Counts the rows marked in `late` and hands them over as they came.
pub(crate) fn hand_over(
    rows: &Rows,
    late: &BooleanArray,
    context: &OperatorContext,
    out: &mut Outbox,
) -> Result<()> {
    context.metrics.add_late(late.true_count());
    if context.late_output && late.true_count() > 0 {
        out.emit_late(rows.filter(late)?);
    }
    Ok(())
}
