//! Eight bytes at a time in one machine word (SWAR). The first byte of the text is the lowest byte of the word.

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
/// `0x30` ('0') in every byte.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The eight bytes at `at`; `None` when fewer are left.
#[inline]
pub(crate) fn word_at(text: &[u8], at: usize) -> Option<u64> {
    let bytes = text.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

/// As [`word_at`], filled up with zero bytes behind the end of the text.
#[inline]
pub(crate) fn word_or_end(text: &[u8], at: usize) -> u64 {
    word_at(text, at).unwrap_or_else(|| {
        let rest = text.get(at..).unwrap_or_default();
        rest.iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    })
}

/// A mark (top bit) at the first byte equal to `byte`, none when there is none; marks above the first mean nothing.
#[inline]
pub(crate) fn equal_to(word: u64, byte: u8) -> u64 {
    let zeroed = word ^ (LOW_BITS * u64::from(byte));
    zeroed.wrapping_sub(LOW_BITS) & !zeroed & HIGH_BITS
}

/// A mark at the first byte below `limit` (at most 0x80); marks above the first mean nothing.
#[inline]
pub(crate) fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(LOW_BITS * u64::from(limit)) & !word & HIGH_BITS
}

/// How many of the eight bytes are digits, counted from the first.
#[inline]
pub(crate) fn leading_digits(word: u64) -> usize {
    let digits = word ^ ZEROS;
    // A byte is 0..=9 exactly if neither it nor it + 0x76 has the top bit; a carry only leaves a byte already marked.
    let other = (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & HIGH_BITS;
    (other.trailing_zeros() / 8) as usize
}

/// The number written by the first `count` (1..=8) digits of `word`.
#[inline]
pub(crate) fn digits_value(word: u64, count: usize) -> u64 {
    let digits = (word ^ ZEROS) << (64 - 8 * count);
    let pairs = (digits & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(2561) >> 8;
    let fours = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul(6_553_601) >> 16;
    (fours & 0x0000_FFFF_0000_FFFF).wrapping_mul(42_949_672_960_001) >> 32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(mark: u64) -> usize {
        (mark.trailing_zeros() / 8) as usize
    }

    proptest! {
        #[test]
        fn words_count_and_read_their_leading_digits(bytes: [u8; 8]) {
            let word = u64::from_le_bytes(bytes);
            let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            prop_assert_eq!(leading_digits(word), count);
        }

        #[test]
        fn words_of_digits_are_their_number(value in 0u64..100_000_000, count in 1usize..=8) {
            let digits = format!("{value:08}");
            let bytes: [u8; 8] = digits.as_bytes().try_into().expect("eight digits");
            let expected = digits[..count].parse::<u64>().expect("digits");
            prop_assert_eq!(digits_value(u64::from_le_bytes(bytes), count), expected);
        }

        #[test]
        fn words_mark_the_first_special_byte(bytes in prop::array::uniform8(0x1Eu8..0x24)) {
            let word = u64::from_le_bytes(bytes);
            let position = |test: &dyn Fn(u8) -> bool| bytes.iter().position(|byte| test(*byte)).unwrap_or(8);
            prop_assert_eq!(first(equal_to(word, b'"')), position(&|byte| byte == b'"'));
            prop_assert_eq!(first(below(word, b' ')), position(&|byte| byte < b' '));
        }
    }
}
