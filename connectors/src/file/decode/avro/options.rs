//! Options of reading Avro files, by Spark's names.

use std::path::Path;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use weir_runtime::{Result, WeirError};

use crate::avro::{Naming, Shape, column_type};
use crate::options::Options;

const EXTENSION: &str = "avro";

/// What the Avro reader is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvroOptions {
    /// `avroSchema`, or the text of the file `avroSchemaUrl`: the record that the files' records are read as, by Avro's rules: fields by
    /// name or alias, with defaults for those a file lacks. Without a schema it also says which columns there are.
    pub schema: Option<String>,
    /// `positionalFieldMatching`: the columns of the schema are those of the files in their order, whatever they are called; default
    /// false.
    pub by_position: bool,
    /// `ignoreExtension`: read files whatever their names end with; default true. With false other files than those that end with
    /// `.avro` have no rows.
    pub ignore_extension: bool,
    /// `stableIdentifierPrefixForUnionType`, if `enableStableIdentifiersForUnionType` is set: what the names of the fields that a union
    /// becomes begin with, and its types follow. By default they are `member0`, `member1` and so on.
    pub stable_prefix: Option<String>,
}

impl Default for AvroOptions {
    fn default() -> Self {
        Self {
            schema: None,
            by_position: false,
            ignore_extension: true,
            stable_prefix: None,
        }
    }
}

impl AvroOptions {
    /// Reads the options of the format out of those of its table.
    ///
    /// # Errors
    /// Names the option, its value and what is allowed.
    pub(crate) fn of(given: &Options<'_>) -> Result<Self> {
        given.mode()?;
        given.only("datetimeRebaseMode", "CORRECTED")?;
        let depth = "-1, because types that contain themselves are refused";
        given.parse_exactly("recursiveFieldMaxDepth", depth, |text| {
            text.parse::<i64>().ok().filter(|depth| *depth <= 0)
        })?;
        let stable = given.flag("enableStableIdentifiersForUnionType")?;
        let prefix = given.text("stableIdentifierPrefixForUnionType");
        let options = Self {
            schema: given.avro_schema()?,
            by_position: given.flag("positionalFieldMatching")?.unwrap_or_default(),
            ignore_extension: given.flag("ignoreExtension")?.unwrap_or(true),
            stable_prefix: stable
                .unwrap_or_default()
                .then(|| prefix.unwrap_or("member_").to_owned()),
        };
        options.columns()?;
        Ok(options)
    }

    /// How unions are named.
    pub(super) fn naming(&self) -> Naming {
        Naming {
            stable_prefix: self.stable_prefix.clone(),
            all_nullable: true,
        }
    }

    /// The columns that `avroSchema` describes.
    ///
    /// # Errors
    /// If it is no schema of a record.
    pub(crate) fn columns(&self) -> Result<Option<SchemaRef>> {
        let Some(text) = &self.schema else {
            return Ok(None);
        };
        let wrong = |why: String| {
            WeirError::config(format!("option 'avroSchema' is no schema of rows: {why}"))
                .with_condition("AVRO_INCOMPATIBLE_SCHEMA")
        };
        let shape = Shape::parse(text).map_err(wrong)?;
        match column_type(&shape, &self.naming()) {
            DataType::Struct(fields) if matches!(*shape, Shape::Record(..)) => {
                Ok(Some(Schema::new(fields).into()))
            }
            _ => Err(wrong(format!("it is {}, allowed: a record", shape.shown()))),
        }
    }

    /// Whether a file of this path has rows.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        self.ignore_extension || path.extension().is_some_and(|end| end == EXTENSION)
    }
}
