//! Finds the files of a source in an object store, by the rules of [`super::listing`].
//!
//! A store lists everything below a prefix at once and knows no directories, so there is nothing to glance at, and a directory
//! without files is not there.

use std::collections::BTreeSet;
use std::path::Path;

use weir_runtime::{Result, WeirError};

use super::files::FoundFile;
use super::listing::{Listed, Listing, Wanted, is_glob, is_hidden, is_partition, not_found};
use crate::file::remote::{Address, Object, Remote};
use crate::file::sink::manifest;
use crate::file::store::{Store, wait};

/// Refuses a prefix without objects, and globs.
pub(super) fn check(remote: &Remote, root: &Path) -> Result<()> {
    if is_glob(root) {
        return Err(WeirError::config(format!(
            "path '{}' of the file source is a pattern: in object stores only directories are allowed, \
             pathGlobFilter chooses files by their names",
            root.display()
        )));
    }
    match wait(remote.list(root))?.is_empty() {
        true => Err(not_found(root)),
        false => Ok(()),
    }
}

/// The files that are there now and wanted.
pub(super) fn list(listing: &Listing, remote: &Remote, wanted: &mut Wanted<'_>) -> Result<Listed> {
    let root = listing.root();
    let prefix = Address::of(root).map_or(0, |address| address.key.len());
    let objects = wait(remote.list(root))?;
    let below: Vec<(&str, Object)> = objects
        .iter()
        .filter_map(|(key, object)| Some((key.get(prefix..)?.trim_start_matches('/'), *object)))
        .collect();
    // Whatever a manifest does not name is not there.
    let outputs = below.iter().filter_map(|(key, _)| output_of(key));
    let outputs: BTreeSet<&str> = outputs.filter(|_| !listing.ignores_manifests()).collect();
    let mut listed = Listed {
        waits: true,
        ..Listed::default()
    };
    for output in &outputs {
        if !is_read(listing, output) {
            continue;
        }
        let dir = root.join(output);
        let store = Store::Remote(remote.clone());
        let files = wait(manifest::committed_entries(&store, &dir))?.unwrap_or_default();
        listed.files.extend(files.into_iter().filter(|file| {
            let name = file.path.file_name().unwrap_or_default();
            listing.takes_name(&name.to_string_lossy()) && wanted(&file.path)
        }));
    }
    for (key, object) in below {
        let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
        let in_output = outputs.iter().any(|output| {
            output.is_empty() || dir == *output || dir.starts_with(&format!("{output}/"))
        });
        if in_output || !is_read(listing, dir) || !listing.takes_name(name) {
            continue;
        }
        let path = root.join(key);
        if !wanted(&path) {
            continue;
        }
        if listing.skips_empty() && object.size == 0 {
            tracing::warn!(file = %path.display(), "parquet file of zero bytes skipped; it is looked at again");
            continue;
        }
        listed.files.push(FoundFile::remote(path, object));
    }
    Ok(listed)
}

/// The directory whose manifest this object belongs to.
fn output_of(key: &str) -> Option<&str> {
    let dir = key.rsplit_once('/')?.0;
    match dir == manifest::DIR {
        true => Some(""),
        false => dir.strip_suffix(manifest::DIR)?.strip_suffix('/'),
    }
}

/// Whether the files of a directory below the source's are read.
fn is_read(listing: &Listing, dir: &str) -> bool {
    let mut parts = dir.split('/').filter(|part| !part.is_empty());
    parts.all(|part| !is_hidden(part) && (listing.is_recursive() || is_partition(Path::new(part))))
}
