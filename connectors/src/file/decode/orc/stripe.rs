//! One stripe of an ORC file: its footer and streams, looked at before the library decodes them.

use std::collections::HashMap;
use std::io;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::{Buf, Bytes};
use orc_rust::array_decoder::NaiveStripeDecoder;
use orc_rust::proto::stream::Kind;
use orc_rust::proto::{ColumnEncoding, StripeFooter, StripeInformation};
use orc_rust::reader::ChunkReader;
use orc_rust::schema::{DataType as OrcType, RootDataType};
use orc_rust::stripe::{Stripe, StripeMetadata};
use prost::Message;

use super::chunks::{Compression, Plain};
use super::guarded;
use super::input::Input;
use super::numbers::{Numbers, Version};
use super::problem::{Problem, Result, damage};
use super::tail::Tail;
use super::times::Times;
use crate::file::decode::DecodeSettings;
use crate::file::decode::parse::Zone;

/// Most values in the lists of one column of a stripe, and most entries of a dictionary: the library makes room for as many.
const MAX_VALUES: u64 = 1 << 28;
/// Bytes that a value takes beside those it has in the file, about.
const VALUE_BYTES: u64 = 16;

/// What is read of each stripe.
pub(super) struct Wanted<'a> {
    /// The columns, as the library knows them.
    pub(super) columns: &'a RootDataType,
    /// The same as the library decodes them.
    pub(super) schema: &'a SchemaRef,
    pub(super) settings: &'a DecodeSettings,
}

/// A stripe that is being read.
pub(super) struct OpenStripe {
    decoder: NaiveStripeDecoder,
    pub(super) times: Times,
}

impl OpenStripe {
    pub(super) fn new(
        input: &Input,
        tail: &Tail,
        stripe: &StripeInformation,
        wanted: &Wanted<'_>,
    ) -> Result<Self> {
        let mut parts = Parts::read(input, tail, stripe)?;
        let rows = stripe.number_of_rows();
        for column in wanted.columns.children() {
            parts.check(column.data_type(), rows)?;
        }
        let times = parts.times(tail, wanted)?;
        let batch_rows = parts.batch_rows(rows, wanted)?;
        let mut reader = parts.for_library();
        let decoder = guarded(|| {
            let stripe = Stripe::new(
                &mut reader,
                &tail.metadata,
                wanted.columns,
                &StripeMetadata::try_from(stripe)?,
            )?;
            let schema = SchemaRef::clone(wanted.schema);
            Ok(NaiveStripeDecoder::new(stripe, schema, batch_rows)?)
        })?;
        Ok(Self { decoder, times })
    }

    /// The next rows as the library decodes them.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        guarded(|| Ok(self.decoder.next().transpose()?))
    }
}

/// Where the parts of a stripe lie.
struct Parts<'a> {
    input: &'a Input,
    compression: Compression,
    footer: StripeFooter,
    footer_at: u64,
    /// Place and length of each stream.
    streams: HashMap<(u32, Kind), (u64, u64)>,
    /// Bytes that dictionaries and lists add to the rows, about.
    extra_bytes: u64,
}

impl<'a> Parts<'a> {
    fn read(input: &'a Input, tail: &Tail, stripe: &StripeInformation) -> Result<Self> {
        // The tail made sure that this stays below the length of the file.
        let footer_at = stripe.offset() + stripe.index_length() + stripe.data_length();
        let bytes = input.get(footer_at, stripe.footer_length())?;
        let bytes = tail.compression.plain(bytes)?;
        let footer = StripeFooter::decode(bytes.as_slice())
            .map_err(|error| Problem::Damage(format!("the footer of a stripe is none: {error}")))?;
        if footer.columns.len() < tail.types.len() {
            let (told, types) = (footer.columns.len(), tail.types.len());
            return damage(format!("a stripe has {told} columns, not {types}"));
        }
        let mut streams = HashMap::new();
        let mut at = stripe.offset();
        for stream in &footer.streams {
            let length = stream.length();
            let end = at.checked_add(length).filter(|end| *end <= footer_at);
            let Some(end) = end else {
                return damage("the streams of a stripe do not end before its footer");
            };
            let Ok(kind) = Kind::try_from(stream.kind.unwrap_or_default()) else {
                return damage("a stripe has a stream of no known kind");
            };
            streams.insert((stream.column(), kind), (at, length));
            at = end;
        }
        Ok(Self {
            input,
            compression: tail.compression,
            footer,
            footer_at,
            streams,
            extra_bytes: 0,
        })
    }

    /// Whether what the library makes room for is really there: entries of dictionaries and of lists. `values` is how many values
    /// the column has at most.
    fn check(&mut self, column: &OrcType, values: u64) -> Result<()> {
        self.extra_bytes = self
            .extra_bytes
            .saturating_add(values.saturating_mul(VALUE_BYTES));
        match column {
            OrcType::String { column_index }
            | OrcType::Varchar { column_index, .. }
            | OrcType::Char { column_index, .. } => self.check_dictionary(*column_index, values),
            OrcType::Struct { children, .. } => children
                .iter()
                .try_for_each(|child| self.check(child.data_type(), values)),
            OrcType::Union { variants, .. } => variants
                .iter()
                .try_for_each(|variant| self.check(variant, values)),
            OrcType::List {
                column_index,
                child,
            } => {
                let values = self.items(*column_index)?;
                self.check(child, values)
            }
            OrcType::Map {
                column_index,
                key,
                value,
            } => {
                let values = self.items(*column_index)?;
                self.check(key, values)?;
                self.check(value, values)
            }
            _ => Ok(()),
        }
    }

    /// How many values the lists of a column have together.
    fn items(&self, column: usize) -> Result<u64> {
        let Some(lengths) = self.numbers(column, Kind::Length)? else {
            return Ok(0);
        };
        match lengths.total()? {
            (_, items) if items <= MAX_VALUES => Ok(items),
            (_, items) => damage(format!(
                "column {column} has {items} values in the lists of one stripe, {MAX_VALUES} are the most"
            )),
        }
    }

    fn check_dictionary(&mut self, column: usize, values: u64) -> Result<()> {
        let told = u64::from(self.encoding(column).dictionary_size());
        if told == 0 {
            return Ok(());
        }
        let (count, bytes) = match self.numbers(column, Kind::Length)? {
            Some(lengths) => lengths.total()?,
            None => (0, 0),
        };
        if told > count || told > MAX_VALUES {
            return damage(format!(
                "column {column} has {count} words, not {told} (at most {MAX_VALUES})"
            ));
        }
        let expanded = values.saturating_mul(bytes / told);
        self.extra_bytes = self.extra_bytes.saturating_add(expanded);
        Ok(())
    }

    fn encoding(&self, column: usize) -> &ColumnEncoding {
        &self.footer.columns[column]
    }

    /// A stream of numbers of a column; `None` if the column has none.
    fn numbers(&self, column: usize, kind: Kind) -> Result<Option<Numbers>> {
        let id = u32::try_from(column).unwrap_or(u32::MAX);
        let Some((at, length)) = self.streams.get(&(id, kind)) else {
            return Ok(None);
        };
        let stream = self.input.get(*at, *length)?;
        let version = Version::of(self.encoding(column));
        let plain = Plain::new(self.compression, stream);
        Ok(Some(Numbers::new(plain, version)))
    }

    fn times(&self, tail: &Tail, wanted: &Wanted<'_>) -> Result<Times> {
        use orc_rust::proto::r#type::Kind as TypeKind;
        let session = wanted.settings.time_zone;
        let mut times = Times {
            writer: session,
            session,
            is_julian: tail.is_julian,
            is_java: tail.is_java,
            fractions: HashMap::new(),
        };
        for (column, t) in tail.types.iter().enumerate() {
            let is_time = matches!(t.kind(), TypeKind::Timestamp | TypeKind::TimestampInstant);
            if !is_time || !wanted.columns.contains_column_index(column) {
                continue;
            }
            if let Some(fractions) = self.numbers(column, Kind::Secondary)? {
                let column = u32::try_from(column).unwrap_or(u32::MAX);
                times.fractions.insert(column, fractions);
            }
            let name = self.footer.writer_timezone.as_deref();
            if let (Some(name), TypeKind::Timestamp) = (name, t.kind()) {
                times.writer = Zone::from_name(name).map_err(|error| {
                    Problem::Unreadable(format!("zone of the writer of its times: {error}"))
                })?;
            }
        }
        Ok(times)
    }

    /// Rows of a batch: as many as the settings say, fewer where rows are so wide that they would exceed its bytes.
    fn batch_rows(&self, rows: u64, wanted: &Wanted<'_>) -> Result<usize> {
        let mut bytes = self.extra_bytes;
        for ((column, _), (at, length)) in &self.streams {
            if wanted.columns.contains_column_index(*column as usize) {
                let stream = self.input.get(*at, *length)?;
                bytes = bytes.saturating_add(self.compression.check(&stream)?);
            }
        }
        let width = (bytes / rows.max(1)).max(1);
        let fit = wanted.settings.batch_bytes as u64 / width;
        let fit = usize::try_from(fit).unwrap_or(usize::MAX).max(1);
        Ok(fit.min(wanted.settings.batch_rows.max(1)))
    }

    /// The stripe as the library reads it: its streams, and a footer in which times have no zone.
    fn for_library(self) -> Reader<'a> {
        let footer = StripeFooter {
            writer_timezone: None,
            ..self.footer
        };
        Reader {
            input: self.input,
            footer_at: self.footer_at,
            footer: self.compression.wrap(&footer.encode_to_vec()),
        }
    }
}

/// The bytes that the library asks for.
struct Reader<'a> {
    input: &'a Input,
    footer_at: u64,
    footer: Bytes,
}

impl ChunkReader for Reader<'_> {
    type T = bytes::buf::Reader<Bytes>;

    fn len(&self) -> u64 {
        self.input.length()
    }

    fn get_read(&self, offset: u64) -> io::Result<Self::T> {
        let length = self.len().saturating_sub(offset);
        Ok(self.get_bytes(offset, length)?.reader())
    }

    fn get_bytes(&self, offset: u64, length: u64) -> io::Result<Bytes> {
        // An empty stream may lie where the footer does.
        match offset == self.footer_at && length > 0 {
            true => Ok(self.footer.clone()),
            false => self.input.get(offset, length),
        }
    }
}
