//! The end of an ORC file, which says what is in it.
//!
//! It is read here and not by the library, which follows a type into itself until the stack is full, panics where lengths are wrong,
//! and allocates what the file tells it to. The library gets a tail of its own: the same columns, which are in order by then.

use bytes::{Bytes, BytesMut};
use orc_rust::proto::{CalendarKind, Footer, PostScript, StripeInformation, Type};
use orc_rust::reader::metadata::{FileMetadata, read_metadata};
use prost::Message;

use super::chunks::Compression;
use super::guarded;
use super::input::Input;
use super::problem::{Problem, Result, damage};
use super::types;

const MAGIC: &[u8] = b"ORC";
const JAVA: u32 = 0;

/// What the tail says, checked.
pub(super) struct Tail {
    pub(super) compression: Compression,
    pub(super) types: Vec<Type>,
    pub(super) stripes: Vec<StripeInformation>,
    /// Whether days before 1582-10-15 are counted in the Julian calendar.
    pub(super) is_julian: bool,
    /// Whether the writer is the one in Java, which gave no number once.
    pub(super) is_java: bool,
    /// The same for the library. Times are whole numbers in it.
    pub(super) metadata: FileMetadata,
}

impl Tail {
    pub(super) fn read(input: &Input) -> Result<Self> {
        let length = input.length();
        if length == 0 {
            return damage("it is empty");
        }
        if input.get(0, length.min(MAGIC.len() as u64))? != MAGIC {
            return damage("it does not begin with ORC");
        }
        let last = input.get(length - 1, 1)?;
        let postscript_length = u64::from(last[0]);
        let Some(postscript_at) = (length - 1).checked_sub(postscript_length) else {
            return damage("it is cut off");
        };
        let bytes = input.get(postscript_at, postscript_length)?;
        let postscript = PostScript::decode(bytes)
            .ok()
            .filter(|postscript| postscript.magic().as_bytes() == MAGIC);
        let Some(postscript) = postscript else {
            return damage("it does not end as ORC files do, so it is cut off");
        };
        let compression = Compression::of(&postscript)?;
        let footer_length = postscript.footer_length();
        let Some(footer_at) = postscript_at.checked_sub(footer_length) else {
            return damage(format!(
                "it has no room for a footer of {footer_length} bytes"
            ));
        };
        let bytes = compression.plain(input.get(footer_at, footer_length)?)?;
        let footer = Footer::decode(bytes.as_slice())
            .map_err(|error| Problem::Damage(format!("its footer is none: {error}")))?;
        if footer.encryption.is_some() {
            return Err(Problem::Unreadable("columns are encrypted".to_owned()));
        }
        types::check(&footer.types)?;
        check_stripes(&footer, footer_at)?;
        let is_java = footer.writer() == JAVA;
        Ok(Self {
            metadata: for_library(&footer.types, compression)?,
            is_java,
            is_julian: match footer.calendar() {
                CalendarKind::JulianGregorian => true,
                CalendarKind::ProlepticGregorian => false,
                // Only the one in Java ever had another calendar.
                CalendarKind::UnknownCalendar => is_java,
            },
            compression,
            stripes: footer.stripes,
            types: footer.types,
        })
    }
}

/// Stripes lie before the footer and hold all rows.
fn check_stripes(footer: &Footer, end: u64) -> Result<()> {
    let mut rows = 0_u64;
    for (index, stripe) in footer.stripes.iter().enumerate() {
        let parts = [
            stripe.offset(),
            stripe.index_length(),
            stripe.data_length(),
            stripe.footer_length(),
        ];
        let stripe_end = parts
            .iter()
            .try_fold(0_u64, |sum, part| sum.checked_add(*part));
        if stripe_end.is_none_or(|stripe_end| stripe_end > end) {
            return damage(format!("stripe {index} does not end before the footer"));
        }
        rows = rows.saturating_add(stripe.number_of_rows());
    }
    match footer.number_of_rows() {
        told if told == rows => Ok(()),
        told => damage(format!("its stripes have {rows} rows, not {told}")),
    }
}

/// A tail of nothing but types, as the library reads it.
fn for_library(types: &[Type], compression: Compression) -> Result<FileMetadata> {
    let footer = Footer {
        types: types.iter().map(types::for_library).collect(),
        ..Footer::default()
    };
    let footer = compression.wrap(&footer.encode_to_vec());
    let postscript = PostScript {
        footer_length: Some(footer.len() as u64),
        metadata_length: Some(0),
        compression: Some(compression.kind.into()),
        compression_block_size: Some(compression.block as u64),
        ..PostScript::default()
    };
    let postscript = postscript.encode_to_vec();
    let mut file = BytesMut::from(&footer[..]);
    file.extend_from_slice(&postscript);
    file.extend([u8::try_from(postscript.len()).unwrap_or(u8::MAX)]);
    let mut file = Bytes::from(file);
    guarded(|| Ok(read_metadata(&mut file)?))
}
