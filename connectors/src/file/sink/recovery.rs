//! What a dead run left in the output directory goes away before a new one writes: hidden files, and files that have their
//! final name already but whose epoch never got into the manifest.

use std::collections::HashSet;
use std::path::Path;

use weir_runtime::{FailPoints, Fault, Result, WeirError};

use super::manifest::{self, Line};
use super::staging::{Leftover, Staging};

/// Removes the leftovers of one sink. May itself crash anywhere and be run again.
///
/// # Errors
/// If a later generation has written here, or the disk refuses.
pub(super) async fn clean(
    root: &Path,
    staging: &Staging,
    generation: u64,
    failpoints: &FailPoints,
) -> Result<()> {
    let leftovers = staging.leftovers().await?;
    if let Some(newer) = leftovers
        .iter()
        .filter_map(|leftover| leftover.generation)
        .find(|other| *other > generation)
    {
        return Err(WeirError::new(
            Fault::Conflict,
            format!(
                "generation {newer} of this query writes to '{}', this run is generation {generation}: only one run of a query may go on",
                root.display()
            ),
        ));
    }
    if leftovers.is_empty() {
        return Ok(());
    }
    let files = leftovers.iter().flat_map(|leftover| &leftover.files);
    let asked: HashSet<String> = files.map(|file| name(&root.join(file))).collect();
    let keep = |names: &mut HashSet<String>, line: Line| {
        names.extend(line.file_name().filter(|name| asked.contains(name)));
    };
    let manifest = root.join(manifest::DIR);
    let committed = manifest::fold(staging.store(), &manifest, keep).await?;
    let committed = committed.unwrap_or_default();
    for leftover in leftovers {
        failpoints.hit("file-sink:clean")?;
        remove_orphans(root, staging, &leftover, &committed, failpoints).await?;
        staging.store().remove_dir(&leftover.dir).await?;
    }
    staging.remove_if_empty();
    Ok(())
}

async fn remove_orphans(
    root: &Path,
    staging: &Staging,
    leftover: &Leftover,
    committed: &HashSet<String>,
    failpoints: &FailPoints,
) -> Result<()> {
    let mut dirs = HashSet::new();
    for file in &leftover.files {
        let path = root.join(file);
        if committed.contains(&name(&path)) {
            continue;
        }
        failpoints.hit("file-sink:clean:orphan")?;
        if staging.store().remove_file(&path).await? {
            tracing::warn!(file = %path.display(), "file of an uncommitted epoch removed, the epoch runs again");
            dirs.extend(path.parent().map(Path::to_owned));
        }
    }
    // The names must be gone for good before the list of them goes.
    staging.sync_all(dirs.iter().map(std::path::PathBuf::as_path))
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
