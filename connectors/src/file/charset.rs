//! Files whose text is not UTF-8: read as if it were, and written from it.
//!
//! Decoders see UTF-8 only. A byte that means nothing in the file's charset becomes one that means nothing in UTF-8 either, so that
//! the decoder counts its record as bad instead of taking a replacement character for a value.

use std::io::{self, Read};

use encoding_rs::{DecoderResult, Encoding};

/// What option `encoding` may say, for messages.
pub(crate) const ALLOWED: &str = "UTF-8, US-ASCII, ISO-8859-1, UTF-16, UTF-16LE, UTF-16BE, UTF-32, UTF-32LE, UTF-32BE, and names of the \
     WHATWG encoding standard such as windows-1252, GBK, Shift_JIS";

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Stands for what the charset does not define; in UTF-8 it never occurs.
const MALFORMED: u8 = 0xFF;

/// How characters are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// UTF-8, which needs nothing.
    #[default]
    Utf8,
    /// US-ASCII.
    Ascii,
    /// ISO-8859-1, every byte is a character.
    Latin1,
    /// UTF-16 whose byte-order mark tells the order; big endian without one.
    Utf16,
    /// UTF-16 of a fixed order: big endian if true.
    Utf16Of(bool),
    /// UTF-32 whose byte-order mark tells the order; big endian without one.
    Utf32,
    /// UTF-32 of a fixed order: big endian if true.
    Utf32Of(bool),
    /// Any other one.
    Other(&'static Encoding),
}

impl Charset {
    /// A charset by its name in Java or in the WHATWG standard, in any letter case.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" => Self::Utf8,
            "us-ascii" | "ascii" => Self::Ascii,
            "iso-8859-1" | "iso8859_1" | "latin1" | "iso-latin-1" => Self::Latin1,
            "utf-16" | "utf16" => Self::Utf16,
            "utf-16le" => Self::Utf16Of(false),
            "utf-16be" => Self::Utf16Of(true),
            "utf-32" | "utf32" => Self::Utf32,
            "utf-32le" => Self::Utf32Of(false),
            "utf-32be" => Self::Utf32Of(true),
            other => {
                let encoding = Encoding::for_label(other.as_bytes())?;
                // Stands for charsets that must not be read.
                if encoding == encoding_rs::REPLACEMENT || encoding == encoding_rs::X_USER_DEFINED {
                    return None;
                }
                Self::Other(encoding)
            }
        })
    }

    /// The file as UTF-8.
    pub(crate) fn reader(self, input: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        match self {
            Self::Utf8 => input,
            charset => Box::new(ToUtf8 {
                input,
                state: charset.state(),
                raw: Vec::new(),
                text: Vec::new(),
                at: 0,
                ended: false,
            }),
        }
    }

    fn state(self) -> State {
        match self {
            Self::Utf8 | Self::Ascii => State::Ascii,
            Self::Latin1 => State::Latin1,
            Self::Utf16 => State::Mark(2),
            Self::Utf32 => State::Mark(4),
            Self::Utf16Of(big) => State::utf16(big),
            Self::Utf32Of(big) => State::Utf32(big),
            Self::Other(encoding) => {
                State::Library(Box::new(encoding.new_decoder_without_bom_handling()))
            }
        }
    }

    /// Appends a text; `first` says that it is the beginning of the file.
    ///
    /// # Errors
    /// The character that the charset does not have.
    pub(crate) fn encode(self, text: &str, first: bool, out: &mut Vec<u8>) -> Result<(), char> {
        match self {
            Self::Utf8 => out.extend_from_slice(text.as_bytes()),
            Self::Ascii | Self::Latin1 => {
                let most = if self == Self::Ascii { 0x7F } else { 0xFF };
                for c in text.chars() {
                    let byte = u8::try_from(u32::from(c)).ok().filter(|byte| *byte <= most);
                    out.push(byte.ok_or(c)?);
                }
            }
            // As Java has it: a mark and big endian.
            Self::Utf16 => {
                if first {
                    out.extend_from_slice(&[0xFE, 0xFF]);
                }
                push_utf16(text, true, out);
            }
            Self::Utf16Of(big) => push_utf16(text, big, out),
            Self::Utf32 => push_utf32(text, true, out),
            Self::Utf32Of(big) => push_utf32(text, big, out),
            Self::Other(encoding) => return push_other(encoding, text, out),
        }
        Ok(())
    }
}

fn push_utf16(text: &str, big: bool, out: &mut Vec<u8>) {
    for unit in text.encode_utf16() {
        out.extend_from_slice(&if big {
            unit.to_be_bytes()
        } else {
            unit.to_le_bytes()
        });
    }
}

fn push_utf32(text: &str, big: bool, out: &mut Vec<u8>) {
    for c in text.chars() {
        let unit = u32::from(c);
        out.extend_from_slice(&if big {
            unit.to_be_bytes()
        } else {
            unit.to_le_bytes()
        });
    }
}

fn push_other(encoding: &'static Encoding, text: &str, out: &mut Vec<u8>) -> Result<(), char> {
    let mut encoder = encoding.new_encoder();
    let mut rest = text;
    loop {
        out.reserve(rest.len() + 64);
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, out, true);
        rest = rest.get(read..).unwrap_or_default();
        match result {
            encoding_rs::EncoderResult::InputEmpty => return Ok(()),
            encoding_rs::EncoderResult::OutputFull => {}
            encoding_rs::EncoderResult::Unmappable(c) => return Err(c),
        }
    }
}

/// What is known of the way from bytes to characters.
enum State {
    Ascii,
    Latin1,
    /// A byte-order mark of this many bytes may come.
    Mark(usize),
    Utf32(bool),
    Library(Box<encoding_rs::Decoder>),
}

impl State {
    fn utf16(big: bool) -> Self {
        let encoding = if big {
            encoding_rs::UTF_16BE
        } else {
            encoding_rs::UTF_16LE
        };
        Self::Library(Box::new(encoding.new_decoder_without_bom_handling()))
    }
}

struct ToUtf8 {
    input: Box<dyn Read + Send>,
    state: State,
    /// Bytes of the file that no character was made of yet.
    raw: Vec<u8>,
    /// UTF-8, handed out up to `at`.
    text: Vec<u8>,
    at: usize,
    ended: bool,
}

impl ToUtf8 {
    /// Makes more text; none is made only at the end of the file.
    fn fill(&mut self) -> io::Result<()> {
        self.text.clear();
        self.at = 0;
        while self.text.is_empty() && !(self.ended && self.raw.is_empty()) {
            if !self.ended {
                let have = self.raw.len();
                self.raw.resize(have + CHUNK_BYTES, 0);
                let read = self.input.read(&mut self.raw[have..]);
                self.raw.truncate(have + *read.as_ref().unwrap_or(&0));
                match read {
                    Ok(0) => self.ended = true,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
            }
            self.convert();
        }
        Ok(())
    }

    fn convert(&mut self) {
        match &mut self.state {
            State::Ascii => {
                let bytes = self.raw.drain(..);
                self.text
                    .extend(bytes.map(|byte| if byte < 0x80 { byte } else { MALFORMED }));
            }
            State::Latin1 => {
                for byte in self.raw.drain(..) {
                    let mut buffer = [0; 2];
                    let c = char::from(byte).encode_utf8(&mut buffer);
                    self.text.extend_from_slice(c.as_bytes());
                }
            }
            State::Mark(width) => {
                let width = *width;
                if self.raw.len() < width && !self.ended {
                    return;
                }
                let marks: [&[u8]; 2] = match width {
                    2 => [&[0xFF, 0xFE], &[0xFE, 0xFF]],
                    _ => [&[0xFF, 0xFE, 0, 0], &[0, 0, 0xFE, 0xFF]],
                };
                let little = self.raw.starts_with(marks[0]);
                if little || self.raw.starts_with(marks[1]) {
                    self.raw.drain(..width);
                }
                self.state = match width {
                    2 => State::utf16(!little),
                    _ => State::Utf32(!little),
                };
                self.convert();
            }
            State::Utf32(big) => {
                let big = *big;
                let whole = self.raw.len() / 4 * 4;
                for unit in self.raw[..whole].chunks_exact(4) {
                    let bytes = [unit[0], unit[1], unit[2], unit[3]];
                    let value = if big {
                        u32::from_be_bytes(bytes)
                    } else {
                        u32::from_le_bytes(bytes)
                    };
                    match char::from_u32(value) {
                        Some(c) => self
                            .text
                            .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                        None => self.text.push(MALFORMED),
                    }
                }
                self.raw.drain(..whole);
                if self.ended && !self.raw.is_empty() {
                    self.raw.clear();
                    self.text.push(MALFORMED);
                }
            }
            State::Library(decoder) => {
                let read = library(decoder, &self.raw, self.ended, &mut self.text);
                self.raw.drain(..read);
            }
        }
    }
}

/// Decodes all of `raw`; answers how much of it that was.
fn library(
    decoder: &mut encoding_rs::Decoder,
    raw: &[u8],
    last: bool,
    text: &mut Vec<u8>,
) -> usize {
    let mut read = 0;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let (result, taken, made) =
            decoder.decode_to_utf8_without_replacement(&raw[read..], &mut buffer, last);
        text.extend_from_slice(&buffer[..made]);
        read += taken;
        match result {
            DecoderResult::InputEmpty => return read,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => text.push(MALFORMED),
        }
    }
}

impl Read for ToUtf8 {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            self.fill()?;
        }
        let rest = &self.text[self.at..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::file::decode::lines_tests::Dribble;

    fn decoded(name: &str, bytes: &[u8], step: usize) -> Vec<u8> {
        let input = Dribble {
            bytes: bytes.to_vec(),
            at: 0,
            step,
        };
        let mut text = Vec::new();
        let charset = Charset::of_name(name).unwrap();
        charset
            .reader(Box::new(input))
            .read_to_end(&mut text)
            .unwrap();
        text
    }

    #[test]
    fn charset_texts_come_back() {
        for name in [
            "UTF-16", "utf-16le", "UTF-16BE", "UTF-32", "UTF-32LE", "GB18030",
        ] {
            let mut bytes = Vec::new();
            let charset = Charset::of_name(name).unwrap();
            charset
                .encode("{\"k\":\"città 日本 😀\"}\n", true, &mut bytes)
                .unwrap();
            charset.encode("ende\n", false, &mut bytes).unwrap();
            for step in [1, 2, 3, 5, 1000] {
                let text = decoded(name, &bytes, step);
                assert_eq!(
                    String::from_utf8(text).unwrap(),
                    "{\"k\":\"città 日本 😀\"}\nende\n",
                    "{name}"
                );
            }
        }
        assert_eq!(
            decoded("ISO-8859-1", b"caff\xE8 \x80", 2),
            "caffè \u{80}".as_bytes()
        );
        assert_eq!(decoded("windows-1252", b"\x80 5", 2), "€ 5".as_bytes());
        assert_eq!(decoded("UTF-16", &[0xFF, 0xFE, b'a', 0], 1), b"a");
        assert_eq!(decoded("UTF-16", &[0, b'a'], 1), b"a");
    }

    #[test]
    fn charset_bytes_without_meaning_are_no_utf8_and_keep_their_neighbours() {
        assert_eq!(decoded("US-ASCII", b"a\xE8b", 1), b"a\xFFb");
        assert_eq!(
            decoded("UTF-16LE", &[b'a', 0, 0, 0xD8, b'b', 0], 1),
            b"a\xFFb"
        );
        assert_eq!(decoded("UTF-16LE", &[b'a', 0, b'b'], 1), b"a\xFF");
        assert_eq!(
            decoded("UTF-32BE", &[0, 0, 0, b'a', 0xFF, 0, 0, 0, 0], 1),
            b"a\xFF\xFF"
        );
    }

    #[test]
    fn charset_character_that_it_does_not_have_is_named() {
        let mut out = Vec::new();
        assert_eq!(Charset::Ascii.encode("aè", true, &mut out), Err('è'));
        assert_eq!(Charset::Latin1.encode("è€", true, &mut out), Err('€'));
        let cyrillic = Charset::of_name("windows-1251").unwrap();
        assert_eq!(cyrillic.encode("日", true, &mut out), Err('日'));
        assert_eq!(Charset::of_name("utf-7"), None);
        assert_eq!(Charset::of_name("nonsense"), None);
    }

    proptest! {
        #[test]
        fn charset_reading_does_not_depend_on_the_chunks(bytes in proptest::collection::vec(any::<u8>(), 0..60), step in 1usize..20) {
            for name in ["UTF-16", "UTF-32", "Shift_JIS", "US-ASCII"] {
                prop_assert_eq!(decoded(name, &bytes, step), decoded(name, &bytes, 1000));
            }
        }
    }
}
