//! All cases of a directory: which are run, side by side, each in a thread and a directory of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::case::Case;
use crate::driver::Engine;
use crate::expressions::{self, Expressions};
use crate::judge::judge;
use crate::report::{AGREES, Entry, Status};
use crate::run::run;
use crate::scope::{self, CURRENT_STEP};
use crate::ways::{self, Way};

/// How many cases run side by side.
const THREADS: usize = 4;

/// What to run and how.
pub(crate) struct Suite {
    /// Holds one directory for each topic.
    pub(crate) directory: PathBuf,
    /// Only cases whose `topic/name` contains this.
    pub(crate) filter: String,
    /// Also the cases of steps that have not come.
    pub(crate) all: bool,
    /// Compare epoch by epoch, not only step by step.
    pub(crate) strict: bool,
    /// The ways stateful cases are run.
    pub(crate) ways: Vec<Way>,
    /// How long one case may take in one way.
    pub(crate) limit: Duration,
    /// Reasons by case.
    pub(crate) known: BTreeMap<String, String>,
}

impl Suite {
    /// Runs the cases; one entry each, by name.
    pub(crate) fn run(&self, engine: Option<&'static dyn Engine>) -> Result<Vec<Entry>, String> {
        let files = self.files()?;
        let next = AtomicUsize::new(0);
        let entries = Mutex::new(BTreeMap::new());
        thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| {
                    while let Some((case, file)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let entry = self.entry(case, file, engine);
                        let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                        entries.insert(case.clone(), entry);
                    }
                });
            }
        });
        let entries = entries.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(entries.into_values().collect())
    }

    /// The case files, as `topic/name` and path.
    fn files(&self) -> Result<Vec<(String, PathBuf)>, String> {
        let mut files = Vec::new();
        for topic in listing(&self.directory)? {
            if !topic.is_dir() {
                continue;
            }
            for file in listing(&topic)? {
                if file.extension().is_none_or(|extension| extension != "json") {
                    continue;
                }
                let case = format!("{}/{}", stem(&topic), stem(&file));
                if case.contains(&self.filter) {
                    files.push((case, file));
                }
            }
        }
        Ok(files)
    }

    fn entry(&self, name: &str, file: &Path, engine: Option<&'static dyn Engine>) -> Entry {
        let (status, why) = match Case::read(file) {
            Err(error) => (Status::Fail, error),
            Ok(case) => self.outcome(name, case, engine),
        };
        let expressions = self.expressions(name, file, &status, engine);
        Entry {
            case: name.to_owned(),
            status,
            why,
            expressions,
        }
    }

    /// The expressions of a case that was run; those of one that did not pass are run one by one.
    fn expressions(
        &self,
        name: &str,
        file: &Path,
        status: &Status,
        engine: Option<&'static dyn Engine>,
    ) -> Option<Expressions> {
        let (topic, engine) = (name.split('/').next().unwrap_or_default(), engine?);
        let case = Case::read(file).ok()?;
        if matches!(status, Status::NotYet { .. }) || !expressions::counts(topic, &case) {
            return None;
        }
        if *status == Status::Pass {
            return Some(Expressions::all_of(&case));
        }
        let mut counted = Expressions::default();
        for index in 1..case.columns.len() {
            let one = expressions::only(Case::read(file).ok()?, index);
            match self.in_all_ways(engine, topic, one) {
                Ok(_) => counted.passed += 1,
                Err(why) => counted.failed.push((case.columns[index].clone(), why)),
            }
        }
        Some(counted)
    }

    fn outcome(
        &self,
        name: &str,
        case: Case,
        engine: Option<&'static dyn Engine>,
    ) -> (Status, String) {
        let topic = name.split('/').next().unwrap_or_default().to_owned();
        let placed = scope::place(&topic, &case);
        if placed.step > CURRENT_STEP && !self.all {
            return (
                Status::NotYet { step: placed.step },
                format!("step {}: {}", placed.step, placed.why),
            );
        }
        let Some(engine) = engine else {
            return (Status::Fail, "no engine is connected".to_owned());
        };
        let result = self.in_all_ways(engine, &topic, case);
        match (result, self.known.get(name)) {
            (Ok(_), Some(_)) => (Status::Pass, AGREES.to_owned()),
            (Ok(remark), None) => (Status::Pass, remark),
            (Err(_), Some(reason)) => (Status::KnownDifference, reason.clone()),
            (Err(difference), None) => (Status::Fail, difference),
        }
    }

    /// The remark of the first way, or the first difference.
    fn in_all_ways(
        &self,
        engine: &'static dyn Engine,
        topic: &str,
        case: Case,
    ) -> Result<String, String> {
        let stateful = scope::is_stateful(topic, &case);
        let wanted = |way: &Way| match *way {
            Way::Straight => !stateful || self.ways.contains(way),
            _ => stateful && self.ways.contains(way) && way.suits(&case),
        };
        let ways: Vec<Way> = ways::ALL.into_iter().filter(wanted).collect();
        let (case, mut remark) = (Arc::new(case), None);
        for way in ways {
            let what = One {
                engine,
                topic: topic.to_owned(),
                case: Arc::clone(&case),
                way,
                strict: self.strict,
            };
            let told = limited(what, self.limit).map_err(|difference| match way {
                Way::Straight => difference,
                way => format!("{}: {difference}", way.name()),
            })?;
            remark.get_or_insert(told);
        }
        Ok(remark.unwrap_or_default())
    }
}

/// One case in one way.
struct One {
    engine: &'static dyn Engine,
    topic: String,
    case: Arc<Case>,
    way: Way,
    strict: bool,
}

impl One {
    fn run(&self) -> Result<String, String> {
        let home = home().map_err(|e| format!("a directory for the case: {e}"))?;
        let running = run(self.engine, &self.case, self.way, home.path());
        let seen = actix_rt::System::new().block_on(running)?;
        judge(&self.topic, &self.case, &seen, self.strict)
    }
}

/// A directory, in memory where the system has a place for that: waiting for a disk is no part of what the cases are about.
fn home() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

fn listing(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let error = |e: std::io::Error| format!("{}: {e}", directory.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(error)? {
        paths.push(entry.map_err(error)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Runs a case in a thread of its own. A thread that does not come back is left behind: it may be stuck
/// in the engine, and the report must come all the same.
fn limited(what: One, limit: Duration) -> Result<String, String> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new()
        .name(what.case.name.clone())
        .spawn(move || sender.send(what.run()).ok())
        .map_err(|e| format!("starting a thread: {e}"))?;
    match receiver.recv_timeout(limit) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(format!("no end after {} s", limit.as_secs())),
        Err(RecvTimeoutError::Disconnected) => Err(match thread.join() {
            Ok(_) => "the thread of the case ended without a result".to_owned(),
            Err(panic) => format!("panicked: {}", panic_text(&*panic)),
        }),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
