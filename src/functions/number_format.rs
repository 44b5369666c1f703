//! `to_number` and `try_to_number`: text as a decimal by a pattern of `9`, `0`, `,`, `.` (`D`, `G`) and a sign `S` or `MI`.

use std::sync::Arc;

use arrow::array::{AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr};

use super::error::SparkError;
use super::kernel::{Call, Kernel, KernelFn};
use super::{Args, Resolver};

/// The family of number patterns.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[
    ("to_number", |a| plan(a, "to_number", |c| read(c, true))),
    ("try_to_number", |a| {
        plan(a, "try_to_number", |c| read(c, false))
    }),
];

fn plan(args: Args<'_>, name: &'static str, code: KernelFn) -> Result<Expr> {
    args.expect(2, 2)?;
    let pattern = args.constant_text(1)?;
    let (whole, fraction) = shape(&pattern).ok_or_else(|| {
        SparkError::external(
            "INVALID_FORMAT",
            format!("{name}: '{pattern}' is no number pattern"),
        )
    })?;
    let returns = DataType::Decimal128((whole + fraction) as u8, fraction as i8);
    Ok(Kernel::call(
        name,
        returns,
        pattern,
        code,
        vec![args.string(0)?],
    ))
}

/// Digits before and behind the point.
fn shape(pattern: &str) -> Option<(usize, usize)> {
    let upper = pattern.to_uppercase();
    let body = upper
        .strip_prefix("MI")
        .or(upper.strip_prefix('S'))
        .unwrap_or(&upper);
    let body = body
        .strip_suffix("MI")
        .or(body.strip_suffix('S'))
        .unwrap_or(body);
    let (whole, fraction) = body.split_once(['.', 'D']).unwrap_or((body, ""));
    let digits = |t: &str| t.bytes().filter(|b| matches!(b, b'9' | b'0')).count();
    let plain = whole
        .bytes()
        .all(|b| matches!(b, b'9' | b'0' | b',' | b'G'))
        && fraction.bytes().all(|b| matches!(b, b'9' | b'0'));
    let total = digits(whole) + digits(fraction);
    (plain && (1..=38).contains(&total)).then(|| (digits(whole), digits(fraction)))
}

fn read(call: &Call<'_>, strict: bool) -> Result<ColumnarValue> {
    let (whole, fraction) = shape(call.params).unwrap_or((38, 0));
    let signed = call.params.to_uppercase().contains(['S', 'M']);
    call.over_arrays(|a| {
        let rows = a[0].as_string::<i32>().iter().map(|v| match v.map(|t| (t, number(t, whole, fraction, signed))) {
            Some((t, None)) if strict => {
                let message = format!("the text '{t}' does not match the pattern '{}'; use try_to_number for NULL", call.params);
                Err(SparkError::external("INVALID_FORMAT.MISMATCH_INPUT", message))
            }
            Some((_, v)) => Ok(v),
            None => Ok(None),
        });
        let out: PrimitiveArray<Decimal128Type> = rows.collect::<Result<_>>()?;
        Ok(Arc::new(out.with_data_type(call.returns.clone())) as _)
    })
}

fn number(text: &str, whole: usize, fraction: usize, signed: bool) -> Option<i128> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) if signed => (-1, rest),
        Some(_) => return None,
        None => (
            1,
            if signed {
                text.strip_prefix('+').unwrap_or(text)
            } else {
                text
            },
        ),
    };
    let (w, f) = digits.split_once('.').unwrap_or((digits, ""));
    let w = w.replace(',', "");
    let fits = w.len() <= whole && f.len() <= fraction && w.len() + f.len() > 0;
    if !fits || !w.bytes().chain(f.bytes()).all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(sign * format!("{w}{f:0<fraction$}").parse::<i128>().ok()?)
}
