//! The thread that reads the connection.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use weir_runtime::{Clock, Result, WeirError};

use crate::actor::ActorHandle;

/// How often the thread looks whether its query is still there.
const PATIENCE: Duration = Duration::from_millis(200);
/// A longer line ends the connection, because memory does too.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Reads until the other side closes or the query is gone.
pub(super) fn spawn(
    stream: TcpStream,
    address: String,
    handle: ActorHandle,
    clock: Arc<dyn Clock>,
) -> Result<()> {
    stream.set_read_timeout(Some(PATIENCE)).map_err(|error| {
        WeirError::external(format!("source 'socket' cannot set up '{address}'")).with_source(error)
    })?;
    let reader = Reader {
        stream,
        handle,
        clock,
        rest: Vec::new(),
    };
    let thread = std::thread::Builder::new().name("weir-socket".to_owned());
    thread
        .spawn(move || reader.run(&address))
        .map(drop)
        .map_err(|error| {
            WeirError::external("the thread of source 'socket' cannot be started")
                .with_source(error)
        })
}

struct Reader {
    stream: TcpStream,
    handle: ActorHandle,
    clock: Arc<dyn Clock>,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
}

impl Reader {
    fn run(mut self, address: &str) {
        let mut buffer = vec![0; 64 << 10];
        while !self.handle.is_closed() {
            let ended = match self.stream.read(&mut buffer) {
                Ok(0) => "the other side closed the connection".to_owned(),
                Ok(count) => match self.take(&buffer[..count]) {
                    Ok(()) => continue,
                    Err(error) => error.to_string(),
                },
                Err(error) if is_pause(error.kind()) => continue,
                Err(error) => error.to_string(),
            };
            if let Err(error) = self.end() {
                tracing::warn!(%address, %error, "last line of source 'socket' is lost");
            }
            tracing::warn!(%address, reason = %ended, "source 'socket' reads no more");
            return;
        }
    }

    /// Hands over the lines that end in these bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(last) = memchr::memrchr(b'\n', bytes) else {
            self.rest.extend_from_slice(bytes);
            return match self.rest.len() > MAX_LINE_BYTES {
                true => Err(WeirError::data(format!(
                    "a line is longer than {MAX_LINE_BYTES} bytes"
                ))),
                false => Ok(()),
            };
        };
        let mut text = std::mem::take(&mut self.rest);
        text.extend_from_slice(&bytes[..last]);
        self.rest.extend_from_slice(&bytes[last + 1..]);
        self.send(&text)
    }

    /// The connection ended; a line without an end counts.
    fn end(&mut self) -> Result<()> {
        let text = std::mem::take(&mut self.rest);
        match text.is_empty() {
            true => Ok(()),
            false => self.send(&text),
        }
    }

    fn send(&self, text: &[u8]) -> Result<()> {
        let lines = text.split(|byte| *byte == b'\n').map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            Some(String::from_utf8_lossy(line).into_owned())
        });
        let values: StringArray = lines.collect();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(values)];
        if self.handle.schema().fields().len() > 1 {
            let micros = self.clock.now_ms().saturating_mul(1_000);
            let times = TimestampMicrosecondArray::from(vec![micros; columns[0].len()]);
            columns.push(Arc::new(times.with_timezone("UTC")));
        }
        let batch = RecordBatch::try_new(self.handle.schema(), columns)?;
        futures::executor::block_on(self.handle.send(batch))
    }
}

fn is_pause(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
