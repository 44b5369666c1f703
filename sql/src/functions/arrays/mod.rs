//! Functions over whole arrays: sets, edits, sequences. Elements are equal as Spark holds them equal: NaN equals NaN, zeros have no
//! sign, and NULL is an element like others where a function speaks of sets.

mod edit;
mod series;
mod sets;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;

pub(super) use edit::check_size;

use super::coerce::{array_of, common_type, element_type};
use super::{Args, Resolver};

/// The family of arrays.
pub(super) const FUNCTIONS: [&[(&str, Resolver)]; 3] =
    [edit::FUNCTIONS, series::FUNCTIONS, sets::FUNCTIONS];

/// The element type of the array in argument `i`; VOID for the constant NULL.
fn element(args: &Args<'_>, i: usize) -> Result<DataType> {
    match element_type(&args.types[i]) {
        Some(element) => Ok(element),
        None if args.types[i] == DataType::Null => Ok(DataType::Null),
        None => args.refuse(),
    }
}

/// The array in argument 0 and the value in argument `i` in one type: both expressions, and the element's type.
fn array_and_value(args: &Args<'_>, i: usize) -> Result<(Expr, Expr, DataType)> {
    let own = element(args, 0)?;
    let Some(common) = common_type(&own, &args.types[i]) else {
        return args.refuse();
    };
    let array = args.cast(0, &array_of(common.clone()))?;
    Ok((array, args.cast(i, &common)?, common))
}

/// All arguments as arrays of one element type.
fn same_arrays(args: &Args<'_>) -> Result<(Vec<Expr>, DataType)> {
    for i in 0..args.exprs.len() {
        element(args, i)?;
    }
    let common = match args.common()? {
        DataType::Null => array_of(DataType::Null),
        common => common,
    };
    let arrays = (0..args.exprs.len()).map(|i| args.cast(i, &common));
    Ok((arrays.collect::<Result<_>>()?, common))
}

/// Two columns of one type as rows that compare as Spark's values do.
fn comparable(left: &ArrayRef, right: &ArrayRef) -> Result<(Rows, Rows)> {
    let converter = RowConverter::new(vec![SortField::new(left.data_type().clone())])?;
    let rows = |column: &ArrayRef| -> Result<Rows> {
        Ok(converter.convert_columns(&[super::normalize::normal(column)?])?)
    };
    Ok((rows(left)?, rows(right)?))
}

/// The numbers of an INT column.
fn ints(column: &ArrayRef) -> &arrow::array::Int32Array {
    column.as_primitive()
}
