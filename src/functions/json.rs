//! JSON functions: `from_json`, `to_json`, `get_json_object`, `json_tuple` and their kin.
//!
//! [`JsonDecoder`] is the seam for another decoder of records, such as the one of the file sources.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListBuilder, StringArray, StringBuilder, StructArray,
};
use arrow::datatypes::{DataType, Fields};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr};
use serde_json::Value;

use super::coerce::array_of;
use super::error::SparkError;
use super::json_path::JsonPath;
use super::json_text::{Column, compact};
use super::json_write::{type_of, value_json};
use super::kernel::{Call, Kernel};
use super::{Args, Resolver};
use crate::types;

/// The JSON family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("from_json", from_json),
    ("to_json", |a| {
        a.expect(1, 2)?;
        match &a.types[0] {
            DataType::Struct(_) | DataType::Map(_, _) | DataType::List(_) => {}
            _ => return a.refuse(),
        }
        Ok(Kernel::call(
            "to_json",
            DataType::Utf8,
            "",
            |c| {
                c.over_arrays(|a| {
                    let rows = (0..a[0].len()).map(|i| {
                        if a[0].is_null(i) {
                            Ok(None)
                        } else {
                            value_json(&a[0], i).map(Some)
                        }
                    });
                    Ok(Arc::new(rows.collect::<Result<StringArray>>()?) as _)
                })
            },
            a.exprs[..1].to_vec(),
        ))
    }),
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
                        Some(serde_json::from_str::<Value>(v).ok()?.as_array()?.len() as i32)
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
    ("schema_of_json", |a| {
        a.expect(1, 2)?;
        let sample = a.constant_text(0)?;
        let value: Value = serde_json::from_str(&sample).map_err(|e| {
            SparkError::external(
                "MALFORMED_RECORD_IN_PARSING",
                format!("schema_of_json: '{sample}': {e}"),
            )
        })?;
        Ok(datafusion::logical_expr::lit(types::type_name(&type_of(
            &value,
        ))))
    }),
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
        let mut bad = vec![false; texts.len()];
        let blank = |i: usize| texts.is_null(i) || texts.value(i).trim().is_empty();
        let record = |i: usize| (!blank(i)).then(|| texts.value(i).trim());
        let column = Column::of_rows((0..texts.len()).map(record).collect());
        let data: Fields = fields
            .iter()
            .filter(|f| f.name() != corrupt)
            .cloned()
            .collect();
        let decoded = column.decode(&DataType::Struct(data), &mut bad)?;
        if mode == ParseMode::FailFast
            && let Some(i) = bad.iter().position(|b| *b)
        {
            let message = format!(
                "malformed record '{}' in parse mode FAILFAST",
                texts.value(i)
            );
            return Err(SparkError::external(
                "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
                message,
            ));
        }
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
        Ok(Arc::new(StructArray::try_new(
            fields.clone(),
            columns,
            Some(alive.into()),
        )?))
    }
}

/// `from_json(text, schema[, options])` with a constant schema in DDL.
fn from_json(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let ddl = args.constant_text(1)?;
    let t = schema_type(&ddl)?;
    let options = match args.exprs.get(2) {
        Some(e) => constant_map(e)?,
        None => HashMap::new(),
    };
    let mode = options
        .get("mode")
        .map_or("PERMISSIVE".to_owned(), |m| m.to_uppercase());
    if !matches!(mode.as_str(), "PERMISSIVE" | "FAILFAST") {
        return Err(SparkError::external(
            "PARSE_MODE_UNSUPPORTED",
            format!("from_json: mode {mode}; allowed are PERMISSIVE, FAILFAST"),
        ));
    }
    let corrupt = options
        .get("columnnameofcorruptrecord")
        .map_or("_corrupt_record", String::as_str);
    Ok(Kernel::call(
        "from_json",
        t,
        format!("{mode} {corrupt}"),
        decode,
        vec![args.string(0)?],
    ))
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

/// A call of `map` on constants, keys in lower case.
fn constant_map(e: &Expr) -> Result<HashMap<String, String>> {
    let texts = Kernel::of(e, "map").map(|(_, args)| {
        args.iter()
            .map(|a| match a {
                Expr::Literal(v, _) => match v.cast_to(&DataType::Utf8) {
                    Ok(ScalarValue::Utf8(Some(text))) => Some(text),
                    _ => None,
                },
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
    });
    match texts {
        Some(Some(texts)) => Ok(texts
            .chunks(2)
            .map(|p| (p[0].to_lowercase(), p[1].clone()))
            .collect()),
        _ => Err(SparkError::external(
            "INVALID_OPTIONS.NON_MAP_FUNCTION",
            "options must be a map() of constant texts",
        )),
    }
}

fn decode(call: &Call<'_>) -> Result<ColumnarValue> {
    let (mode, corrupt) = call.params.split_once(' ').unwrap_or(("PERMISSIVE", ""));
    let mode = if mode == "FAILFAST" {
        ParseMode::FailFast
    } else {
        ParseMode::Permissive
    };
    call.over_arrays(|a| {
        let texts = a[0].as_string::<i32>();
        if let DataType::Struct(fields) = call.returns {
            return RecordDecoder.decode(texts, fields, mode, corrupt);
        }
        let mut bad = vec![false; texts.len()];
        let rows = texts
            .iter()
            .map(|v| v.map(str::trim).filter(|v| !v.is_empty()));
        let out = Column::of_rows(rows.collect()).decode(call.returns, &mut bad)?;
        match bad.iter().position(|b| *b) {
            Some(i) if mode == ParseMode::FailFast => {
                let message = format!(
                    "malformed record '{}' in parse mode FAILFAST",
                    texts.value(i)
                );
                Err(SparkError::external(
                    "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
                    message,
                ))
            }
            _ => Ok(out),
        }
    })
}

fn find(call: &Call<'_>) -> Result<ColumnarValue> {
    let fixed = match &call.args[1] {
        ColumnarValue::Scalar(ScalarValue::Utf8(Some(p))) => Some(JsonPath::parse(p)),
        _ => None,
    };
    call.over_arrays(|a| {
        let (texts, paths) = (a[0].as_string::<i32>(), a[1].as_string::<i32>());
        let rows = texts.iter().zip(paths.iter()).map(|(t, p)| {
            let value: Value = serde_json::from_str(t?).ok()?;
            let found = match &fixed {
                Some(path) => path.as_ref()?.find(&value),
                None => JsonPath::parse(p?)?.find(&value),
            };
            plain(&found?)
        });
        Ok(Arc::new(rows.collect::<StringArray>()) as _)
    })
}

/// A value as `get_json_object` and `json_tuple` give it: texts bare, the rest as compact JSON, null as NULL.
fn plain(v: &Value) -> Option<String> {
    match v {
        Value::Null => None,
        Value::String(s) => Some(s.clone()),
        other => compact(&other.to_string()),
    }
}

fn keys(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let mut out = ListBuilder::new(StringBuilder::new());
        for v in a[0].as_string::<i32>().iter() {
            match v.and_then(|v| serde_json::from_str::<Value>(v).ok()) {
                Some(Value::Object(map)) => {
                    map.keys().for_each(|k| out.values().append_value(k));
                    out.append(true);
                }
                _ => out.append_null(),
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
        let parsed: Vec<Option<Value>> = a[0]
            .as_string::<i32>()
            .iter()
            .map(|t| serde_json::from_str(t?).ok())
            .collect();
        let columns = a[1..].iter().map(|names| {
            let names = names.as_string::<i32>().iter();
            let rows = parsed
                .iter()
                .zip(names)
                .map(|(v, name)| plain(v.as_ref()?.as_object()?.get(name?)?));
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
