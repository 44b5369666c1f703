//! The streams of an ORC file: chunks, each of them compressed by itself.
//!
//! The library unpacks the streams of columns; it takes the sizes in them on trust and panics where they are wrong, so they are
//! looked at first. The footers and what is needed to judge a stripe are unpacked here.

use std::io::Read;

use bytes::{BufMut, Bytes, BytesMut};
use orc_rust::proto::{CompressionKind, PostScript};

use super::problem::{Problem, Result, damage};

/// Bytes before a chunk: its length and, in the lowest bit, whether it stands there as it is.
const HEADER_BYTES: usize = 3;
/// Longest chunk that a header can tell of.
const MAX_CHUNK_BYTES: usize = (1 << 23) - 1;
/// What holds where the file does not say.
const BLOCK_BYTES: u64 = 256 << 10;

/// How the streams of a file are compressed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compression {
    pub(super) kind: CompressionKind,
    /// Most bytes that a chunk becomes.
    pub(super) block: usize,
}

impl Compression {
    pub(super) fn of(postscript: &PostScript) -> Result<Self> {
        let number = postscript.compression.unwrap_or_default();
        let Ok(kind) = CompressionKind::try_from(number) else {
            return damage(format!("there is no compression number {number}"));
        };
        if kind == CompressionKind::Lzo {
            return Err(Problem::Unreadable(
                "it is compressed with LZO, allowed: none, zlib, snappy, lz4, zstd".to_owned(),
            ));
        }
        let block = postscript.compression_block_size.unwrap_or(BLOCK_BYTES);
        match usize::try_from(block) {
            Ok(block) if (1..=MAX_CHUNK_BYTES + 1).contains(&block) => Ok(Self { kind, block }),
            _ if kind == CompressionKind::None => Ok(Self { kind, block: 1 }),
            _ => damage(format!("it has chunks of {block} bytes")),
        }
    }

    /// Checks that the chunks of a stream are whole, and answers how many bytes they become at most.
    pub(super) fn check(self, stream: &Bytes) -> Result<u64> {
        if self.kind == CompressionKind::None {
            return Ok(stream.len() as u64);
        }
        let mut rest = stream.clone();
        let mut plain = 0;
        while let Some((is_plain, chunk)) = self.split(&mut rest)? {
            plain += match is_plain {
                true => chunk.len(),
                false => self.bound(&chunk)?,
            } as u64;
        }
        Ok(plain)
    }

    /// All that a stream says.
    pub(super) fn plain(self, stream: Bytes) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        let mut reader = Plain::new(self, stream);
        while reader.next_chunk()? {
            plain.extend_from_slice(&reader.chunk);
        }
        Ok(plain)
    }

    /// A stream that says `plain`, in chunks that are not compressed.
    pub(super) fn wrap(self, plain: &[u8]) -> Bytes {
        if self.kind == CompressionKind::None {
            return Bytes::copy_from_slice(plain);
        }
        let mut stream = BytesMut::new();
        for chunk in plain.chunks(MAX_CHUNK_BYTES) {
            let header = (chunk.len() << 1 | 1) as u64;
            stream.put_uint_le(header, HEADER_BYTES);
            stream.put_slice(chunk);
        }
        stream.freeze()
    }

    /// Takes the first chunk off a stream: whether it stands there as it is, and its bytes.
    fn split(self, stream: &mut Bytes) -> Result<Option<(bool, Bytes)>> {
        if stream.is_empty() {
            return Ok(None);
        }
        if stream.len() < HEADER_BYTES {
            return damage("a stream ends in the head of a chunk");
        }
        let header = stream.split_to(HEADER_BYTES);
        let word = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let length = (word >> 1) as usize;
        if length > stream.len() {
            let left = stream.len();
            return damage(format!(
                "a chunk of {length} bytes in a stream with {left} left"
            ));
        }
        if length > self.block {
            let block = self.block;
            return damage(format!(
                "a chunk of {length} bytes where {block} are the most"
            ));
        }
        Ok(Some((word & 1 == 1, stream.split_to(length))))
    }

    /// Most bytes that a compressed chunk becomes.
    fn bound(self, chunk: &[u8]) -> Result<usize> {
        let told = match self.kind {
            CompressionKind::Snappy => snap::raw::decompress_len(chunk)
                .map(|length| Some(length as u64))
                .map_err(|error| Problem::Damage(error.to_string()))?,
            CompressionKind::Zstd => zstd::zstd_safe::get_frame_content_size(chunk)
                .map_err(|_| Problem::Damage("a chunk is not zstd's".to_owned()))?,
            _ => None,
        };
        match told {
            None => Ok(self.block),
            Some(length) => match usize::try_from(length) {
                Ok(length) if length <= self.block => Ok(length),
                _ => damage(format!(
                    "a chunk becomes {length} bytes where {} are the most",
                    self.block
                )),
            },
        }
    }

    fn expand(self, chunk: &[u8]) -> Result<Vec<u8>> {
        self.bound(chunk)?;
        match self.kind {
            CompressionKind::Zlib => self.read(flate2::read::DeflateDecoder::new(chunk)),
            CompressionKind::Zstd => self.read(zstd::Decoder::new(chunk)?),
            CompressionKind::Snappy => snap::raw::Decoder::new()
                .decompress_vec(chunk)
                .map_err(|error| Problem::Damage(error.to_string())),
            CompressionKind::Lz4 => lz4_flex::block::decompress(chunk, self.block)
                .map_err(|error| Problem::Damage(error.to_string())),
            CompressionKind::None | CompressionKind::Lzo => Ok(chunk.to_vec()),
        }
    }

    fn read(self, chunk: impl Read) -> Result<Vec<u8>> {
        let mut plain = Vec::new();
        let most = self.block as u64;
        chunk.take(most + 1).read_to_end(&mut plain)?;
        match plain.len() > self.block {
            true => damage(format!("a chunk becomes more than {most} bytes")),
            false => Ok(plain),
        }
    }
}

/// Reads a stream byte by byte; holds one chunk.
pub(super) struct Plain {
    compression: Compression,
    rest: Bytes,
    chunk: Bytes,
    at: usize,
}

impl Plain {
    pub(super) fn new(compression: Compression, stream: Bytes) -> Self {
        Self {
            compression,
            rest: stream,
            chunk: Bytes::new(),
            at: 0,
        }
    }

    /// The next byte; `None` at the end.
    pub(super) fn byte(&mut self) -> Result<Option<u8>> {
        while self.at == self.chunk.len() {
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
        self.at += 1;
        Ok(Some(self.chunk[self.at - 1]))
    }

    fn next_chunk(&mut self) -> Result<bool> {
        self.at = 0;
        self.chunk = Bytes::new();
        if self.compression.kind == CompressionKind::None {
            self.chunk = std::mem::take(&mut self.rest);
            return Ok(!self.chunk.is_empty());
        }
        match self.compression.split(&mut self.rest)? {
            None => Ok(false),
            Some((true, chunk)) => {
                self.chunk = chunk;
                Ok(true)
            }
            Some((false, chunk)) => {
                self.chunk = self.compression.expand(&chunk)?.into();
                Ok(true)
            }
        }
    }
}
