//! Key columns as they are compared: values that are equal to a grouping have equal bytes.
//!
//! Arrow's row encoding tells -0.0 from 0.0 and one NaN from another; as keys they are the same value. Whoever encodes keys,
//! the exchange in front of an operator and the operator's state, normalizes them here, so that both find the same key group.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeListArray, ListArray, StructArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

/// The column with every -0.0 as 0.0 and every NaN as one NaN, inside structs and lists as well; without floating-point numbers
/// the same column.
pub fn normal_key(column: &ArrayRef) -> ArrayRef {
    if !has_float(column.data_type()) {
        return Arc::clone(column);
    }
    match column.data_type() {
        DataType::Float32 => Arc::new(
            column
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            column
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }),
        ),
        DataType::Struct(fields) => {
            let inner = column.as_struct().columns().iter().map(normal_key);
            Arc::new(StructArray::new(
                fields.clone(),
                inner.collect(),
                column.nulls().cloned(),
            ))
        }
        DataType::List(item) => {
            let list = column.as_list::<i32>();
            let (offsets, values) = (list.offsets().clone(), normal_key(list.values()));
            Arc::new(ListArray::new(
                Arc::clone(item),
                offsets,
                values,
                list.nulls().cloned(),
            ))
        }
        DataType::LargeList(item) => {
            let list = column.as_list::<i64>();
            let (offsets, values) = (list.offsets().clone(), normal_key(list.values()));
            let nulls = list.nulls().cloned();
            Arc::new(LargeListArray::new(
                Arc::clone(item),
                offsets,
                values,
                nulls,
            ))
        }
        _ => Arc::clone(column),
    }
}

fn has_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_float(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) => has_float(item.data_type()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;
    use arrow::datatypes::{Field, Fields};

    use super::*;

    fn bits(column: &ArrayRef) -> Vec<u64> {
        let values = column.as_primitive::<Float64Type>().values();
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn zeros_of_both_signs_and_all_nans_become_one_also_when_nested() {
        let quiet = f64::from_bits(f64::NAN.to_bits() | 1);
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, 0.0, -quiet, f64::NAN]));
        let normal = normal_key(&numbers);
        assert_eq!(bits(&normal)[..2], [0, 0]);
        assert_eq!(bits(&normal)[2], bits(&normal)[3]);
        let fields = Fields::from(vec![Field::new("v", DataType::Float64, true)]);
        let nested: ArrayRef = Arc::new(StructArray::new(fields, vec![numbers], None));
        assert_eq!(
            bits(normal_key(&nested).as_struct().column(0)),
            bits(&normal)
        );
    }

    #[test]
    fn columns_without_floating_point_numbers_are_not_copied() {
        let column: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1]));
        assert!(Arc::ptr_eq(&column, &normal_key(&column)));
    }
}
