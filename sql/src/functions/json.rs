//! JSON functions: `from_json`, `to_json`, `get_json_object`, `json_tuple` and their kin.
//!
//! [`JsonDecoder`] is the seam for another decoder of records, such as the one of the file sources.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder, StructArray,
};
use arrow::datatypes::{DataType, Fields};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr};
use serde_json::value::RawValue;
use weir_runtime::report_malformed;

use super::coerce::{array_of, is_text};
use super::error::SparkError;
use super::json_infer::schema_of_json;
use super::json_options::{Formats, ReadOptions, WriteOptions};
use super::json_path::{JsonPath, plain};
use super::json_text::{Column, Entries, first_value};
use super::json_write::value_json;
use super::kernel::{Call, Codec, Kernel};
use super::payload::nullable;
use super::{Args, Resolver};
use crate::types;

/// The JSON family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("from_json", from_json),
    ("to_json", to_json),
    ("get_json_object", |a| {
        a.expect(2, 2)?;
        Ok(Kernel::call(
            "get_json_object",
            DataType::Utf8,
            "",
            find,
            vec![a.string(0)?, a.string(1)?],
        ))
    }),
    ("json_array_length", |a| {
        a.expect(1, 1)?;
        Ok(Kernel::call(
            "json_array_length",
            DataType::Int32,
            "",
            |c| {
                c.over_arrays(|a| {
                    let length = |v: &str| {
                        let items: Vec<&RawValue> =
                            serde_json::from_str(first_value(v)?.get()).ok()?;
                        Some(items.len() as i32)
                    };
                    let rows = a[0].as_string::<i32>().iter().map(|v| v.and_then(length));
                    Ok(Arc::new(rows.collect::<arrow::array::Int32Array>()) as _)
                })
            },
            vec![a.string(0)?],
        ))
    }),
    ("json_object_keys", |a| {
        a.expect(1, 1)?;
        Ok(Kernel::call(
            "json_object_keys",
            array_of(DataType::Utf8),
            "",
            keys,
            vec![a.string(0)?],
        ))
    }),
    ("schema_of_json", schema_of_json),
    ("json_tuple", |a| {
        let message = format!(
            "{} makes rows: it is allowed in LATERAL VIEW or as one whole column of SELECT",
            a.name
        );
        Err(SparkError::external(
            "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS",
            message,
        ))
    }),
];

/// What happens to a record that does not fit its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseMode {
    /// Fields that do not fit are NULL; the text goes to the corrupt-record column if the schema has one.
    Permissive,
    /// The query fails.
    FailFast,
}

/// Turns JSON records into structs. Implementations must keep the order and number of rows.
pub trait JsonDecoder: Send + Sync {
    /// One struct of `fields` for each text; `corrupt` names the field that takes the text of a bad record.
    ///
    /// # Errors
    /// In [`ParseMode::FailFast`] the first bad record.
    fn decode(
        &self,
        texts: &StringArray,
        fields: &Fields,
        mode: ParseMode,
        corrupt: &str,
    ) -> Result<ArrayRef>;
}

/// The decoder behind `from_json`: every record is parsed by itself, so one bad record costs nothing but itself.
#[derive(Debug, Default, Clone, Copy)]
pub struct RecordDecoder;

impl JsonDecoder for RecordDecoder {
    fn decode(
        &self,
        texts: &StringArray,
        fields: &Fields,
        mode: ParseMode,
        corrupt: &str,
    ) -> Result<ArrayRef> {
        let options = ReadOptions {
            mode,
            corrupt: corrupt.to_owned(),
            formats: Formats::default(),
        };
        let (structs, bad) = structs(texts, fields, &options)?;
        by_mode(mode, texts, &bad)?;
        Ok(structs)
    }
}

/// One struct of `fields` for each text, and which of the texts are bad.
fn structs(
    texts: &StringArray,
    fields: &Fields,
    options: &ReadOptions,
) -> Result<(ArrayRef, Vec<bool>)> {
    let corrupt = &options.corrupt;
    let mut bad = vec![false; texts.len()];
    let blank = |i: usize| texts.is_null(i) || texts.value(i).trim().is_empty();
    let record = |i: usize| (!blank(i)).then(|| texts.value(i).trim());
    let column = Column::of_rows((0..texts.len()).map(record).collect(), &options.formats);
    let data: Fields = fields
        .iter()
        .filter(|f| f.name() != corrupt)
        .cloned()
        .collect();
    let decoded = column.decode(&DataType::Struct(data), &mut bad)?;
    let decoded = decoded.as_struct();
    let mut columns = Vec::with_capacity(fields.len());
    let mut from = decoded.columns().iter();
    for field in fields {
        if field.name() == corrupt {
            let kept = (0..texts.len()).map(|i| bad[i].then(|| texts.value(i)));
            columns.push(Arc::new(kept.collect::<StringArray>()) as ArrayRef);
            continue;
        }
        columns.extend(from.next().cloned());
    }
    let alive: Vec<bool> = (0..texts.len()).map(|i| !blank(i)).collect();
    let structs = StructArray::try_new(fields.clone(), columns, Some(alive.into()))?;
    Ok((Arc::new(structs), bad))
}

/// What the mode makes of bad records: in FAILFAST an error for the first, else they are counted.
fn by_mode(mode: ParseMode, texts: &StringArray, bad: &[bool]) -> Result<()> {
    match bad.iter().position(|b| *b) {
        Some(i) if mode == ParseMode::FailFast => {
            let message = format!(
                "from_json: row {i} of the batch (from 0): malformed record '{}' in parse mode FAILFAST",
                beginning(texts.value(i))
            );
            Err(SparkError::external(
                "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
                message,
            ))
        }
        Some(_) => {
            report_malformed(bad.iter().filter(|bad| **bad).count());
            Ok(())
        }
        None => Ok(()),
    }
}

/// As much of a malformed record as is shown.
fn beginning(record: &str) -> String {
    record.chars().take(SHOWN).collect()
}

/// How much of a malformed record an error shows, in letters.
const SHOWN: usize = 1000;

/// `from_json(text, schema[, options])` with a constant schema in DDL.
fn from_json(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    if !is_text(&args.types[0]) && args.types[0] != DataType::Null {
        let given = super::cast::type_text(&args.types[0]);
        return Err(SparkError::external(
            "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
            format!(
                "from_json reads STRING, it was given {given}; CAST(… AS STRING) makes text of bytes"
            ),
        ));
    }
    let ddl = args.constant_text(1)?;
    let returns = schema_type(&ddl)?;
    let options = ReadOptions::of(&args, 2)?;
    if let DataType::Struct(fields) = &returns
        && let Some(field) = fields.iter().find(|f| *f.name() == options.corrupt)
        && (*field.data_type() != DataType::Utf8 || !field.is_nullable())
    {
        return Err(SparkError::external(
            "INVALID_CORRUPT_RECORD_TYPE",
            format!(
                "from_json: column `{}` for corrupt records must be a nullable STRING, it is {}",
                field.name(),
                super::cast::type_text(field.data_type())
            ),
        ));
    }
    let settings = format!("{options:?}");
    // A bad value is NULL, whatever the schema says, as in Spark.
    let returns = nullable(&returns);
    let codec = FromJson {
        returns: returns.clone(),
        options,
    };
    Ok(Kernel::with_codec(
        "from_json",
        returns,
        settings,
        Arc::new(codec),
        args.string(0)?,
    ))
}

#[derive(Debug)]
struct FromJson {
    returns: DataType,
    options: ReadOptions,
}

impl FromJson {
    /// The values, and which of the texts are bad.
    fn read(&self, texts: &StringArray) -> Result<(ArrayRef, Vec<bool>)> {
        if let DataType::Struct(fields) = &self.returns {
            return structs(texts, fields, &self.options);
        }
        let mut bad = vec![false; texts.len()];
        let rows = texts
            .iter()
            .map(|v| v.map(str::trim).filter(|v| !v.is_empty()));
        let column = Column::of_rows(rows.collect(), &self.options.formats);
        let out = column.decode(&self.returns, &mut bad)?;
        Ok((out, bad))
    }
}

impl Codec for FromJson {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        let texts = input.as_string::<i32>();
        let (values, bad) = self.read(texts)?;
        by_mode(self.options.mode, texts, &bad)?;
        Ok(values)
    }

    fn reads_payloads(&self) -> bool {
        true
    }

    fn malformed(&self, input: &ArrayRef) -> Result<Vec<Option<String>>> {
        let texts = input.as_string::<i32>();
        let (_, bad) = self.read(texts)?;
        let rows = bad.into_iter().enumerate();
        let reasons = rows.map(|(i, bad)| {
            bad.then(|| format!("malformed record '{}'", beginning(texts.value(i))))
        });
        Ok(reasons.collect())
    }
}

/// `to_json(value[, options])`.
fn to_json(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 2)?;
    match &args.types[0] {
        DataType::Struct(_) | DataType::Map(_, _) | DataType::List(_) => {}
        _ => return args.refuse(),
    }
    let options = WriteOptions::of(&args, 1)?;
    let settings = format!("{options:?}");
    let codec = Arc::new(ToJson(options));
    Ok(Kernel::with_codec(
        "to_json",
        DataType::Utf8,
        settings,
        codec,
        args.exprs[0].clone(),
    ))
}

#[derive(Debug)]
struct ToJson(WriteOptions);

impl Codec for ToJson {
    fn run(&self, input: &ArrayRef) -> Result<ArrayRef> {
        let rows = (0..input.len()).map(|i| match input.is_valid(i) {
            true => value_json(input, i, &self.0).map(Some),
            false => Ok(None),
        });
        Ok(Arc::new(rows.collect::<Result<StringArray>>()?))
    }
}

fn schema_type(ddl: &str) -> Result<DataType> {
    if let Ok(t) = types::parse_type(ddl)
        && matches!(
            t,
            DataType::Struct(_) | DataType::List(_) | DataType::Map(_, _)
        )
    {
        return Ok(t);
    }
    let schema = types::parse_schema(ddl)
        .map_err(|e| SparkError::external("PARSE_SYNTAX_ERROR", format!("from_json: {e}")))?;
    Ok(DataType::Struct(schema.fields().clone()))
}

fn find(call: &Call<'_>) -> Result<ColumnarValue> {
    let fixed = match &call.args[1] {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(p))) => Some(JsonPath::parse(p)),
        _ => None,
    };
    call.over_arrays(|a| {
        let (texts, paths) = (a[0].as_string::<i32>(), a[1].as_string::<i32>());
        let rows = texts
            .iter()
            .zip(paths.iter())
            .map(|(text, path)| match &fixed {
                Some(fixed) => fixed.as_ref()?.find(text?),
                None => JsonPath::parse(path?)?.find(text?),
            });
        Ok(Arc::new(rows.collect::<StringArray>()) as _)
    })
}

/// The entries of a JSON object.
fn entries(text: &str) -> Option<Entries<'_>> {
    serde_json::from_str(first_value(text)?.get()).ok()
}

fn keys(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let mut out = ListBuilder::new(StringBuilder::new());
        for v in a[0].as_string::<i32>().iter() {
            match v.and_then(entries) {
                Some(entries) => {
                    let keys = entries.0.iter().map(|(key, _)| key);
                    keys.for_each(|key| out.values().append_value(key));
                    out.append(true);
                }
                None => out.append_null(),
            }
        }
        Ok(Arc::new(out.finish()) as _)
    })
}

/// The generator `json_tuple`: one row of texts for each input row, as an array of one struct of `c0`, `c1`, ….
pub(crate) fn tuple(args: Vec<Expr>) -> Result<Expr> {
    if args.len() < 2 {
        return Err(SparkError::external(
            "WRONG_NUM_ARGS",
            "json_tuple takes a text and at least one field name",
        ));
    }
    let fields: Fields = (0..args.len() - 1)
        .map(|i| arrow::datatypes::Field::new(format!("c{i}"), DataType::Utf8, true))
        .collect();
    Ok(Kernel::call(
        "json_tuple",
        array_of(DataType::Struct(fields)),
        "",
        tuple_rows,
        args,
    ))
}

fn tuple_rows(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::List(item) = call.returns else {
        return plan_err!("{} is no array", call.returns);
    };
    let DataType::Struct(fields) = item.data_type() else {
        return plan_err!("{} has no fields", call.returns);
    };
    call.over_arrays(|a| {
        let parsed: Vec<Option<Entries<'_>>> = a[0]
            .as_string::<i32>()
            .iter()
            .map(|text| entries(text?))
            .collect();
        let columns = a[1..].iter().map(|names| {
            let names = names.as_string::<i32>().iter();
            let rows = parsed.iter().zip(names).map(|(entries, name)| {
                let (entries, name) = (entries.as_ref()?, name?);
                let entry = entries.0.iter().rev().find(|(key, _)| key == name)?;
                plain(entry.1.get())
            });
            Arc::new(rows.collect::<StringArray>()) as ArrayRef
        });
        let values = StructArray::try_new(fields.clone(), columns.collect(), None)?;
        let offsets =
            arrow::buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(1, parsed.len()));
        Ok(Arc::new(arrow::array::ListArray::try_new(
            Arc::clone(item),
            offsets,
            Arc::new(values),
            None,
        )?) as _)
    })
}
