//! Real Kafka brokers for tests, run by `scripts/kafka/broker`; they end with the test process, however that ends.
//!
//! Tests that can share a broker take [`Broker::shared`] and topics with names of their own; tests that kill it, or need three or
//! TLS, start theirs. Where Java is missing the test fails and says what to install; it is never skipped.

#![allow(
    dead_code,
    reason = "each test binary that takes this module uses a part of it"
)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// Directories of clusters stand in the directory for temporary files, named after this, the process and a number.
const PREFIX: &str = "weir-kafka-";

/// A cluster of one or three brokers that listen on 127.0.0.1. Dropping it kills them and removes their data; a test that fails
/// leaves the directory with their logs behind, until another test process starts a cluster.
pub(crate) struct Broker {
    directory: PathBuf,
    /// `cluster.json` as it was when the brokers had started; only pids change after that.
    cluster: Value,
}

/// What a client needs for the listener with TLS and SASL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Secured {
    /// `host:port`, with commas between several.
    pub(crate) bootstrap: String,
    /// The file with the certificate of the authority, as PEM.
    pub(crate) ca: PathBuf,
    /// Of SCRAM-SHA-512 and of PLAIN alike.
    pub(crate) user: String,
    /// The user's.
    pub(crate) password: String,
}

impl Broker {
    /// The one broker of this test binary, started by the first test that asks.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A broker of the test's own.
    pub(crate) fn start() -> Self {
        Self::launch(&[])
    }

    /// Three brokers: topics can have three replicas, and one broker may die.
    pub(crate) fn start_three() -> Self {
        Self::launch(&["--brokers", "3"])
    }

    /// A broker with one more listener, see [`Broker::secured`].
    pub(crate) fn start_secured() -> Self {
        Self::launch(&["--tls-sasl"])
    }

    fn launch(options: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        remove_what_ended_processes_left();
        let directory = std::env::temp_dir().join(format!("{PREFIX}{process}-{number}"));
        // Of an earlier process with the same number.
        drop(fs::remove_dir_all(&directory));
        run(&["install"], None);
        let parent = process.to_string();
        let mut start = vec!["start", "--dir", text(&directory), "--parent", &parent];
        start.extend(options);
        run(&start, None);
        let file = fs::read(directory.join("cluster.json")).expect("a started cluster has a file");
        let cluster = serde_json::from_slice(&file).expect("the script writes JSON");
        Self { directory, cluster }
    }

    /// `host:port` of the listener without any security, with commas between several.
    pub(crate) fn bootstrap(&self) -> &str {
        self.entry("bootstrap")
    }

    /// The listener with TLS and SASL.
    ///
    /// # Panics
    /// Unless the cluster was started with [`Broker::start_secured`].
    pub(crate) fn secured(&self) -> Secured {
        Secured {
            bootstrap: self.entry("sasl_bootstrap").to_owned(),
            ca: self.entry("ca").into(),
            user: self.entry("user").to_owned(),
            password: self.entry("password").to_owned(),
        }
    }

    /// Ends a broker at once, as a crash does. Brokers are numbered from 1.
    pub(crate) fn kill(&self, id: u32) {
        self.script("kill", &["--broker", &id.to_string()], None);
    }

    /// Ends a broker in order; its partitions move to other brokers, if there are any.
    pub(crate) fn stop(&self, id: u32) {
        self.script("stop", &["--broker", &id.to_string()], None);
    }

    /// Starts a broker again where it was, with its data, stopping it first if it runs. Returns when it is in service; after a kill
    /// that takes until the others, or it itself, count the one before as dead: some seconds.
    pub(crate) fn restart(&self, id: u32) {
        self.script("restart", &["--broker", &id.to_string()], None);
    }

    /// Sends lines by Kafka's own client. Each is a value, or, with a separator, a key and a value.
    pub(crate) fn produce(&self, topic: &str, key_separator: Option<&str>, lines: &[&str]) {
        let mut arguments = vec![topic];
        if let Some(separator) = key_separator {
            arguments.extend(["--key-separator", separator]);
        }
        self.script("produce", &arguments, Some(&(lines.join("\n") + "\n")));
    }

    /// What Kafka's own client reads of a topic from its beginning, with the guarantee `read_committed`: the values of as many records
    /// as asked for, or fewer if none comes for five seconds. Partitions mix.
    pub(crate) fn consume(&self, topic: &str, most: usize) -> Vec<String> {
        let most = most.to_string();
        let mut arguments = vec![topic, "--max", &most];
        arguments.extend(["--isolation", "read_committed", "--timeout", "5"]);
        let values = self.script("consume", &arguments, None);
        values.lines().map(str::to_owned).collect()
    }

    /// What a broker has said so far.
    pub(crate) fn log(&self, id: u32) -> String {
        let path = self.directory.join(id.to_string()).join("broker.log");
        String::from_utf8_lossy(&fs::read(path).expect("a broker's log")).into_owned()
    }

    /// Holds a broker where it is: it keeps its connections and answers nobody.
    pub(crate) fn pause(&self, id: u32) {
        self.signal(id, "-STOP");
    }

    /// Lets a broker that was held go on.
    pub(crate) fn resume(&self, id: u32) {
        self.signal(id, "-CONT");
    }

    fn signal(&self, id: u32, name: &str) {
        let mut kill = Command::new("kill");
        let sent = kill.args([name, &self.pid(id).to_string()]).status();
        assert!(sent.expect("kill runs").success(), "broker {id} is gone");
    }

    fn pid(&self, id: u32) -> u32 {
        let file =
            fs::read(self.directory.join("cluster.json")).expect("a started cluster has a file");
        let cluster: Value = serde_json::from_slice(&file).expect("the script writes JSON");
        let brokers = cluster["brokers"].as_array().into_iter().flatten();
        let mut own = brokers.filter(|broker| broker["id"] == id);
        let pid = own.next().and_then(|broker| broker["pid"].as_u64());
        u32::try_from(pid.expect("a broker that runs")).expect("a process")
    }

    fn entry(&self, key: &str) -> &str {
        let found = self.cluster.get(key).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("no {key} in {}", self.cluster))
    }

    fn script(&self, command: &str, arguments: &[&str], input: Option<&str>) -> String {
        let mut all = vec![command, "--dir", text(&self.directory)];
        all.extend(arguments);
        run(&all, input)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Whatever goes wrong here, the brokers end with this process.
        let killed = attempt(&["kill", "--dir", text(&self.directory)], None);
        if killed.is_ok() && !std::thread::panicking() {
            drop(fs::remove_dir_all(&self.directory));
        }
    }
}

/// Runs the script with an input and returns its standard output.
fn run(arguments: &[&str], input: Option<&str>) -> String {
    attempt(arguments, input).unwrap_or_else(|why| {
        panic!(
            "scripts/kafka/broker {} failed: {why}\nTests with Kafka need Python 3, Java 17, openssl and, once, Maven. On Debian: \
             apt-get install python3 default-jre-headless openssl maven",
            arguments.join(" ")
        )
    })
}

fn attempt(arguments: &[&str], input: Option<&str>) -> Result<String, String> {
    let mut child = Command::new(script())
        .args(arguments)
        .stdin(input.map_or_else(Stdio::null, |_| Stdio::piped()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // A script that fails early reads no input; it says why itself.
        drop(pipe.write_all(input.as_bytes()));
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Whichever crate of the workspace takes this module, the script stands below the workspace.
fn script() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut candidates = package
        .ancestors()
        .map(|above| above.join("scripts/kafka/broker"));
    candidates
        .find(|path| path.exists())
        .expect("scripts/kafka/broker in the workspace")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

/// Test processes that were killed, and every [`Broker::shared`], leave their directories.
fn remove_what_ended_processes_left() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str());
        let process = name
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'))
            .and_then(|(process, _)| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            drop(fs::remove_dir_all(path));
        }
    }
}
