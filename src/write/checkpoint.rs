//! Where a query's checkpoint is.

use std::path::{Component, Path, PathBuf};

use weir_runtime::Result;

use crate::read::OptionTexts;
use crate::session::{CHECKPOINT, Session};

/// The location: the option `checkpointLocation`, or a directory below the session's, named as the query or at random.
pub(super) fn location(
    session: &Session,
    options: &mut OptionTexts,
    name: Option<&str>,
) -> Result<Option<String>> {
    if let Some(location) = options.take("checkpointLocation") {
        return Ok(Some(location));
    }
    let Some(base) = session.settings().get(CHECKPOINT) else {
        return Ok(None);
    };
    let own = name.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
    Ok(Some(format!("{}/{own}", base.trim_end_matches('/'))))
}

/// The location in one spelling, to compare it with others: a local path made absolute, without `.` and `..`.
pub(super) fn normal(location: &str) -> String {
    let path = location
        .strip_prefix("file://")
        .or_else(|| location.strip_prefix("file:"))
        .unwrap_or(location);
    if path.contains("://") {
        return path.trim_end_matches('/').to_owned();
    }
    let absolute = std::path::absolute(Path::new(path)).unwrap_or_else(|_| PathBuf::from(path));
    let mut normal = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_location_are_equal() {
        for text in ["/tmp/ck", "/tmp/ck/", "file:///tmp/ck", "/tmp/./x/../ck"] {
            assert_eq!(normal(text), "/tmp/ck", "{text}");
        }
        assert_eq!(normal("s3://bucket/ck/"), "s3://bucket/ck");
    }
}
