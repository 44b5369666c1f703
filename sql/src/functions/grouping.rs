//! `grouping` and `grouping_id`, from the number that tells the sets of keys of one aggregation apart.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::kernel::{Call, Kernel};

/// The bits at these positions of a set's id, the first the highest.
pub fn bits(id: Expr, positions: &[usize]) -> Expr {
    let positions: Vec<String> = positions.iter().map(ToString::to_string).collect();
    Kernel::call(
        "grouping_bits",
        DataType::Int32,
        positions.join(" "),
        picked,
        vec![id],
    )
}

/// A set's id in the type that plans give it.
pub fn id_as(id: Expr, data_type: &DataType) -> Expr {
    let code = |call: &Call<'_>| {
        call.over_arrays(|arrays| Ok(arrow::compute::cast(&arrays[0], call.returns)?))
    };
    Kernel::call("grouping_id_as", data_type.clone(), "", code, vec![id])
}

fn picked(call: &Call<'_>) -> Result<ColumnarValue> {
    let positions: Vec<u32> = call
        .params
        .split_whitespace()
        .filter_map(|position| position.parse().ok())
        .collect();
    if positions.len() > 31 {
        return plan_err!("grouping of {} keys, allowed: 31", positions.len());
    }
    call.over_arrays(|arrays| {
        let ids = arrays[0].as_primitive::<Int64Type>();
        let bit = |id: i64, position: &u32| ((id >> position) & 1) as i32;
        let pick = |id: i64| positions.iter().fold(0, |all, p| all << 1 | bit(id, p));
        let picked: Int32Array = ids.unary(pick);
        Ok(Arc::new(picked) as ArrayRef)
    })
}
