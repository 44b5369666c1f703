//! Text: what Spark has and the libraries lack or do differently.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, lit};

use super::coerce::{cast_to, is_text};
use super::kernel::{Call, Kernel};
use super::{Args, Resolver};

/// The text family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("concat", |a| concat(a.exprs.clone(), a.schema)),
    ("length", |a| text_to_int(a, "length")),
    ("len", |a| text_to_int(a, "length")),
    ("char_length", |a| text_to_int(a, "length")),
    ("character_length", |a| text_to_int(a, "length")),
    ("octet_length", |a| text_to_int(a, "octet_length")),
    ("bit_length", |a| text_to_int(a, "bit_length")),
    ("ascii", |a| text_to_int(a, "ascii")),
    ("upper", |a| on_text(a, "upper")),
    ("ucase", |a| on_text(a, "upper")),
    ("lower", |a| on_text(a, "lower")),
    ("lcase", |a| on_text(a, "lower")),
    ("initcap", |a| map_text(a, "initcap")),
    ("reverse", |a| {
        if is_text(&a.types[0]) {
            on_text(a, "reverse")
        } else {
            a.library("array_reverse")
        }
    }),
    ("trim", |a| trim(a, "btrim")),
    ("btrim", |a| trim(a, "btrim")),
    ("ltrim", |a| trim(a, "ltrim")),
    ("rtrim", |a| trim(a, "rtrim")),
    ("__trim", |a| {
        let name = a.constant_text(0)?;
        let mut args = vec![a.string(1)?];
        if a.exprs.len() > 2 {
            args.push(a.string(2)?);
        }
        a.library_with(&name, args)
    }),
    ("lpad", |a| pad(a, "lpad")),
    ("rpad", |a| pad(a, "rpad")),
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
    ("locate", |a| {
        a.expect(2, 2)?;
        to_int(&a, "strpos", vec![a.string(1)?, a.string(0)?])
    }),
    ("position", |a| {
        a.expect(2, 2)?;
        to_int(&a, "strpos", vec![a.string(1)?, a.string(0)?])
    }),
    ("instr", |a| {
        a.expect(2, 2)?;
        to_int(&a, "strpos", vec![a.string(0)?, a.string(1)?])
    }),
    ("levenshtein", |a| text_to_int(a, "levenshtein")),
    ("find_in_set", |a| text_to_int(a, "find_in_set")),
    ("substr", substring),
    ("substring", substring),
    ("left", |a| {
        a.call(
            "substring",
            vec![a.exprs[0].clone(), lit(1i32), a.exprs[1].clone()],
        )
    }),
    ("decode_text", |a| a.cast(0, &DataType::Utf8)),
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

fn pad(args: Args<'_>, name: &str) -> Result<Expr> {
    args.expect(2, 3)?;
    let with = if args.exprs.len() > 2 {
        args.string(2)?
    } else {
        lit(" ")
    };
    args.library_with(
        name,
        vec![args.string(0)?, args.cast(1, &DataType::Int64)?, with],
    )
}

fn substring(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let mut exprs = vec![args.string(0)?];
    for i in 1..args.exprs.len() {
        exprs.push(args.cast(i, &DataType::Int64)?);
    }
    args.library_with("substring", exprs)
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
