//! Lines of text from a TCP connection: Spark's source `socket`, for trying things out.
//!
//! **What is lost.** The sender cannot be asked for a line again. Lines that were read and not committed are gone with the process, and
//! so are lines sent while nobody reads; a warning says so when the query starts. Within the process, an epoch that fails is
//! replayed with the same lines.

mod lines;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use weir_runtime::{
    Admission, Backlog, Epoch, Fingerprint, Offset, Result, Source, SourceContext, SourceReader,
    Split, WeirError,
};

use crate::actor::{ActorHandle, ActorSource, channel};
use crate::options::{OptionSpec, Options, spec};

/// Options of source `socket`.
pub const OPTIONS: &[OptionSpec] = &[
    spec("host", "", "name or address that is connected to; required"),
    spec("port", "", "TCP port; required"),
    spec(
        "includeTimestamp",
        "false",
        "add the column timestamp: when the line was read",
    ),
    spec("numPartitions", "1", "splits of each epoch"),
];

/// Lines that may wait to be committed; the sender is held back beyond that.
const CAPACITY_ROWS: u32 = 100_000;
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads lines of UTF-8 from a TCP connection, which it opens when the query starts: `value STRING`, and `timestamp TIMESTAMP` if
/// wanted. The query goes on, without new rows, when the other side closes.
pub struct SocketSource {
    address: String,
    schema: SchemaRef,
    /// Taken when the query starts.
    handle: Option<ActorHandle>,
    lines: ActorSource,
}

impl SocketSource {
    /// Lines from `host:port`.
    #[must_use]
    pub fn new(host: &str, port: u16, include_timestamp: bool) -> Self {
        let mut fields = vec![Field::new("value", DataType::Utf8, true)];
        if include_timestamp {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            fields.push(Field::new("timestamp", micros, true));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let (handle, lines) = channel(Arc::clone(&schema), CAPACITY_ROWS);
        Self {
            address: format!("{host}:{port}"),
            schema,
            handle: Some(handle),
            lines,
        }
    }

    /// From Spark's options, [`OPTIONS`]. Names in any letter case.
    ///
    /// # Errors
    /// A missing host or port, an unknown option, a value that is not allowed.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self> {
        let given = Options::new("source 'socket'", OPTIONS, options)?;
        let missing = |name: &str, what: &str| {
            WeirError::config(format!(
                "source 'socket' needs the option '{name}', allowed: {what}"
            ))
        };
        let host = given
            .text("host")
            .filter(|host| !host.trim().is_empty())
            .ok_or_else(|| missing("host", "a name or address"))?;
        let port: Option<u16> = given.parse("port", "a number from 0 to 65535")?;
        let port = port.ok_or_else(|| missing("port", "a number from 0 to 65535"))?;
        let timestamp = given.flag("includeTimestamp")?.unwrap_or(false);
        let partitions = given.positive("numPartitions")?.unwrap_or(1);
        let mut source = Self::new(host.trim(), port, timestamp);
        source.lines = source
            .lines
            .parallelism(usize::try_from(partitions).unwrap_or(usize::MAX));
        Ok(source)
    }

    fn connect(&self) -> Result<TcpStream> {
        let failed = |error: std::io::Error| {
            WeirError::external(format!(
                "source 'socket' cannot connect to '{}': {error}",
                self.address
            ))
            .with_source(error)
        };
        let addresses = self.address.to_socket_addrs().map_err(failed)?;
        let mut last = std::io::Error::other("the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }
}

#[async_trait]
impl Source for SocketSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn description(&self) -> String {
        format!("TextSocket[{}]", self.address)
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("socket").param("address", &self.address)
    }

    fn max_parallelism(&self) -> Option<usize> {
        self.lines.max_parallelism()
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        let clock = Arc::clone(&context.clock);
        self.lines.open(context).await?;
        // A later generation of this run goes on with the connection of the first.
        if self.handle.is_none() {
            return Ok(());
        }
        let stream = self.connect()?;
        if let Some(handle) = self.handle.take() {
            tracing::warn!(
                address = %self.address,
                "source 'socket' is for trying things out: lines that were read and not committed are lost when the process ends"
            );
            lines::spawn(stream, self.address.clone(), handle, clock)?;
        }
        Ok(())
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        admission: Admission,
    ) -> Result<Option<Offset>> {
        self.lines.latest(start, admission).await
    }

    async fn fix_end(&mut self) -> Result<()> {
        self.lines.fix_end().await
    }

    async fn splits(
        &mut self,
        epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        self.lines.splits(epoch, start, end).await
    }

    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        self.lines.reader(subtask)
    }

    async fn committed(&mut self, epoch: Epoch, end: &Offset) -> Result<()> {
        self.lines.committed(epoch, end).await
    }

    fn newest(&self) -> Option<Offset> {
        self.lines.newest()
    }

    fn backlog(&self) -> Option<Backlog> {
        self.lines.backlog()
    }
}
