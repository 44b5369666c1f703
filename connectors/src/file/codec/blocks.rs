//! Hadoop's framing of LZ4 and Snappy: blocks of a length (of the bytes in it, 32 bits, big endian) and chunks, each a length and
//! that many compressed bytes, until the chunks hold as many bytes as the block said.

use std::io::{self, Read, Write};

/// Bytes of a block that is written. Hadoop's own readers hold 256 KiB; compressed bytes must fit as well.
const BLOCK_BYTES: usize = 64 << 10;
/// Longest block or chunk that is read; a length beyond it is damage, not a request for memory.
const MAX_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lz4,
    Snappy,
}

impl Kind {
    /// Decompresses a chunk of at most `room` bytes.
    fn decompress(self, chunk: &[u8], room: usize) -> io::Result<Vec<u8>> {
        let bytes = match self {
            Self::Lz4 => {
                let mut bytes = vec![0; room];
                let length =
                    lz4_flex::block::decompress_into(chunk, &mut bytes).map_err(damaged)?;
                bytes.truncate(length);
                bytes
            }
            Self::Snappy => {
                let length = snap::raw::decompress_len(chunk).map_err(damaged)?;
                if length > room {
                    return Err(damaged("a chunk holds more than its block"));
                }
                snap::raw::Decoder::new()
                    .decompress_vec(chunk)
                    .map_err(damaged)?
            }
        };
        match bytes.is_empty() {
            true => Err(damaged("a chunk holds nothing")),
            false => Ok(bytes),
        }
    }

    fn compress(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Lz4 => Ok(lz4_flex::block::compress(bytes)),
            Self::Snappy => snap::raw::Encoder::new()
                .compress_vec(bytes)
                .map_err(damaged),
        }
    }
}

fn damaged(reason: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("damaged compression: {reason}"),
    )
}

/// Reads blocks; holds one chunk.
pub(super) struct BlockReader<R> {
    input: R,
    kind: Kind,
    /// Bytes of the block that are still to come.
    left: usize,
    chunk: Vec<u8>,
    at: usize,
}

impl<R: Read> BlockReader<R> {
    pub(super) fn lz4(input: R) -> Self {
        Self::new(input, Kind::Lz4)
    }

    pub(super) fn snappy(input: R) -> Self {
        Self::new(input, Kind::Snappy)
    }

    fn new(input: R, kind: Kind) -> Self {
        Self {
            input,
            kind,
            left: 0,
            chunk: Vec::new(),
            at: 0,
        }
    }

    /// Reads the next chunk; false at the end of the file.
    fn next_chunk(&mut self) -> io::Result<bool> {
        while self.left == 0 {
            match self.length()? {
                None => return Ok(false),
                Some(length) => self.left = length,
            }
        }
        let length = self.length()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut compressed = Vec::new();
        let read = (&mut self.input)
            .take(length as u64)
            .read_to_end(&mut compressed)?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.chunk = self.kind.decompress(&compressed, self.left)?;
        self.left -= self.chunk.len();
        self.at = 0;
        Ok(true)
    }

    /// A length; `None` at the end of the file.
    fn length(&mut self) -> io::Result<Option<usize>> {
        let mut bytes = [0; 4];
        let mut have = 0;
        while have < bytes.len() {
            match self.input.read(&mut bytes[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let length = u32::from_be_bytes(bytes) as usize;
        match length > MAX_BYTES {
            true => Err(damaged(format!("a block of {length} bytes"))),
            false => Ok(Some(length)),
        }
    }
}

impl<R: Read> Read for BlockReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.at == self.chunk.len() && !self.next_chunk()? {
            return Ok(0);
        }
        let rest = &self.chunk[self.at..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Writes blocks of one chunk each.
pub(super) struct BlockWriter<W> {
    out: W,
    kind: Kind,
    block: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    pub(super) fn lz4(out: W) -> Self {
        Self::new(out, Kind::Lz4)
    }

    pub(super) fn snappy(out: W) -> Self {
        Self::new(out, Kind::Snappy)
    }

    fn new(out: W, kind: Kind) -> Self {
        Self {
            out,
            kind,
            block: Vec::with_capacity(BLOCK_BYTES),
        }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - self.block.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK_BYTES {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let chunk = self.kind.compress(&self.block)?;
        for length in [self.block.len(), chunk.len()] {
            let length = u32::try_from(length).map_err(damaged)?;
            self.out.write_all(&length.to_be_bytes())?;
        }
        self.out.write_all(&chunk)?;
        self.block.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.end_block()?;
        Ok(self.out)
    }
}
