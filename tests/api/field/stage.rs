//! The stage of a field case: directories that files are dropped into, a query over them, and what each of its epochs emitted.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use weir::prelude::*;

use crate::support::Home;

/// One step of a query over the view `t`, or over the streams by their names; what it gives is the next step's `t`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Do {
    /// Column and delay.
    Watermark(&'static str, &'static str),
    /// The same on another view than `t`.
    WatermarkOn(&'static str, &'static str, &'static str),
    Dedup(&'static [&'static str]),
    DedupWithin(&'static [&'static str]),
    Sql(&'static str),
}

/// A stream of files.
#[derive(Debug, Clone, Copy)]
struct Input {
    name: &'static str,
    schema: &'static str,
    format: &'static str,
}

/// Rows by epoch; an epoch that comes again must bring the same.
type Taken = Arc<Mutex<BTreeMap<u64, Vec<String>>>>;

/// One case.
pub(crate) struct Stage {
    pub(crate) home: Home,
    inputs: Vec<Input>,
    settings: Vec<(&'static str, String)>,
    engine: QueryConfig,
    steps: Vec<Do>,
    mode: &'static str,
    trigger: Trigger,
    taken: Taken,
    files: Cell<u64>,
}

/// A running query of a stage.
pub(crate) struct Running {
    pub(crate) query: StreamingQuery,
    _session: Session,
}

impl Stage {
    /// A case with one stream `t` of JSON lines; the query is what `steps` make of it.
    pub(crate) fn new(schema: &'static str, steps: &[Do], mode: &'static str) -> Self {
        Self::of(&[("t", schema)], steps, mode)
    }

    /// A case with several streams.
    pub(crate) fn of(
        inputs: &[(&'static str, &'static str)],
        steps: &[Do],
        mode: &'static str,
    ) -> Self {
        let home = Home::new();
        let input = |(name, schema): &(&'static str, &'static str)| Input {
            name,
            schema,
            format: "json",
        };
        let inputs: Vec<Input> = inputs.iter().map(input).collect();
        for input in &inputs {
            std::fs::create_dir_all(home.path(input.name)).unwrap();
        }
        Self {
            home,
            inputs,
            settings: vec![("spark.sql.streaming.pollingDelay", "2ms".to_owned())],
            engine: QueryConfig {
                parallelism: 2,
                ..QueryConfig::default()
            },
            steps: steps.to_vec(),
            mode,
            trigger: Trigger::Default,
            taken: Taken::default(),
            files: Cell::new(0),
        }
    }

    /// With a setting of the session.
    pub(crate) fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.settings.push((key, value.to_string()));
        self
    }

    pub(crate) fn csv(mut self) -> Self {
        for input in &mut self.inputs {
            input.format = "csv";
        }
        self
    }

    pub(crate) fn trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }

    /// Changes the engine's settings for the starts to come.
    pub(crate) fn engine(&mut self, change: impl FnOnce(&mut QueryConfig)) {
        change(&mut self.engine);
    }

    /// Another query for the starts to come.
    pub(crate) fn change(&mut self, steps: &[Do]) {
        self.steps = steps.to_vec();
    }

    /// A setting that is another at the starts to come.
    pub(crate) fn set(&mut self, key: &'static str, value: impl ToString) {
        self.settings.retain(|(known, _)| *known != key);
        self.settings.push((key, value.to_string()));
    }

    /// Drops one file into the stream `t`.
    pub(crate) fn drop_file(&self, lines: &[&str]) {
        self.drop_into("t", lines);
    }

    /// Drops one file into a stream.
    pub(crate) fn drop_into(&self, input: &str, lines: &[&str]) {
        self.files.set(self.files.get() + 1);
        let name = format!("{input}/part-{:04}", self.files.get());
        self.home.put(&name, &(lines.join("\n") + "\n"));
    }

    fn session(&self) -> Result<Session> {
        let builder = Session::builder().config("weir.progressBar", false);
        let with = |builder: weir::SessionBuilder, (key, value): &(&'static str, String)| {
            builder.config(*key, value)
        };
        self.settings.iter().fold(builder, with).build()
    }

    async fn frame(&self, session: &Session) -> Result<DataFrame> {
        let mut frame = None;
        for Input {
            name,
            schema,
            format,
        } in &self.inputs
        {
            let reader = session.read_stream().format(*format).schema(*schema);
            let reader = match *format {
                "csv" => reader.option("header", true),
                _ => reader,
            };
            let stream = reader.load(&self.home.text(name))?;
            stream.create_or_replace_temp_view(name)?;
            frame = Some(stream);
        }
        let mut frame = frame.unwrap();
        for step in &self.steps {
            let mut name = "t";
            frame = match *step {
                Do::Watermark(column, delay) => frame.with_watermark(column, delay)?,
                Do::WatermarkOn(view, column, delay) => {
                    name = view;
                    session.table(view).await?.with_watermark(column, delay)?
                }
                Do::Dedup(columns) => frame.drop_duplicates(columns)?,
                Do::DedupWithin(columns) => frame.drop_duplicates_within_watermark(columns)?,
                Do::Sql(query) => session.sql(query).await?,
            };
            frame.create_or_replace_temp_view(name)?;
        }
        Ok(frame)
    }

    /// Starts the query in a session of its own, on its checkpoint if it ran before.
    pub(crate) async fn try_start(&self) -> Result<Running> {
        let session = self.session()?;
        let taken = Arc::clone(&self.taken);
        let writer = self
            .frame(&session)
            .await?
            .write_stream()
            .engine(self.engine.clone())
            .output_mode(self.mode)
            .trigger(self.trigger)
            .checkpoint(&self.home.text("checkpoint"))
            .foreach_batch(move |rows, epoch| take(Arc::clone(&taken), rows, epoch));
        Ok(Running {
            query: writer.start().await?,
            _session: session,
        })
    }

    pub(crate) async fn start(&self) -> Running {
        self.try_start().await.expect("starts")
    }

    /// Drops one file and lets a running query do everything that follows from it.
    pub(crate) async fn feed(&self, running: &Running, lines: &[&str]) {
        self.drop_file(lines);
        running.idle().await;
    }

    /// Runs the query from file to file: started, fed, idle, and stopped and started again in between if `restarts`. Gives the
    /// late rows counted.
    pub(crate) async fn run(&self, files: &[&[&str]], restarts: bool) -> u64 {
        let (mut late, mut running) = (0, self.start().await);
        for (number, file) in files.iter().enumerate() {
            if restarts && number > 0 {
                late += running.late();
                running.stop().await;
                running = self.start().await;
            }
            self.feed(&running, file).await;
        }
        late += running.late();
        running.stop().await;
        late
    }

    /// All rows so far, sorted; values with `|` between them.
    pub(crate) fn rows(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<String> = taken.values().flatten().cloned().collect();
        rows.sort();
        rows
    }

    /// The rows of the newest epoch, sorted.
    pub(crate) fn newest_rows(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = taken.values().next_back().cloned().unwrap_or_default();
        rows.sort();
        rows
    }

    /// The newest row of each key, which is the first column: what an upsert would hold.
    pub(crate) fn upserted(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = BTreeMap::new();
        for row in taken.values().flatten() {
            rows.insert(row.split('|').next().unwrap().to_owned(), row.clone());
        }
        rows.into_values().collect()
    }

    /// Numbers of the epochs so far.
    pub(crate) fn epochs(&self) -> BTreeSet<u64> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.keys().copied().collect()
    }
}

impl Running {
    /// Waits until nothing is left to do.
    pub(crate) async fn idle(&self) {
        self.query.process_all_available().await.expect("goes on");
    }

    /// Waits for the error the query ends with.
    pub(crate) async fn failure(&self) -> WeirError {
        let ended = tokio::time::timeout(Duration::from_secs(20), self.query.await_termination());
        ended.await.expect("it ends").expect_err("it fails")
    }

    pub(crate) async fn stop(self) {
        self.query.stop().await;
    }

    /// Late rows of this run, over all epochs and operators.
    pub(crate) fn late(&self) -> u64 {
        let progress = self.query.recent_progress();
        let operators = progress.iter().flat_map(|told| &told.state_operators);
        operators
            .map(|told| told.num_rows_dropped_by_watermark)
            .sum()
    }

    /// Rows in state after the newest epoch, over all operators.
    pub(crate) fn state_rows(&self) -> u64 {
        let progress = self.query.recent_progress();
        let newest = progress.last().expect("an epoch");
        let operators = newest.state_operators.iter();
        operators.map(|told| told.num_rows_total).sum()
    }

    /// The watermark the newest epoch ran with.
    pub(crate) fn watermark(&self) -> String {
        let progress = self.query.last_progress().expect("an epoch");
        progress.event_time["watermark"].clone()
    }
}

async fn take(taken: Taken, rows: DataFrame, epoch: u64) -> Result<()> {
    let rows: Vec<String> = rows.collect().await?.iter().flat_map(texts).collect();
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
    match taken.get(&epoch) {
        Some(before) if *before != rows => Err(WeirError::data(format!(
            "epoch {epoch} came again with {rows:?} after {before:?}"
        ))),
        _ => {
            taken.insert(epoch, rows);
            Ok(())
        }
    }
}

/// Each row as its values with `|` between them.
pub(crate) fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let formatters: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref() as &dyn Array, &options).unwrap())
        .collect();
    let row = |row| {
        let values: Vec<String> = formatters
            .iter()
            .map(|column| column.value(row).to_string())
            .collect();
        values.join("|")
    };
    (0..batch.num_rows()).map(row).collect()
}

static WARNINGS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Warnings;

impl Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Begins to keep the warnings of this process; the tests share them, so look for a name that only one test uses.
pub(crate) fn listen_to_warnings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(|| Warnings)
            .init();
    });
}

/// The warnings that contain `text`.
pub(crate) fn warnings_with(text: &str) -> Vec<String> {
    let warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let all = String::from_utf8_lossy(&warnings);
    all.lines()
        .filter(|line| line.contains(text))
        .map(str::to_owned)
        .collect()
}
