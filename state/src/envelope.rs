//! The wrapping that tells a whole file from a torn one.
//!
//! Text files (everything a person reads) begin with `v1 crc32:0a1b2c3d 123`: format version, CRC-32 of the
//! rest, its length in bytes; then the body as it is. Snapshots have a binary header with the same facts.
//! Decoding never panics and never returns a body whose checksum does not fit.

use std::fmt;

use crate::epoch::Epoch;
use crate::error::StateError;

/// Newest version of the text envelope.
pub const TEXT_VERSION: u32 = 1;

/// Newest version of the binary envelope.
pub const BINARY_VERSION: u8 = 1;

const MAGIC: &[u8; 4] = b"WEIR";
/// Magic, version byte, body length (u64), CRC-32 (u32).
const BINARY_HEADER_LEN: usize = 4 + 1 + 8 + 4;
/// A header line is never longer; bounds the search in a file of garbage.
const TEXT_HEADER_MAX: usize = 64;

/// Why an envelope cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// Empty, cut short, extended, or the checksum does not fit; says which.
    Torn(String),
    /// A version this build does not know.
    UnsupportedVersion {
        /// Version found.
        found: u32,
        /// Newest version this build reads.
        max: u32,
    },
}

impl Unreadable {
    /// The error about file `path`.
    #[must_use]
    pub fn into_error(
        self,
        path: String,
        epoch: Option<Epoch>,
        remedy: &'static str,
    ) -> StateError {
        match self {
            Unreadable::Torn(reason) => StateError::Damaged {
                path,
                epoch,
                reason,
                remedy,
            },
            Unreadable::UnsupportedVersion { found, max } => {
                StateError::UnsupportedVersion { path, found, max }
            }
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Torn(reason) => f.write_str(reason),
            Unreadable::UnsupportedVersion { found, max } => {
                write!(
                    f,
                    "version {found} is not supported, the newest known is {max}"
                )
            }
        }
    }
}

fn torn<T>(reason: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable::Torn(reason.into()))
}

/// Wraps a text body.
#[must_use]
pub fn encode_text(body: &[u8]) -> Vec<u8> {
    let mut file = text_header(crc32fast::hash(body), body.len()).into_bytes();
    file.extend_from_slice(body);
    file
}

fn text_header(crc32: u32, length: usize) -> String {
    format!("v{TEXT_VERSION} crc32:{crc32:08x} {length}\n")
}

/// Opens a text envelope and returns the body.
///
/// # Errors
/// [`Unreadable`].
pub fn decode_text(file: &[u8]) -> Result<&[u8], Unreadable> {
    if file.is_empty() {
        return torn("it is empty");
    }
    let head = &file[..file.len().min(TEXT_HEADER_MAX)];
    let Some(end) = memchr_newline(head) else {
        return torn("it has no header line `v1 crc32:… length`");
    };
    check_text_version(&head[..end])?;
    let body = &file[end + 1..];
    // The header is fully determined by the body: comparing it whole leaves no bit unchecked.
    let expected = text_header(crc32fast::hash(body), body.len());
    if file[..=end] != *expected.as_bytes() {
        return torn(format!(
            "its header `{}` does not fit its {} bytes of content, which give `{}`",
            String::from_utf8_lossy(&head[..end]),
            body.len(),
            expected.trim_end()
        ));
    }
    Ok(body)
}

fn memchr_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b'\n')
}

fn check_text_version(header: &[u8]) -> Result<(), Unreadable> {
    let found = header
        .strip_prefix(b"v")
        .and_then(|rest| rest.split(|&b| b == b' ').next())
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse::<u32>().ok());
    match found {
        Some(TEXT_VERSION) => Ok(()),
        Some(found) if found > TEXT_VERSION => Err(Unreadable::UnsupportedVersion {
            found,
            max: TEXT_VERSION,
        }),
        _ => torn("its first line is not a header `v1 crc32:… length`"),
    }
}

/// Wraps a binary body.
#[must_use]
pub fn encode_binary(body: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(BINARY_HEADER_LEN + body.len());
    file.extend_from_slice(MAGIC);
    file.push(BINARY_VERSION);
    file.extend_from_slice(&(body.len() as u64).to_le_bytes());
    file.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    file.extend_from_slice(body);
    file
}

/// A binary envelope built around its body without copying it.
#[derive(Debug)]
pub(crate) struct BinaryBuilder {
    file: Vec<u8>,
}

impl Default for BinaryBuilder {
    fn default() -> Self {
        Self {
            file: vec![0; BINARY_HEADER_LEN],
        }
    }
}

impl BinaryBuilder {
    /// Where the body is appended.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        &mut self.file
    }

    /// Bytes of the body so far.
    pub(crate) fn body_len(&self) -> u64 {
        (self.file.len() - BINARY_HEADER_LEN) as u64
    }

    /// The file and the CRC-32 of its body.
    pub(crate) fn finish(mut self) -> (Vec<u8>, u32) {
        let length = self.body_len();
        let crc32 = crc32fast::hash(&self.file[BINARY_HEADER_LEN..]);
        self.file[..4].copy_from_slice(MAGIC);
        self.file[4] = BINARY_VERSION;
        self.file[5..13].copy_from_slice(&length.to_le_bytes());
        self.file[13..BINARY_HEADER_LEN].copy_from_slice(&crc32.to_le_bytes());
        (self.file, crc32)
    }
}

/// Opens a binary envelope and returns the body.
///
/// # Errors
/// [`Unreadable`].
pub fn decode_binary(file: &[u8]) -> Result<&[u8], Unreadable> {
    let Some((header, body)) = file.split_at_checked(BINARY_HEADER_LEN) else {
        return torn(format!("it has {} bytes, less than a header", file.len()));
    };
    if &header[..4] != MAGIC {
        return torn("it does not begin with `WEIR`");
    }
    match header[4] {
        BINARY_VERSION => {}
        0 => return torn("its version byte is 0"),
        found => {
            return Err(Unreadable::UnsupportedVersion {
                found: found.into(),
                max: BINARY_VERSION.into(),
            });
        }
    }
    if header[5..13] != (body.len() as u64).to_le_bytes() {
        return torn(format!(
            "its length does not fit: it has {} bytes of content",
            body.len()
        ));
    }
    if header[13..] != crc32fast::hash(body).to_le_bytes() {
        return torn("its checksum does not fit its content");
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"{\n  \"epoch\": 7\n}\n";

    #[test]
    fn text_header_is_one_readable_line() {
        let file = encode_text(b"{}\n");
        let text = String::from_utf8(file).expect("utf-8");
        let crc = crc32fast::hash(b"{}\n");
        assert_eq!(text, format!("v1 crc32:{crc:08x} 3\n{{}}\n"));
    }

    #[test]
    fn envelope_round_trip_keeps_the_body() {
        for body in [BODY, b"", b"\n\n", &[0u8; 300]] {
            assert_eq!(decode_text(&encode_text(body)), Ok(body));
            assert_eq!(decode_binary(&encode_binary(body)), Ok(body));
            let mut builder = BinaryBuilder::default();
            builder.body().extend_from_slice(body);
            assert_eq!(builder.body_len(), body.len() as u64);
            let (file, crc32) = builder.finish();
            assert_eq!(file, encode_binary(body));
            assert_eq!(crc32, crc32fast::hash(body));
        }
    }

    #[test]
    fn text_every_truncation_is_torn() {
        let file = encode_text(BODY);
        for len in 0..file.len() {
            let result = decode_text(&file[..len]);
            assert!(
                matches!(result, Err(Unreadable::Torn(_))),
                "{len}: {result:?}"
            );
        }
    }

    #[test]
    fn binary_every_truncation_is_torn() {
        let file = encode_binary(BODY);
        for len in 0..file.len() {
            let result = decode_binary(&file[..len]);
            assert!(
                matches!(result, Err(Unreadable::Torn(_))),
                "{len}: {result:?}"
            );
        }
    }

    #[test]
    fn envelope_every_flipped_bit_is_an_error() {
        let (text, binary) = (encode_text(BODY), encode_binary(BODY));
        for bit in 0..text.len() * 8 {
            let mut file = text.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_text(&file).is_err(), "text bit {bit}");
        }
        for bit in 0..binary.len() * 8 {
            let mut file = binary.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_binary(&file).is_err(), "binary bit {bit}");
        }
    }

    #[test]
    fn envelope_bytes_appended_is_torn() {
        for extra in [&b"x"[..], b"\n", b"\0\0\0\0"] {
            let text = [&encode_text(BODY)[..], extra].concat();
            assert!(matches!(decode_text(&text), Err(Unreadable::Torn(_))));
            let binary = [&encode_binary(BODY)[..], extra].concat();
            assert!(matches!(decode_binary(&binary), Err(Unreadable::Torn(_))));
        }
    }

    #[test]
    fn envelope_newer_version_is_told_from_damage() {
        assert_eq!(
            decode_text(b"v2 sha256:abc 3\n{}\n"),
            Err(Unreadable::UnsupportedVersion { found: 2, max: 1 })
        );
        let mut binary = encode_binary(BODY);
        binary[4] = 9;
        assert_eq!(
            decode_binary(&binary),
            Err(Unreadable::UnsupportedVersion { found: 9, max: 1 })
        );
    }

    #[test]
    fn text_of_another_system_is_torn() {
        for foreign in [
            &b"{\"id\":\"afa005f5-f4e5-4f81-9286-fab0160ea24d\"}"[..],
            b"v1\n{\"nextBatchWatermarkMs\":0}",
            b"v99999999999999 x\n",
            b"v0 crc32:00000000 0\n",
            &[0u8; 4096],
        ] {
            assert!(matches!(decode_text(foreign), Err(Unreadable::Torn(_))));
        }
    }
}
