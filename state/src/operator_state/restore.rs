//! Restoring: the chain of files of each earlier subtask, oldest first, keeping the key groups this subtask owns.

use std::ops::Range;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Chain, OperatorState, StateConfig};
use crate::changelog::{Link, Record, StateFile};
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::manifest::SnapshotRef;
use crate::snapshot;
use crate::table::{Table, TableSpec};

/// Entries applied before the slots they took are given back.
const SLOTS_MAX: usize = 1 << 16;

/// The files of one subtask, newest first, back to one that needs no other or builds on other subtasks.
struct Lineage {
    files: Vec<StateFile>,
    parents: Vec<Link>,
}

impl OperatorState {
    /// The state of the subtask that owns `key_groups`, as the snapshots of a manifest describe it: one for each subtask there
    /// was then, which may have been more or fewer.
    ///
    /// # Errors
    /// [`StateError::Missing`], [`StateError::Damaged`] naming the file, [`StateError::TableMismatch`] when the checkpoint holds
    /// other tables than `specs` declares, the storage's own.
    pub async fn restore(
        config: StateConfig,
        specs: &[TableSpec],
        key_groups: Range<u32>,
        snapshots: &[SnapshotRef],
    ) -> Result<Self> {
        let ours: Vec<&SnapshotRef> = snapshots
            .iter()
            .filter(|s| overlaps(groups_of(s), &key_groups))
            .collect();
        let mut state = Self::create(config, specs, key_groups.clone())?;
        let mut chain = Chain {
            since: ours.iter().filter_map(|s| since_of(s)).min(),
            ..Chain::default()
        };
        match ours[..] {
            [] => {}
            [one] => {
                let (files, bytes) = state.follow(one.into(), key_groups.clone()).await?;
                if groups_of(one) == key_groups && one.subtask == state.config().subtask {
                    (chain.files, chain.bytes) = (files, bytes);
                    chain.last = Some(one.clone());
                } else {
                    chain.parents = vec![one.into()];
                }
            }
            _ => {
                chain.parents = ours.into_iter().map(Link::from).collect();
                state.merge(&chain.parents, &key_groups).await?;
            }
        }
        if let Some(durable) = &mut state.durable {
            durable.chain = chain;
        }
        Ok(state)
    }

    fn config(&self) -> &StateConfig {
        let durable = self.durable.as_ref();
        &durable
            .expect("invariant: restored state is durable")
            .config
    }

    /// Applies a file and all it builds on to these empty tables. Returns how many files of changes there are and their bytes.
    fn follow(&mut self, link: Link, wanted: Range<u32>) -> BoxFuture<'_, Result<(u32, u64)>> {
        async move {
            let lineage = self.lineage(&link).await?;
            let newest = &lineage.files[0];
            self.check_tables(newest)?;
            let wanted = intersect(&wanted, &newest.header.groups);
            match &lineage.parents[..] {
                [] => {}
                [parent] => {
                    self.follow(parent.clone(), wanted.clone()).await?;
                }
                parents => self.merge(parents, &wanted).await?,
            }
            let (mut files, mut bytes) = (0, 0);
            for file in lineage.files.iter().rev() {
                let read = self.apply(file, &wanted)?;
                if !file.header.full {
                    files += 1;
                    bytes += read;
                }
            }
            Ok((files, bytes))
        }
        .boxed()
    }

    /// Puts together what several subtasks had. Each is restored by itself first: what expired in one of them must not expire
    /// in another.
    async fn merge(&mut self, parents: &[Link], wanted: &Range<u32>) -> Result<()> {
        let specs: Vec<TableSpec> = self.tables.iter().map(|t| t.spec().clone()).collect();
        for parent in parents {
            let mut part = Self::create(self.config().clone(), &specs, wanted.clone())?;
            part.follow(parent.clone(), wanted.clone()).await?;
            for (from, to) in part.tables.iter_mut().zip(&mut self.tables) {
                from.scan(&mut |entry| {
                    to.apply(crate::table::Change::Set(entry), wanted)?;
                    give_back(to);
                    Ok(())
                })?;
            }
            for (text, found) in self.value_texts.iter_mut().zip(part.value_texts) {
                *text = found.or(text.take());
            }
            self.end_epoch();
        }
        Ok(())
    }

    async fn lineage(&self, link: &Link) -> Result<Lineage> {
        let location = &self.config().location;
        let mut files = vec![StateFile::read(location, link, "the manifest").await?];
        loop {
            let newest = &files[files.len() - 1];
            let parents = newest.header.parents.clone();
            let [parent] = &parents[..] else {
                return Ok(Lineage { files, parents });
            };
            let named_by = format!("the later file `{}`", newest.path());
            let older = StateFile::read(location, parent, &named_by).await?;
            if older.header.groups != newest.header.groups {
                return Ok(Lineage { files, parents });
            }
            files.push(older);
        }
    }

    fn check_tables(&mut self, file: &StateFile) -> Result<()> {
        let operator = self.config().operator.clone();
        let stored = &file.header.tables;
        let mismatch = |table: &str, stored: String, declared: String| StateError::TableMismatch {
            path: file.path().to_string(),
            operator: operator.clone(),
            table: table.to_string(),
            stored,
            declared,
        };
        let absent = || "not there".to_string();
        for index in 0..stored.len().max(self.tables.len()) {
            let declared = self.tables.get(index).map(Table::spec);
            match (stored.get(index), declared) {
                (Some(stored), Some(declared)) if same(stored, declared) => {
                    if stored.value != declared.value {
                        self.value_texts[index] = Some(stored.value.clone());
                    }
                }
                (Some(stored), Some(declared)) if stored.name == declared.name => {
                    return Err(mismatch(&stored.name, told(stored), told(declared)));
                }
                (Some(stored), _) => return Err(mismatch(&stored.name, told(stored), absent())),
                (None, Some(declared)) => {
                    return Err(mismatch(&declared.name, absent(), told(declared)));
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn apply(&mut self, file: &StateFile, wanted: &Range<u32>) -> Result<u64> {
        let mut table = 0;
        let bytes = file.records(&mut |record| match record {
            Record::Table(index) if index < self.tables.len() => {
                table = index;
                Ok(())
            }
            Record::Table(index) => Err(snapshot::damaged(
                file.path().to_string(),
                format!("it names a table {index}"),
            )),
            Record::Change(change) => {
                self.tables[table].apply(change, wanted)?;
                give_back(&mut self.tables[table]);
                Ok(())
            }
        })?;
        self.end_epoch();
        Ok(bytes)
    }
}

/// Ends the epoch of a table being filled, when it has taken up many slots.
fn give_back(table: &mut Table) {
    if table.touched() >= SLOTS_MAX {
        table.end_epoch(&mut |_| {});
    }
}

fn same(stored: &TableSpec, declared: &TableSpec) -> bool {
    let essence = |spec: &TableSpec| (spec.name.clone(), spec.kind, spec.version, spec.key.clone());
    essence(stored) == essence(declared)
}

fn told(spec: &TableSpec) -> String {
    let kind = match spec.kind {
        crate::TableKind::Timed { bucket } => format!("timed (buckets of {bucket})"),
        kind => kind.name().to_string(),
    };
    format!("{kind}, version {}, key ({})", spec.version, spec.key)
}

fn groups_of(snapshot: &SnapshotRef) -> Range<u32> {
    let (from, to) = snapshot.groups.unwrap_or((0, u32::MAX));
    from..to
}

/// Oldest epoch whose files a snapshot needs.
fn since_of(snapshot: &SnapshotRef) -> Option<Epoch> {
    snapshot.since.or(snapshot::epoch_of(&snapshot.file))
}

fn overlaps(a: Range<u32>, b: &Range<u32>) -> bool {
    a.start < b.end && b.start < a.end
}

fn intersect(a: &Range<u32>, b: &Range<u32>) -> Range<u32> {
    a.start.max(b.start)..a.end.min(b.end)
}
