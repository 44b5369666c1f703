//! Functions that take lambdas: `transform`, `filter`, `aggregate` and their kin.
//!
//! A lambda is evaluated over all elements of a batch at once: arrays and maps are taken apart into [`Elements`], columns that the
//! lambda mentions from outside are repeated for each element. Only elements of rows that are not NULL are seen by a lambda, so
//! that an error in it is always one of the user's data.

mod arrays;
mod fold;
mod maps;
mod sort;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::take_arrays;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda,
    Volatility,
};

use super::coerce::{element_type, list_types};
use super::error::{SparkError, mismatch};

/// One function that takes lambdas. Values stand before lambdas in the order of its arguments.
struct Function {
    name: &'static str,
    /// How many arguments are values.
    values: usize,
    /// How many lambdas there may be.
    lambdas: (usize, usize),
    /// The types of the parameters of each lambda, given the types of the values.
    parameters: fn(&[DataType]) -> Result<Vec<Vec<DataType>>>,
    /// The type of the result, given the types of values and lambdas.
    returns: fn(&[DataType], &[DataType]) -> Result<DataType>,
    run: fn(&Run<'_>) -> Result<ArrayRef>,
}

const FAMILIES: [&[Function]; 4] = [
    arrays::FUNCTIONS,
    fold::FUNCTIONS,
    sort::FUNCTIONS,
    maps::FUNCTIONS,
];

/// Names of all functions that take lambdas.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.into_iter().flatten().map(|function| function.name)
}

/// The function that takes lambdas by its name, in any letter case.
pub(crate) fn named(name: &str) -> Option<Arc<HigherOrderUDF>> {
    let function = FAMILIES
        .into_iter()
        .flatten()
        .find(|function| function.name.eq_ignore_ascii_case(name))?;
    Some(Arc::new(HigherOrderUDF::from(Lambdas {
        function,
        signature: HigherOrderSignature::variadic_any(Volatility::Immutable),
    })))
}

/// A [`Function`] as DataFusion calls it.
struct Lambdas {
    function: &'static Function,
    signature: HigherOrderSignature,
}

impl std::fmt::Debug for Lambdas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.function.name)
    }
}

impl PartialEq for Lambdas {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for Lambdas {}

impl Hash for Lambdas {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl Lambdas {
    /// The types of the values; fails unless the call has the arguments that the function takes.
    fn check<L>(&self, arguments: &[ValueOrLambda<FieldRef, L>]) -> Result<Vec<DataType>> {
        let types: Vec<DataType> = arguments
            .iter()
            .filter_map(|argument| match argument {
                ValueOrLambda::Value(field) => Some(field.data_type().clone()),
                ValueOrLambda::Lambda(_) => None,
            })
            .collect();
        let (min, max) = self.function.lambdas;
        let ordered = arguments[..types.len()]
            .iter()
            .all(|argument| matches!(argument, ValueOrLambda::Value(_)));
        let lambdas = arguments.len() - types.len();
        if types.len() != self.function.values || !(min..=max).contains(&lambdas) || !ordered {
            let message = format!(
                "{} takes {} values and then {min} to {max} lambdas, it was given {} and {lambdas}",
                self.function.name,
                self.function.values,
                types.len()
            );
            return Err(SparkError::external("WRONG_NUM_ARGS", message));
        }
        Ok(types)
    }

    fn refused(
        &self,
        types: &[DataType],
    ) -> impl FnOnce(datafusion::error::DataFusionError) -> datafusion::error::DataFusionError {
        let (name, types) = (self.function.name, list_types(types));
        move |e| match SparkError::find(&e) {
            Some(found) => SparkError::external(
                found.condition,
                format!("{name} over {types}: {}", found.message),
            ),
            None => e,
        }
    }
}

impl HigherOrderUDFImpl for Lambdas {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let types = self.check(fields)?;
        let parameters = (self.function.parameters)(&types).map_err(self.refused(&types))?;
        let field = |t| Arc::new(Field::new("", t, true));
        Ok(LambdaParametersProgress::Complete(
            parameters
                .into_iter()
                .take(fields.len() - types.len())
                .map(|types| types.into_iter().map(field).collect())
                .collect(),
        ))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = self.check(args.arg_fields)?;
        let lambdas: Vec<DataType> = args
            .arg_fields
            .iter()
            .filter_map(|argument| match argument {
                ValueOrLambda::Lambda(field) => Some(field.data_type().clone()),
                ValueOrLambda::Value(_) => None,
            })
            .collect();
        let returns = (self.function.returns)(&types, &lambdas).map_err(self.refused(&types))?;
        Ok(Arc::new(Field::new("", returns, true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (mut values, mut lambdas) = (vec![], vec![]);
        for argument in &args.args {
            match argument {
                ValueOrLambda::Value(value) => values.push(value.to_array(args.number_rows)?),
                ValueOrLambda::Lambda(lambda) => lambdas.push(lambda),
            }
        }
        let run = Run {
            values,
            lambdas,
            returns: args.return_type(),
        };
        Ok(ColumnarValue::Array((self.function.run)(&run)?))
    }
}

/// One call over one batch.
struct Run<'a> {
    /// The values as columns.
    values: Vec<ArrayRef>,
    lambdas: Vec<&'a LambdaArgument>,
    returns: &'a DataType,
}

/// The result of `lambda` for each element; `parameters` have one value an element, `rows` says which row each is of.
fn evaluate(
    lambda: &LambdaArgument,
    parameters: &[&ArrayRef],
    rows: &UInt32Array,
) -> Result<ArrayRef> {
    let columns: Vec<_> = parameters
        .iter()
        .map(|column| move || Ok(Arc::clone(column)))
        .collect();
    let columns: Vec<&dyn Fn() -> Result<ArrayRef>> =
        columns.iter().map(|column| column as _).collect();
    let spread = |captured: &[ArrayRef]| Ok(take_arrays(captured, rows, None)?);
    lambda.evaluate(&columns, spread)?.into_array(rows.len())
}

/// As [`evaluate`] for a condition.
fn holds(
    lambda: &LambdaArgument,
    parameters: &[&ArrayRef],
    rows: &UInt32Array,
) -> Result<BooleanArray> {
    let found = evaluate(lambda, parameters, rows)?;
    match found.data_type() {
        DataType::Null => Ok(BooleanArray::new_null(found.len())),
        _ => Ok(found.as_boolean().clone()),
    }
}

/// The type of the elements of the array `t`.
fn element(t: &DataType) -> Result<DataType> {
    match element_type(t) {
        Some(element) => Ok(element),
        None if *t == DataType::Null => Ok(DataType::Null),
        None => Err(mismatch("an array is expected")),
    }
}

/// Fails unless `t` is a condition's type.
fn boolean(t: &DataType) -> Result<()> {
    match t {
        DataType::Boolean | DataType::Null => Ok(()),
        other => Err(mismatch(format!(
            "the lambda must give BOOLEAN, it gives {}",
            list_types(std::slice::from_ref(other))
        ))),
    }
}
