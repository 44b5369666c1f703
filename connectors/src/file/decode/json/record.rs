//! One record -> rows of the schema, whatever the record looks like.
//!
//! A bad record never touches its neighbours: what it appended is cut off again, and its own rows follow the mode.

use std::{fmt::Write, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Fields, SchemaRef},
    error::ArrowError,
};

use super::{
    super::{DecodeError, DecodeSettings, ParseMode, too_long},
    build,
    column::Column,
    cursor::{Cursor, Syntax},
    object::ObjectColumn,
    options::JsonOptions,
    read::{Context, Misfit, Read, object},
};

/// What a text was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing but blanks: no record.
    Blank,
    /// A record that fits.
    Good,
    /// A record that does not fit; what was appended depends on the mode.
    Bad,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not UTF-8 from this byte on.
    Encoding(usize),
    /// Not JSON at this byte.
    Syntax(usize, Syntax),
    /// JSON, but not what a row is made of.
    Shape,
    /// A value that does not fit its column.
    Value(Misfit),
    /// More text behind the record, from this byte on.
    Behind(usize),
    /// So many bytes, more than allowed.
    Length(u64, usize),
}

/// What stands in a text.
enum Found {
    Nothing,
    /// A record, and where text goes on behind it.
    Record(Option<usize>),
}

impl Fault {
    /// One phrase for people; `text` is the record.
    pub(super) fn reason(&self, text: &[u8]) -> String {
        match self {
            Self::Encoding(at) => format!("not UTF-8 at byte {at}"),
            Self::Syntax(at, syntax) => format!("{} at byte {at}", syntax.phrase()),
            Self::Shape => format!("{} is not an object", excerpt(text)),
            Self::Value(misfit) => {
                let value = text.get(misfit.start..misfit.end).unwrap_or_default();
                format!(
                    "column \"{}\": {} is no {}",
                    misfit.field,
                    excerpt(value),
                    sql_name(&misfit.data_type)
                )
            }
            Self::Behind(at) => format!(
                "one record is read of a line, and {} follows it at byte {at}",
                excerpt(text.get(*at..).unwrap_or_default())
            ),
            Self::Length(length, limit) => too_long(*length, *limit),
        }
    }
}

/// The beginning of a text, short enough for a message.
fn excerpt(text: &[u8]) -> String {
    const LIMIT: usize = 60;
    let text = text.trim_ascii();
    let mut shown = String::from_utf8_lossy(&text[..text.len().min(LIMIT)]).into_owned();
    if text.len() > LIMIT {
        shown.push('…');
    }
    shown
}

/// The type as SQL spells it, without what is inside nested ones.
fn sql_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 => "DATE",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP",
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BINARY (base64)",
        DataType::Struct(_) => "STRUCT",
        DataType::List(_) => "ARRAY",
        DataType::Map(..) => "MAP",
        DataType::Decimal128(precision, scale) => {
            let mut name = String::new();
            write!(name, "DECIMAL({precision},{scale})")
                .expect("invariant: writing to memory does not fail");
            return name;
        }
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Checked text of a record, or where it stops being UTF-8.
pub(super) fn checked(text: &[u8]) -> Result<&[u8], Fault> {
    if text.is_ascii() {
        return Ok(text);
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Fault::Encoding(error.valid_up_to())),
    }
}

/// Appends records to the columns of a struct.
///
/// Fit for any source of single texts: lines of a file, messages of a topic, values of a column.
pub struct RecordDecoder {
    root: ObjectColumn,
    corrupt: Option<usize>,
    mode: ParseMode,
    options: JsonOptions,
    context: Context,
    fault: Option<Fault>,
}

impl RecordDecoder {
    /// A decoder for the columns of `settings.schema`.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedType`], [`DecodeError::CorruptColumn`].
    pub fn new(settings: &DecodeSettings, options: JsonOptions) -> Result<Self, DecodeError> {
        let corrupt = settings.corrupt_index()?;
        Self::for_fields(settings.schema.fields(), corrupt, settings, options)
    }

    /// As [`RecordDecoder::new`] for a struct that is not the schema of the settings.
    pub(super) fn for_fields(
        fields: &Fields,
        corrupt: Option<usize>,
        settings: &DecodeSettings,
        options: JsonOptions,
    ) -> Result<Self, DecodeError> {
        let root = build::object("", fields, corrupt)?;
        let context = Context {
            zone: settings.time_zone,
            patterns: Arc::new(settings.patterns.clone()),
            ..Context::default()
        };
        Ok(Self {
            root,
            corrupt,
            mode: settings.mode,
            options,
            context,
            fault: None,
        })
    }

    /// Rows appended since the last batch.
    pub fn rows(&self) -> usize {
        self.root.len()
    }

    /// Appends the rows of one record: one for an object, none for blanks, as many as it has objects for an array (where
    /// the options allow that).
    ///
    /// A bad record appends nothing in the modes DROPMALFORMED and FAILFAST; in mode PERMISSIVE it appends its row with the
    /// bad fields null, or one row of nulls when it is not an object at all, and its text goes to the corrupt-record column.
    /// Text behind the first value makes the record a bad one that keeps its fields: Spark reads the same row and does not tell.
    pub fn append(&mut self, text: &[u8]) -> Verdict {
        let rows = self.root.len();
        self.context.misfit = None;
        let fault = match self.read(text) {
            Ok(Found::Nothing) => return Verdict::Blank,
            Ok(Found::Record(behind)) => match (self.context.misfit.take(), behind) {
                (None, None) => return Verdict::Good,
                (Some(misfit), _) => Fault::Value(misfit),
                (None, Some(at)) => Fault::Behind(at),
            },
            Err(fault) => {
                self.root.truncate(rows);
                if self.mode == ParseMode::Permissive {
                    self.root.end_row(0);
                }
                fault
            }
        };
        self.fault = Some(fault);
        match self.mode {
            ParseMode::Permissive => self.keep_text(rows, text),
            ParseMode::DropMalformed | ParseMode::FailFast => self.root.truncate(rows),
        }
        Verdict::Bad
    }

    /// Appends what becomes of a record that was not read because it is too long; of its text there is the beginning.
    pub(super) fn append_cut(&mut self, beginning: &[u8], length: u64, limit: usize) -> Verdict {
        let rows = self.root.len();
        self.fault = Some(Fault::Length(length, limit));
        if self.mode == ParseMode::Permissive {
            self.root.end_row(0);
            self.keep_text(rows, beginning);
        }
        Verdict::Bad
    }

    /// What was wrong with the last bad record; `text` is that record.
    pub fn reason(&self, text: &[u8]) -> String {
        self.fault
            .as_ref()
            .map(|fault| fault.reason(text))
            .unwrap_or_default()
    }

    /// The rows since the last batch as a batch of `schema` (the one of the settings).
    ///
    /// # Errors
    /// Arrow's, when a column declared not null has nulls.
    pub fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.root.len()));
        let columns = self.root.finish_columns()?;
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
    }

    /// The rows as one struct array.
    pub(super) fn finish_struct(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(self.root.finish()?))
    }

    /// Appends a null struct.
    pub(super) fn append_null(&mut self) {
        self.root.append_null();
    }

    /// Appends the rows of the text.
    fn read(&mut self, text: &[u8]) -> Result<Found, Fault> {
        let text = checked(text)?;
        let mut cursor = Cursor::new(text, &self.options);
        let result = match cursor.peek_token() {
            None => return Ok(Found::Nothing),
            Some(b'{') => object(&mut self.root, &mut cursor, &mut self.context).map(|_| true),
            Some(b'[') if self.options.arrays_as_rows => {
                elements(&mut self.root, &mut cursor, &mut self.context)
            }
            Some(_) => cursor.skip(&mut self.context.scratch).map(|()| false),
        };
        match result {
            Ok(true) => Ok(Found::Record(cursor.peek_token().map(|_| cursor.pos))),
            Ok(false) => Err(Fault::Shape),
            Err(syntax) => Err(Fault::Syntax(cursor.pos, syntax)),
        }
    }

    /// Puts the text of a bad record into the corrupt-record column of its rows.
    fn keep_text(&mut self, first_row: usize, text: &[u8]) {
        let rows = self.root.len();
        if let Some(Column::Text(column)) = self
            .corrupt
            .and_then(|index| self.root.columns.get_mut(index))
        {
            let text = String::from_utf8_lossy(text);
            column.replace_last(first_row, rows, text.as_bytes());
        }
    }
}

/// The objects of the array at the cursor, one row each; `false` when one of them is no object.
fn elements(
    root: &mut ObjectColumn,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<bool, Syntax> {
    cursor.enter()?;
    let mut more = !cursor.empty(b']')?;
    while more {
        if cursor.token()? != b'{' {
            return Ok(false);
        }
        let _: Read = object(root, cursor, context)?;
        more = cursor.more(b']')?;
    }
    Ok(true)
}
