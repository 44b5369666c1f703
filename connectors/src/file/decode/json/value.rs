//! One text -> one value of any nested type: the engine of `from_json`.

use std::sync::Arc;

use arrow::{array::ArrayRef, datatypes::DataType, error::ArrowError};

use super::{
    super::{DecodeError, DecodeSettings, ParseMode},
    build,
    column::Column,
    cursor::{Cursor, Syntax},
    options::JsonOptions,
    read::{Context, Read, object},
    record::{Fault, RecordDecoder, Verdict, checked},
};

/// Appends one value for each text it is given.
///
/// The mode only decides what a bad text becomes: PERMISSIVE keeps what is good in it, the others make it null; it is the
/// caller who stops at [`Verdict::Bad`] in mode FAILFAST.
pub struct ValueDecoder {
    data_type: DataType,
    root: Root,
}

enum Root {
    /// A struct: a record, with its corrupt-record field.
    Record(Box<RecordDecoder>),
    /// An array or a map.
    Column(Box<ColumnDecoder>),
}

struct ColumnDecoder {
    column: Column,
    mode: ParseMode,
    options: JsonOptions,
    context: Context,
    fault: Option<Fault>,
}

impl ValueDecoder {
    /// A decoder of values of `data_type`: a struct, list or map. Mode, zone and the name of the corrupt-record field come
    /// from `settings`; its schema is not looked at. [`JsonOptions::for_function`] is what Spark's function uses.
    ///
    /// # Errors
    /// [`DecodeError::UnsupportedType`], [`DecodeError::CorruptColumn`].
    pub fn new(
        data_type: &DataType,
        settings: &DecodeSettings,
        options: JsonOptions,
    ) -> Result<Self, DecodeError> {
        let root = match data_type {
            DataType::Struct(fields) => {
                let corrupt = fields
                    .find(&settings.corrupt_column)
                    .map(|(index, _)| index);
                Root::Record(Box::new(RecordDecoder::for_fields(
                    fields, corrupt, settings, options,
                )?))
            }
            DataType::List(_) | DataType::Map(..) => Root::Column(Box::new(ColumnDecoder {
                column: build::column("value", data_type)?,
                mode: settings.mode,
                options,
                context: Context {
                    zone: settings.time_zone,
                    patterns: Arc::new(settings.patterns.clone()),
                    ..Context::default()
                },
                fault: None,
            })),
            other => {
                return Err(DecodeError::UnsupportedType {
                    column: "value".to_owned(),
                    format: "json",
                    data_type: other.to_string(),
                    allowed: "STRUCT, ARRAY, MAP",
                });
            }
        };
        Ok(Self {
            data_type: data_type.clone(),
            root,
        })
    }

    /// Appends exactly one value: null for no text and for blanks, otherwise what the text says.
    pub fn append(&mut self, text: Option<&[u8]>) -> Verdict {
        match &mut self.root {
            Root::Record(decoder) => {
                let rows = decoder.rows();
                let verdict = text.map_or(Verdict::Blank, |text| decoder.append(text));
                if decoder.rows() == rows {
                    decoder.append_null();
                }
                verdict
            }
            Root::Column(decoder) => decoder.append(text),
        }
    }

    /// What was wrong with the last bad text, given that text.
    pub fn reason(&self, text: &[u8]) -> String {
        match &self.root {
            Root::Record(decoder) => decoder.reason(text),
            Root::Column(decoder) => decoder
                .fault
                .as_ref()
                .map(|fault| fault.reason(text))
                .unwrap_or_default(),
        }
    }

    /// The values appended since the last call.
    ///
    /// # Errors
    /// Arrow's, when a field declared not null has nulls.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        match &mut self.root {
            Root::Record(decoder) => decoder.finish_struct(),
            Root::Column(decoder) => decoder.column.finish(&self.data_type),
        }
    }
}

impl ColumnDecoder {
    fn append(&mut self, text: Option<&[u8]>) -> Verdict {
        let rows = self.column.len();
        self.context.misfit = None;
        let verdict = match text.map_or(Ok(None), |text| self.read(text)) {
            Ok(None) => Verdict::Blank,
            Ok(Some(Read::Done)) => return Verdict::Good,
            Ok(Some(read)) => {
                self.fault = Some(
                    self.context
                        .misfit
                        .take()
                        .map_or(Fault::Shape, Fault::Value),
                );
                if read == Read::Partial && self.mode == ParseMode::Permissive {
                    return Verdict::Bad;
                }
                Verdict::Bad
            }
            Err(fault) => {
                self.fault = Some(fault);
                Verdict::Bad
            }
        };
        // Whatever was begun goes; a null stands for it.
        self.column.truncate(rows);
        self.column.append_null();
        verdict
    }

    /// Reads the value of the text; `None` when there is none in it.
    fn read(&mut self, text: &[u8]) -> Result<Option<Read>, Fault> {
        let text = checked(text)?;
        let mut cursor = Cursor::new(text, &self.options);
        let Some(byte) = cursor.peek_token() else {
            return Ok(None);
        };
        match read_root(&mut self.column, byte, &mut cursor, &mut self.context) {
            Ok(read) => Ok(Some(read)),
            Err(syntax) => Err(Fault::Syntax(cursor.pos, syntax)),
        }
    }
}

/// As any value, except that a bare null is bad and a single object stands for an array of one struct (both as in Spark).
fn read_root(
    column: &mut Column,
    byte: u8,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
) -> Result<Read, Syntax> {
    match column {
        _ if byte == b'n' => cursor.word(b"null").map(|()| Read::Bad),
        Column::List(list) if byte == b'{' => {
            let Column::Object(element) = &mut list.element else {
                return cursor.skip(&mut context.scratch).map(|()| Read::Bad);
            };
            let read = object(element, cursor, context)?;
            list.end_row()?;
            Ok(read)
        }
        column => column.read(cursor, context),
    }
}
