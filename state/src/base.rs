//! [`Base`]: the files of RocksDB as of one epoch, copied into the checkpoint.
//!
//! A base is a small file `state/<operator>/<subtask>/<epoch>.<generation>.base` that names the data files under `sst/` beside it.
//! Data files never change and are shared by bases: a new base uploads only what the one before did not have.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::changelog::Link;
use crate::codec;
use crate::envelope;
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::location::CheckpointLocation;
use crate::snapshot;
use crate::table::TableSpec;

const VERSION: u8 = 1;
const WHAT: &str = "base of state files";
/// Ending of the names of bases.
const SUFFIX: &str = ".base";
/// Directory of data files beside the bases.
pub(crate) const DATA_DIR: &str = "sst";

/// What a base is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    pub(crate) subtask: u32,
    /// Key groups of the subtask.
    pub(crate) groups: Range<u32>,
    pub(crate) tables: Vec<TableSpec>,
    /// By table, the number of entries by bucket of time.
    pub(crate) totals: Vec<Vec<(i64, u64)>>,
    /// The data files by the name the database knows them under.
    pub(crate) data: BTreeMap<String, Link>,
    /// The few small files the database opens first.
    pub(crate) small: Vec<(String, Vec<u8>)>,
}

/// A base that is in the checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct Anchor {
    pub(crate) link: Link,
    pub(crate) epoch: Epoch,
    /// Data files in the checkpoint by the name the local database knows them under.
    pub(crate) data: BTreeMap<String, Link>,
}

/// The epoch in the name of a base, `None` for other names.
pub(crate) fn epoch_of(file: &str) -> Option<Epoch> {
    snapshot::epoch_of(file.strip_suffix(SUFFIX)?)
}

/// The generation in the name of a base, `None` for other names.
pub(crate) fn generation_of(file: &str) -> Option<u64> {
    epoch_of(file)?;
    file.strip_suffix(SUFFIX)?.rsplit('.').next()?.parse().ok()
}

/// The generation in the name of a data file.
pub(crate) fn generation_of_data(file: &str) -> Option<u64> {
    let (dir, name) = file.rsplit_once('/')?;
    if !dir.ends_with(&format!("/{DATA_DIR}")) {
        return None;
    }
    name.split('.').nth(1)?.parse().ok()
}

/// Copies a local copy of the database into `dir` of the checkpoint. `base` says whose it is; its data files are those already
/// there. Ends early when `cancelled`.
pub(crate) async fn upload(
    location: &CheckpointLocation,
    local: &Path,
    dir: &str,
    mut base: Base,
    cancelled: &AtomicBool,
) -> Result<Anchor> {
    let known = std::mem::take(&mut base.data);
    for (name, path) in local_files(local)? {
        if cancelled.load(Ordering::Relaxed) {
            return Err(io("upload", local, std::io::ErrorKind::Interrupted.into()));
        }
        if name.ends_with(".sst") {
            let link = match known.get(&name) {
                Some(link) => link.clone(),
                None => {
                    let (epoch, generation) = (base.epoch, base.generation);
                    let file = format!("{dir}/{DATA_DIR}/{epoch}.{generation}.{name}");
                    upload_data(location, &path, file).await?
                }
            };
            base.data.insert(name, link);
        } else if name == "CURRENT" || name.starts_with("MANIFEST") {
            let bytes = std::fs::read(&path).map_err(|e| io("read", &path, e))?;
            base.small.push((name, bytes));
        }
    }
    let record = codec::encode(WHAT, VERSION, &base)?;
    let link = Link {
        file: format!("{dir}/{}.{}{SUFFIX}", base.epoch, base.generation),
        crc32: crc32fast::hash(&record),
        bytes: record.len() as u64,
    };
    location
        .put(&link.file, envelope::encode_binary(&record))
        .await?;
    Ok(Anchor {
        link,
        epoch: Epoch(base.epoch),
        data: base.data,
    })
}

async fn upload_data(location: &CheckpointLocation, path: &Path, file: String) -> Result<Link> {
    let bytes = std::fs::read(path).map_err(|e| io("read", path, e))?;
    let link = Link {
        file,
        crc32: crc32fast::hash(&bytes),
        bytes: bytes.len() as u64,
    };
    location.put(&link.file, bytes).await?;
    Ok(link)
}

fn local_files(dir: &Path) -> Result<Vec<(String, std::path::PathBuf)>> {
    let failed = |e| io("list", dir, e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        files.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        ));
    }
    files.sort();
    Ok(files)
}

impl Base {
    /// Reads the base a link means.
    ///
    /// # Errors
    /// [`StateError::Missing`], [`StateError::Damaged`], the storage's own.
    pub(crate) async fn read(
        location: &CheckpointLocation,
        link: &Link,
        named_by: &str,
    ) -> Result<Self> {
        let record = snapshot::read_named(location, link, named_by).await?;
        codec::decode(WHAT, VERSION, &record)
            .map_err(|e| snapshot::damaged(location.display_of(&link.file), e.to_string()))
    }

    /// Names of the data files of a base, none if it is gone.
    ///
    /// # Errors
    /// [`StateError::Damaged`], the storage's own.
    pub(crate) async fn data_of(
        location: &CheckpointLocation,
        file: &str,
    ) -> Result<BTreeSet<String>> {
        let Some(bytes) = location.get(file).await? else {
            return Ok(BTreeSet::new());
        };
        let path = || location.display_of(file);
        let record = envelope::decode_binary(&bytes)
            .map_err(|e| snapshot::damaged(path(), e.to_string()))?;
        let base: Self = codec::decode(WHAT, VERSION, record)
            .map_err(|e| snapshot::damaged(path(), e.to_string()))?;
        Ok(base.data.into_values().map(|link| link.file).collect())
    }

    /// Copies the base into a local directory, checking every file.
    ///
    /// # Errors
    /// [`StateError::Missing`], [`StateError::Damaged`], the storage's own.
    pub(crate) async fn download(
        &self,
        location: &CheckpointLocation,
        named_by: &str,
        into: &Path,
    ) -> Result<()> {
        std::fs::create_dir_all(into).map_err(|e| io("create", into, e))?;
        for (name, bytes) in &self.small {
            write(into, name, bytes)?;
        }
        for (name, link) in &self.data {
            let bytes = snapshot::read_data(location, link, named_by).await?;
            write(into, name, &bytes)?;
        }
        Ok(())
    }

    /// This base as one that is in the checkpoint.
    pub(crate) fn anchor(&self, link: Link) -> Anchor {
        Anchor {
            link,
            epoch: Epoch(self.epoch),
            data: self.data.clone(),
        }
    }
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    // The name comes from a checkpoint: it must not lead elsewhere.
    if name.contains(['/', '\\']) || name.starts_with('.') {
        return Err(StateError::InvalidName {
            name: name.to_string(),
        });
    }
    let path = dir.join(name);
    std::fs::write(&path, bytes).map_err(|e| io("write", &path, e))
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> StateError {
    crate::location::io_error(action, path, source)
}
