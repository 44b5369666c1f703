//! A server before the server, which loses answers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::bucket::endpoint;

/// What the proxy knows.
#[derive(Default)]
struct State {
    /// Beginnings of requests whose answers are lost, each once.
    losing: Mutex<Vec<String>>,
    ended: AtomicBool,
}

/// Passes requests on, one for each connection, to the server of the tests.
pub(crate) struct Proxy {
    pub(crate) endpoint: String,
    address: std::net::SocketAddr,
    state: Arc<State>,
}

impl Proxy {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let known = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if known.ended.load(Ordering::SeqCst) {
                    return;
                }
                let known = Arc::clone(&known);
                // A client may go away at any time.
                std::thread::spawn(move || client.and_then(|client| known.pass(client)).ok());
            }
        });
        Self {
            endpoint: format!("http://{address}"),
            address,
            state,
        }
    }

    /// Loses the answer to the next request that begins so: the server does what it asks, and the client hears of an error.
    pub(crate) fn lose(&self, beginning: &str) {
        self.state.losing.lock().unwrap().push(beginning.to_owned());
    }

    /// Answers that are still to be lost.
    pub(crate) fn losing(&self) -> usize {
        self.state.losing.lock().unwrap().len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Wakes the listener.
        drop(TcpStream::connect(self.address));
    }
}

impl State {
    fn pass(&self, mut client: TcpStream) -> std::io::Result<()> {
        let (head, body) = request(&mut client)?;
        let address = endpoint();
        let mut server = TcpStream::connect(address.trim_start_matches("http://"))?;
        server.write_all(head.as_bytes())?;
        server.write_all(&body)?;
        // The server closes a connection when it has answered.
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        if self.takes(&head) {
            answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
        }
        client.write_all(&answer)
    }

    fn takes(&self, head: &str) -> bool {
        let mut losing = self.losing.lock().unwrap();
        let found = losing.iter().position(|part| head.starts_with(part));
        found.map(|found| losing.remove(found)).is_some()
    }
}

/// Head and body of a request.
fn request(client: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut part = [0; 8192];
    let end = loop {
        let read = client.read(&mut part)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..read]);
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let mut body = bytes.split_off(end);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    while body.len() < length.unwrap_or(0) {
        let read = client.read(&mut part)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        body.extend_from_slice(&part[..read]);
    }
    Ok((head, body))
}
