//! The client against a server that answers as it is told: what a real registry cannot be made to do on demand. How it gets on with a
//! real one is tested in `tests/registry`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::{header, split};
use crate::functions::testing::{as_json, column, error, session};

const SCHEMA: &str = r#"{"schema":"\"int\"","id":3,"version":1,"subject":"s"}"#;

/// A server on a port of its own; it ends with the test's process.
struct Server {
    url: String,
    /// Method, path and authorization of each request.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers the request of a number (from 0) with a status and a body.
    fn start(answer: impl Fn(usize, &str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let seen = Arc::new(Mutex::new(vec![]));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().take(1000) {
                let mut stream = stream.expect("connection");
                let request = read(&mut stream);
                let number = {
                    let mut log = log.lock().expect("log");
                    log.push(request.clone());
                    log.len() - 1
                };
                let (status, body) = answer(number, &request);
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                // The client may be gone already: that is what some tests are about.
                drop(stream.write_all(text.as_bytes()));
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("log").clone()
    }

    fn call(&self, options: &str) -> String {
        format!(
            "from_avro(b, 's', map('schema.registry.url', '{}'{options}))",
            self.url
        )
    }
}

/// Method, path and authorization of one request; its body is read and dropped.
fn read(stream: &mut TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut first, mut authorization, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).expect("request");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("header");
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').expect("header");
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = format!(" {}", value.trim()),
            "content-length" => length = value.trim().parse().expect("length"),
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("body");
    format!(
        "{}{authorization}",
        first.trim_end().trim_end_matches(" HTTP/1.1")
    )
}

fn known(_: usize, _: &str) -> (u16, String) {
    (200, SCHEMA.to_owned())
}

fn payload(id: u32, body: &[u8]) -> Option<Vec<u8>> {
    Some([&header(id), body].concat())
}

#[test]
fn headers_are_split_and_made() {
    let made = payload(258, &[7]).expect("payload");
    assert_eq!(split(&made), Ok((258, &[7_u8][..])));
    for broken in [&[][..], &[0, 0, 0], &[1, 0, 0, 0, 1, 2]] {
        assert!(split(broken).is_err(), "{broken:?}");
    }
}

#[tokio::test]
async fn each_id_is_asked_for_once() {
    let server = Server::start(known);
    let payloads: Vec<_> = (0..50).map(|i| payload([3, 4][i % 2], &[2])).collect();
    let ctx = session(&payloads, 7);
    let sql = format!("SELECT {} FROM t", server.call(""));
    let (_, values) = column(&ctx, &sql).await.expect("rows");
    assert_eq!(values.len(), 50);
    // The reader's schema brought id 3 along.
    assert_eq!(
        server.seen(),
        ["GET /subjects/s/versions/latest", "GET /schemas/ids/4"]
    );
}

#[tokio::test]
async fn credentials_are_sent_and_never_shown() {
    let cases = [
        (
            ", 'basic.auth.user.info', 'me:s3cret'",
            "Basic bWU6czNjcmV0",
        ),
        (", 'bearer.auth.token', 's3cret'", "Bearer s3cret"),
    ];
    for (options, expected) in cases {
        let server = Server::start(known);
        let ctx = session(&[payload(3, &[2])], 1);
        let sql = format!("SELECT {} FROM t", server.call(options));
        let plan = crate::plan_query(&ctx, &sql).await.expect("plan");
        let shown = format!(
            "{} {plan:?} {:?}",
            plan.display_indent_schema(),
            plan.schema()
        );
        assert!(
            !shown.contains("s3cret") && !shown.contains("czNjcmV0"),
            "{shown}"
        );
        assert!(shown.contains(&server.url), "{shown}");
        column(&ctx, &sql).await.expect("rows");
        assert!(
            server.seen().iter().all(|s| s.ends_with(expected)),
            "{:?}",
            server.seen()
        );
    }
    // Those inside of the address count as well, and are not shown either.
    let server = Server::start(|_, _| (403, r#"{"message":"go away"}"#.to_owned()));
    let address = server.url.replace("http://", "http://me:s3cret@");
    let call = format!("from_avro(b, 's', map('schema.registry.url', '{address}'))");
    let (condition, message) = error(&[], &call).await;
    assert_eq!(condition, "SCHEMA_REGISTRY");
    assert!(
        message.contains("status 403: go away") && !message.contains("s3cret"),
        "{message}"
    );
    assert_eq!(
        server.seen(),
        ["GET /subjects/s/versions/latest Basic bWU6czNjcmV0"],
        "no second attempt"
    );
}

#[tokio::test]
async fn what_passes_is_tried_again_and_then_given_up() {
    let busy = Server::start(|n, _| {
        if n < 2 {
            (503, "no JSON".to_owned())
        } else {
            (200, SCHEMA.to_owned())
        }
    });
    let (_, rows) = as_json(&[payload(3, &[2])], &busy.call(""))
        .await
        .expect("rows");
    assert_eq!(rows, [Some("1".to_owned())]);
    let dead = Server::start(|_, _| (500, r#"{"message":"broken"}"#.to_owned()));
    let (_, message) = error(&[], &dead.call(", 'schema.registry.retries', '1'")).await;
    assert!(
        message.contains("no answer after 2 attempts") && message.contains("status 500: broken"),
        "{message}"
    );
    assert_eq!(dead.seen().len(), 2);
    // The second address helps if the first does not answer.
    let good = Server::start(known);
    let both = format!(
        "from_avro(b, 's', map('schema.registry.url', '{}, {}', 'schema.registry.retries', '0'))",
        dead.url, good.url
    );
    as_json(&[payload(3, &[2])], &both).await.expect("rows");
}

#[tokio::test]
async fn a_registry_that_does_not_answer_costs_what_the_options_say() {
    let silent = Server::start(|_, _| {
        std::thread::sleep(std::time::Duration::from_secs(5));
        (200, SCHEMA.to_owned())
    });
    let options = ", 'schema.registry.timeout.ms', '100', 'schema.registry.retries', '1'";
    let (condition, message) = tokio::time::timeout(
        std::time::Duration::from_secs(4),
        error(&[], &silent.call(options)),
    )
    .await
    .expect("an error in time");
    assert_eq!(condition, "SCHEMA_REGISTRY");
    assert!(
        message.contains("2 attempts") && message.contains("timeout"),
        "{message}"
    );
}

#[tokio::test]
async fn that_the_registry_fails_is_no_fault_of_the_payload() {
    let answer = |n: usize, _: &str| match n {
        0 => (200, SCHEMA.to_owned()),
        _ => (500, "{}".to_owned()),
    };
    let server = Server::start(answer);
    let call = server.call(", 'mode', 'PERMISSIVE', 'schema.registry.retries', '0'");
    let (condition, message) = error(&[payload(9, &[2])], &call).await;
    assert_eq!(condition, "SCHEMA_REGISTRY", "{message}");
}

#[tokio::test]
async fn an_id_that_is_unknown_is_a_bad_payload_and_asked_for_again() {
    let answer = |_: usize, request: &str| match request.contains("/ids/9") {
        true => (
            404,
            r#"{"error_code":40403,"message":"Schema not found"}"#.to_owned(),
        ),
        false => (200, SCHEMA.to_owned()),
    };
    let server = Server::start(answer);
    let payloads = [payload(3, &[2]), payload(9, &[2]), payload(9, &[4])];
    let (condition, message) = error(&payloads, &server.call("")).await;
    assert_eq!(condition, "MALFORMED_AVRO_MESSAGE");
    assert!(
        message.contains("row 1 of the batch")
            && message.contains("schema 9: status 404: Schema not found"),
        "{message}"
    );
    let permissive = server.call(", 'mode', 'PERMISSIVE'");
    let (_, rows) = as_json(&payloads, &permissive).await.expect("rows");
    assert_eq!(rows, [Some("1".to_owned()), None, None]);
    // A page that is not the protocol's says that the address is wrong, not that the id is unknown.
    let other = Server::start(|n, _| {
        if n == 0 {
            (200, SCHEMA.to_owned())
        } else {
            (404, "<html>".to_owned())
        }
    });
    let (condition, _) = error(&payloads[1..], &other.call(", 'mode', 'PERMISSIVE'")).await;
    assert_eq!(condition, "SCHEMA_REGISTRY");
}

#[tokio::test]
async fn rubbish_of_ever_new_ids_ends_the_batch() {
    let answer = |n: usize, _: &str| match n {
        0 => (200, SCHEMA.to_owned()),
        _ => (
            404,
            r#"{"error_code":40403,"message":"Schema not found"}"#.to_owned(),
        ),
    };
    let server = Server::start(answer);
    let payloads: Vec<_> = (1000..1200).map(|id| payload(id, &[2])).collect();
    let (_, message) = error(&payloads, &server.call(", 'mode', 'PERMISSIVE'")).await;
    assert!(message.contains("more than 100 schemas"), "{message}");
}

#[tokio::test]
async fn options_that_cannot_be_are_refused_before_anything_is_asked() {
    let server = Server::start(known);
    let cases = [
        ", 'basic.auth.user.info', 'noseparator'",
        ", 'basic.auth.user.info', 'a:b', 'bearer.auth.token', 'x'",
        ", 'schema.registry.timeout.ms', '0'",
        ", 'schema.registry.retries', '99'",
        ", 'schema.registry.version', 'newest'",
        ", 'schema.registry.subject', 'other'",
        ", 'schema.registry.ssl.ca.location', '/nowhere/ca.pem'",
        ", 'schema.registry.ulr', 'x'",
    ];
    for options in cases {
        let (condition, message) = error(&[], &server.call(options)).await;
        assert!(
            condition.starts_with("INVALID_OPTIONS"),
            "{options}: {condition} {message}"
        );
    }
    let (condition, _) = error(
        &[],
        "from_avro(b, 's', map('schema.registry.url', 'ftp://x'))",
    )
    .await;
    assert_eq!(condition, "INVALID_OPTIONS.VALUE");
    let nameless = server.call("").replace("'s'", "''");
    let (_, message) = error(&[], &nameless).await;
    assert!(
        message.contains("a subject of the schema registry is needed"),
        "{message}"
    );
    assert!(server.seen().is_empty(), "{:?}", server.seen());
}
