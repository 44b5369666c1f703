//! Restoring: the chain of files of each earlier subtask, oldest first, keeping the key groups this subtask owns.
//!
//! A chain begins with a file that holds everything, a base, or nothing. The base of a subtask with the same key groups is opened
//! where its copy lies; that of others is read through.

use std::ops::Range;

use futures::FutureExt;
use futures::future::BoxFuture;

use std::collections::VecDeque;
use std::sync::Arc;

use super::durable::{Chain, Durable, specs};
use super::{OperatorState, StateConfig};
use crate::base::{self, Base};
use crate::changelog::{Link, Record, StateFile};
use crate::epoch::Epoch;
use crate::error::{Result, StateError};
use crate::files::{Files, WorkDir};
use crate::manifest::SnapshotRef;
use crate::snapshot;
use crate::table::{Change, Table, TableSpec};

/// Entries applied before the slots they took are given back.
const SLOTS_MAX: usize = 1 << 16;

/// The files of one subtask, newest first, back to one that needs no other, builds on a base or on other subtasks.
struct Lineage {
    files: Vec<StateFile>,
    parents: Vec<Link>,
    base: Option<Link>,
}

/// Epoch and bytes of each file of changes that was applied.
type Changes = VecDeque<(Epoch, u64)>;

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
            bases: ours.iter().flat_map(|s| s.bases.clone()).collect(),
            ..Chain::default()
        };
        match ours[..] {
            [] => {}
            [one] => {
                let changes = state.follow(one.into(), key_groups.clone()).await?;
                if groups_of(one) == key_groups && one.subtask == state.durable().config.subtask {
                    chain.changes = changes;
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
        let durable = state.durable_mut();
        if chain.last.is_none() {
            durable.anchor = None;
        }
        durable.chain = chain;
        Ok(state)
    }

    fn durable(&self) -> &Durable {
        let durable = self.durable.as_ref();
        durable.expect("invariant: restored state is durable")
    }

    fn durable_mut(&mut self) -> &mut Durable {
        let durable = self.durable.as_mut();
        durable.expect("invariant: restored state is durable")
    }

    fn config(&self) -> &StateConfig {
        &self.durable().config
    }

    /// Applies a file and all it builds on to these empty tables. Returns the files of changes among them.
    fn follow(&mut self, link: Link, wanted: Range<u32>) -> BoxFuture<'_, Result<Changes>> {
        async move {
            let lineage = self.lineage(&link).await?;
            let newest = &lineage.files[0];
            self.check_tables(newest)?;
            let wanted = intersect(&wanted, &newest.header.groups);
            if let Some(base) = &lineage.base {
                self.start_from(base, newest.path(), &wanted).await?;
            } else {
                match &lineage.parents[..] {
                    [] => {}
                    [parent] => {
                        self.follow(parent.clone(), wanted.clone()).await?;
                    }
                    parents => self.merge(parents, &wanted).await?,
                }
            }
            let mut changes = Changes::new();
            for file in lineage.files.iter().rev() {
                let bytes = self.apply(file, &wanted)?;
                if !file.header.full {
                    changes.push_back((Epoch(file.header.epoch), bytes));
                }
            }
            Ok(changes)
        }
        .boxed()
    }

    /// Puts together what several subtasks had. Each is restored by itself first: what expired in one of them must not expire
    /// in another.
    async fn merge(&mut self, parents: &[Link], wanted: &Range<u32>) -> Result<()> {
        let specs = specs(&self.tables);
        for parent in parents {
            let mut part = Self::create(self.config().clone(), &specs, wanted.clone())?;
            part.follow(parent.clone(), wanted.clone()).await?;
            for (index, from) in part.tables.iter_mut().enumerate() {
                from.scan(&mut |entry| self.add(index, Change::Set(entry), wanted))?;
            }
            for (text, found) in self.value_texts.iter_mut().zip(part.value_texts) {
                *text = found.or(text.take());
            }
            self.relieve()?;
        }
        Ok(())
    }

    /// Applies one change, making room now and then.
    fn add(&mut self, table: usize, change: Change<'_>, wanted: &Range<u32>) -> Result<()> {
        self.tables[table].apply(change, wanted)?;
        if self.tables[table].touched() >= SLOTS_MAX {
            self.relieve()?;
        }
        Ok(())
    }

    /// Gives slots back, and memory if there is too little.
    fn relieve(&mut self) -> Result<()> {
        let Self {
            tables, durable, ..
        } = self;
        super::end_epoch(tables)?;
        durable
            .as_mut()
            .map_or(Ok(()), |durable| durable.spill(tables))
    }

    async fn lineage(&self, link: &Link) -> Result<Lineage> {
        let location = &self.config().location;
        let mut files = vec![StateFile::read(location, link, "the manifest").await?];
        let base = files[0].header.base.clone();
        let base_epoch = base.as_ref().and_then(|base| base::epoch_of(&base.file));
        loop {
            let newest = &files[files.len() - 1];
            let mut parents = newest.header.parents.clone();
            parents.retain(|parent| {
                base_epoch.is_none() || snapshot::epoch_of(&parent.file) > base_epoch
            });
            let [parent] = &parents[..] else {
                return Ok(Lineage {
                    files,
                    parents,
                    base,
                });
            };
            let named_by = format!("the later file `{}`", newest.path());
            let older = StateFile::read(location, parent, &named_by).await?;
            if older.header.groups != newest.header.groups {
                return Ok(Lineage {
                    files,
                    parents,
                    base,
                });
            }
            files.push(older);
        }
    }

    /// Starts from a base: in place if it is that of these key groups and nothing is there yet, else by reading it through.
    async fn start_from(&mut self, link: &Link, named_by: &str, wanted: &Range<u32>) -> Result<()> {
        let config = self.config().clone();
        let named_by = format!("the later file `{named_by}`");
        let base = Base::read(&config.location, link, &named_by).await?;
        let dir = Arc::new(WorkDir::create(config.local_dir.as_deref())?);
        base.download(
            &config.location,
            &format!("the base `{}`", link.file),
            &dir.path().join("db"),
        )
        .await?;
        let files = Files::open(dir, &base.tables)?;
        let in_place = base.groups == self.durable().groups
            && base.groups == *wanted
            && self.durable().files.is_none();
        if in_place {
            for (index, table) in self.tables.iter_mut().enumerate() {
                table.attach(files.table(index), &base.totals[index]);
            }
            let durable = self.durable_mut();
            durable.anchor = Some(base.anchor(link.clone()));
            durable.files = Some(files);
            return Ok(());
        }
        for index in 0..self.tables.len() {
            for row in files.table(index).rows(&[], None) {
                self.add(index, Change::Set(row?.entry()), wanted)?;
            }
        }
        self.relieve()
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
            Record::Change(change) => self.add(table, change, wanted),
        })?;
        self.relieve()?;
        Ok(bytes)
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
