//! Floating point numbers as keys: Spark groups -0.0 with 0.0, and every NaN with every other.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray, MapArray, StructArray,
};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;

use super::kernel::{Call, Kernel};

/// `expr`, of this type, with equal numbers in equal bits; unchanged if the type holds no floating point numbers.
pub fn normalized(expr: Expr, data_type: &DataType) -> Expr {
    if !has_floats(data_type) {
        return expr;
    }
    let code = |call: &Call<'_>| call.over_arrays(|arrays| normal(&arrays[0]));
    Kernel::call("normalize_floats", data_type.clone(), "", code, vec![expr])
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(field) | DataType::Map(field, _) => has_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        _ => false,
    }
}

/// The array with equal numbers in equal bits.
pub(crate) fn normal(array: &ArrayRef) -> Result<ArrayRef> {
    if !has_floats(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Float32 => {
            let values: Float32Array = array
                .as_primitive::<Float32Type>()
                .unary(|v| if v.is_nan() { f32::NAN } else { v + 0.0 });
            Arc::new(values)
        }
        DataType::Float64 => {
            let values: Float64Array = array
                .as_primitive::<Float64Type>()
                .unary(|v| if v.is_nan() { f64::NAN } else { v + 0.0 });
            Arc::new(values)
        }
        DataType::List(field) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(
                Arc::clone(field),
                offsets,
                normal(&values)?,
                nulls,
            )?)
        }
        DataType::Map(field, sorted) => {
            let (_, offsets, entries, nulls, _) = array.as_map().clone().into_parts();
            let entries = normal(&(Arc::new(entries) as ArrayRef))?;
            Arc::new(MapArray::try_new(
                Arc::clone(field),
                offsets,
                entries.as_struct().clone(),
                nulls,
                *sorted,
            )?)
        }
        _ => {
            let (fields, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().map(normal).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(fields, columns, nulls)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_and_nans_get_one_form_also_inside_of_structs() {
        let odd = f64::from_bits(0xfff8_0000_0000_0001);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, odd, f64::NAN, 1.5]));
        let bits = |array: &ArrayRef| -> Vec<u64> {
            array
                .as_primitive::<Float64Type>()
                .values()
                .iter()
                .map(|v| v.to_bits())
                .collect()
        };
        let flat = bits(&normal(&floats).expect("normal"));
        assert_eq!((flat[0], flat[2]), (flat[1], flat[3]));
        assert_eq!(flat[4], 1.5f64.to_bits());
        let field = arrow::datatypes::Field::new("f", DataType::Float64, true);
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(field), floats)]));
        let nested = normal(&nested).expect("normal");
        assert_eq!(bits(nested.as_struct().column(0)), flat);
    }
}
