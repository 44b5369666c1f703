//! Streams of whole numbers that have no sign: lengths, and fractions of seconds.
//!
//! The library keeps its own decoder of them to itself. What it makes of lengths it allocates at once, so they are read here first;
//! and it takes fractions of seconds below zero, which Arrow's writer writes, for fractions of centuries.

use orc_rust::proto::ColumnEncoding;
use orc_rust::proto::column_encoding::Kind;

use super::chunks::Plain;
use super::problem::{Problem, Result, damage};

/// The two ways in which runs of numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Version {
    pub(super) fn of(encoding: &ColumnEncoding) -> Self {
        match encoding.kind() {
            Kind::Direct | Kind::Dictionary => Self::V1,
            Kind::DirectV2 | Kind::DictionaryV2 => Self::V2,
        }
    }
}

/// Reads such a stream; holds one run, at most 512 numbers.
pub(super) struct Numbers {
    input: Plain,
    version: Version,
    run: Vec<i64>,
    at: usize,
}

impl Numbers {
    pub(super) fn new(input: Plain, version: Version) -> Self {
        Self {
            input,
            version,
            run: Vec::new(),
            at: 0,
        }
    }

    /// The next number, its 64 bits as they are; `None` at the end.
    pub(super) fn next_number(&mut self) -> Result<Option<i64>> {
        if self.at == self.run.len() {
            self.at = 0;
            self.run.clear();
            let Some(first) = self.input.byte()? else {
                return Ok(None);
            };
            match self.version {
                Version::V1 => self.run_v1(first)?,
                Version::V2 => match first >> 6 {
                    0 => self.short_repeat(first)?,
                    1 => self.direct(first)?,
                    2 => self.patched(first)?,
                    _ => self.delta(first)?,
                },
            }
        }
        self.at += 1;
        Ok(self.run.get(self.at - 1).copied())
    }

    /// How many numbers there are and what they are together; a negative one is damage.
    pub(super) fn total(mut self) -> Result<(u64, u64)> {
        let (mut count, mut sum) = (0_u64, 0_u64);
        while let Some(number) = self.next_number()? {
            let Ok(number) = u64::try_from(number) else {
                return damage(format!("a length of {number}"));
            };
            count += 1;
            sum = sum.saturating_add(number);
        }
        Ok((count, sum))
    }

    fn run_v1(&mut self, control: u8) -> Result<()> {
        if control >= 0x80 {
            for _ in 0..256 - i64::from(control) {
                let literal = self.varint()?;
                self.run.push(literal);
            }
            return Ok(());
        }
        let delta = i64::from(self.byte()?.cast_signed());
        let base = self.varint()?;
        let numbers = (0..i64::from(control) + 3).map(|k| base.wrapping_add(k * delta));
        self.run.extend(numbers);
        Ok(())
    }

    fn short_repeat(&mut self, first: u8) -> Result<()> {
        let value = self.big_endian(u32::from(first >> 3 & 7) + 1)?;
        let count = usize::from(first & 7) + 3;
        self.run
            .extend(std::iter::repeat_n(value.cast_signed(), count));
        Ok(())
    }

    fn direct(&mut self, first: u8) -> Result<()> {
        let (width, count) = self.width_and_count(first)?;
        let values = self.packed(count, width)?;
        self.run.extend(values.into_iter().map(u64::cast_signed));
        Ok(())
    }

    fn delta(&mut self, first: u8) -> Result<()> {
        let (width, count) = self.width_and_count(first)?;
        let base = self.varint()?;
        let step = self.varint()?.cast_unsigned();
        let step = (step >> 1).cast_signed() ^ -(step & 1).cast_signed();
        if first >> 1 & 0x1F == 0 {
            let numbers = (0..count as i64).map(|k| base.wrapping_add(k.wrapping_mul(step)));
            self.run.extend(numbers);
            return Ok(());
        }
        if count < 2 {
            return damage("a run of steps has no step");
        }
        let mut value = base.wrapping_add(step);
        self.run.extend([base, value]);
        for next in self.packed(count - 2, width)? {
            let next = next.cast_signed();
            value = match step < 0 {
                true => value.wrapping_sub(next),
                false => value.wrapping_add(next),
            };
            self.run.push(value);
        }
        Ok(())
    }

    fn patched(&mut self, first: u8) -> Result<()> {
        let (width, count) = self.width_and_count(first)?;
        let third = self.byte()?;
        let fourth = self.byte()?;
        let base_bytes = u32::from(third >> 5) + 1;
        let patch_width = bit_width(third & 0x1F);
        let gap_width = u32::from(fourth >> 5) + 1;
        let base = self.big_endian(base_bytes)?;
        let sign = 1_u64 << (base_bytes * 8 - 1);
        let base = match base & sign {
            0 => base.cast_signed(),
            _ => (base & !sign).cast_signed().wrapping_neg(),
        };
        let mut values = self.packed(count, width)?;
        let entry_width = padded_width(patch_width + gap_width);
        if entry_width > 64 || patch_width >= 64 {
            return damage(format!("a patch of {} bits", patch_width + gap_width));
        }
        let mut at = 0;
        for entry in self.packed(usize::from(fourth & 0x1F), entry_width)? {
            at += usize::try_from(entry >> patch_width).unwrap_or(usize::MAX);
            let patch = entry & ((1 << patch_width) - 1);
            let high = match patch {
                0 => 0,
                patch => patch.checked_shl(width).unwrap_or_default(),
            };
            match values.get_mut(at) {
                Some(value) => *value |= high,
                None => return damage("a patch behind the end of its run"),
            }
        }
        let numbers = values
            .into_iter()
            .map(|value| base.wrapping_add(value.cast_signed()));
        self.run.extend(numbers);
        Ok(())
    }

    /// Bits of a number and numbers of a run, from its first byte and the one behind it.
    fn width_and_count(&mut self, first: u8) -> Result<(u32, usize)> {
        let second = self.byte()?;
        let count = (usize::from(first & 1) << 8 | usize::from(second)) + 1;
        Ok((bit_width(first >> 1 & 0x1F), count))
    }

    /// Numbers of `width` bits each, the first bit the highest, up to the end of a byte.
    fn packed(&mut self, count: usize, width: u32) -> Result<Vec<u64>> {
        let mut values = Vec::with_capacity(count);
        let (mut byte, mut left) = (0_u8, 0);
        for _ in 0..count {
            let mut value = 0_u64;
            let mut missing = width;
            while missing > 0 {
                if left == 0 {
                    byte = self.byte()?;
                    left = 8;
                }
                let taken = missing.min(left);
                let bits = u64::from(byte) >> (left - taken) & ((1 << taken) - 1);
                value = value << taken | bits;
                left -= taken;
                missing -= taken;
            }
            values.push(value);
        }
        Ok(values)
    }

    fn big_endian(&mut self, bytes: u32) -> Result<u64> {
        let mut value = 0;
        for _ in 0..bytes {
            value = value << 8 | u64::from(self.byte()?);
        }
        Ok(value)
    }

    fn varint(&mut self) -> Result<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value.cast_signed());
            }
        }
        damage("a number has too many bytes")
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.input.byte()?;
        byte.ok_or_else(|| Problem::Damage("a stream of numbers is cut off".to_owned()))
    }
}

/// The bits that five bits tell of.
fn bit_width(code: u8) -> u32 {
    match code {
        0..=23 => u32::from(code) + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// The least of those bits that are as many.
fn padded_width(bits: u32) -> u32 {
    (0..32)
        .map(bit_width)
        .find(|width| *width >= bits)
        .unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orc_rust::proto::PostScript;

    use super::super::chunks::Compression;
    use super::*;

    fn read(version: Version, bytes: &[u8]) -> Result<Vec<i64>> {
        let none = Compression::of(&PostScript::default())?;
        let stream = Bytes::copy_from_slice(bytes);
        let mut numbers = Numbers::new(Plain::new(none, stream), version);
        let mut all = Vec::new();
        while let Some(number) = numbers.next_number()? {
            all.push(number);
        }
        Ok(all)
    }

    /// The examples of the format's specification.
    #[test]
    fn runs_are_read_as_the_specification_says() {
        let v1 = |bytes: &[u8]| read(Version::V1, bytes).ok();
        assert_eq!(v1(&[0x61, 0x00, 0x07]), Some(vec![7; 100]));
        assert_eq!(v1(&[0x61, 0xFF, 0x64]), Some((1..=100).rev().collect()));
        assert_eq!(
            v1(&[0xFB, 0x02, 0x03, 0x06, 0x07, 0x0B]),
            Some(vec![2, 3, 6, 7, 11])
        );
        let v2 = |bytes: &[u8]| read(Version::V2, bytes).ok();
        assert_eq!(v2(&[0x0A, 0x27, 0x10]), Some(vec![10_000; 5]));
        assert_eq!(
            v2(&[0x5E, 0x03, 0x5C, 0xA1, 0xAB, 0x1E, 0xDE, 0xAD, 0xBE, 0xEF]),
            Some(vec![23_713, 43_806, 57_005, 48_879])
        );
        let patched = [
            0x8E, 0x13, 0x2B, 0x21, 0x07, 0xD0, 0x1E, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3C, 0x46,
            0x50, 0x5A, 0x64, 0x6E, 0x78, 0x82, 0x8C, 0x96, 0xA0, 0xAA, 0xB4, 0xBE, 0xFC, 0xE8,
        ];
        let mut expected: Vec<i64> = (0..20).map(|k| 2000 + 10 * k).collect();
        expected[..4].copy_from_slice(&[2030, 2000, 2020, 1_000_000]);
        assert_eq!(v2(&patched), Some(expected));
        assert_eq!(
            v2(&[0xC6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46]),
            Some(vec![2, 3, 5, 7, 11, 13, 17, 19, 23, 29])
        );
    }

    #[test]
    fn runs_that_are_cut_off_are_errors() {
        for bytes in [&[0x61, 0x00][..], &[0xFB, 0x02], &[0xFF; 12]] {
            assert!(read(Version::V1, bytes).is_err(), "{bytes:?}");
        }
        for bytes in [
            &[0x0A, 0x27][..],
            &[0x5E, 0x03, 0x5C],
            &[0x8E, 0x13, 0x2B],
            &[0xC6, 0x00, 0x02, 0x02],
        ] {
            assert!(read(Version::V2, bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn lengths_below_zero_are_no_lengths() {
        let none = Compression::of(&PostScript::default()).ok().map(|none| {
            let stream = Bytes::from_static(&[0x61, 0xFF, 0x05]);
            Numbers::new(Plain::new(none, stream), Version::V1)
                .total()
                .is_err()
        });
        assert_eq!(none, Some(true));
    }
}
