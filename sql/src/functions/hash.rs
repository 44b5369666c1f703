//! `hash`: Spark's Murmur3 over the values of a row, seed 42, NULLs skipped.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use datafusion::common::Result;
use datafusion::logical_expr::Expr;

use super::error::mismatch;
use super::kernel::{Call, Kernel};
use super::{Args, Resolver};

/// The hash family.
pub(super) const FUNCTIONS: &[(&str, Resolver)] = &[("hash", murmur), ("xxhash64", xxhash)];

/// `xxhash64` of the library; decimals too long for a BIGINT are hashed by their bytes, as in Spark.
fn xxhash(args: Args<'_>) -> Result<Expr> {
    let bytes = |call: &Call<'_>| {
        call.over_arrays(|a| {
            let decimals = a[0].as_primitive::<Decimal128Type>().iter();
            let rows = decimals.map(|v| v.map(minimal));
            Ok(Arc::new(rows.collect::<BinaryArray>()) as ArrayRef)
        })
    };
    let values = args.exprs.iter().zip(&args.types).map(|(e, t)| match t {
        DataType::Decimal128(19.., _) => {
            let value = vec![e.clone()];
            Kernel::call("decimal_bytes", DataType::Binary, "", bytes, value)
        }
        _ => e.clone(),
    });
    args.library_with("xxhash64", values.collect())
}

fn murmur(a: Args<'_>) -> Result<Expr> {
    Ok(Kernel::call(
        "hash",
        DataType::Int32,
        "",
        |c| {
            c.over_arrays(|columns| {
                let mut hashes = vec![42i32; columns.first().map_or(1, Array::len)];
                columns.iter().try_for_each(|c| add(c, &mut hashes))?;
                Ok(Arc::new(Int32Array::from(hashes)) as ArrayRef)
            })
        },
        a.exprs.clone(),
    ))
}

/// Folds a column into the hashes of its rows.
fn add(column: &ArrayRef, hashes: &mut [i32]) -> Result<()> {
    for (row, hash) in hashes.iter_mut().enumerate() {
        if column.is_valid(row) && !matches!(column.data_type(), DataType::Null) {
            *hash = value(column, row, *hash)?;
        }
    }
    Ok(())
}

fn value(c: &ArrayRef, row: usize, seed: i32) -> Result<i32> {
    Ok(match c.data_type() {
        DataType::Boolean => int(i32::from(c.as_boolean().value(row)), seed),
        DataType::Int8 => int(c.as_primitive::<Int8Type>().value(row).into(), seed),
        DataType::Int16 => int(c.as_primitive::<Int16Type>().value(row).into(), seed),
        DataType::Int32 => int(c.as_primitive::<Int32Type>().value(row), seed),
        DataType::Date32 => int(c.as_primitive::<Date32Type>().value(row), seed),
        DataType::Int64 => long(c.as_primitive::<Int64Type>().value(row), seed),
        DataType::Timestamp(_, _) => long(
            c.as_primitive::<TimestampMicrosecondType>().value(row),
            seed,
        ),
        DataType::Float32 => {
            let v = c.as_primitive::<Float32Type>().value(row);
            int(if v == 0.0 { 0 } else { v.to_bits() as i32 }, seed)
        }
        DataType::Float64 => {
            let v = c.as_primitive::<Float64Type>().value(row);
            long(if v == 0.0 { 0 } else { v.to_bits() as i64 }, seed)
        }
        DataType::Decimal128(p, _) if *p <= 18 => {
            long(c.as_primitive::<Decimal128Type>().value(row) as i64, seed)
        }
        DataType::Decimal128(_, _) => bytes(
            minimal(c.as_primitive::<Decimal128Type>().value(row)).as_slice(),
            seed,
        ),
        DataType::Utf8 => bytes(c.as_string::<i32>().value(row).as_bytes(), seed),
        DataType::Binary => bytes(c.as_binary::<i32>().value(row), seed),
        DataType::List(_) => {
            let values = c.as_list::<i32>().value(row);
            (0..values.len())
                .filter(|i| values.is_valid(*i))
                .try_fold(seed, |h, i| value(&values, i, h))?
        }
        DataType::Struct(_) => {
            let columns = c.as_struct().columns().iter();
            columns
                .filter(|c| c.is_valid(row))
                .try_fold(seed, |h, c| value(c, row, h))?
        }
        t => {
            return Err(mismatch(format!(
                "hash does not accept {}",
                super::cast::type_text(t)
            )));
        }
    })
}

/// Two's complement in as few bytes as Java's BigInteger needs.
fn minimal(v: i128) -> Vec<u8> {
    let all = v.to_be_bytes();
    let sign = if v < 0 { 0xff } else { 0 };
    let mut from = 0;
    while from < 15 && all[from] == sign && (all[from + 1] & 0x80) == (sign & 0x80) {
        from += 1;
    }
    all[from..].to_vec()
}

fn mix_k(k: i32) -> i32 {
    k.wrapping_mul(0xcc9e_2d51_u32 as i32)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593)
}

fn mix_h(h: i32, k: i32) -> i32 {
    (h ^ mix_k(k))
        .rotate_left(13)
        .wrapping_mul(5)
        .wrapping_add(0xe654_6b64_u32 as i32)
}

fn finish(h: i32, length: usize) -> i32 {
    let mut h = h as u32 ^ length as u32;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    (h ^ (h >> 16)) as i32
}

fn int(v: i32, seed: i32) -> i32 {
    finish(mix_h(seed, v), 4)
}

fn long(v: i64, seed: i32) -> i32 {
    finish(mix_h(mix_h(seed, v as i32), (v >> 32) as i32), 8)
}

/// Whole words first, then every byte left over by itself, as Spark's variant of Murmur3 does.
fn bytes(v: &[u8], seed: i32) -> i32 {
    let (words, rest) = v.as_chunks::<4>();
    let h = words
        .iter()
        .fold(seed, |h, w| mix_h(h, i32::from_le_bytes(*w)));
    let h = rest.iter().fold(h, |h, b| mix_h(h, i32::from(*b as i8)));
    finish(h, v.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_of_known_values_is_sparks() {
        assert_eq!(int(0, 42), 933_211_791);
        assert_eq!(long(1, 42).rem_euclid(5), 4);
        assert_eq!(bytes(b"a", 42).rem_euclid(5), 0);
        assert_eq!(
            bytes(b"a long key with more than sixteen bytes", 42).rem_euclid(5),
            3
        );
    }
}
