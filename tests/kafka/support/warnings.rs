//! What the process warned of, and what Kafka's clients said where the option `kafka.debug` asked them to.

use std::sync::{Mutex, OnceLock};

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Warnings of this process since some moment.
pub(crate) struct Warnings(usize);

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Writer;

impl std::io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// From now on; other tests of the process warn as well.
pub(crate) fn warnings() -> Warnings {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(|| Writer);
        let clients = Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("weir_connectors::kafka::client", Level::DEBUG);
        tracing_subscriber::registry()
            .with(clients)
            .with(lines)
            .init();
    });
    Warnings(LOG.lock().unwrap().len())
}

impl Warnings {
    /// Warnings that hold all of these texts.
    pub(crate) fn matching(&self, texts: &[&str]) -> Vec<String> {
        let is_warning = |line: &String| line.contains(" WARN ") || line.contains("ERROR ");
        self.said(texts).into_iter().filter(is_warning).collect()
    }

    /// All lines that hold all of these texts.
    pub(crate) fn said(&self, texts: &[&str]) -> Vec<String> {
        let log = LOG.lock().unwrap();
        let lines = String::from_utf8_lossy(&log[self.0..]).into_owned();
        let lines = lines
            .lines()
            .filter(|line| texts.iter().all(|text| line.contains(text)));
        lines.map(str::to_owned).collect()
    }
}
