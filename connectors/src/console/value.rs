//! [`ValueText`]: one value of an Arrow array as Spark's `show` writes it.

use std::fmt::Write as _;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, Float16Type, Float32Type, Float64Type, IntervalUnit,
    IntervalYearMonthType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use weir_runtime::Result;

use super::number::{push_f32, push_f64};
use super::time::{push_clock, push_date, push_day_time, push_timestamp, push_year_month};

const NULL: &str = "NULL";
const MICROS_PER_SECOND: i64 = 1_000_000;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// The values of one array as text.
pub(super) struct ValueText<'a> {
    array: &'a dyn Array,
    zone: Option<Tz>,
}

impl<'a> ValueText<'a> {
    /// Timestamps are shown in `zone`, in UTC without one.
    pub(super) fn new(array: &'a dyn Array, zone: Option<Tz>) -> Self {
        Self { array, zone }
    }

    /// The text of one value; `NULL` if there is none.
    pub(super) fn text(&self, row: usize) -> Result<String> {
        let mut out = String::new();
        self.push(&mut out, row)?;
        Ok(out)
    }

    fn push(&self, out: &mut String, row: usize) -> Result<()> {
        if self.array.is_null(row) || *self.array.data_type() == DataType::Null {
            out.push_str(NULL);
            return Ok(());
        }
        if self.push_scalar(out, row) || self.push_time(out, row)? {
            return Ok(());
        }
        self.push_nested(out, row)
    }

    /// Text, bytes and numbers with a spelling of their own; false for other types.
    fn push_scalar(&self, out: &mut String, row: usize) -> bool {
        let array = self.array;
        match array.data_type() {
            DataType::Utf8 => out.push_str(array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => out.push_str(array.as_string::<i64>().value(row)),
            DataType::Utf8View => out.push_str(array.as_string_view().value(row)),
            DataType::Binary => push_bytes(out, array.as_binary::<i32>().value(row)),
            DataType::LargeBinary => push_bytes(out, array.as_binary::<i64>().value(row)),
            DataType::BinaryView => push_bytes(out, array.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => {
                push_bytes(out, array.as_fixed_size_binary().value(row))
            }
            DataType::Float16 => {
                push_f32(out, array.as_primitive::<Float16Type>().value(row).to_f32())
            }
            DataType::Float32 => push_f32(out, array.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => push_f64(out, array.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal32(..) => {
                out.push_str(&array.as_primitive::<Decimal32Type>().value_as_string(row))
            }
            DataType::Decimal64(..) => {
                out.push_str(&array.as_primitive::<Decimal64Type>().value_as_string(row))
            }
            DataType::Decimal128(..) => {
                out.push_str(&array.as_primitive::<Decimal128Type>().value_as_string(row))
            }
            DataType::Decimal256(..) => {
                out.push_str(&array.as_primitive::<Decimal256Type>().value_as_string(row))
            }
            _ => return false,
        }
        true
    }

    /// Dates, times and intervals; false for other types.
    fn push_time(&self, out: &mut String, row: usize) -> Result<bool> {
        let array = self.array;
        match array.data_type() {
            DataType::Date32 => {
                push_date(out, array.as_primitive::<Date32Type>().value(row).into())
            }
            DataType::Date64 => {
                push_date(
                    out,
                    array
                        .as_primitive::<Date64Type>()
                        .value(row)
                        .div_euclid(MILLIS_PER_DAY),
                );
            }
            DataType::Timestamp(_, zone) => {
                let target = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                let micros = self.cast(row, &target)?;
                let shown_in = zone.as_ref().and(self.zone);
                push_timestamp(
                    out,
                    micros.as_primitive::<TimestampMicrosecondType>().value(0),
                    shown_in,
                );
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                let micros = self.cast(row, &DataType::Time64(TimeUnit::Microsecond))?;
                let micros = micros.as_primitive::<Time64MicrosecondType>().value(0);
                push_clock(
                    out,
                    micros.div_euclid(MICROS_PER_SECOND),
                    micros.rem_euclid(MICROS_PER_SECOND),
                );
            }
            DataType::Duration(_) => {
                let micros = self.cast(row, &DataType::Duration(TimeUnit::Microsecond))?;
                push_day_time(
                    out,
                    micros.as_primitive::<DurationMicrosecondType>().value(0),
                );
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                push_year_month(
                    out,
                    array.as_primitive::<IntervalYearMonthType>().value(row),
                );
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One value in another unit; a loss of digits below a microsecond is what Spark's types have, too.
    fn cast(&self, row: usize, to: &DataType) -> Result<ArrayRef> {
        Ok(arrow::compute::cast(&self.array.slice(row, 1), to)?)
    }

    /// `[1, 2]`, `{1, x}`, `{k -> 1}`; whatever else there is as Arrow writes it (integers, booleans among them).
    fn push_nested(&self, out: &mut String, row: usize) -> Result<()> {
        let array = self.array;
        match array.data_type() {
            DataType::List(_) => self.push_items(out, &array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => self.push_items(out, &array.as_list::<i64>().value(row)),
            DataType::ListView(_) => self.push_items(out, &array.as_list_view::<i32>().value(row)),
            DataType::LargeListView(_) => {
                self.push_items(out, &array.as_list_view::<i64>().value(row))
            }
            DataType::FixedSizeList(..) => {
                self.push_items(out, &array.as_fixed_size_list().value(row))
            }
            DataType::Struct(_) => {
                let columns = array.as_struct().columns().iter();
                let fields: Vec<_> = columns.map(|column| self.of(column.as_ref())).collect();
                out.push('{');
                push_joined(out, fields.len(), |out, field| fields[field].push(out, row))?;
                out.push('}');
                Ok(())
            }
            DataType::Map(..) => {
                let entries = array.as_map().value(row);
                let (keys, values) = (self.of(entries.column(0)), self.of(entries.column(1)));
                out.push('{');
                push_joined(out, entries.len(), |out, entry| {
                    keys.push(out, entry)?;
                    out.push_str(" -> ");
                    values.push(out, entry)
                })?;
                out.push('}');
                Ok(())
            }
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                let key = dictionary.normalized_keys()[row];
                self.of(dictionary.values().as_ref()).push(out, key)
            }
            _ => {
                let options = FormatOptions::new().with_null(NULL);
                let text = ArrayFormatter::try_new(array, &options)?
                    .value(row)
                    .try_to_string()?;
                out.push_str(&text);
                Ok(())
            }
        }
    }

    fn push_items(&self, out: &mut String, items: &ArrayRef) -> Result<()> {
        let values = self.of(items.as_ref());
        out.push('[');
        push_joined(out, items.len(), |out, item| values.push(out, item))?;
        out.push(']');
        Ok(())
    }

    fn of<'b>(&self, array: &'b dyn Array) -> ValueText<'b> {
        ValueText {
            array,
            zone: self.zone,
        }
    }
}

/// Appends `count` texts with a comma between them.
fn push_joined(
    out: &mut String,
    count: usize,
    mut push: impl FnMut(&mut String, usize) -> Result<()>,
) -> Result<()> {
    for index in 0..count {
        if index > 0 {
            out.push_str(", ");
        }
        push(out, index)?;
    }
    Ok(())
}

/// `[61 62]`.
fn push_bytes(out: &mut String, bytes: &[u8]) {
    out.push('[');
    for (index, byte) in bytes.iter().enumerate() {
        let separator = if index > 0 { " " } else { "" };
        write!(out, "{separator}{byte:02X}").expect("invariant: writing to a string cannot fail");
    }
    out.push(']');
}
