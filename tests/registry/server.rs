//! A real registry, one for all tests that do not stop theirs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

static SHARED: LazyLock<Server> = LazyLock::new(Server::start);

/// A registry and where it is. It ends with this process at the latest.
pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
}

impl Server {
    /// The one that tests share.
    pub(crate) fn shared() -> &'static Server {
        &SHARED
    }

    pub(crate) fn start() -> Server {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kafka/registry");
        let parent = std::process::id().to_string();
        let mut child = Command::new(script)
            .args(["run", "--parent", &parent])
            .stdout(Stdio::piped())
            .spawn()
            .expect("scripts/kafka/registry starts");
        let mut url = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut url).expect("a line");
        let url = url.trim().to_owned();
        assert!(
            url.starts_with("http://127.0.0.1:"),
            "scripts/kafka/registry failed, see above"
        );
        Server { url, child }
    }

    /// Ends the registry at once.
    pub(crate) fn stop(&mut self) {
        self.child.kill().expect("the registry ends");
        self.child.wait().expect("the registry has ended");
    }

    /// The id of a schema under a subject.
    pub(crate) fn register(&self, subject: &str, schema: &str) -> u32 {
        let answer = self.post(
            &format!("subjects/{subject}/versions"),
            &json!({"schema": schema}),
        );
        u32::try_from(answer["id"].as_u64().expect("an id")).expect("a small id")
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let mut answer = ureq::get(format!("{}/{path}", self.url))
            .call()
            .expect("an answer");
        answer.body_mut().read_json().expect("JSON")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let request = ureq::post(format!("{}/{path}", self.url));
        let mut answer = request
            .content_type("application/json")
            .send(body.to_string())
            .expect("an answer");
        answer.body_mut().read_json().expect("JSON")
    }

    pub(crate) fn put(&self, path: &str, body: &Value) {
        let request = ureq::put(format!("{}/{path}", self.url));
        request
            .content_type("application/json")
            .send(body.to_string())
            .expect("an answer");
    }
}
