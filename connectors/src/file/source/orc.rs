//! Where the file source meets ORC, which is there with the feature `orc` only.

#[cfg(feature = "orc")]
pub(super) use built_in::{columns, reader, require};
#[cfg(not(feature = "orc"))]
pub(super) use left_out::{columns, reader, require};

#[cfg(feature = "orc")]
mod built_in {
    use std::fs::File;
    use std::path::PathBuf;

    use arrow::datatypes::SchemaRef;
    use weir_runtime::Result;

    use crate::file::decode::orc::columns_of;
    use crate::file::decode::{BatchReader, DecodeError, DecodeSettings, OrcReader};
    use crate::file::source::format::decode_error;

    pub(in crate::file::source) fn require() -> Result<()> {
        Ok(())
    }

    pub(in crate::file::source) fn reader(
        file: File,
        name: &str,
        settings: &DecodeSettings,
    ) -> Result<Box<dyn BatchReader>, DecodeError> {
        Ok(Box::new(OrcReader::from_file(file, name, settings)?))
    }

    pub(in crate::file::source) fn columns(files: &[PathBuf]) -> Result<SchemaRef> {
        columns_of(files).map_err(decode_error)
    }
}

#[cfg(not(feature = "orc"))]
mod left_out {
    use std::fs::File;
    use std::path::PathBuf;

    use arrow::datatypes::SchemaRef;
    use weir_runtime::{Result, WeirError};

    use crate::file::decode::{BatchReader, DecodeError, DecodeSettings};

    const REASON: &str = "it needs the feature 'orc' of weir, which is not built in";

    fn missing() -> WeirError {
        WeirError::config(format!("format 'orc' cannot be read: {REASON}"))
            .with_condition("DATA_SOURCE_NOT_FOUND")
    }

    pub(in crate::file::source) fn require() -> Result<()> {
        Err(missing())
    }

    pub(in crate::file::source) fn reader(
        _: File,
        name: &str,
        _: &DecodeSettings,
    ) -> Result<Box<dyn BatchReader>, DecodeError> {
        Err(DecodeError::Unreadable {
            file: name.into(),
            format: "orc",
            reason: REASON.to_owned(),
        })
    }

    pub(in crate::file::source) fn columns(_: &[PathBuf]) -> Result<SchemaRef> {
        Err(missing())
    }
}
