//! Times taken from one zone to another.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, lit};
use weir_connectors::file::decode::parse::Zone;

use super::super::coerce::{timestamp, timestamp_ntz};
use super::super::error::SparkError;
use super::super::kernel::{Call, Kernel};
use super::super::{Args, Resolver};

pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("current_timezone", |a| {
        a.expect(0, 0)?;
        Ok(lit(a.zone().to_string()))
    }),
    ("from_utc_timestamp", |a| {
        between(&a, [lit("UTC"), a.string(1)?], &timestamp())
    }),
    ("to_utc_timestamp", |a| {
        between(&a, [a.string(1)?, lit("UTC")], &timestamp())
    }),
    ("convert_timezone", convert_timezone),
];

/// The clock reading in argument 0 moved from a zone to another.
fn between(args: &Args<'_>, zones: [Expr; 2], t: &DataType) -> Result<Expr> {
    args.expect(2, 2)?;
    let [from, to] = zones;
    let values = vec![args.cast(0, t)?, from, to];
    Ok(Kernel::call(
        "convert_timezone",
        t.clone(),
        "",
        convert,
        values,
    ))
}

/// `convert_timezone([from, ]to, time)`: a TIMESTAMP_NTZ.
fn convert_timezone(args: Args<'_>) -> Result<Expr> {
    args.expect(2, 3)?;
    let from = match args.exprs.len() {
        3 => args.string(0)?,
        _ => lit(args.zone().to_string()),
    };
    let last = args.exprs.len() - 1;
    let t = timestamp_ntz();
    let values = vec![args.cast(last, &t)?, from, args.string(last - 1)?];
    Ok(Kernel::call("convert_timezone", t, "", convert, values))
}

fn convert(call: &Call<'_>) -> Result<ColumnarValue> {
    call.over_arrays(|a| {
        let times = a[0].as_primitive::<TimestampMicrosecondType>();
        let names = [1, 2].map(|i| a[i].as_string::<i32>());
        let mut known: [Option<(String, Zone)>; 2] = [None, None];
        let mut row = |i: usize| -> Result<Option<i64>> {
            if a.iter().any(|column| column.is_null(i)) {
                return Ok(None);
            }
            let mut zones = [Zone::Utc; 2];
            for (side, names) in names.iter().enumerate() {
                zones[side] = named(&mut known[side], names.value(i))?;
            }
            let [from, to] = zones;
            let moment = from.local_to_utc(times.value(i));
            let moved = moment.and_then(|moment| to.utc_to_local(moment));
            moved.map(Some).ok_or_else(|| {
                SparkError::external(
                    "DATETIME_OVERFLOW",
                    "convert_timezone: the result is beyond the calendar",
                )
            })
        };
        let out: PrimitiveArray<TimestampMicrosecondType> =
            (0..times.len()).map(&mut row).collect::<Result<_>>()?;
        Ok(Arc::new(out.with_data_type(call.returns.clone())) as ArrayRef)
    })
}

/// The zone of this name; the one seen last is remembered.
fn named(last: &mut Option<(String, Zone)>, name: &str) -> Result<Zone> {
    if let Some((known, zone)) = last
        && known == name
    {
        return Ok(*zone);
    }
    let zone = Zone::from_name(name)
        .map_err(|e| SparkError::external("INVALID_TIMEZONE", e.to_string()))?;
    *last = Some((name.to_owned(), zone));
    Ok(zone)
}
