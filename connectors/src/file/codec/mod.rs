//! Compression of files made of text: which codec a file has, told by its name as in Spark, and the way in both directions.
//!
//! `.lz4` and `.snappy` are what Hadoop calls so ([`blocks`]), because Spark reads and writes these; files in the framing formats of
//! LZ4 and Snappy, which other programs write under the same names, are told by their first bytes and read too.

mod blocks;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blocks::{BlockReader, BlockWriter};

/// Names of the codecs as options spell them, for messages.
pub(crate) const ALLOWED: &str = "none, uncompressed, gzip, deflate, bzip2, zstd, lz4, snappy";

/// Level of compression that the zstd library takes for its own default.
const ZSTD_LEVEL: i32 = zstd::DEFAULT_COMPRESSION_LEVEL;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// gzip, any number of members.
    Gzip,
    /// zlib, which Hadoop calls deflate.
    Deflate,
    /// bzip2, any number of streams.
    Bzip2,
    /// Zstandard, any number of frames.
    Zstd,
    /// LZ4 in Hadoop's blocks.
    Lz4,
    /// Snappy in Hadoop's blocks.
    Snappy,
}

impl FromStr for Codec {
    type Err = ();

    /// The name in option `compression`, in any letter case.
    fn from_str(name: &str) -> Result<Self, ()> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "bzip2" => Self::Bzip2,
            "zstd" => Self::Zstd,
            "lz4" => Self::Lz4,
            "snappy" => Self::Snappy,
            _ => return Err(()),
        })
    }
}

/// The value of option `compression`: no codec, or one.
pub(crate) fn named(text: &str) -> Option<Option<Codec>> {
    match text.to_ascii_lowercase().as_str() {
        "none" | "uncompressed" => Some(None),
        name => name.parse().ok().map(Some),
    }
}

impl Codec {
    /// The codec that the end of a file's name tells.
    ///
    /// # Errors
    /// The extension of a codec that cannot be read, which would look like garbage otherwise.
    pub(crate) fn of_path(path: &Path) -> Result<Option<Self>, String> {
        let extension = path
            .extension()
            .map(|extension| extension.to_string_lossy().to_ascii_lowercase());
        Ok(match extension.as_deref() {
            Some("gz" | "gzip") => Some(Self::Gzip),
            Some("deflate") => Some(Self::Deflate),
            Some("bz2") => Some(Self::Bzip2),
            Some("zst" | "zstd") => Some(Self::Zstd),
            Some("lz4") => Some(Self::Lz4),
            Some("snappy") => Some(Self::Snappy),
            Some(other @ ("xz" | "zip" | "br" | "lzo" | "7z")) => return Err(other.to_owned()),
            _ => None,
        })
    }

    /// What follows the extension of the format in a file's name, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Deflate => "deflate",
            Self::Bzip2 => "bz2",
            Self::Zstd => "zst",
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }

    /// The bytes before they were compressed. A file that is cut off is an error at its end.
    ///
    /// # Errors
    /// If the first bytes cannot be read.
    pub(crate) fn reader(self, input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
            Self::Deflate => Box::new(flate2::read::ZlibDecoder::new(input)),
            Self::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(input)),
            Self::Zstd => Box::new(zstd::Decoder::new(input)?),
            Self::Lz4 => {
                let mut input = BufReader::new(input);
                match input.fill_buf()?.starts_with(&[0x04, 0x22, 0x4D, 0x18]) {
                    true => Box::new(lz4_flex::frame::FrameDecoder::new(input)),
                    false => Box::new(BlockReader::lz4(input)),
                }
            }
            Self::Snappy => {
                let mut input = BufReader::new(input);
                match input.fill_buf()?.starts_with(b"\xFF\x06\x00\x00sNaPpY") {
                    true => Box::new(snap::read::FrameDecoder::new(input)),
                    false => Box::new(BlockReader::snappy(input)),
                }
            }
        })
    }
}

/// An output that says how many bytes it took.
pub(crate) struct Counted {
    out: Box<dyn Write + Send>,
    bytes: Arc<AtomicU64>,
}

impl Counted {
    /// The output, and its count.
    pub(crate) fn new(out: Box<dyn Write + Send>) -> (Self, Arc<AtomicU64>) {
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Self {
            out,
            bytes: Arc::clone(&bytes),
        };
        (counted, bytes)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

enum Stream {
    Plain(Counted),
    Gzip(flate2::write::GzEncoder<Counted>),
    Deflate(flate2::write::ZlibEncoder<Counted>),
    Bzip2(bzip2::write::BzEncoder<Counted>),
    Zstd(zstd::Encoder<'static, Counted>),
    Blocks(BlockWriter<Counted>),
}

/// An output that compresses what it is given.
pub(crate) struct Compressor {
    stream: Stream,
    bytes: Arc<AtomicU64>,
}

impl Compressor {
    /// Without a codec the bytes go on as they are.
    ///
    /// # Errors
    /// If the codec's library refuses.
    pub(crate) fn new(codec: Option<Codec>, out: Box<dyn Write + Send>) -> io::Result<Self> {
        let (out, bytes) = Counted::new(out);
        let stream = match codec {
            None => Stream::Plain(out),
            Some(Codec::Gzip) => Stream::Gzip(flate2::write::GzEncoder::new(
                out,
                flate2::Compression::default(),
            )),
            Some(Codec::Deflate) => Stream::Deflate(flate2::write::ZlibEncoder::new(
                out,
                flate2::Compression::default(),
            )),
            Some(Codec::Bzip2) => Stream::Bzip2(bzip2::write::BzEncoder::new(
                out,
                bzip2::Compression::default(),
            )),
            Some(Codec::Zstd) => Stream::Zstd(zstd::Encoder::new(out, ZSTD_LEVEL)?),
            Some(Codec::Lz4) => Stream::Blocks(BlockWriter::lz4(out)),
            Some(Codec::Snappy) => Stream::Blocks(BlockWriter::snappy(out)),
        };
        Ok(Self { stream, bytes })
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(out) => out.write_all(bytes),
            Stream::Gzip(out) => out.write_all(bytes),
            Stream::Deflate(out) => out.write_all(bytes),
            Stream::Bzip2(out) => out.write_all(bytes),
            Stream::Zstd(out) => out.write_all(bytes),
            Stream::Blocks(out) => out.write(bytes),
        }
    }

    /// Compressed bytes the output has taken so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends the stream and flushes the output; answers the length of the file.
    ///
    /// # Errors
    /// What the output says.
    pub(crate) fn finish(self) -> io::Result<u64> {
        let mut out = match self.stream {
            Stream::Plain(out) => out,
            Stream::Gzip(out) => out.finish()?,
            Stream::Deflate(out) => out.finish()?,
            Stream::Bzip2(out) => out.finish()?,
            Stream::Zstd(out) => out.finish()?,
            Stream::Blocks(out) => out.finish()?,
        };
        out.flush()?;
        Ok(self.bytes.load(Ordering::Relaxed))
    }
}
