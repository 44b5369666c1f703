//! Whether a payload is what its schema says: every byte accounted for, every value one that the reader can take.
//!
//! The Avro library appends to its arrays while it reads, so a record that fails in the middle spoils its neighbours, and it is
//! lenient where leniency changes values (branches, symbols and UTF-8 are not looked at until a whole batch is). So each payload is
//! walked here first, without making anything; only sound ones reach the library.

use std::collections::HashSet;

use super::convert::big_endian;
use super::resolve::{Branches, Scalar, Step};

/// Checks that `bytes` are exactly one value of the writer's schema that `step` can read.
///
/// # Errors
/// What is wrong and at which byte.
pub(super) fn check(step: &Step, bytes: &[u8]) -> Result<(), String> {
    let mut walk = Walk { bytes, at: 0 };
    let rest = |walk: &Walk<'_>| walk.bytes.len() - walk.at;
    match walk.value(step) {
        Ok(()) if rest(&walk) == 0 => Ok(()),
        Ok(()) => Err(format!(
            "{} bytes are left after the value that the schema describes{}",
            rest(&walk),
            hint(bytes)
        )),
        Err(why) => Err(format!(
            "at byte {} of {}: {why}{}",
            walk.at,
            bytes.len(),
            hint(bytes)
        )),
    }
}

/// Cuts `bytes` into the `rows` values that stand in them one behind the other.
///
/// # Errors
/// The row that is none, and what is wrong with it; bytes that are left.
pub(super) fn split<'a>(
    step: &Step,
    bytes: &'a [u8],
    rows: usize,
) -> Result<Vec<&'a [u8]>, String> {
    // Every value takes a byte or more.
    if rows > bytes.len() {
        return Err(format!("{rows} rows in {} bytes", bytes.len()));
    }
    let mut walk = Walk { bytes, at: 0 };
    let mut values = Vec::with_capacity(rows);
    for row in 1..=rows {
        let from = walk.at;
        walk.value(step)
            .map_err(|why| format!("row {row} of {rows} of a block: {why}"))?;
        values.push(&bytes[from..walk.at]);
    }
    match bytes.len() - walk.at {
        0 => Ok(values),
        left => Err(format!(
            "{left} bytes are left behind the {rows} rows of a block"
        )),
    }
}

/// What such bytes often are.
fn hint(bytes: &[u8]) -> &'static str {
    match bytes {
        [0, _, _, _, _, ..] => {
            "; it begins like a payload of a schema registry, which needs the option 'schema.registry.url'"
        }
        [0xC3, 0x01, ..] => "; it begins like a single-object payload with a fingerprint",
        _ => "",
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    fn value(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Null(_) => Ok(()),
            Step::Scalar(kind, _) => self.scalar(*kind),
            Step::Enum(names) => {
                let number = self.int()?;
                match usize::try_from(number).ok().and_then(|n| names.get(n)) {
                    Some(Some(_)) => Ok(()),
                    Some(None) => Err(format!("the reader's enum does not know symbol {number}")),
                    None => Err(format!("the enum has no symbol {number}")),
                }
            }
            Step::Array(items, _) => self.blocks(|walk| walk.value(items)),
            Step::Map(values, _) => {
                let mut seen: HashSet<&[u8]> = HashSet::new();
                self.blocks(|walk| {
                    let key = walk.text()?;
                    if !seen.insert(key) {
                        let key = String::from_utf8_lossy(key).into_owned();
                        return Err(format!("the key '{key}' is twice in one map"));
                    }
                    walk.value(values)
                })
            }
            Step::Record(fields, _, _) => fields.iter().try_for_each(|f| self.value(f)),
            Step::Union(branches, _) => self.union(branches),
            Step::Member(inner, _, _) | Step::Wider(inner, _) => self.value(inner),
        }
    }

    fn union(&mut self, branches: &Branches) -> Result<(), String> {
        let number = self.long()?;
        match usize::try_from(number)
            .ok()
            .and_then(|n| branches.steps.get(n))
        {
            Some(Ok(step)) => self.value(step),
            Some(Err(why)) => Err(why.clone()),
            None => Err(format!("the union has no branch {number}")),
        }
    }

    fn scalar(&mut self, kind: Scalar) -> Result<(), String> {
        match kind {
            Scalar::Boolean => match self.take(1)? {
                [0 | 1] => Ok(()),
                other => Err(format!("a boolean of {}", other[0])),
            },
            Scalar::Int => self.int().map(|_| ()),
            Scalar::Long => self.long().map(|_| ()),
            Scalar::Millis => match self.long()?.checked_mul(1000) {
                Some(_) => Ok(()),
                None => Err("a timestamp outside of the years that microseconds reach".into()),
            },
            Scalar::Float => self.take(4).map(|_| ()),
            Scalar::Double => self.take(8).map(|_| ()),
            Scalar::Bytes => self.prefixed().map(|_| ()),
            Scalar::Text => self.text().map(|_| ()),
            Scalar::Fixed(size) => self.take(size).map(|_| ()),
            Scalar::Decimal(precision, size) => {
                let bytes = match size {
                    Some(size) => self.take(size)?,
                    None => self.prefixed()?,
                };
                let limit = 10_u128.pow(u32::from(precision));
                match big_endian(bytes) {
                    _ if bytes.is_empty() => Err("a decimal without bytes".into()),
                    Some(value) if value.unsigned_abs() < limit => Ok(()),
                    _ => Err(format!("a decimal of more than {precision} digits")),
                }
            }
        }
    }

    /// Blocks of items up to an empty one. A negative count is followed by the size of the block in bytes.
    fn blocks(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            let end = match count < 0 {
                true => {
                    let size =
                        usize::try_from(self.long()?).map_err(|_| "a block of negative size")?;
                    Some(self.at.checked_add(size).ok_or("a block too large")?)
                }
                false => None,
            };
            // Every item takes a byte or more, so that no count goes further than the payload does.
            for _ in 0..count.unsigned_abs() {
                item(self)?;
            }
            if end.is_some_and(|end| end != self.at) {
                return Err("a block that is not of the size it says".into());
            }
        }
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], String> {
        let end = self
            .at
            .checked_add(size)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            let left = self.bytes.len() - self.at;
            format!("{size} bytes expected, {left} are left")
        })?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn prefixed(&mut self) -> Result<&'a [u8], String> {
        let size = self.long()?;
        let size = usize::try_from(size).map_err(|_| format!("a length of {size}"))?;
        self.take(size)
    }

    fn text(&mut self) -> Result<&'a [u8], String> {
        let bytes = self.prefixed()?;
        match std::str::from_utf8(bytes) {
            Ok(_) => Ok(bytes),
            Err(e) => Err(format!("a string that is no UTF-8 ({e})")),
        }
    }

    fn int(&mut self) -> Result<i32, String> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| format!("an int of {value}"))
    }

    fn long(&mut self) -> Result<i64, String> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            if shift == 63 && byte > 1 {
                return Err("a number of more than 64 bits".into());
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err("a number of more than 64 bits".into())
    }
}
