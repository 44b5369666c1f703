//! Text: what Spark has and the libraries lack or do differently.

mod codes;
mod search;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, lit};
use datafusion::scalar::ScalarValue;

use super::coerce::cast_to;
use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::{Args, Resolver};

/// The family of texts.
pub(super) const FUNCTIONS: [&[(&str, Resolver)]; 3] =
    [LETTERS, codes::FUNCTIONS, search::FUNCTIONS];

const LETTERS: &[(&str, Resolver)] = &[
    ("concat", |a| concat(a.exprs.clone(), a.schema)),
    ("concat_ws", concat_ws),
    ("length", |a| text_to_int(a, "length")),
    ("len", |a| text_to_int(a, "length")),
    ("char_length", |a| text_to_int(a, "length")),
    ("character_length", |a| text_to_int(a, "length")),
    ("octet_length", |a| bytes(a, "octet_length", 1)),
    ("bit_length", |a| bytes(a, "bit_length", 8)),
    ("ascii", |a| text_to_int(a, "ascii")),
    ("upper", |a| on_text(a, "upper")),
    ("ucase", |a| on_text(a, "upper")),
    ("lower", |a| on_text(a, "lower")),
    ("lcase", |a| on_text(a, "lower")),
    ("initcap", |a| map_text(a, "initcap")),
    ("trim", |a| trim(a, "btrim")),
    ("btrim", |a| trim(a, "btrim")),
    ("ltrim", |a| trim(a, "ltrim")),
    ("rtrim", |a| trim(a, "rtrim")),
    ("__like_pattern", like_pattern),
    ("__trim", |a| {
        let name = a.constant_text(0)?;
        let mut args = vec![a.string(1)?];
        if a.exprs.len() > 2 {
            args.push(a.string(2)?);
        }
        a.library_with(&name, args)
    }),
    ("replace", |a| {
        a.expect(2, 3)?;
        let with = if a.exprs.len() > 2 {
            a.string(2)?
        } else {
            lit("")
        };
        a.library_with("replace", vec![a.string(0)?, a.string(1)?, with])
    }),
    ("translate", |a| on_text(a, "translate")),
    ("find_in_set", |a| text_to_int(a, "find_in_set")),
    ("substring_index", |a| {
        a.expect(3, 3)?;
        let count = a.cast(2, &DataType::Int64)?;
        a.library_with("substring_index", vec![a.string(0)?, a.string(1)?, count])
    }),
    ("repeat", |a| {
        a.expect(2, 2)?;
        let count = a.cast(1, &DataType::Int64)?;
        a.library_with("repeat", vec![a.string(0)?, count])
    }),
];

/// `||` and `concat`: text, binaries, or arrays; anything else is cast to text.
pub(super) fn concat(args: Vec<Expr>, schema: &dyn datafusion::common::ExprSchema) -> Result<Expr> {
    use datafusion::logical_expr::ExprSchemable;
    let types = args
        .iter()
        .map(|e| e.get_type(schema))
        .collect::<Result<Vec<_>>>()?;
    let arrays = types.iter().any(|t| matches!(t, DataType::List(_)));
    let to = match types.iter().all(|t| *t == DataType::Binary) && !types.is_empty() {
        true => DataType::Binary,
        false if arrays => super::coerce::common_of(&types, "concat")?,
        false => DataType::Utf8,
    };
    let args = args
        .into_iter()
        .map(|e| cast_to(e, &to, schema))
        .collect::<Result<Vec<_>>>()?;
    Ok(Kernel::call("concat", to, "", concatenate, args))
}

fn concatenate(call: &Call<'_>) -> Result<ColumnarValue> {
    let rows = if call
        .args
        .iter()
        .all(|a| matches!(a, ColumnarValue::Scalar(_)))
    {
        1
    } else {
        call.rows
    };
    let nulls = |a: &[ArrayRef]| {
        (0..rows)
            .map(|r| a.iter().all(|c| c.is_valid(r)))
            .collect::<Vec<_>>()
    };
    call.over_arrays(|a| match call.returns {
        DataType::Utf8 => {
            let columns: Vec<&StringArray> = a.iter().map(|c| c.as_string::<i32>()).collect();
            let rows = nulls(a).into_iter().enumerate();
            let out = rows.map(|(r, alive)| {
                alive.then(|| columns.iter().map(|c| c.value(r)).collect::<String>())
            });
            Ok(Arc::new(out.collect::<StringArray>()) as _)
        }
        DataType::Binary => {
            let rows = nulls(a).into_iter().enumerate();
            let out = rows.map(|(r, alive)| {
                alive.then(|| {
                    a.iter()
                        .flat_map(|c| c.as_binary::<i32>().value(r).to_vec())
                        .collect::<Vec<u8>>()
                })
            });
            Ok(Arc::new(out.collect::<arrow::array::BinaryArray>()) as _)
        }
        _ => join_arrays(a, nulls(a), call.returns),
    })
}

/// `concat_ws(between, text or array of texts, …)`: what is NULL is left out.
fn concat_ws(args: Args<'_>) -> Result<Expr> {
    args.expect(1, usize::MAX)?;
    let mut values = vec![args.string(0)?];
    for i in 1..args.exprs.len() {
        let t = match &args.types[i] {
            DataType::List(_) => super::coerce::array_of(DataType::Utf8),
            _ => DataType::Utf8,
        };
        values.push(args.cast(i, &t)?);
    }
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let between = a[0].as_string::<i32>();
            let rows = (0..a[0].len()).map(|row| {
                between
                    .is_valid(row)
                    .then(|| pieces(&a[1..], row).join(between.value(row)))
            });
            Ok(Arc::new(rows.collect::<StringArray>()) as ArrayRef)
        })
    };
    Ok(Kernel::call("concat_ws", DataType::Utf8, "", code, values))
}

/// The texts of a row, those in arrays one by one, without NULL.
fn pieces(columns: &[ArrayRef], row: usize) -> Vec<String> {
    let mut pieces = vec![];
    for column in columns.iter().filter(|column| column.is_valid(row)) {
        match column.as_list_opt::<i32>() {
            Some(list) => {
                let values = list.value(row);
                let texts = values.as_string::<i32>().iter().flatten();
                pieces.extend(texts.map(str::to_owned));
            }
            None => pieces.push(column.as_string::<i32>().value(row).to_owned()),
        }
    }
    pieces
}

fn join_arrays(a: &[ArrayRef], alive: Vec<bool>, t: &DataType) -> Result<ArrayRef> {
    let lists: Vec<_> = a.iter().map(|c| c.as_list::<i32>()).collect();
    let (mut picks, mut lengths) = (vec![], vec![]);
    for (row, alive) in alive.iter().enumerate() {
        let before = picks.len();
        for (l, list) in lists.iter().enumerate().filter(|_| *alive) {
            picks.extend(
                (list.value_offsets()[row]..list.value_offsets()[row + 1]).map(|i| (l, i as usize)),
            );
        }
        lengths.push(picks.len() - before);
    }
    let values: Vec<&dyn Array> = lists.iter().map(|l| l.values().as_ref()).collect();
    let values = arrow::compute::interleave(&values, &picks)?;
    let DataType::List(field) = t else {
        return Ok(values);
    };
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(arrow::array::ListArray::try_new(
        Arc::clone(field),
        offsets,
        values,
        Some(alive.into()),
    )?))
}

/// A library function whose first argument is text (other types are cast), with an INT as result.
fn text_to_int(args: Args<'_>, name: &str) -> Result<Expr> {
    let mut exprs = args.exprs.clone();
    for (i, e) in exprs.iter_mut().enumerate() {
        if args.types[i] != DataType::Binary {
            *e = args.string(i)?;
        }
    }
    to_int(&args, name, exprs)
}

/// How many bytes a text or a binary has, in units of which each byte has so many.
fn bytes(args: Args<'_>, name: &'static str, units: i32) -> Result<Expr> {
    args.expect(1, 1)?;
    let code: KernelFn = |c| {
        let units: i32 = c.params.parse().unwrap_or(1);
        c.over_arrays(|a| {
            let lengths = arrow::compute::kernels::length::length(&a[0])?;
            let lengths = lengths.as_primitive::<Int32Type>();
            Ok(Arc::new(lengths.unary::<_, Int32Type>(|n| n.wrapping_mul(units))) as ArrayRef)
        })
    };
    let binary = match args.types[0] {
        DataType::Binary => args.exprs[0].clone(),
        _ => args.cast(0, &DataType::Binary)?,
    };
    Ok(Kernel::call(
        name,
        DataType::Int32,
        units.to_string(),
        code,
        vec![binary],
    ))
}

fn to_int(args: &Args<'_>, name: &str, exprs: Vec<Expr>) -> Result<Expr> {
    cast_to(
        args.library_with(name, exprs)?,
        &DataType::Int32,
        args.schema,
    )
}

fn on_text(args: Args<'_>, name: &str) -> Result<Expr> {
    let exprs = (0..args.exprs.len())
        .map(|i| args.string(i))
        .collect::<Result<Vec<_>>>()?;
    cast_to(
        args.library_with(name, exprs)?,
        &DataType::Utf8,
        args.schema,
    )
}

/// `trim` takes blanks only, not every white space; `btrim(text, chars)` counts characters.
fn trim(args: Args<'_>, name: &str) -> Result<Expr> {
    args.expect(1, 2)?;
    let mut exprs = (0..args.exprs.len())
        .map(|i| args.string(i))
        .collect::<Result<Vec<_>>>()?;
    if exprs.len() == 1 {
        exprs.push(lit(" "));
    }
    args.library_with(name, exprs)
}

/// A pattern of LIKE whose escape letter is a constant as one with the backslash.
fn like_pattern(args: Args<'_>) -> Result<Expr> {
    let escape = args.constant_text(1)?;
    let mut letters = escape.chars();
    let (Some(escape), None) = (letters.next(), letters.next()) else {
        let message = format!("LIKE: the escape '{escape}' must be one letter");
        return Err(SparkError::external("INVALID_ESCAPE_CHAR", message));
    };
    let code: KernelFn = |c| {
        c.over_arrays(|a| {
            let escape = c.params.chars().next().unwrap_or('\\');
            let rows = a[0].as_string::<i32>().iter();
            let rows = rows.map(|text| text.map(|text| with_backslash(text, escape)).transpose());
            Ok(Arc::new(rows.collect::<Result<StringArray>>()?) as ArrayRef)
        })
    };
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = &args.exprs[0] {
        return Ok(lit(with_backslash(text, escape)?));
    }
    let params = escape.to_string();
    Ok(Kernel::call(
        "like_pattern",
        DataType::Utf8,
        params,
        code,
        vec![args.string(0)?],
    ))
}

fn with_backslash(pattern: &str, escape: char) -> Result<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(c) = letters.next() {
        match c {
            c if c == escape => match letters.next() {
                Some(c) if c == escape || c == '_' || c == '%' => out.extend(['\\', c]),
                _ => {
                    let message = format!(
                        "LIKE: in '{pattern}' the escape '{escape}' stands before none of %, _ and itself"
                    );
                    return Err(SparkError::external(
                        "INVALID_FORMAT.ESC_IN_THE_MIDDLE",
                        message,
                    ));
                }
            },
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// The first letter of every word upper, the rest lower; words are divided by blanks.
fn map_text(args: Args<'_>, name: &'static str) -> Result<Expr> {
    args.expect(1, 1)?;
    Ok(Kernel::call(
        name,
        DataType::Utf8,
        "",
        |c| {
            c.over_arrays(|a| {
                let rows = a[0].as_string::<i32>().iter().map(|v| v.map(title_case));
                Ok(Arc::new(rows.collect::<StringArray>()) as _)
            })
        },
        vec![args.string(0)?],
    ))
}

fn title_case(text: &str) -> String {
    let mut start = true;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match (start, c) {
            (true, 'ß') => out.push_str("Ss"),
            (true, c) => out.extend(c.to_uppercase()),
            (false, c) => out.extend(c.to_lowercase()),
        }
        start = c == ' ';
    }
    out
}
