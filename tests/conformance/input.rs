//! Files that a case's rows become, and the place they appear in.
//!
//! Every file is written aside, given a modification time later than that of every file before it, and
//! renamed into its source's directory: a reader sees a whole file or none, and always the same order.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::case::{Case, Step, added_files, lines};

/// Modification time of the first file, unix seconds.
const FIRST_FILE_SECONDS: u64 = 1_700_000_000;
/// Between one file and the next.
const STEP_SECONDS: u64 = 10;

/// The files of one case, below one directory.
pub(crate) struct Inbox {
    home: PathBuf,
    files: u64,
}

/// A finished file that is not yet in its place.
#[derive(Debug)]
pub(crate) struct Staged {
    from: PathBuf,
    to: PathBuf,
}

impl Inbox {
    /// Makes the sources' directories, all empty, and the tables' files.
    pub(crate) fn create(case: &Case, home: &Path) -> Result<Self, String> {
        for name in case.sources.keys() {
            let directory = source_directory(home, name);
            fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        }
        for (name, table) in &case.tables {
            let file = table_file(home, name);
            let directory = home.join("tables");
            fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
            write_lines(&file, &lines(&table.rows)?)?;
        }
        Ok(Self {
            home: home.to_owned(),
            files: 0,
        })
    }

    /// Writes the files of an `add`, oldest first, without showing them.
    pub(crate) fn stage(&mut self, step: &Step) -> Result<Vec<Staged>, String> {
        let Step::Add(added) = step else {
            return Ok(Vec::new());
        };
        let mut staged = Vec::new();
        for (source, rows) in added {
            for file in added_files(rows)? {
                staged.push(self.stage_file(source, &file)?);
            }
        }
        Ok(staged)
    }

    fn stage_file(&mut self, source: &str, lines: &[String]) -> Result<Staged, String> {
        self.files += 1;
        let from = self.home.join(format!("staged-{}", self.files));
        let name = format!("part-{:05}", self.files);
        let age = Duration::from_secs(FIRST_FILE_SECONDS + STEP_SECONDS * self.files);
        write_lines(&from, lines)?;
        File::options()
            .write(true)
            .open(&from)
            .and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH + age))
            .map_err(|e| format!("{}: {e}", from.display()))?;
        Ok(Staged {
            from,
            to: source_directory(&self.home, source).join(name),
        })
    }
}

/// Shows the files, one rename each.
pub(crate) fn place(staged: &[Staged]) -> Result<(), String> {
    for file in staged {
        fs::rename(&file.from, &file.to).map_err(|e| format!("{}: {e}", file.to.display()))?;
    }
    Ok(())
}

/// Where the files of a source appear.
pub(crate) fn source_directory(home: &Path, source: &str) -> PathBuf {
    home.join("in").join(source)
}

/// Where the rows of a table are, one JSON object a line.
pub(crate) fn table_file(home: &Path, table: &str) -> PathBuf {
    home.join("tables").join(format!("{table}.json"))
}

fn write_lines(path: &Path, lines: &[String]) -> Result<(), String> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for line in lines {
            file.write_all(line.as_bytes())?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|e| format!("{}: {e}", path.display()))
}
