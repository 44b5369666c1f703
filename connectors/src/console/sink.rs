//! [`ConsoleSink`]: the first rows of every epoch, printed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use weir_runtime::{
    Delivery, Epoch, EpochBatch, Fingerprint, OutputMode, Result, RowKind, Rows, Sink,
    SinkCommitter, SinkContext, SinkWriter, WeirError,
};

use super::format::{ShowOptions, show_string};
use crate::collect::{Collector, withdraws};
use crate::options::{OptionSpec, Options, spec};

/// Options of sink `console`.
pub const OPTIONS: &[OptionSpec] = &[
    spec("numRows", "20", "most rows printed for an epoch"),
    spec(
        "truncate",
        "true",
        "cut long values: true, false or a number of characters",
    ),
];
const RULE: &str = "-------------------------------------------";
/// Characters of a cell when truncating is on without a number.
const TRUNCATE: usize = 20;

/// How long a cell may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncate {
    /// 20 characters, aligned to the right.
    #[default]
    Yes,
    /// Any length, aligned to the left.
    No,
    /// So many characters, aligned to the right; 0 is the same as [`Truncate::No`].
    At(usize),
}

impl FromStr for Truncate {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Self::Yes),
            "false" => Ok(Self::No),
            number => number.parse().map(Self::At).map_err(|_| ()),
        }
    }
}

/// Prints the first rows of every epoch as a table (Spark's sink `console`), to standard output if nothing else is
/// said. At least once: an epoch that is replayed after a crash is printed again.
///
/// Keeps only as many rows as it prints. Rows that take back earlier ones are shown with a first column `op`: `+I`, `-U`,
/// `+U`, `-D`.
#[derive(Clone)]
pub struct ConsoleSink {
    options: ShowOptions,
    output: Arc<Mutex<dyn Write + Send>>,
    collector: Collector,
}

impl Default for ConsoleSink {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ConsoleSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleSink")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl ConsoleSink {
    /// 20 rows, cells of 20 characters, to standard output.
    #[must_use]
    pub fn new() -> Self {
        let options = ShowOptions::default();
        let collector = Collector::first_rows(options.num_rows + 1);
        Self {
            options,
            output: Arc::new(Mutex::new(std::io::stdout())),
            collector,
        }
    }

    /// From Spark's options: `numRows` (20) and `truncate` (`true`, `false`, or a number of characters). Names in any
    /// case.
    ///
    /// # Errors
    /// An unknown option or a value that is not allowed.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self> {
        let options = Options::new("sink 'console'", OPTIONS, options)?;
        let rows: Option<usize> = options.parse("numRows", "a whole number, not negative")?;
        let truncate: Option<Truncate> =
            options.parse("truncate", "true, false or a number of characters")?;
        let sink = Self::new().num_rows(rows.unwrap_or(20));
        Ok(sink.truncate(truncate.unwrap_or_default()))
    }

    /// Most rows printed for an epoch.
    #[must_use]
    pub fn num_rows(mut self, rows: usize) -> Self {
        self.options.num_rows = rows;
        self.collector = Collector::first_rows(rows.saturating_add(1));
        self
    }

    /// How long a cell may be.
    #[must_use]
    pub fn truncate(mut self, truncate: Truncate) -> Self {
        self.options.truncate = match truncate {
            Truncate::Yes => TRUNCATE,
            Truncate::No => 0,
            Truncate::At(characters) => characters,
        };
        self
    }

    /// The zone in which timestamps are printed; UTC without it.
    ///
    /// # Errors
    /// If there is no such zone.
    pub fn time_zone(mut self, zone: &str) -> Result<Self> {
        self.options = self.options.with_time_zone(zone)?;
        Ok(self)
    }

    /// Where to print.
    #[must_use]
    pub fn output(mut self, output: impl Write + Send + 'static) -> Self {
        self.output = Arc::new(Mutex::new(output));
        self
    }
}

/// Prints one epoch.
fn print(
    output: &Mutex<dyn Write + Send>,
    options: &ShowOptions,
    schema: &SchemaRef,
    epoch: Epoch,
    batches: &[EpochBatch],
) -> Result<()> {
    let with_kinds = batches.iter().any(|batch| withdraws(&batch.rows));
    let schema = if with_kinds {
        schema_with_kinds(schema)
    } else {
        Arc::clone(schema)
    };
    let rows = batches.iter().map(|batch| match with_kinds {
        true => rows_with_kinds(&schema, &batch.rows),
        false => Ok(batch.rows.batch().clone()),
    });
    let table = show_string(&schema, &rows.collect::<Result<Vec<_>>>()?, options)?;
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    let written = writeln!(output, "{RULE}\nBatch: {epoch}\n{RULE}\n{table}");
    written.and_then(|()| output.flush()).map_err(|error| {
        WeirError::external(format!("the console sink cannot write epoch {epoch}"))
            .with_source(error)
    })
}

fn schema_with_kinds(schema: &Schema) -> SchemaRef {
    let op = Arc::new(Field::new("op", DataType::Utf8, false));
    let fields = std::iter::once(op).chain(schema.fields().iter().cloned());
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn rows_with_kinds(schema: &SchemaRef, rows: &Rows) -> Result<RecordBatch> {
    let kinds = (0..rows.num_rows()).map(|row| match rows.kind(row) {
        RowKind::Insert => "+I",
        RowKind::UpdateBefore => "-U",
        RowKind::UpdateAfter => "+U",
        RowKind::Delete => "-D",
    });
    let op: ArrayRef = Arc::new(StringArray::from_iter_values(kinds));
    let columns = std::iter::once(op).chain(rows.batch().columns().iter().cloned());
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect())?)
}

#[async_trait]
impl Sink for ConsoleSink {
    fn description(&self) -> String {
        let truncate = match self.options.truncate {
            0 => "false".to_owned(),
            TRUNCATE => "true".to_owned(),
            characters => characters.to_string(),
        };
        format!(
            "ConsoleSink[numRows={}, truncate={truncate}]",
            self.options.num_rows
        )
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::stateless("console_sink")
    }

    fn needs_checkpoint(&self) -> bool {
        false
    }

    async fn open(&self, context: &SinkContext) -> Result<()> {
        self.collector.open(context);
        Ok(())
    }

    fn writer(&self, context: &SinkContext, subtask: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(self.collector.writer(context, subtask))
    }

    fn committer(&self, context: &SinkContext) -> Result<Box<dyn SinkCommitter>> {
        let (output, options) = (Arc::clone(&self.output), self.options.clone());
        let schema = Arc::clone(&context.schema);
        Ok(self.collector.committer(context, move |epoch, batches| {
            let printed = print(&output, &options, &schema, epoch, &batches);
            Box::pin(async { printed })
        }))
    }
}
