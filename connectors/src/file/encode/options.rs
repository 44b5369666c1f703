//! Reads the options of a stream writer, by Spark's names, into a [`WriteFormat`].

use weir_runtime::{Result, WeirError};

use super::avro::{self, AvroCompression, AvroWriteOptions};
use super::csv::{self, CsvWriteOptions};
use super::json::{self, JsonWriteOptions};
use super::parquet::{self, ParquetCompression, ParquetWriteOptions};
use super::text::{self, TextWriteOptions};
use super::{TextFile, TimeText, WriteFormat};
use crate::file::codec;
use crate::file::decode::parse::Zone;
use crate::file::options::BY_NAME;
use crate::options::Options;

impl WriteFormat {
    /// The format called `name` (lower case) with its options, which are checked to be known. `session` is the zone where
    /// `timeZone` is not given.
    ///
    /// # Errors
    /// An option has a value it cannot have.
    pub(crate) fn of(name: &str, given: &Options<'_>, session: Zone) -> Result<Self> {
        Ok(match name {
            parquet::FORMAT => Self::Parquet(parquet_options(given)?),
            json::FORMAT => Self::Json(json_options(given, session)?),
            csv::FORMAT => Self::Csv(csv_options(given, session)?),
            avro::FORMAT => Self::Avro(avro_options(given)?),
            text::FORMAT => Self::Text(TextWriteOptions {
                file: text_file(given)?,
            }),
            other => {
                return Err(WeirError::internal(format!(
                    "format '{other}' has options but no writer"
                )));
            }
        })
    }
}

fn parquet_options(given: &Options<'_>) -> Result<ParquetWriteOptions> {
    let compression = given.parse_exactly(
        "compression",
        "none, uncompressed, snappy, zstd, lz4, lz4_raw, gzip",
        |value| {
            Some(match value.to_ascii_lowercase().as_str() {
                "none" | "uncompressed" => ParquetCompression::None,
                "snappy" => ParquetCompression::Snappy,
                "zstd" => ParquetCompression::Zstd,
                "lz4" | "lz4_raw" => ParquetCompression::Lz4,
                "gzip" => ParquetCompression::Gzip,
                _ => return None,
            })
        },
    )?;
    Ok(ParquetWriteOptions {
        compression: compression.unwrap_or_default(),
    })
}

fn avro_options(given: &Options<'_>) -> Result<AvroWriteOptions> {
    given.refuse(BY_NAME)?;
    let default = AvroWriteOptions::default();
    let compression = given.parse_exactly(
        "compression",
        "none, uncompressed, snappy, deflate, zstandard, zstd",
        |value| {
            Some(match value.to_ascii_lowercase().as_str() {
                "none" | "uncompressed" => AvroCompression::None,
                "snappy" => AvroCompression::Snappy,
                "deflate" => AvroCompression::Deflate,
                "zstandard" | "zstd" => AvroCompression::Zstd,
                _ => return None,
            })
        },
    )?;
    Ok(AvroWriteOptions {
        compression: compression.unwrap_or_default(),
        record_name: given
            .text("recordName")
            .map_or(default.record_name, str::to_owned),
        record_namespace: given.text("recordNamespace").map(str::to_owned),
        schema: given.avro_schema()?,
    })
}

fn json_options(given: &Options<'_>, session: Zone) -> Result<JsonWriteOptions> {
    let default = JsonWriteOptions::default();
    Ok(JsonWriteOptions {
        ignore_null_fields: given
            .flag("ignoreNullFields")?
            .unwrap_or(default.ignore_null_fields),
        pretty: given.flag("pretty")?.unwrap_or_default(),
        sort_keys: given.flag("sortKeys")?.unwrap_or_default(),
        non_ascii_as_code_points: given
            .flag("writeNonAsciiCharacterAsCodePoint")?
            .unwrap_or_default(),
        time: TimeText::of(given, session)?,
        file: text_file(given)?,
    })
}

fn csv_options(given: &Options<'_>, session: Zone) -> Result<CsvWriteOptions> {
    let default = CsvWriteOptions::default();
    let quote = given.byte_or_none("quote", default.quote)?;
    // Without an escape, a doubled quote is the only way to write one.
    let escape = given.byte_or_none("escape", Some(default.escape))?;
    let flag = |name| given.flag(name).map(Option::unwrap_or_default);
    let extension = given.parse_exactly("extension", "letters and digits", |text| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        plain.then(|| text.to_owned())
    })?;
    Ok(CsvWriteOptions {
        extension: extension.unwrap_or(default.extension),
        sep: given.separator()?.unwrap_or(default.sep),
        header: flag("header")?,
        quote,
        escape: escape.or(quote).unwrap_or(default.escape),
        char_to_escape_quote_escaping: given.byte("charToEscapeQuoteEscaping")?,
        quote_all: flag("quoteAll")?,
        escape_quotes: given.flag("escapeQuotes")?.unwrap_or(default.escape_quotes),
        null_value: given.text("nullValue").unwrap_or_default().to_owned(),
        empty_value: given.text("emptyValue").map(str::to_owned),
        ignore_leading_white_space: flag("ignoreLeadingWhiteSpace")?,
        ignore_trailing_white_space: flag("ignoreTrailingWhiteSpace")?,
        comment: given.byte_or_none("comment", None)?,
        time: TimeText::of(given, session)?,
        file: csv_file(given)?,
    })
}

fn csv_file(given: &Options<'_>) -> Result<TextFile> {
    let file = text_file(given)?;
    let other = given.parse_exactly("codec", codec::ALLOWED, codec::named)?;
    Ok(match given.text("compression") {
        Some(_) => file,
        None => TextFile {
            codec: other.flatten(),
            ..file
        },
    })
}

fn text_file(given: &Options<'_>) -> Result<TextFile> {
    Ok(TextFile {
        codec: given.codec()?,
        charset: given.charset()?,
        line_sep: given.line_separator()?.unwrap_or("\n").to_owned(),
    })
}
