//! What functions over payloads (JSON, Avro, Protobuf) have in common: options, the mode for bad payloads, columns of bytes.
//!
//! Such a call is a [`Kernel`] with a [`Codec`](super::kernel::Codec), which owns what the call needs from row to row: parsed schemas, a
//! connection to a registry. Nothing of it is shared with other calls. Two calls are the same if their names, result types and
//! settings are; settings never hold secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, StringArray, StructArray, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use weir_runtime::report_malformed;

use super::error::{SparkError, mismatch};
use super::kernel::{Codec, Kernel};
use super::{Args, Resolver};

/// What happens to a payload that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The query fails.
    FailFast,
    /// The row gets NULL; a struct of NULLs where the payload is a struct, as in Spark.
    Permissive,
}

/// Why one payload cannot be read.
pub(super) type Bad = String;

/// Why those of a column cannot be read that cannot.
pub(super) type Reasons = Vec<Option<Bad>>;

/// Options of one call: a constant `map()`, keys in lower case.
#[derive(Default)]
pub(super) struct Options {
    function: &'static str,
    values: BTreeMap<String, String>,
}

impl Options {
    /// The options in argument `i`, if the call has one.
    ///
    /// # Errors
    /// An argument that is no constant map of texts, or an option that is not in `known`.
    pub(super) fn of(
        args: &Args<'_>,
        i: usize,
        function: &'static str,
        known: &[&str],
    ) -> Result<Self> {
        let values = match args.exprs.get(i) {
            Some(e) => constant_map(e, function)?,
            None => BTreeMap::new(),
        };
        for key in values.keys() {
            if !known.iter().any(|name| name.eq_ignore_ascii_case(key)) {
                let known = known.join(", ");
                return Err(SparkError::external(
                    "INVALID_OPTIONS.UNKNOWN",
                    format!("{function}: unknown option '{key}', allowed are {known}"),
                ));
            }
        }
        Ok(Self { function, values })
    }

    /// The value of an option.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values
            .get(&name.to_ascii_lowercase())
            .map(String::as_str)
    }

    /// An option that is `true` or `false`.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(self.wrong(name, "true, false")),
        }
    }

    /// An option that is a whole number.
    pub(super) fn number(&self, name: &str, default: i64) -> Result<i64> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| self.wrong(name, "a whole number")),
        }
    }

    /// The option `mode`, FAILFAST if it is not given.
    pub(super) fn mode(&self) -> Result<Mode> {
        let mode = self.get("mode").unwrap_or("FAILFAST");
        match mode.to_ascii_uppercase().as_str() {
            "FAILFAST" => Ok(Mode::FailFast),
            "PERMISSIVE" => Ok(Mode::Permissive),
            other => Err(SparkError::external(
                "PARSE_MODE_UNSUPPORTED",
                format!(
                    "{}: mode {other}; allowed are PERMISSIVE, FAILFAST",
                    self.function
                ),
            )),
        }
    }

    /// An error about the value of an option; the value itself may be secret and is not shown.
    pub(super) fn wrong(&self, name: &str, allowed: &str) -> DataFusionError {
        SparkError::external(
            "INVALID_OPTIONS.VALUE",
            format!("{}: option '{name}' must be {allowed}", self.function),
        )
    }
}

/// A call of `map` on constants, keys in lower case. Values may be secrets: no error shows them.
pub(super) fn constant_map(e: &Expr, function: &str) -> Result<BTreeMap<String, String>> {
    let wrong = || {
        SparkError::external(
            "INVALID_OPTIONS.NON_MAP_FUNCTION",
            format!("{function}: options must be a map() of constant texts"),
        )
    };
    let (_, args) = Kernel::of(e, "map").ok_or_else(wrong)?;
    let text = |e: &Expr| match e {
        Expr::Literal(v, _) => match v.cast_to(&DataType::Utf8) {
            Ok(ScalarValue::Utf8(Some(text))) => Ok(text),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    };
    args.chunks(2)
        .map(|pair| match pair {
            [k, v] => Ok((text(k)?.to_ascii_lowercase(), text(v)?)),
            _ => Err(wrong()),
        })
        .collect()
}

/// The payload column of a call, which has to be BINARY: a text in its place is a mistake that would read as rubbish.
pub(super) fn binary_argument(args: &Args<'_>) -> Result<Expr> {
    match &args.types[0] {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::Null => {
            args.cast(0, &DataType::Binary)
        }
        other => Err(mismatch(format!(
            "{} reads BINARY, it was given {}",
            args.name,
            super::cast::type_text(other)
        ))),
    }
}

/// A payload column in the one layout that decoders read.
pub(super) fn binary(input: &ArrayRef) -> Result<BinaryArray> {
    match input.data_type() {
        DataType::Binary => Ok(input.as_binary::<i32>().clone()),
        _ => Ok(cast(input, &DataType::Binary)?.as_binary::<i32>().clone()),
    }
}

/// What the mode makes of payloads that are bad for these reasons: in FAILFAST an error for the first, else they are counted.
pub(super) fn by_mode(
    mode: Mode,
    condition: &'static str,
    function: &str,
    reasons: &[Option<Bad>],
) -> Result<()> {
    let mut bad = reasons
        .iter()
        .enumerate()
        .filter_map(|(row, why)| Some((row, why.as_ref()?)));
    match (mode, bad.next()) {
        (_, None) => {}
        (Mode::FailFast, Some((row, why))) => return Err(malformed(condition, function, row, why)),
        (Mode::Permissive, Some(_)) => report_malformed(1 + bad.count()),
    }
    Ok(())
}

/// The functions that look at payloads without reading them.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[("payload_error", payload_error)];

/// `payload_error(from_avro(…))`: why the payload cannot be read, as STRING; NULL if it can be, or is NULL.
fn payload_error(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 1)?;
    match Kernel::codec(&args.exprs[0]) {
        Some((kernel, codec, input)) if codec.reads_payloads() => Ok(Kernel::with_codec(
            "payload_error",
            DataType::Utf8,
            kernel.words(),
            Arc::new(PayloadError(Arc::clone(codec))),
            input[0].clone(),
        )),
        _ => Err(mismatch(
            "payload_error takes a call of from_json, from_avro or from_protobuf, and nothing around it",
        )),
    }
}

#[derive(Debug)]
struct PayloadError(Arc<dyn Codec>);

impl Codec for PayloadError {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        Ok(Arc::new(StringArray::from(self.0.malformed(input)?)))
    }
}

/// The error for the first bad row of a batch in FAILFAST mode.
fn malformed(condition: &'static str, function: &str, row: usize, why: &str) -> DataFusionError {
    SparkError::external(
        condition,
        format!(
            "{function}: row {row} of the batch (from 0) is malformed: {why}; parse mode FAILFAST, \
             with the option 'mode' PERMISSIVE such rows are NULL"
        ),
    )
}

/// The result for rows that are NULL in (`null`) or bad: NULL for both, except that bad rows of a struct are structs of NULLs.
pub(super) fn bad_struct(
    out: ArrayRef,
    null: &BinaryArray,
    bad: &[Option<Bad>],
) -> Result<ArrayRef> {
    let (DataType::Struct(fields), true) = (out.data_type(), bad.iter().any(Option::is_some))
    else {
        return Ok(out);
    };
    let columns = out.as_struct().columns().to_vec();
    let alive: Vec<bool> = (0..out.len())
        .map(|i| null.is_valid(i) && (bad[i].is_some() || out.is_valid(i)))
        .collect();
    if fields.is_empty() {
        return Ok(new_null_array(out.data_type(), out.len()));
    }
    Ok(Arc::new(StructArray::try_new(
        fields.clone(),
        columns,
        Some(alive.into()),
    )?))
}

/// `t` with every field nullable, however deep.
pub(super) fn nullable(t: &DataType) -> DataType {
    let field = |f: &FieldRef, may: bool| {
        let t = nullable(f.data_type());
        Arc::new(f.as_ref().clone().with_data_type(t).with_nullable(may))
    };
    match t {
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|f| field(f, true)).collect())
        }
        DataType::List(item) => DataType::List(field(item, true)),
        DataType::Map(entries, ordered) => {
            let DataType::Struct(parts) = entries.data_type() else {
                return t.clone();
            };
            let parts = vec![field(&parts[0], false), field(&parts[1], true)];
            let entries = Field::new(entries.name(), DataType::Struct(parts.into()), false);
            DataType::Map(Arc::new(entries), *ordered)
        }
        _ => t.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{as_json, error};

    #[tokio::test]
    async fn payload_errors_say_why_whatever_the_mode() {
        let payloads = [Some(b"\x06".to_vec()), None, Some(b"\x06\x06".to_vec())];
        for mode in ["FAILFAST", "PERMISSIVE"] {
            let call = format!("payload_error(from_avro(b, '\"long\"', map('mode', '{mode}')))");
            let (data_type, reasons) = as_json(&payloads, &call).await.expect("reasons");
            assert_eq!(data_type, "STRING");
            assert_eq!(&reasons[..2], [None, None], "{mode}");
            let reason = reasons[2].as_deref().expect("bytes are left over");
            assert!(reason.contains("left"), "{reason}");
        }
        let payloads = [Some(b"{\"a\":1}".to_vec()), Some(b"{\"a\":".to_vec())];
        let call = "payload_error(from_json(CAST(b AS STRING), 'a INT'))";
        let (_, reasons) = as_json(&payloads, call).await.expect("reasons");
        let told = "malformed record '{\\\"a\\\":'";
        assert!(reasons[0].is_none(), "{reasons:?}");
        assert!(
            reasons[1].as_deref().is_some_and(|why| why.contains(told)),
            "{reasons:?}"
        );
    }

    #[tokio::test]
    async fn payload_error_takes_calls_that_read_payloads_and_nothing_else() {
        for argument in ["b", "from_json(CAST(b AS STRING), 'a INT').a", "to_avro(b)"] {
            let (condition, message) = error(&[], &format!("payload_error({argument})")).await;
            assert_eq!(condition, "DATATYPE_MISMATCH", "{argument}: {message}");
            assert!(message.contains("from_avro"), "{message}");
        }
    }
}
