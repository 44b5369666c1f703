//! Finds the files of a source: a directory or a glob of directories on the local disk, with the directories of partitions in them,
//! or with all directories in them.
//!
//! Skipped are names that begin with `_` (unless there is a `=` in them) or `.`, and copies in progress (`._COPYING_`), as in
//! Spark. A directory that is the output of a file sink is read by its manifest, so that files of uncommitted epochs are
//! not seen. Symbolic links are followed.

use std::collections::HashSet;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use weir_runtime::{Result, WeirError};

use super::config::FileSourceConfig;
use super::files::FoundFile;
use super::glance::{Stamps, stamp};
use super::glob::NameGlob;
use super::objects;
use super::partition::{self, PartitionValue};
use crate::file::sink::manifest;
use crate::file::store::{Store, is_absent, wait};
use crate::file::uri;

/// Decides for a path whether its size and time are wanted; files nobody wants are not even looked at.
pub(crate) type Wanted<'a> = dyn FnMut(&Path) -> bool + 'a;

/// Where to look and what to leave out.
#[derive(Debug)]
pub(crate) struct Listing {
    root: PathBuf,
    store: Store,
    name: Option<NameGlob>,
    recursive: bool,
    /// Parquet files of zero bytes are no Parquet files, but often ones that are about to get content.
    skip_empty: bool,
    ignore_manifests: bool,
    /// What was found already; then nothing is looked for.
    found: Option<Arc<Vec<FoundFile>>>,
}

impl Listing {
    pub(crate) fn new(config: &FileSourceConfig) -> Result<Self> {
        let name = config
            .path_glob_filter
            .as_deref()
            .map(|glob| NameGlob::new("option 'pathGlobFilter'", glob))
            .transpose()?;
        let root = uri::any_path("the file source", &config.path)?;
        Ok(Self {
            store: Store::of(&root, &config.object_stores)?,
            root,
            name,
            recursive: config.recursive_file_lookup,
            skip_empty: config.format.name() == "parquet",
            ignore_manifests: config.ignore_manifests,
            found: config.found.clone(),
        })
    }

    /// The absolute path, or the glob made absolute.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the root is.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Refuses a path that is not there (unless it is a glob, which may match later) or is a file.
    pub(crate) fn check(&self) -> Result<()> {
        if self.found.is_some() {
            return Ok(());
        }
        if let Store::Remote(remote) = &self.store {
            return objects::check(remote, &self.root);
        }
        match fs::metadata(&self.root) {
            Ok(metadata) if metadata.is_dir() => fs::read_dir(&self.root)
                .map(|_| ())
                .map_err(|error| listing_error(&self.root, error)),
            Ok(_) => Err(WeirError::config(format!(
                "path '{}' of the file source is a file, it must be a directory",
                self.root.display()
            ))),
            Err(_) if is_glob(&self.root) => glob_levels(&self.root).map(|_| ()),
            Err(error) if is_absent(&error) => Err(not_found(&self.root)),
            Err(error) => Err(listing_error(&self.root, error)),
        }
    }

    /// The files that are there now and wanted.
    pub(super) fn list(&self, wanted: &mut Wanted<'_>) -> Result<Listed> {
        if let Some(found) = &self.found {
            let files = found.iter().filter(|file| wanted(&file.path));
            return Ok(Listed {
                files: files.cloned().collect(),
                ..Listed::default()
            });
        }
        if let Store::Remote(remote) = &self.store {
            return objects::list(self, remote, wanted);
        }
        let mut scan = Scan {
            listing: self,
            wanted,
            listed: Listed::default(),
            above: Vec::new(),
        };
        match fs::metadata(&self.root) {
            Ok(_) => scan.directory(&self.root)?,
            Err(_) if is_glob(&self.root) => scan.glob()?,
            Err(error) if is_absent(&error) => return Err(not_found(&self.root)),
            Err(error) => return Err(listing_error(&self.root, error)),
        }
        Ok(scan.listed)
    }

    /// How many parts of a file's path are those of the source; what follows may be directories of partitions.
    pub(crate) fn depth(&self) -> usize {
        self.root.components().count()
    }

    /// What the names of the partition directories that are there say, each once.
    pub(crate) fn partition_values(&self) -> Result<Vec<PartitionValue>> {
        let mut values: Vec<PartitionValue> = Vec::new();
        if self.recursive {
            return Ok(values);
        }
        let mut known = HashSet::new();
        let mut paths = self.directories()?;
        paths.sort_unstable();
        for path in paths {
            for value in partition::of_file(&path.join("-"), self.depth()) {
                if known.insert((value.column.clone(), value.value.clone())) {
                    values.push(value);
                }
            }
        }
        Ok(values)
    }

    /// The directories that hold files.
    fn directories(&self) -> Result<Vec<PathBuf>> {
        let mut parents = HashSet::new();
        // Nobody's size and time are asked for.
        let mut note = |path: &Path| {
            if let Some(parent) = path.parent()
                && !parents.contains(parent)
            {
                parents.insert(parent.to_owned());
            }
            false
        };
        match self.list(&mut note) {
            Ok(_) => Ok(parents.into_iter().collect()),
            // Told when the query starts.
            Err(error) if error.condition() == Some("PATH_NOT_FOUND") => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn takes_name(&self, name: &str) -> bool {
        !is_hidden(name) && self.name.as_ref().is_none_or(|glob| glob.is_match(name))
    }

    /// Whether files in directories of directories are read, whatever these are called.
    pub(super) fn is_recursive(&self) -> bool {
        self.recursive
    }

    /// Whether the output of a file sink is a directory as any.
    pub(super) fn ignores_manifests(&self) -> bool {
        self.ignore_manifests
    }

    /// Whether a file that is empty is one that is about to get content.
    pub(super) fn skips_empty(&self) -> bool {
        self.skip_empty
    }
}

/// What a listing gives.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Files, in no particular order.
    pub(super) files: Vec<FoundFile>,
    /// The directories that were looked into.
    pub(super) stamps: Stamps,
    /// A file was left out that may be another one the next time.
    pub(super) waits: bool,
}

/// One listing in progress.
struct Scan<'a, 'w> {
    listing: &'a Listing,
    wanted: &'a mut Wanted<'w>,
    listed: Listed,
    /// Real paths of the directories above, to notice links that lead back.
    above: Vec<PathBuf>,
}

impl Scan<'_, '_> {
    fn directory(&mut self, dir: &Path) -> Result<()> {
        for dir in [dir.to_owned(), dir.join(manifest::DIR)] {
            let changed = stamp(&dir);
            self.listed.stamps.insert(dir, changed);
        }
        if !self.listing.ignore_manifests
            && let Some(files) = wait(manifest::committed_entries(&Store::Local, dir))?
        {
            return self.sink_output(files);
        }
        for entry in fs::read_dir(dir).map_err(|error| listing_error(dir, error))? {
            self.entry(&entry.map_err(|error| listing_error(dir, error))?)?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &DirEntry) -> Result<()> {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if is_hidden(&name) {
            return Ok(());
        }
        let path = entry.path();
        let kind = entry
            .file_type()
            .map_err(|error| listing_error(&path, error))?;
        if kind.is_dir() {
            return self.sub_directory(&path);
        }
        if kind.is_file() && !(self.listing.takes_name(&name) && (self.wanted)(&path)) {
            return Ok(());
        }
        let metadata = if kind.is_file() {
            entry.metadata()
        } else {
            fs::metadata(&path)
        };
        match metadata {
            Ok(metadata) if metadata.is_dir() => self.sub_directory(&path),
            Ok(metadata)
                if kind.is_file() || (self.listing.takes_name(&name) && (self.wanted)(&path)) =>
            {
                self.file(path, &metadata);
                Ok(())
            }
            Ok(_) => Ok(()),
            // Gone again, or a link to nothing.
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => Err(listing_error(&path, error)),
        }
    }

    fn file(&mut self, path: PathBuf, metadata: &Metadata) {
        if !metadata.is_file() {
            return;
        }
        if self.listing.skip_empty && metadata.len() == 0 {
            self.listed.waits = true;
            tracing::warn!(file = %path.display(), "parquet file of zero bytes skipped; it is looked at again");
            return;
        }
        self.listed.files.push(FoundFile::new(path, metadata));
    }

    fn sub_directory(&mut self, path: &Path) -> Result<()> {
        if !self.listing.recursive && !is_partition(path) {
            return Ok(());
        }
        let real = fs::canonicalize(path).map_err(|error| listing_error(path, error))?;
        if self.above.contains(&real) {
            tracing::warn!(directory = %path.display(), "link to a directory above skipped");
            return Ok(());
        }
        self.above.push(real);
        let listed = self.directory(path);
        self.above.pop();
        listed
    }

    fn sink_output(&mut self, files: Vec<FoundFile>) -> Result<()> {
        for file in files {
            let Some(name) = file
                .path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
            else {
                continue;
            };
            if self.listing.takes_name(&name) && (self.wanted)(&file.path) {
                self.listed.files.push(file);
            }
        }
        Ok(())
    }

    fn glob(&mut self) -> Result<()> {
        let (base, levels) = glob_levels(&self.listing.root)?;
        let mut matched = vec![base];
        for level in &levels {
            let mut next = Vec::new();
            for dir in &matched {
                self.listed.stamps.insert(dir.clone(), stamp(dir));
                next.extend(children(dir, level)?);
            }
            next.sort_unstable();
            matched = next;
        }
        for path in matched {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.directory(&path)?,
                Ok(metadata) => {
                    let name = path
                        .file_name()
                        .map(|name| name.to_string_lossy().into_owned())
                        .unwrap_or_default();
                    if self.listing.takes_name(&name) && (self.wanted)(&path) {
                        self.file(path, &metadata);
                    }
                }
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(listing_error(&path, error)),
            }
        }
        Ok(())
    }
}

/// Whether the name of a directory is `column=value`.
pub(super) fn is_partition(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| partition::of_directory(&name.to_string_lossy()).is_some())
}

/// One level of a glob: a plain name, or a pattern.
#[derive(Debug)]
enum Level {
    Name(PathBuf),
    Pattern(NameGlob),
}

pub(super) fn is_glob(path: &Path) -> bool {
    path.to_str()
        .is_some_and(|text| text.contains(['*', '?', '[', '{']))
}

/// The directories above the first pattern, and the levels from there.
fn glob_levels(path: &Path) -> Result<(PathBuf, Vec<Level>)> {
    let mut base = PathBuf::new();
    let mut levels = Vec::new();
    for component in path.components() {
        let part = Path::new(component.as_os_str());
        let is_pattern = matches!(component, Component::Normal(_)) && is_glob(part);
        match part.to_str() {
            Some(text) if is_pattern => levels.push(Level::Pattern(NameGlob::new(
                "the path of the file source",
                text,
            )?)),
            _ if levels.is_empty() => base.push(part),
            _ => levels.push(Level::Name(part.to_owned())),
        }
    }
    Ok((base, levels))
}

fn children(dir: &Path, level: &Level) -> Result<Vec<PathBuf>> {
    let glob = match level {
        Level::Name(name) => return Ok(vec![dir.join(name)]),
        Level::Pattern(glob) => glob,
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(listing_error(dir, error)),
    };
    let mut matched = Vec::new();
    for entry in entries {
        let name = entry
            .map_err(|error| listing_error(dir, error))?
            .file_name();
        if !is_hidden(&name.to_string_lossy()) && glob.is_match(&name.to_string_lossy()) {
            matched.push(dir.join(name));
        }
    }
    Ok(matched)
}

pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
        || (name.starts_with('_') && !name.contains('='))
        || name.ends_with("._COPYING_")
}

pub(super) fn not_found(path: &Path) -> WeirError {
    WeirError::config(format!(
        "path '{}' of the file source does not exist",
        path.display()
    ))
    .with_condition("PATH_NOT_FOUND")
}

fn listing_error(path: &Path, error: io::Error) -> WeirError {
    WeirError::external(format!("cannot list '{}': {error}", path.display())).with_source(error)
}
