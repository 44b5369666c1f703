//! What the process warned of.

use std::sync::{Mutex, OnceLock};

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
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(|| Writer)
            .init();
    });
    Warnings(LOG.lock().unwrap().len())
}

impl Warnings {
    /// Lines that hold all of these texts.
    pub(crate) fn matching(&self, texts: &[&str]) -> Vec<String> {
        let log = LOG.lock().unwrap();
        let lines = String::from_utf8_lossy(&log[self.0..]).into_owned();
        let lines = lines
            .lines()
            .filter(|line| texts.iter().all(|text| line.contains(text)));
        lines.map(str::to_owned).collect()
    }
}
