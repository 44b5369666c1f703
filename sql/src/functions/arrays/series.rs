//! Arrays from numbers and from each other (`sequence`, `arrays_zip`, `array_sort`) and single values from arrays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, PrimitiveArray, StringArray, StructArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Field, Int64Type, IntervalYearMonthType,
    TimestampMicrosecondType,
};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr, lit};
use datafusion::scalar::ScalarValue;
use weir_connectors::file::decode::parse::Zone;

use super::super::cast::{How, convert};
use super::super::coerce::{array_of, common_type, is_integer, is_text, timestamp, timestamp_ntz};
use super::super::datetime::{add_day_time, add_months};
use super::super::elements::{Elements, list};
use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel, KernelFn};
use super::super::{Args, Resolver};
use super::edit::check_size;
use super::element;

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("sequence", sequence),
    ("arrays_zip", arrays_zip),
    ("array_join", |a| {
        a.expect(2, 3)?;
        element(&a, 0)?;
        let mut values = vec![a.cast(0, &array_of(DataType::Utf8))?, a.string(1)?];
        if a.exprs.len() == 3 {
            values.push(a.string(2)?);
        }
        Ok(Kernel::call("array_join", DataType::Utf8, "", join, values))
    }),
    ("array_size", |a| {
        a.expect(1, 1)?;
        element(&a, 0)?;
        a.call("size", vec![a.exprs[0].clone()])
    }),
    ("array_max", |a| {
        extreme(a, "array_max", |c| pick_extreme(c, true))
    }),
    ("array_min", |a| {
        extreme(a, "array_min", |c| pick_extreme(c, false))
    }),
    ("array_sort", |a| {
        a.expect(1, 1)?;
        let t = array_of(element(&a, 0)?);
        let array = a.cast(0, &t)?;
        Ok(Kernel::call("array_sort", t, "last", sort, vec![array]))
    }),
    ("sort_array", |a| {
        a.expect(1, 2)?;
        let order = match a.exprs.get(1) {
            None | Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => "first",
            Some(Expr::Literal(ScalarValue::Boolean(Some(false)), _)) => "down",
            Some(_) => return a.refuse(),
        };
        let t = array_of(element(&a, 0)?);
        let array = a.cast(0, &t)?;
        Ok(Kernel::call("sort_array", t, order, sort, vec![array]))
    }),
];

/// `sequence(start, stop[, step])` over whole numbers, dates and timestamps; both ends belong to it.
fn sequence(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let Some(t) = common_type(&args.types[0], &args.types[1]) else {
        return args.refuse();
    };
    let t = if is_text(&t) { timestamp() } else { t };
    let mut values = vec![args.cast(0, &t)?, args.cast(1, &t)?];
    if is_integer(&t) {
        if args.exprs.len() == 3 {
            values.push(args.cast(2, &t)?);
        }
        return Ok(Kernel::call(
            "sequence",
            array_of(t),
            "",
            whole_numbers,
            values,
        ));
    }
    if !matches!(t, DataType::Date32 | DataType::Timestamp(_, _)) {
        return args.refuse();
    }
    match args.types.get(2) {
        Some(DataType::Duration(_) | DataType::Interval(_)) => values.push(args.exprs[2].clone()),
        Some(_) => return args.refuse(),
        None => values.push(lit(ScalarValue::DurationMicrosecond(Some(
            super::super::intervals::DAY_MICROS,
        )))),
    }
    let params = if args.exprs.len() == 3 {
        ""
    } else {
        "either way"
    };
    Ok(Kernel::call("sequence", array_of(t), params, times, values))
}

fn boundary(
    start: impl std::fmt::Display,
    stop: impl std::fmt::Display,
    step: impl std::fmt::Display,
) -> datafusion::error::DataFusionError {
    let message = format!("sequence: no steps of {step} lead from {start} to {stop}");
    SparkError::external("INVALID_PARAMETER_VALUE.BOUNDARY", message)
}

fn whole_numbers(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let wide = a
            .iter()
            .map(|column| arrow::compute::cast(column, &DataType::Int64))
            .collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<&Int64Array> = wide
            .iter()
            .map(|column| column.as_primitive::<Int64Type>())
            .collect();
        let (mut values, mut lengths, mut alive) = (vec![], vec![], vec![]);
        for row in 0..a[0].len() {
            let whole = numbers.iter().all(|column| column.is_valid(row));
            let before = values.len();
            if whole {
                let (start, stop) = (numbers[0].value(row), numbers[1].value(row));
                let step = match numbers.get(2) {
                    Some(steps) => steps.value(row),
                    None => {
                        if start <= stop {
                            1
                        } else {
                            -1
                        }
                    }
                };
                let fits =
                    start == stop || (step > 0 && start < stop) || (step < 0 && start > stop);
                if !fits {
                    return Err(boundary(start, stop, step));
                }
                let count = match step {
                    0 => 1,
                    step => (i128::from(stop) - i128::from(start)) / i128::from(step) + 1,
                };
                check_size(
                    usize::try_from(count)
                        .unwrap_or(usize::MAX)
                        .saturating_add(before),
                    "sequence",
                )?;
                values.extend((0..count as i64).map(|i| start.wrapping_add(i.wrapping_mul(step))));
            }
            lengths.push(values.len() - before);
            alive.push(whole);
        }
        let DataType::List(field) = call.returns else {
            return plan_err!("{} is no array", call.returns);
        };
        let values = arrow::compute::cast(
            &(Arc::new(Int64Array::from(values)) as ArrayRef),
            field.data_type(),
        )?;
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            Some(NullBuffer::from(alive)),
        )
    })
}

/// Dates are counted on a clock without zone, timestamps on that of the session.
fn times(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::List(field) = call.returns else {
        return plan_err!("{} is no array", call.returns);
    };
    let t = match field.data_type() {
        DataType::Date32 => timestamp_ntz(),
        other => other.clone(),
    };
    let zone = match t {
        DataType::Timestamp(_, Some(_)) => call.zone,
        _ => Zone::Utc,
    };
    call.over_arrays(|a| {
        let ends = [
            convert(&a[0], &t, How::strict(zone))?,
            convert(&a[1], &t, How::strict(zone))?,
        ];
        let ends = [0, 1].map(|i| ends[i].as_primitive::<TimestampMicrosecondType>());
        let (mut values, mut lengths, mut alive) = (vec![], vec![], vec![]);
        for row in 0..a[0].len() {
            let whole = ends.iter().all(|e| e.is_valid(row)) && a[2].is_valid(row);
            let before = values.len();
            if whole {
                let (start, stop) = (ends[0].value(row), ends[1].value(row));
                let mut step = step_of(&a[2], row);
                if call.params == "either way" && start > stop {
                    step = (-step.0, -step.1);
                }
                steps(start, stop, step, zone, &mut values)?;
            }
            lengths.push(values.len() - before);
            alive.push(whole);
        }
        let values =
            PrimitiveArray::<TimestampMicrosecondType>::from(values).with_data_type(t.clone());
        let values = convert(
            &(Arc::new(values) as ArrayRef),
            field.data_type(),
            How::strict(zone),
        )?;
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            values,
            Some(NullBuffer::from(alive)),
        )
    })
}

/// Months and microseconds of a step.
fn step_of(steps: &ArrayRef, row: usize) -> (i32, i64) {
    if let Some(micros) = steps.as_primitive_opt::<DurationMicrosecondType>() {
        return (0, micros.value(row));
    }
    match steps.as_primitive_opt::<IntervalYearMonthType>() {
        Some(months) => (months.value(row), 0),
        None => {
            let calendar = steps
                .as_primitive::<arrow::datatypes::IntervalMonthDayNanoType>()
                .value(row);
            let days = i64::from(calendar.days) * super::super::intervals::DAY_MICROS;
            (
                calendar.months,
                days.saturating_add(calendar.nanoseconds / 1000),
            )
        }
    }
}

fn steps(
    start: i64,
    stop: i64,
    (months, micros): (i32, i64),
    zone: Zone,
    values: &mut Vec<i64>,
) -> Result<()> {
    let forward = months > 0 || (months == 0 && micros > 0);
    let still = months == 0 && micros == 0;
    if start != stop && (still || forward != (start < stop)) {
        return Err(boundary(
            start,
            stop,
            format!("{months} months and {micros} microseconds"),
        ));
    }
    for count in 0i64.. {
        let at = i32::try_from(count)
            .ok()
            .and_then(|n| months.checked_mul(n))
            .and_then(|months| match months {
                0 => Some(start),
                months => add_months(start, months, zone),
            })
            .and_then(|at| add_day_time(at, micros.checked_mul(count)?, zone));
        match at {
            Some(at) if (forward && at <= stop) || (!forward && at >= stop) => values.push(at),
            _ => return Ok(()),
        }
        check_size(values.len(), "sequence")?;
        if still || start == stop {
            return Ok(());
        }
    }
    Ok(())
}

/// Arrays side by side as an array of structs; the shorter ones go on with NULL.
fn arrays_zip(args: Args<'_>) -> Result<Expr> {
    args.expect(1, usize::MAX)?;
    let mut fields = Vec::with_capacity(args.exprs.len());
    for (i, e) in args.exprs.iter().enumerate() {
        let t = element(&args, i)?;
        let name = match e {
            Expr::Column(c) => c.name.clone(),
            Expr::Alias(a) => a.name.clone(),
            _ => match super::super::structs::accessed_field(e) {
                Some(name) => name,
                None => i.to_string(),
            },
        };
        fields.push(Field::new(name, t, true));
    }
    let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
    let names = names.join(" ");
    let t = array_of(DataType::Struct(fields.into()));
    let values = args.exprs.iter().map(|e| e.clone().unalias()).collect();
    Ok(Kernel::call("arrays_zip", t, names, zip, values))
}

fn zip(call: &Call<'_>) -> Result<ColumnarValue> {
    let DataType::List(item) = call.returns else {
        return plan_err!("{} is no array", call.returns);
    };
    let DataType::Struct(fields) = item.data_type() else {
        return plan_err!("{} has no fields", call.returns);
    };
    call.over_arrays(|a| {
        let lists = a.iter().map(Elements::of).collect::<Result<Vec<_>>>()?;
        let mut nulls = None;
        for elements in &lists {
            nulls = NullBuffer::union(nulls.as_ref(), elements.nulls.as_ref());
        }
        let (mut picks, mut lengths) = (vec![vec![]; lists.len()], vec![]);
        for row in 0..a[0].len() {
            let longest = lists.iter().map(|l| l.range(row).len()).max().unwrap_or(0);
            let alive = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let length = if alive { longest } else { 0 };
            for (elements, picks) in lists.iter().zip(&mut picks) {
                let range = elements.range(row);
                picks.extend((0..length).map(|i| range.clone().nth(i).map(|i| i as u32)));
            }
            lengths.push(length);
        }
        let columns = lists
            .iter()
            .zip(picks)
            .map(|(elements, picks)| take(&elements.columns[0], &UInt32Array::from(picks), None));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let values = StructArray::try_new(fields.clone(), columns, None)?;
        list(
            call.returns,
            OffsetBuffer::from_lengths(lengths),
            Arc::new(values),
            nulls,
        )
    })
}

/// The texts with a text between them; NULL elements are left out, or replaced.
fn join(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let texts = elements.columns[0].as_string::<i32>();
        let between = a[1].as_string::<i32>();
        let instead = a.get(2).map(|column| column.as_string::<i32>());
        let row = |row: usize| {
            let missing = instead.is_some_and(|column| column.is_null(row));
            if a[0].is_null(row) || between.is_null(row) || missing {
                return None;
            }
            let parts = elements.range(row).filter_map(|i| match texts.is_valid(i) {
                true => Some(texts.value(i)),
                false => instead.map(|column| column.value(row)),
            });
            Some(parts.collect::<Vec<_>>().join(between.value(row)))
        };
        let rows = (0..a[0].len()).map(row);
        Ok(Arc::new(rows.collect::<StringArray>()) as ArrayRef)
    })
}

fn extreme(args: Args<'_>, name: &'static str, code: KernelFn) -> Result<Expr> {
    args.expect(1, 1)?;
    let t = element(&args, 0)?;
    let array = args.cast(0, &array_of(t.clone()))?;
    Ok(Kernel::call(name, t, "", code, vec![array]))
}

/// The largest or smallest element that is not NULL; NaN is the largest number.
fn pick_extreme(call: &Call<'_>, largest: bool) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let normal = super::super::normalize::normal(&elements.columns[0])?;
        let field = SortField::new(normal.data_type().clone());
        let rows = RowConverter::new(vec![field])?.convert_columns(&[normal])?;
        let pick = |row: usize| {
            let range = elements.range(row);
            let known = range.filter(|i| elements.columns[0].is_valid(*i));
            let found = match largest {
                true => known.max_by_key(|i| rows.row(*i)),
                false => known.min_by_key(|i| rows.row(*i)),
            };
            found.map(|i| i as u32)
        };
        let picks: UInt32Array = (0..a[0].len()).map(pick).collect();
        Ok(take(&elements.columns[0], &picks, None)?)
    })
}

/// Sorted arrays: ascending with NULL `last` or `first`, or `down` with NULL last.
fn sort(call: &Call<'_>) -> Result<ColumnarValue> {
    let options = arrow::compute::SortOptions {
        descending: call.params == "down",
        nulls_first: call.params == "first",
    };
    call.over_arrays(|a| {
        let elements = Elements::of(&a[0])?;
        let field = SortField::new_with_options(elements.columns[0].data_type().clone(), options);
        let normal = super::super::normalize::normal(&elements.columns[0])?;
        let rows = RowConverter::new(vec![field])?.convert_columns(&[normal])?;
        let mut order: Vec<u32> = (0..elements.rows.len() as u32).collect();
        for row in 0..a[0].len() {
            order[elements.range(row)].sort_by_key(|i| rows.row(*i as usize));
        }
        let values = take(&elements.columns[0], &UInt32Array::from(order), None)?;
        list(call.returns, elements.offsets, values, elements.nulls)
    })
}
