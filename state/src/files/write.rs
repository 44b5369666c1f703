//! [`Writer`]: the changes of a flush into one table.
//!
//! Many entries become sorted files that the database takes in as they are; few go through its write buffer.

use rocksdb::{ColumnFamily, IngestExternalFileOptions, SstFileWriter, WriteBatch, WriteOptions};

use super::open::family_options;
use super::rows::{after, file_value, index_key, time_bytes};
use super::{Files, Row, TableFiles, file_key, group_key};
use crate::error::Result;
use crate::table::{Entry, TableKind};

/// Fewer changes than this go through the write buffer.
const FILE_ROWS_MIN: usize = 4096;
/// Rows read, rewritten and written at once.
const REWRITE_ROWS: usize = 1 << 14;
/// Bytes of a batch for the write buffer.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes a range that expired may still take before it is compacted away.
const LEFT_BYTES_MAX: u64 = 1 << 20;

/// One change of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Write<'a> {
    /// The entry is there with this value.
    Put(Entry<'a>),
    /// It is not there.
    Delete(Entry<'a>),
}

/// Writes into the files of one table.
#[derive(Debug)]
pub(crate) struct Writer<'f> {
    files: &'f TableFiles,
}

impl TableFiles {
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer { files: self }
    }
}

impl TableFiles {
    /// Replaces the values of rows read from these files.
    pub(crate) fn rewrite(
        &self,
        rows: impl Iterator<Item = Result<Row>>,
        rewrite: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let mut run: Vec<Row> = Vec::new();
        let mut rows = rows.peekable();
        while let Some(row) = rows.next() {
            let mut row = row?;
            row.value = rewrite(&row.value)?;
            run.push(row);
            if run.len() == REWRITE_ROWS || rows.peek().is_none() {
                let changes = run.iter().map(|row| Write::Put(row.entry()));
                self.writer().run(run.len(), changes)?;
                run.clear();
            }
        }
        Ok(())
    }
}

fn unlogged() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

/// Takes changes of one column family in the order of its keys.
trait Sink {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    fn delete(&mut self, key: &[u8]) -> Result<()>;
}

/// Through the write buffer.
struct Batch<'f> {
    files: &'f Files,
    family: &'f ColumnFamily,
    batch: WriteBatch,
}

impl Batch<'_> {
    fn write(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let written = self.files.db.write_opt(batch, &unlogged());
        written.map_err(|e| self.files.error("write", &e))
    }

    fn write_if_large(&mut self) -> Result<()> {
        if self.batch.size_in_bytes() < BATCH_BYTES {
            return Ok(());
        }
        self.write()
    }
}

impl Sink for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.put_cf(self.family, key, value);
        self.write_if_large()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.batch.delete_cf(self.family, key);
        self.write_if_large()
    }
}

/// Into a file of its own.
struct File<'f, 'o> {
    files: &'f Files,
    writer: SstFileWriter<'o>,
}

impl Sink for File<'_, '_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let written = self.writer.put(key, value);
        written.map_err(|e| self.files.error("write", &e))
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let written = self.writer.delete(key);
        written.map_err(|e| self.files.error("write", &e))
    }
}

impl Writer<'_> {
    /// Writes changes that are sorted as the table is; none of them twice in a flush.
    pub(crate) fn run<'a>(
        &self,
        count: usize,
        changes: impl Iterator<Item = Write<'a>> + Clone,
    ) -> Result<()> {
        let kind = self.files.kind();
        let timed = matches!(kind, TableKind::Timed { .. });
        let mut value = Vec::new();
        let key_of = |entry: &Entry<'_>| file_key(timed, entry.group as u16, entry.time, entry.key);
        let sorted = changes.clone();
        self.fill(self.files.family(), count, |sink| {
            for change in sorted {
                match change {
                    Write::Put(entry) => {
                        file_value(kind, &entry, &mut value);
                        sink.put(&key_of(&entry), &value)?;
                    }
                    Write::Delete(entry) => sink.delete(&key_of(&entry))?,
                }
            }
            Ok(())
        })?;
        if kind == TableKind::Expiring {
            self.note_expiries(changes)?;
        }
        Ok(())
    }

    /// Notes of entries that were removed or expire later now stay behind: who reads the index asks the entry.
    fn note_expiries<'a>(&self, changes: impl Iterator<Item = Write<'a>>) -> Result<()> {
        let mut notes: Vec<(Vec<u8>, u16)> = changes
            .filter_map(|change| match change {
                Write::Put(entry) => Some((index_key(&entry), entry.group as u16)),
                Write::Delete(_) => None,
            })
            .collect();
        notes.sort_unstable();
        // The group is a function of the key.
        notes.dedup_by(|a, b| a.0 == b.0);
        self.fill(self.files.index_family(), notes.len(), |sink| {
            notes
                .iter()
                .try_for_each(|(key, group)| sink.put(key, &group.to_be_bytes()))
        })
    }

    /// Writes what `body` puts, about `count` changes.
    fn fill(
        &self,
        family: &ColumnFamily,
        count: usize,
        body: impl FnOnce(&mut dyn Sink) -> Result<()>,
    ) -> Result<()> {
        let files = &*self.files.files;
        if count < FILE_ROWS_MIN {
            let mut batch = Batch {
                files,
                family,
                batch: WriteBatch::default(),
            };
            body(&mut batch)?;
            return batch.write();
        }
        let failed = |e: rocksdb::Error| files.error("write", &e);
        let options = family_options();
        let path = files
            .dir
            .path()
            .join(format!("run-{}.sst", uuid::Uuid::new_v4()));
        let writer = SstFileWriter::create(&options);
        writer.open(&path).map_err(failed)?;
        let mut file = File { files, writer };
        body(&mut file)?;
        file.writer.finish().map_err(failed)?;
        let mut ingest = IngestExternalFileOptions::default();
        ingest.set_move_files(true);
        files
            .db
            .ingest_external_file_cf_opts(family, &ingest, vec![&path])
            .map_err(failed)
    }

    /// Removes what expired at or before `bound` and gives its space back.
    pub(crate) fn expire(&self, bound: i64) -> Result<()> {
        match self.files.kind() {
            TableKind::Timed { .. } => self.drop_until(self.files.family(), bound),
            TableKind::Expiring => {
                self.delete_expired(bound)?;
                self.drop_until(self.files.index_family(), bound)
            }
            TableKind::Keyed | TableKind::Ordered => Ok(()),
        }
    }

    fn delete_expired(&self, bound: i64) -> Result<()> {
        self.fill(self.files.family(), 0, |sink| {
            for row in self.files.expiring(i64::MIN, bound, |_, _| false) {
                let row = row?;
                sink.delete(&group_key(row.group, &row.key))?;
            }
            Ok(())
        })
    }

    fn drop_until(&self, family: &ColumnFamily, bound: i64) -> Result<()> {
        let files = &self.files.files;
        let from = time_bytes(i64::MIN);
        // Keys are longer than their time: what comes after the last possible time is after all of them.
        let to = after(bound).unwrap_or_else(|| vec![0xFF; 9]);
        let failed = |e: rocksdb::Error| files.error("delete from", &e);
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(family, &from[..], &to[..]);
        files.db.write_opt(batch, &unlogged()).map_err(failed)?;
        files
            .db
            .delete_file_in_range_cf(family, &from[..], &to[..])
            .map_err(failed)?;
        let range = [rocksdb::Range::new(&from, &to)];
        let left = files.db.get_approximate_sizes_cf(family, &range);
        if left.iter().sum::<u64>() > LEFT_BYTES_MAX {
            files
                .db
                .compact_range_cf(family, Some(&from[..]), Some(&to[..]));
        }
        Ok(())
    }
}
