//! The one Spark session of the tests: a Python process that takes commands, `server.py`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

struct Server {
    /// Ends when its input does, which is when this process does.
    _process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What Spark answers to a command.
///
/// # Panics
/// If Spark reports an error, or cannot be started.
pub(crate) fn ask(command: &Value) -> Value {
    let answer = server()
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .ask(command);
    assert!(answer.get("error").is_none(), "{command}: {answer}");
    answer
}

/// The rows of an answer.
pub(crate) fn rows(command: &Value) -> Vec<String> {
    serde_json::from_value(ask(command)["rows"].clone()).unwrap()
}

fn server() -> &'static Mutex<Server> {
    static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();
    SERVER.get_or_init(|| Mutex::new(Server::start()))
}

impl Server {
    fn start() -> Self {
        let python = std::env::var("WEIR_SPARK_PYTHON").expect(
            "WEIR_SPARK_PYTHON names a python with pyspark: run scripts/test-spark-exchange.sh",
        );
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spark/server.py");
        let mut process = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let mut server = Self {
            commands: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            _process: process,
        };
        println!("Spark {}", server.answer()["version"]);
        server
    }

    fn ask(&mut self, command: &Value) -> Value {
        writeln!(self.commands, "{command}").expect("Spark runs");
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("Spark runs");
        serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("Spark answers with JSON, not '{line}'"))
    }
}
