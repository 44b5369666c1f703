//! `_spark_metadata`: the files of committed epochs, in Spark's layout, so that Spark reads what this sink wrote.
//!
//! One small file for each epoch with rows, `<n>`, numbered without holes from 0; every tenth holds everything before it too
//! and is called `<n>.compact`. A file is the line `v1` and one line of JSON for each data file. Beside Spark's fields a
//! line says which query, sink and epoch the data file is of: the number alone cannot, because several queries may write
//! to one directory one after the other (a query whose checkpoint was deleted begins at epoch 0 again and must not be
//! taken for the old one).

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use weir_runtime::{Epoch, Fault, ObjectStoreSettings, Result, WeirError};

use crate::file::source::files::FoundFile;
use crate::file::store::{Store, io_error, wait};
use crate::file::uri;

/// Directory of the manifest inside of the output.
pub(crate) const DIR: &str = "_spark_metadata";

const COMPACT: &str = ".compact";
pub(super) const HEADER: &str = "v1";
/// Epochs between two compact files in a directory that has none yet, as in Spark.
pub(super) const COMPACT_INTERVAL: u64 = 10;

/// Whose data files are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) query_id: Uuid,
    /// Uid of the sink, because one query may have two sinks on one directory.
    pub(super) sink: String,
}

/// One data file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    path: String,
    size: u64,
    is_dir: bool,
    modification_time: i64,
    block_replication: u32,
    block_size: u64,
    action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sink_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
}

impl Line {
    pub(super) fn add(
        path: &Path,
        size: u64,
        modified_ms: i64,
        owner: &Owner,
        epoch: Epoch,
    ) -> Self {
        Self {
            path: uri::from_path(path),
            size,
            is_dir: false,
            modification_time: modified_ms,
            block_replication: 1,
            block_size: 33_554_432,
            action: "add".to_owned(),
            query_id: Some(owner.query_id.to_string()),
            sink_id: Some(owner.sink.clone()),
            epoch: Some(epoch.0),
        }
    }

    /// The epoch, if the file is of this owner.
    pub(super) fn epoch_of(&self, owner: &Owner) -> Option<Epoch> {
        let same = self.query_id.as_deref() == Some(owner.query_id.to_string().as_str())
            && self.sink_id.as_deref() == Some(owner.sink.as_str());
        self.epoch.filter(|_| same).map(Epoch)
    }

    /// What tells the epochs of all owners apart.
    pub(super) fn origin(&self) -> Option<(&str, &str, u64)> {
        Some((
            self.query_id.as_deref()?,
            self.sink_id.as_deref()?,
            self.epoch?,
        ))
    }

    pub(super) fn modified_ms(&self) -> i64 {
        self.modification_time
    }

    /// Name of the data file without its directory; unique, because it holds a uuid.
    pub(super) fn file_name(&self) -> Option<String> {
        uri::to_path(&self.path)?
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
    }
}

/// The numbered files of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    small: BTreeSet<u64>,
    compact: BTreeSet<u64>,
    /// Epochs between two compact files where there are none yet; `None` for [`COMPACT_INTERVAL`].
    every: Option<u64>,
}

impl Numbers {
    /// Lists them; `None` if there is no manifest directory.
    pub(super) async fn list(store: &Store, dir: &Path) -> Result<Option<Self>> {
        let Some(names) = store.names(dir).await? else {
            return Ok(None);
        };
        let mut numbers = Self::default();
        for name in names {
            match (
                Epoch::from_file_name(&name),
                name.strip_suffix(COMPACT).and_then(Epoch::from_file_name),
            ) {
                (Some(number), _) => drop(numbers.small.insert(number.0)),
                (_, Some(number)) => drop(numbers.compact.insert(number.0)),
                _ => {}
            }
        }
        Ok(Some(numbers))
    }

    /// Sets the distance of compact files for a directory that has none yet.
    pub(super) fn compact_every(&mut self, interval: NonZeroU32) {
        self.every = Some(u64::from(interval.get()));
    }

    fn default_interval(&self) -> u64 {
        self.every.unwrap_or(COMPACT_INTERVAL)
    }

    /// Number of the next file.
    pub(super) fn next(&self) -> u64 {
        self.small
            .last()
            .max(self.compact.last())
            .map_or(0, |newest| newest + 1)
    }

    /// Notes a file that was written.
    pub(super) fn insert(&mut self, number: u64, is_compact: bool) {
        if is_compact {
            self.compact.insert(number);
        } else {
            self.small.insert(number);
        }
    }

    /// Notes a file that was removed.
    pub(super) fn remove(&mut self, name: &str) {
        match name.strip_suffix(COMPACT) {
            Some(number) => self.compact.retain(|known| known.to_string() != number),
            None => self.small.retain(|known| known.to_string() != name),
        }
    }

    /// Distance of compact files, found as Spark finds it.
    pub(super) fn interval(&self) -> u64 {
        let mut compact = self.compact.iter().rev();
        match (compact.next(), compact.next()) {
            (Some(newest), Some(before)) => newest - before,
            (Some(only), None) => derive_interval(self.default_interval(), only + 1),
            _ => self.default_interval(),
        }
    }

    /// Whether the file of this number is a compact one.
    pub(super) fn is_compact(&self, number: u64) -> bool {
        (number + 1).is_multiple_of(self.interval())
    }

    /// Names of the files that hold the manifest together, in order.
    ///
    /// # Errors
    /// If one is missing.
    pub(super) fn names(&self, dir: &Path) -> Result<Vec<String>> {
        let base = self.compact.last().copied();
        let mut names: Vec<String> = base
            .map(|number| format!("{number}{COMPACT}"))
            .into_iter()
            .collect();
        for number in base.map_or(0, |base| base + 1)..self.next() {
            if !self.small.contains(&number) {
                return Err(damaged(
                    &dir.join(number.to_string()),
                    "it is missing, but later ones are there",
                ));
            }
            names.push(number.to_string());
        }
        Ok(names)
    }

    /// Pairs of a compact file and the one that came after it, newest first. Readers that listed the directory before the second was
    /// there may go on from the first; nobody reads what is before it.
    pub(super) fn replaced(&self) -> Vec<(u64, u64)> {
        let newer = self.compact.iter().rev();
        let older = newer.clone().skip(1);
        older.zip(newer).map(|(old, new)| (*old, *new)).collect()
    }

    /// Names of the files before this number.
    pub(super) fn before(&self, number: u64) -> Vec<String> {
        let small = self.small.range(..number).map(u64::to_string);
        let compact = self
            .compact
            .range(..number)
            .map(|number| format!("{number}{COMPACT}"));
        small.chain(compact).collect()
    }
}

/// Name of the file of this number.
pub(super) fn file_name(number: u64, is_compact: bool) -> String {
    if is_compact {
        format!("{number}{COMPACT}")
    } else {
        number.to_string()
    }
}

/// Spark's rule for a directory with a single compact file: an interval that puts a compact file there.
fn derive_interval(default: u64, files: u64) -> u64 {
    if files <= default || default >= files / 2 {
        return files;
    }
    (default..=files / 2)
        .find(|interval| files.is_multiple_of(*interval))
        .unwrap_or(files)
}

/// The text of one file, which begins with the header.
pub(super) async fn read_text(store: &Store, dir: &Path, name: &str) -> Result<String> {
    let path = dir.join(name);
    let Some(bytes) = store.read(&path).await? else {
        return Err(damaged(&path, "it was listed a moment ago and is gone"));
    };
    let text = String::from_utf8(bytes).map_err(|error| damaged(&path, &error.to_string()))?;
    let header = text.lines().next().unwrap_or_default();
    if header.trim_end() != HEADER {
        return Err(damaged(
            &path,
            &format!("its first line is '{header}', it must be '{HEADER}'"),
        ));
    }
    Ok(text)
}

/// Lines of the text of a file, without the header.
pub(super) fn line_texts(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip(1).filter(|line| !line.is_empty())
}

/// Parses a line; `path` is the file it is of.
pub(super) fn parse(path: &Path, line: &str) -> Result<Line> {
    serde_json::from_str(line).map_err(|error| damaged(path, &error.to_string()).with_source(error))
}

/// Adds lines to the text of a file.
pub(super) fn push(text: &mut String, lines: &[Line]) -> Result<()> {
    for line in lines {
        let line = serde_json::to_string(line).map_err(|error| {
            WeirError::internal("a manifest line cannot be written as JSON").with_source(error)
        })?;
        push_text(text, &line);
    }
    Ok(())
}

/// Adds a line to the text of a file.
pub(super) fn push_text(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(line);
}

/// What `add` makes of all lines of a manifest directory, in order; `None` if it does not exist. A compaction meanwhile is no error.
/// One file is in memory at a time, as text.
pub(super) async fn fold<T: Default>(
    store: &Store,
    dir: &Path,
    mut add: impl FnMut(&mut T, Line),
) -> Result<Option<T>> {
    let mut tries = 3;
    loop {
        let Some(numbers) = Numbers::list(store, dir).await? else {
            return Ok(None);
        };
        let read = fold_numbers(store, dir, &numbers, &mut add).await;
        tries -= 1;
        match read {
            Err(_) if tries > 0 && Numbers::list(store, dir).await? != Some(numbers) => {}
            other => return other.map(Some),
        }
    }
}

async fn fold_numbers<T: Default>(
    store: &Store,
    dir: &Path,
    numbers: &Numbers,
    add: &mut impl FnMut(&mut T, Line),
) -> Result<T> {
    let mut folded = T::default();
    for name in numbers.names(dir)? {
        let (path, text) = (dir.join(&name), read_text(store, dir, &name).await?);
        for line in line_texts(&text) {
            add(&mut folded, parse(&path, line)?);
        }
    }
    Ok(folded)
}

/// The data files of committed epochs in an output directory, in the order in which they were committed; `None` if the
/// directory has no `_spark_metadata`, so that nobody knows.
///
/// The manifest holds absolute paths. If the directory was moved since, the files are looked for where it is now. An object store is
/// reached by what the environment says.
///
/// # Errors
/// If the manifest is damaged or cannot be read.
pub fn committed_files(dir: &Path) -> Result<Option<Vec<PathBuf>>> {
    let store = Store::of(dir, &ObjectStoreSettings::default())?;
    let entries = committed_entries(&store, dir);
    Ok(wait(entries)?.map(|files| files.into_iter().map(|file| file.path).collect()))
}

/// As [`committed_files`], with size and time of modification.
pub(crate) async fn committed_entries(store: &Store, dir: &Path) -> Result<Option<Vec<FoundFile>>> {
    let manifest = dir.join(DIR);
    let keep = |lines: &mut Vec<Line>, line| lines.push(line);
    let Some(lines) = fold(store, &manifest, keep).await? else {
        return Ok(None);
    };
    let dir = match store {
        Store::Local => std::path::absolute(dir).map_err(|error| io_error("find", dir, error))?,
        Store::Remote(_) => dir.to_owned(),
    };
    let deleted: BTreeSet<&str> = lines
        .iter()
        .filter(|line| line.action == "delete")
        .map(|line| line.path.as_str())
        .collect();
    let mut files = Vec::new();
    for line in lines
        .iter()
        .filter(|line| line.action == "add" && !deleted.contains(line.path.as_str()))
    {
        let Some(path) = uri::to_path(&line.path) else {
            return Err(damaged(
                &dir.join(DIR),
                &format!("it names '{}', which is no path of a file", line.path),
            ));
        };
        files.push(FoundFile {
            path: relocate(&dir, path),
            mtime_ms: line.modification_time,
            size: line.size,
        });
    }
    Ok(Some(files))
}

/// The path inside of `dir` if the manifest was written when the directory had another name.
fn relocate(dir: &Path, path: PathBuf) -> PathBuf {
    if path.starts_with(dir) {
        return path;
    }
    let parts: Vec<_> = path.components().collect();
    let moved = (1..=parts.len())
        .map(|depth| dir.join(parts[parts.len() - depth..].iter().collect::<PathBuf>()));
    moved
        .into_iter()
        .find(|candidate| candidate.starts_with(dir) && candidate.is_file())
        .unwrap_or(path)
}

fn damaged(path: &Path, reason: &str) -> WeirError {
    WeirError::new(
        Fault::Checkpoint,
        format!(
            "manifest file '{}' is damaged: {reason}; restore it, or move directory '{DIR}' away to read every file of the \
             directory, also those of uncommitted epochs",
            path.display()
        ),
    )
}
