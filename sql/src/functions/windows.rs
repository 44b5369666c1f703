//! Time windows: `window`, `session_window`, `window_time` and the row ids that only a running stream could give.
//!
//! They are markers that a planner recognises (see [`WindowSpec::of`]); `window` also runs as an ordinary function for
//! tumbling windows, and sliding windows outside an aggregation become an explode over [`slots`] in `crate::analyze`.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility};
use datafusion::scalar::ScalarValue;

use super::coerce::{array_of, is_text, timestamp};
use super::error::{SparkError, mismatch};
use super::intervals::{DAY_MICROS, parse_interval};
use super::kernel::{Call, Kernel};
use super::{Args, Resolver};

/// The window family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("window", window),
    ("session_window", session_window),
    ("window_time", window_time),
    ("monotonically_increasing_id", |a| {
        a.expect(0, 0)?;
        let none = |_: &Call<'_>| plan_err!("monotonically_increasing_id has no value in a stream");
        Ok(Kernel::call_with(
            "monotonically_increasing_id",
            DataType::Int64,
            "",
            none,
            vec![],
            Volatility::Volatile,
        ))
    }),
];

/// A call of `window` or `session_window`, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowSpec {
    /// Fixed windows of `size` microseconds, one starting every `slide`, shifted by `start` (all in microseconds).
    Fixed {
        /// The time expression.
        time: Expr,
        /// Length in microseconds.
        size: i64,
        /// Distance of two starts in microseconds; equal to `size` for tumbling windows.
        slide: i64,
        /// Shift against 1970-01-01 in microseconds.
        start: i64,
    },
    /// Session windows: rows less than `gap` apart belong together.
    Session {
        /// The time expression.
        time: Expr,
        /// The gap: interval text or a day-time interval, a constant or computed for each row.
        gap: Expr,
    },
}

impl WindowSpec {
    /// The window that `expr` asks for, if it is a call of `window` or `session_window` (an alias around it is seen through).
    pub fn of(expr: &Expr) -> Option<WindowSpec> {
        let bare = expr.clone().unalias();
        if let Some((_, args)) = Kernel::of(&bare, "session_window") {
            return Some(WindowSpec::Session {
                time: args[0].clone(),
                gap: args[1].clone(),
            });
        }
        let (kernel, args) = Kernel::of(&bare, "window")?;
        let (size, slide, start) = shape(kernel.params())?;
        Some(WindowSpec::Fixed {
            time: args[0].clone(),
            size,
            slide,
            start,
        })
    }

    /// The struct whose field `start` or `end` is taken, if `expr` is such an access.
    pub fn bound_of(expr: &Expr) -> Option<&Expr> {
        let (kernel, args) = Kernel::of(expr, "__field")?;
        let field = kernel.params().split(' ').nth(1)?;
        ["start", "end"].contains(&field).then_some(&args[0])
    }

    /// The window struct that `window_time(…)` was asked about, if `expr` is such a call.
    pub fn window_time_of(expr: &Expr) -> Option<Expr> {
        let bare = expr.clone().unalias();
        Kernel::of(&bare, "window_time").map(|(_, args)| args[0].clone())
    }
}

fn shape(params: &str) -> Option<(i64, i64, i64)> {
    let mut numbers = params.split(' ').map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// `STRUCT<start, end>` over the type of time.
fn window_type(time: &DataType) -> DataType {
    DataType::Struct(Fields::from(vec![
        Field::new("start", time.clone(), true),
        Field::new("end", time.clone(), true),
    ]))
}

/// The time argument as TIMESTAMP or TIMESTAMP_NTZ; text is read as a timestamp, a window gives its last microsecond.
fn time_argument(args: &Args<'_>) -> Result<(Expr, DataType)> {
    match &args.types[0] {
        t @ DataType::Timestamp(_, _) => Ok((args.exprs[0].clone(), t.clone())),
        t if is_text(t) => Ok((args.cast(0, &timestamp())?, timestamp())),
        DataType::Date32 => Ok((args.cast(0, &timestamp())?, timestamp())),
        DataType::Struct(f)
            if f.len() == 2 && matches!(f[1].data_type(), DataType::Timestamp(_, _)) =>
        {
            let t = f[1].data_type().clone();
            Ok((args.call("window_time", vec![args.exprs[0].clone()])?, t))
        }
        _ => Err(mismatch(format!(
            "{} needs a timestamp as first argument, `{}` is {}",
            args.name,
            args.exprs[0],
            super::coerce::list_types(&args.types[..1])
        ))),
    }
}

/// Constant interval text in microseconds; months have no fixed length and are refused.
fn micros(args: &Args<'_>, i: usize) -> Result<i64> {
    let text = match &args.exprs[i] {
        Expr::Literal(datafusion::scalar::ScalarValue::DurationMicrosecond(Some(us)), _) => {
            return Ok(*us);
        }
        _ => args.constant_text(i)?,
    };
    let Some((months, days, us)) = parse_interval(&text) else {
        let message = format!(
            "{}: '{text}' is no interval; write a number and a unit, such as '5 seconds'",
            args.name
        );
        return Err(SparkError::external("INVALID_INTERVAL_FORMAT", message));
    };
    if months != 0 {
        return Err(mismatch(format!(
            "{}: '{text}' has months or years, which have no fixed length",
            args.name
        )));
    }
    i64::from(days)
        .checked_mul(DAY_MICROS)
        .and_then(|d| d.checked_add(us))
        .ok_or_else(|| mismatch(format!("{}: '{text}' is too long", args.name)))
}

fn window(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 4)?;
    let (time, t) = time_argument(&args)?;
    let size = micros(&args, 1)?;
    let slide = if args.exprs.len() > 2 {
        micros(&args, 2)?
    } else {
        size
    };
    let start = if args.exprs.len() > 3 {
        micros(&args, 3)?
    } else {
        0
    };
    let out_of_range = |what: &str, v: i64| {
        SparkError::external(
            "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
            format!("window: the {what} must be positive, it is {v} microseconds"),
        )
    };
    if size <= 0 {
        return Err(out_of_range("window duration", size));
    }
    if slide <= 0 {
        return Err(out_of_range("slide duration", slide));
    }
    let constraint = |text: String| {
        SparkError::external("DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION", text)
    };
    if slide > size {
        return Err(constraint(format!(
            "window: the slide ({slide} us) must not exceed the duration ({size} us)"
        )));
    }
    if start.unsigned_abs() >= slide.unsigned_abs() {
        return Err(constraint(format!(
            "window: the start time ({start} us) must be less than the slide ({slide} us)"
        )));
    }
    Ok(Kernel::call(
        "window",
        window_type(&t),
        format!("{size} {slide} {start}"),
        tumble,
        vec![time],
    ))
}

fn session_window(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 2)?;
    let (time, t) = time_argument(&args)?;
    if matches!(args.exprs[1], Expr::Literal(_, _)) {
        micros(&args, 1)?;
    }
    if !is_text(&args.types[1]) && !matches!(args.types[1], DataType::Duration(_)) {
        return Err(mismatch("session_window needs an interval text as gap"));
    }
    let none = |_: &Call<'_>| plan_err!("session_window is allowed in GROUP BY only");
    Ok(Kernel::call(
        "session_window",
        window_type(&t),
        "",
        none,
        vec![time, args.exprs[1].clone()],
    ))
}

/// The gap of a session window in microseconds, if it is the same for all rows.
pub fn constant_gap(gap: &Expr) -> Option<i64> {
    let Expr::Literal(value, _) = gap else {
        return None;
    };
    if let ScalarValue::DurationMicrosecond(micros) = value {
        return *micros;
    }
    let (months, days, micros) = parse_interval(value.try_as_str()??)?;
    let days = i64::from(days).checked_mul(DAY_MICROS)?;
    (months == 0).then(|| days.checked_add(micros)).flatten()
}

/// The gap of a session window for each row, in microseconds (BIGINT): NULL where a text is no interval or anything is NULL. Months
/// are counted from the row's time.
pub fn gap_micros(time: Expr, gap: Expr) -> Expr {
    Kernel::call(
        "session_gap",
        DataType::Int64,
        "",
        |call| call.over_arrays(|a| gaps(&a[0], &a[1])),
        vec![time, gap],
    )
}

fn gaps(times: &ArrayRef, gaps: &ArrayRef) -> Result<ArrayRef> {
    if matches!(gaps.data_type(), DataType::Duration(_)) {
        let micros = arrow::compute::cast(gaps, &DataType::Duration(TimeUnit::Microsecond))?;
        return Ok(arrow::compute::cast(&micros, &DataType::Int64)?);
    }
    let texts = arrow::compute::cast(gaps, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let times = times.as_primitive::<TimestampMicrosecondType>();
    type Parsed = Option<(i32, i32, i64)>;
    let mut known: Option<(&str, Parsed)> = None;
    let found = times.iter().zip(texts).map(|(time, text)| {
        let (time, text) = (time?, text?);
        let interval = match known {
            Some((same, interval)) if same == text => interval,
            _ => {
                let interval = parse_interval(text);
                known = Some((text, interval));
                interval
            }
        };
        length(time, interval?)
    });
    Ok(Arc::new(found.collect::<Int64Array>()))
}

/// Length of an interval that begins at `time`, in microseconds.
fn length(time: i64, (months, days, micros): (i32, i32, i64)) -> Option<i64> {
    let rest = i64::from(days)
        .checked_mul(DAY_MICROS)?
        .checked_add(micros)?;
    if months == 0 {
        return Some(rest);
    }
    let moved = TimestampMicrosecondType::add_year_months(time, months, Tz::from_str("UTC").ok()?)?;
    moved.checked_sub(time)?.checked_add(rest)
}

/// The last microsecond inside a window.
fn window_time(args: Args<'_>) -> Result<Expr> {
    args.expect(1, 1)?;
    let end = match &args.types[0] {
        DataType::Struct(f) if f.len() == 2 && f[1].name() == "end" => f[1].data_type().clone(),
        _ => {
            return Err(mismatch(format!(
                "window_time needs a window, `{}` is {}",
                args.exprs[0],
                super::coerce::list_types(&args.types)
            )));
        }
    };
    Ok(Kernel::call(
        "window_time",
        end,
        "",
        last_moment,
        args.exprs.clone(),
    ))
}

fn last_moment(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let window = a[0].as_struct();
        let end = window.column(1).as_primitive::<TimestampMicrosecondType>();
        let time: TimestampMicrosecondArray = end.unary(|v| v - 1);
        let nulls = NullBuffer::union(time.nulls(), window.nulls());
        let time = TimestampMicrosecondArray::try_new(time.values().clone(), nulls)?;
        Ok(Arc::new(time.with_data_type(call.returns.clone())) as ArrayRef)
    })
}

/// Start of the newest window holding `t`.
fn newest_start(t: i64, slide: i64, start: i64) -> i64 {
    t - (t - start).rem_euclid(slide)
}

fn tumble(call: &Call<'_>) -> Result<ColumnarValue> {
    let Some((size, slide, start)) = shape(call.params) else {
        return plan_err!("window: damaged parameters '{}'", call.params);
    };
    if size != slide {
        return plan_err!(
            "sliding windows are allowed in SELECT and GROUP BY only, not inside other expressions"
        );
    }
    call.over_arrays(|a| {
        let time = a[0].as_primitive::<TimestampMicrosecondType>();
        let starts: TimestampMicrosecondArray = time.unary(|t| newest_start(t, slide, start));
        let ends: TimestampMicrosecondArray = starts.unary(|t| t.saturating_add(size));
        window_struct(starts, ends, call.returns, time.nulls().cloned())
    })
}

fn window_struct(
    starts: TimestampMicrosecondArray,
    ends: TimestampMicrosecondArray,
    t: &DataType,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = t else {
        return plan_err!("{t} is no window");
    };
    let zone = fields[0].data_type();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(starts.with_data_type(zone.clone())),
        Arc::new(ends.with_data_type(zone.clone())),
    ];
    Ok(Arc::new(StructArray::try_new(
        fields.clone(),
        columns,
        nulls,
    )?))
}

/// The windows that each row falls into, newest first, as an array of windows (empty for a NULL time).
pub fn slots(spec: &Expr) -> Option<Expr> {
    let (kernel, args) = Kernel::of(spec, "window")?;
    let Expr::ScalarFunction(call) = spec else {
        return None;
    };
    let zone = call.func.return_type(&[]).ok()?;
    Some(Kernel::call(
        "window_slots",
        array_of(zone),
        kernel.params().to_owned(),
        slide,
        vec![args[0].clone()],
    ))
}

/// The window of `size` microseconds that begins at `start`, as a window of this type.
pub fn from_start(start: Expr, window: &DataType, size: i64) -> Expr {
    Kernel::call(
        "window_from_start",
        window.clone(),
        size.to_string(),
        begun,
        vec![start],
    )
}

fn begun(call: &Call<'_>) -> Result<ColumnarValue> {
    let Ok(size) = call.params.parse::<i64>() else {
        return plan_err!("window: damaged parameters '{}'", call.params);
    };
    call.over_arrays(|a| {
        let starts = a[0].as_primitive::<TimestampMicrosecondType>().clone();
        let ends: TimestampMicrosecondArray = starts.unary(|t| t.saturating_add(size));
        let nulls = starts.nulls().cloned();
        window_struct(starts, ends, call.returns, nulls)
    })
}

fn slide(call: &Call<'_>) -> Result<ColumnarValue> {
    let Some((size, slide, start)) = shape(call.params) else {
        return plan_err!("window: damaged parameters '{}'", call.params);
    };
    let DataType::List(field) = call.returns else {
        return plan_err!("window: {} is no array", call.returns);
    };
    call.over_arrays(|a| {
        let time = a[0].as_primitive::<TimestampMicrosecondType>();
        let (mut starts, mut offsets) = (
            Vec::with_capacity(time.len()),
            Vec::with_capacity(time.len() + 1),
        );
        offsets.push(0i32);
        for t in time.iter() {
            if let Some(t) = t {
                let mut first = newest_start(t, slide, start);
                while first > t - size {
                    starts.push(first);
                    first -= slide;
                }
            }
            offsets.push(
                i32::try_from(starts.len())
                    .map_err(|_| mismatch("window: too many windows in one batch"))?,
            );
        }
        let starts = TimestampMicrosecondArray::from(starts);
        let ends = starts.unary(|t| t.saturating_add(size));
        let windows = window_struct(starts, ends, field.data_type(), None)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(field),
            offsets,
            windows,
            None,
        )?) as ArrayRef)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_intervals_that_may_differ_by_row_and_null_where_there_is_none() {
        let day = DAY_MICROS;
        let times = TimestampMicrosecondArray::from(vec![Some(0), Some(31 * day), None, Some(0)]);
        let texts = arrow::array::StringArray::from(vec!["1 month", "1 month", "1 day", "soon"]);
        let times: ArrayRef = Arc::new(times);
        let found = gaps(&times, &(Arc::new(texts) as ArrayRef)).expect("gaps");
        let found: Vec<Option<i64>> = found
            .as_primitive::<arrow::datatypes::Int64Type>()
            .iter()
            .collect();
        assert_eq!(found, [Some(31 * day), Some(28 * day), None, None]);
    }

    #[test]
    fn newest_start_before_1970_floors() {
        let starts = [-1, 0, 9, 10, -10, -11].map(|t| newest_start(t, 10, 0));
        assert_eq!(starts, [-10, 0, 0, 10, -10, -20]);
    }
}
