//! Paths as they stand in logs and manifests: `file:///data/a%20b.json`, as Spark writes them, and `s3://bucket/a%20b.json`.
//!
//! Every byte a URI does not allow is percent-encoded exactly once, so that a path survives the way there and back letter
//! by letter, also one that is not UTF-8.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use weir_runtime::{Result, WeirError};

use super::remote::Address;

/// What stays as it is in the path of a URI (RFC 3986, unreserved, sub-delims, `:`, `@`), and `/`.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

/// An absolute path, or the address of an object, as a URI.
pub(crate) fn from_path(path: &Path) -> String {
    if let Some(Address { scheme, host, key }) = Address::of(path) {
        return format!("{scheme}://{host}/{}", percent_encode(key.as_bytes(), PATH));
    }
    format!(
        "file://{}",
        percent_encode(path.as_os_str().as_encoded_bytes(), PATH)
    )
}

/// The path of a `file:` URI, in any of the forms `file:///a`, `file:/a`, or that of an object; `None` if it is none.
pub(crate) fn to_path(uri: &str) -> Option<PathBuf> {
    if let Some(Address { scheme, host, key }) = Address::parse(uri) {
        let key = percent_decode_str(key).decode_utf8().ok()?;
        return Some(PathBuf::from(format!("{scheme}://{host}/{key}")));
    }
    let rest = uri.strip_prefix("file:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    os_string(percent_decode_str(path).collect()).map(PathBuf::from)
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt;
    Some(OsString::from_vec(bytes))
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

/// A path as the user wrote it: as [`local_path`] takes it, or the address of a directory in an object store such as
/// `s3://bucket/dir`, taken letter by letter.
///
/// # Errors
/// If it is empty or malformed.
pub(crate) fn any_path(what: &str, text: &str) -> Result<PathBuf> {
    match Address::parse(text).filter(|_| text.contains("://")) {
        Some(Address { scheme, host, key }) => {
            Ok(PathBuf::from(format!("{scheme}://{host}/{key}")))
        }
        None => local_path(what, text),
    }
}

/// A path as the user wrote it: a plain path, taken letter by letter, or a `file:` URI.
///
/// # Errors
/// If it is empty or the address of something that is not the local disk.
pub(crate) fn local_path(what: &str, text: &str) -> Result<PathBuf> {
    if text.is_empty() {
        return Err(WeirError::config(format!("{what} has no path")));
    }
    if text.starts_with("file:/") {
        return to_path(text).ok_or_else(|| {
            WeirError::config(format!(
                "{what} has the path '{text}', which is no valid file URI"
            ))
        });
    }
    match text.split_once("://") {
        Some((scheme, _)) if !scheme.contains('/') => Err(WeirError::config(format!(
            "{what} has the path '{text}', but reads and writes only the local disk: \
             scheme '{scheme}' is not allowed, allowed are plain paths and file:///…"
        ))),
        _ => std::path::absolute(text).map_err(|error| {
            WeirError::external(format!("cannot resolve path '{text}'")).with_source(error)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_encodes_each_special_character_once_and_comes_back() {
        let path = Path::new("/d/a b[1]%25#x?y/città:é&=+");
        let uri = from_path(path);
        assert_eq!(
            uri,
            "file:///d/a%20b%5B1%5D%2525%23x%3Fy/citt%C3%A0:%C3%A9&=+"
        );
        assert_eq!(to_path(&uri).as_deref(), Some(path));
        assert_eq!(to_path("file:/d/x").as_deref(), Some(Path::new("/d/x")));
        let object = Path::new("s3://bucket/k=a%2Fb/x y");
        assert_eq!(from_path(object), "s3://bucket/k=a%252Fb/x%20y");
        assert_eq!(to_path(&from_path(object)).as_deref(), Some(object));
        assert_eq!(to_path("/plain"), None);
    }

    #[test]
    fn local_path_refuses_other_schemes_and_takes_odd_names() {
        let error = local_path("the file sink", "s3://bucket/x").expect_err("not local");
        assert!(error.message().contains("'s3'"), "{error}");
        assert!(local_path("x", "").is_err());
        assert_eq!(
            local_path("x", "/a/b:c//d").expect("plain").as_path(),
            Path::new("/a/b:c/d")
        );
    }
}
