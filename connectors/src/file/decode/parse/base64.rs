//! Base64 text -> bytes, as Spark reads BINARY columns (the MIME alphabet, padding required).
//!
//! Own code because the rule is Jackson's, not RFC 4648's: blanks between groups are skipped, padding must be complete,
//! unused low bits of the last group are not looked at.

/// Marks a byte outside the alphabet in [`ALPHABET`].
const INVALID: u8 = 0xFF;

/// Byte -> six-bit value.
const ALPHABET: [u8; 256] = alphabet();

const fn alphabet() -> [u8; 256] {
    let symbols = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [INVALID; 256];
    let mut value = 0;
    while value < symbols.len() {
        table[symbols[value] as usize] = value as u8;
        value += 1;
    }
    table
}

/// Appends the decoded bytes of `text` to `out`. `None` (and `out` as it was) when `text` is not padded base64.
///
/// An empty text is zero bytes. Blanks and control characters are ignored wherever they stand.
pub fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let decoded = decode_groups(text, out);
    if decoded.is_none() {
        out.truncate(start);
    }
    decoded
}

fn decode_groups(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut bits = 0u32;
    let mut symbols = 0;
    let mut padding = 0;
    for &byte in text.iter().filter(|byte| **byte > b' ') {
        match ALPHABET[usize::from(byte)] {
            _ if byte == b'=' && symbols + padding < 4 && symbols >= 2 => padding += 1,
            INVALID => return None,
            _ if padding > 0 => return None,
            value => {
                bits = bits << 6 | u32::from(value);
                symbols += 1;
            }
        }
        if symbols + padding == 4 {
            let group = (bits << (6 * padding)).to_be_bytes();
            out.extend_from_slice(&group[1..4 - padding as usize]);
            if padding > 0 {
                // Nothing but blanks may follow the padded group: `symbols` stays, so any further symbol is refused.
                symbols = 4 - padding;
                continue;
            }
            bits = 0;
            symbols = 0;
        }
    }
    (symbols == 0 || symbols + padding == 4).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode_base64(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn base64_padded_text_is_decoded() {
        assert_eq!(decode("SGVsbG8="), Some(b"Hello".to_vec()));
        assert_eq!(decode("SGVsbA=="), Some(b"Hell".to_vec()));
        assert_eq!(decode("SGVs bG9\n3"), Some(b"Hellow".to_vec()));
        assert_eq!(decode(""), Some(Vec::new()));
        assert_eq!(decode("+/+/"), Some(vec![0xFB, 0xFF, 0xBF]));
    }

    #[test]
    fn base64_other_text_is_refused_and_leaves_the_output_alone() {
        for text in [
            "SGVsbG8",
            "***",
            "SGVsbG8=x",
            "=AAA",
            "A===",
            "SGVsbG8==",
            "AA=A",
            "A",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
        let mut out = vec![7];
        assert_eq!(decode_base64(b"SGVsbG8", &mut out), None);
        assert_eq!(out, [7]);
    }
}
