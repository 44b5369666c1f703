//! Files as sources and sinks, through the public interface: formats, options, bad bytes, strange names, and the field cases about
//! them.

mod cases;
mod cleaning;
mod formats;
mod objects;
mod options;
mod orc;
mod parsing;
mod partitions;
mod sinks;
mod sources;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use weir::prelude::*;

use crate::field::stage::texts;
use crate::support::{Home, session};

/// A directory of files that one stream reads, epoch by epoch.
struct Reading {
    home: Home,
    format: &'static str,
    schema: Option<&'static str>,
    options: Vec<(&'static str, String)>,
    /// Parts of a SELECT; `*` unless set.
    select: Vec<&'static str>,
}

impl Reading {
    fn new(format: &'static str, schema: &'static str) -> Self {
        let home = Home::new();
        std::fs::create_dir_all(home.path("in")).unwrap();
        Self {
            home,
            format,
            schema: Some(schema),
            options: Vec::new(),
            select: vec!["*"],
        }
    }

    fn option(mut self, name: &'static str, value: impl ToString) -> Self {
        self.options.push((name, value.to_string()));
        self
    }

    fn select(mut self, columns: &[&'static str]) -> Self {
        self.select = columns.to_vec();
        self
    }

    /// A file of the input directory.
    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let staged = self.home.path("staged");
        std::fs::write(&staged, content).unwrap();
        std::fs::rename(staged, &path).unwrap();
        path
    }

    fn frame(&self, session: &Session) -> Result<DataFrame> {
        let mut reader = session.read_stream().format(self.format);
        if let Some(schema) = self.schema {
            reader = reader.schema(schema);
        }
        for (name, value) in &self.options {
            reader = reader.option(name, value);
        }
        reader
            .load(&self.home.text("in"))?
            .select_expr(&self.select)
    }

    /// Runs a query of its own session until everything that is there is read; the rows, those of an epoch sorted, and what the
    /// query says of itself.
    async fn try_read(&self) -> Result<(Vec<String>, StreamingQuery)> {
        let session = session();
        let rows = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&rows);
        let query = self
            .frame(&session)?
            .write_stream()
            .checkpoint(&self.home.text("checkpoint"))
            .trigger(Trigger::AvailableNow)
            .foreach_batch(move |frame, _| {
                let taken = Arc::clone(&taken);
                async move {
                    let batches = frame.collect().await?;
                    let mut texts: Vec<String> = batches.iter().flat_map(texts).collect();
                    texts.sort();
                    taken.lock().unwrap().append(&mut texts);
                    Ok(())
                }
            })
            .start()
            .await?;
        query.await_termination().await?;
        let rows = std::mem::take(&mut *rows.lock().unwrap());
        Ok((rows, query))
    }

    async fn read(&self) -> Vec<String> {
        self.try_read().await.unwrap().0
    }

    /// The error a run ends with.
    async fn failure(&self) -> WeirError {
        self.try_read().await.map(|(rows, _)| rows).unwrap_err()
    }
}

/// Bad records of a run, over all epochs.
fn bad_records(query: &StreamingQuery) -> u64 {
    let progress = query.recent_progress();
    let counts = progress
        .iter()
        .map(|told| &told.sources[0].metrics["badRecords"]);
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

/// Files below a directory, hidden ones left out, as paths relative to it.
fn files_below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with(['_', '.']) {
                continue;
            }
            match path.is_dir() {
                true => todo.push(path),
                false => found.push(path.strip_prefix(dir).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

/// Sets the time of modification of a file, seconds before now.
fn set_age(path: &Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let now = std::fs::metadata(path).unwrap().modified().unwrap();
    file.set_modified(now - std::time::Duration::from_secs(seconds))
        .unwrap();
}
