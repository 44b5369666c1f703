//! One shape for all of Weir's own scalar functions: a kernel over columns whose result type is fixed at planning.
//!
//! Spark resolves a call from its argument types before anything runs, so a function here needs no signature of its own:
//! the resolver casts the arguments, computes the result type, and makes a [`Kernel`] carrying both.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, expr::ScalarFunction,
};
use datafusion::scalar::ScalarValue;
use weir_connectors::file::decode::parse::Zone;

use super::error::SparkError;
use crate::types::INTERVAL_FIELDS_KEY;

/// What a kernel sees of one call.
pub(crate) struct Call<'a> {
    /// The arguments, already of the types the resolver asked for.
    pub(crate) args: &'a [ColumnarValue],
    /// Rows in the batch.
    pub(crate) rows: usize,
    /// The result type.
    pub(crate) returns: &'a DataType,
    /// Constant settings fixed at planning (a mode, a path, …), empty if there are none.
    pub(crate) params: &'a str,
    /// The session's time zone.
    pub(crate) zone: Zone,
}

impl Call<'_> {
    /// All arguments as arrays, and whether the result may be cut back to a scalar.
    pub(crate) fn arrays(&self) -> Result<(Vec<ArrayRef>, bool)> {
        let scalar = !self.args.is_empty()
            && self
                .args
                .iter()
                .all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { self.rows };
        let arrays = self
            .args
            .iter()
            .map(|a| a.to_array(rows))
            .collect::<Result<_>>()?;
        Ok((arrays, scalar))
    }

    /// Runs `f` over the arguments as arrays; constants in, constant out.
    pub(crate) fn over_arrays(
        &self,
        f: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
    ) -> Result<ColumnarValue> {
        let (arrays, scalar) = self.arrays()?;
        let out = f(&arrays)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?));
        }
        Ok(ColumnarValue::Array(out))
    }
}

/// The code of a kernel.
pub(crate) type KernelFn = fn(&Call<'_>) -> Result<ColumnarValue>;

/// What a kernel does that was built once, at planning, from constant arguments, and is the call's own: as many values out as in,
/// in the same order.
pub(crate) trait Codec: fmt::Debug + Send + Sync {
    /// Runs over a whole column.
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef>;

    /// Whether it reads payloads, some of which may be bad.
    fn reads_payloads(&self) -> bool {
        false
    }

    /// Why each payload of a column cannot be read; `None` for those that can be, and for NULL. The mode makes no difference.
    fn malformed(&self, input: &ArrayRef) -> Result<Vec<Option<String>>> {
        Ok(vec![None; input.len()])
    }
}

#[derive(Clone)]
enum Code {
    Plain(KernelFn),
    Codec(Arc<dyn Codec>),
}

impl fmt::Debug for Code {
    /// Codecs may hold secrets, of a registry for one: nothing of them is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Codec(_) => "Codec",
        })
    }
}

/// A scalar function with fixed result type.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    name: &'static str,
    returns: DataType,
    params: String,
    code: Code,
    signature: Signature,
    /// The fields that an interval as result names.
    interval: Option<String>,
}

impl Kernel {
    /// A call of kernel `name` on `args`; `params` tells apart kernels of one name and type.
    pub(crate) fn call(
        name: &'static str,
        returns: DataType,
        params: impl Into<String>,
        code: KernelFn,
        args: Vec<Expr>,
    ) -> Expr {
        Self::call_with(name, returns, params, code, args, Volatility::Immutable)
    }

    /// As [`Kernel::call`], for kernels whose result is not a function of their arguments.
    pub(crate) fn call_with(
        name: &'static str,
        returns: DataType,
        params: impl Into<String>,
        code: KernelFn,
        args: Vec<Expr>,
        volatility: Volatility,
    ) -> Expr {
        Self::made(name, returns, params, Code::Plain(code), args, volatility)
    }

    /// A call of `name` on `input` that `codec` carries out. `params` says in words, without secrets, all that tells this call from
    /// another.
    pub(crate) fn with_codec(
        name: &'static str,
        returns: DataType,
        params: impl Into<String>,
        codec: Arc<dyn Codec>,
        input: Expr,
    ) -> Expr {
        let (code, args) = (Code::Codec(codec), vec![input]);
        Self::made(name, returns, params, code, args, Volatility::Immutable)
    }

    fn made(
        name: &'static str,
        returns: DataType,
        params: impl Into<String>,
        code: Code,
        args: Vec<Expr>,
        volatility: Volatility,
    ) -> Expr {
        let types = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        let kernel = Kernel {
            name,
            returns,
            params: params.into(),
            code,
            signature: Signature::one_of(types, volatility),
            interval: None,
        };
        Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(ScalarUDF::from(kernel)),
            args,
        ))
    }

    /// The same call with an interval as result that names these fields; other expressions are left as they are.
    pub(crate) fn with_interval(call: Expr, fields: &str) -> Expr {
        let Expr::ScalarFunction(call) = call else {
            return call;
        };
        let Some(kernel) = call.func.inner().downcast_ref::<Kernel>() else {
            return Expr::ScalarFunction(call);
        };
        let kernel = Kernel {
            interval: Some(fields.to_owned()),
            ..kernel.clone()
        };
        Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(ScalarUDF::from(kernel)),
            call.args,
        ))
    }

    /// Name and settings, which tell the call from others.
    pub(crate) fn words(&self) -> String {
        format!("{} {} {}", self.name, self.params, self.returns)
    }

    /// Constant settings given at planning.
    pub(crate) fn params(&self) -> &str {
        &self.params
    }

    /// The codec that carries the call out, if one does.
    pub(crate) fn codec(expr: &Expr) -> Option<(&Kernel, &Arc<dyn Codec>, &[Expr])> {
        let Expr::ScalarFunction(call) = expr else {
            return None;
        };
        let kernel = call.func.inner().downcast_ref::<Kernel>()?;
        match &kernel.code {
            Code::Codec(codec) => Some((kernel, codec, call.args.as_slice())),
            Code::Plain(_) => None,
        }
    }

    /// The kernel behind `expr`, if it is a call of the kernel `name`.
    pub(crate) fn of<'a>(expr: &'a Expr, name: &str) -> Option<(&'a Kernel, &'a [Expr])> {
        let Expr::ScalarFunction(call) = expr else {
            return None;
        };
        let kernel = call.func.inner().downcast_ref::<Kernel>()?;
        (kernel.name == name).then_some((kernel, call.args.as_slice()))
    }
}

impl Kernel {
    /// The call in words. Everything that tells two kernels of one name apart is part of it.
    fn shown(&self, args: String) -> String {
        if self.name.ends_with("cast") {
            return format!(
                "{}({args} AS {})",
                self.name,
                super::text::type_text(&self.returns)
            );
        }
        match self.params.is_empty() || self.params == self.name {
            true => format!("{}({args})", self.name),
            false => format!("{}[{}]({args})", self.name, self.params),
        }
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.returns == other.returns
            && self.params == other.params
            && self.interval == other.interval
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.returns.hash(state);
        self.params.hash(state);
    }
}

impl ScalarUDFImpl for Kernel {
    fn name(&self) -> &str {
        self.name
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        Ok(self.shown(args.join(", ")))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let args: Vec<String> = args.iter().map(|a| a.schema_name().to_string()).collect();
        Ok(self.shown(args.join(", ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name, self.returns.clone(), true);
        Ok(Arc::new(match &self.interval {
            None => field,
            Some(fields) => {
                let label = (INTERVAL_FIELDS_KEY.to_owned(), fields.clone());
                field.with_metadata(HashMap::from([label]))
            }
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let call = Call {
            args: &args.args,
            rows: args.number_rows,
            returns: &self.returns,
            params: &self.params,
            zone: session_zone(&args.config_options)?,
        };
        match &self.code {
            Code::Plain(code) => code(&call),
            Code::Codec(codec) => call.over_arrays(|columns| codec.run(&columns[0])),
        }
    }
}

/// The time zone of a session's settings; UTC if there is none.
pub(crate) fn session_zone(options: &ConfigOptions) -> Result<Zone> {
    match options.execution.time_zone.as_deref() {
        None => Ok(Zone::Utc),
        Some(name) => Zone::from_name(name)
            .map_err(|e| SparkError::external("INVALID_TIMEZONE", e.to_string())),
    }
}
