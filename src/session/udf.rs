//! Functions of the user in SQL and in expressions.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use weir_runtime::{Result, WeirError};

use super::Session;
use crate::types::parse_type;

/// The code of a function: the arguments as columns of equal length, the result as one column of that length.
pub type ScalarFn = dyn Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync;

impl Session {
    /// Registers a function for SQL and returns a maker of calls for expressions. Types are Spark's (`"BIGINT"`,
    /// `"ARRAY<STRING>"`); arguments are cast to theirs. The same arguments must always give the same result.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, AsArray, Int64Array};
    /// # use arrow::datatypes::Int64Type;
    /// # fn main() -> weir::Result<()> {
    /// # let session = weir::Session::new()?;
    /// let double = session.udf("double_it", &["BIGINT"], "BIGINT", |columns| {
    ///     let values = columns[0].as_primitive::<Int64Type>();
    ///     Ok(Arc::new(values.unary::<_, Int64Type>(|value| value * 2)) as ArrayRef)
    /// })?;
    /// # let _ = double(vec![weir::col("v")]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If a type text is no type.
    pub fn udf<F>(
        &self,
        name: &str,
        arguments: &[&str],
        returns: &str,
        code: F,
    ) -> Result<impl Fn(Vec<Expr>) -> Expr + use<F>>
    where
        F: Fn(&[ArrayRef]) -> Result<ArrayRef> + Send + Sync + 'static,
    {
        let parse = |text: &str| {
            parse_type(text).map_err(|error| WeirError::plan(error.to_string()).with_source(error))
        };
        let types = arguments
            .iter()
            .map(|text| parse(text))
            .collect::<Result<Vec<_>>>()?;
        let signature = match types.is_empty() {
            true => Signature::nullary(Volatility::Immutable),
            false => Signature::exact(types, Volatility::Immutable),
        };
        let function = Function {
            name: name.to_lowercase(),
            signature,
            returns: parse(returns)?,
            code: Arc::new(code),
        };
        let udf = Arc::new(ScalarUDF::from(function));
        self.context().register_udf(udf.as_ref().clone());
        Ok(move |arguments: Vec<Expr>| udf.call(arguments))
    }
}

struct Function {
    name: String,
    signature: Signature,
    returns: DataType,
    code: Arc<ScalarFn>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Two functions are equal if they are the same registration.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.code, &other.code)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments
            .args
            .iter()
            .map(|value| value.to_array(rows))
            .collect::<DfResult<Vec<_>>>()?;
        let fail = |error: WeirError| DataFusionError::External(Box::new(error));
        let result = (self.code)(&columns).map_err(fail)?;
        if result.len() != rows || !result.data_type().equals_datatype(&self.returns) {
            let message = format!(
                "function '{}' returned {} values of {} for {rows} rows, declared: {}",
                self.name,
                result.len(),
                result.data_type(),
                self.returns
            );
            return Err(fail(WeirError::data(message).with_condition("UDF_ERROR")));
        }
        Ok(ColumnarValue::Array(result))
    }
}
