//! One case from start to end: what is done to the engine, and what is seen.
//!
//! Doing and judging are apart: this file only does and notes, `judge.rs` compares.

use std::path::Path;

use arrow::datatypes::SchemaRef;

use crate::calendar;
use crate::case::{Case, EpochKind, Restart, Row, Step, Trigger};
use crate::driver::{Engine, EngineError, Epoch, Query};
use crate::input::{Inbox, place};
use crate::judge;
use crate::value;
use crate::ways::Way;

/// Everything seen of one case.
#[derive(Default)]
pub(crate) struct Seen {
    /// Why the query was refused, if it was.
    pub(crate) refused: Option<EngineError>,
    pub(crate) schema: Option<SchemaRef>,
    /// The steps that came to their end.
    pub(crate) steps: Vec<SeenStep>,
    pub(crate) failed: Option<SeenFailure>,
    /// What was not as it should be between two steps, with the number of the step before.
    pub(crate) between: Option<(usize, String)>,
}

/// What a step emitted.
pub(crate) struct SeenStep {
    pub(crate) epochs: Vec<SeenEpoch>,
    pub(crate) watermark: Option<String>,
}

/// What one epoch emitted.
#[derive(Debug, Clone)]
pub(crate) struct SeenEpoch {
    pub(crate) id: u64,
    pub(crate) kind: EpochKind,
    pub(crate) watermark: Option<String>,
    pub(crate) rows: Vec<Row>,
}

/// How a step failed.
pub(crate) struct SeenFailure {
    pub(crate) step: usize,
    pub(crate) error: EngineError,
    /// What the sink took in the failing step all the same.
    pub(crate) rows: Vec<Row>,
}

/// Runs a case below `home`, an empty directory.
///
/// # Errors
/// Only what is wrong with the harness or the case; what the engine refuses or fails at is noted.
pub(crate) async fn run(
    engine: &dyn Engine,
    case: &Case,
    way: Way,
    home: &Path,
) -> Result<Seen, String> {
    let inbox = Inbox::create(case, home)?;
    let mut seen = Seen::default();
    let query = match engine.build(case, home).await {
        Ok(query) => query,
        Err(error) => {
            seen.refused = Some(error);
            return Ok(seen);
        }
    };
    seen.schema = Some(query.schema());
    let mut run = Run {
        case,
        way,
        query,
        inbox,
        starts: 0,
    };
    run.steps(&mut seen).await?;
    run.query.stop().await.ok();
    Ok(seen)
}

struct Run<'a> {
    case: &'a Case,
    way: Way,
    query: Box<dyn Query>,
    inbox: Inbox,
    starts: usize,
}

impl Run<'_> {
    async fn steps(&mut self, seen: &mut Seen) -> Result<(), String> {
        if self.case.trigger == Trigger::Default
            && let Err(error) = self.start().await
        {
            seen.refused = Some(error);
            return Ok(());
        }
        for (number, step) in self.case.steps.iter().enumerate() {
            let done = self.step(step).await?;
            let epochs = self.take_epochs()?;
            if let Err(error) = done {
                seen.failed = Some(SeenFailure {
                    step: number,
                    error,
                    rows: epochs.into_iter().flat_map(|epoch| epoch.rows).collect(),
                });
                return Ok(());
            }
            let watermark = self.watermark(self.query.next_watermark()?);
            seen.steps.push(SeenStep { epochs, watermark });
            if self.way.interrupts()
                && let Err(difference) = self.interrupt(seen).await
            {
                seen.between = Some((number, difference));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Stops and starts the query after a step, as its way says. Nothing may come of it but the newest epoch again, the same, if
    /// its commit was forgotten.
    async fn interrupt(&mut self, seen: &Seen) -> Result<(), String> {
        self.query.stop().await?;
        let newest = seen.steps.iter().flat_map(|step| &step.epochs).next_back();
        let mut expected = None;
        if self.way == Way::Replayed {
            self.query.lose_commit()?;
            expected = newest;
        }
        self.start().await?;
        self.query.settle_between().await?;
        let got = self.take_epochs()?;
        let schema = seen.schema.as_ref().ok_or("the query has no schema")?;
        judge::repeated(self.case, expected, &got, schema)?;
        let watermark = self.watermark(self.query.next_watermark()?);
        let before = seen.steps.last().map(|step| &step.watermark);
        match before {
            Some(before) if *before != watermark => Err(format!(
                "watermark {watermark:?}, expected {before:?} as before"
            )),
            _ => Ok(()),
        }
    }

    async fn start(&mut self) -> Result<(), EngineError> {
        let parallelism = self.way.parallelism(self.starts);
        self.starts += 1;
        self.query.start(parallelism).await
    }

    fn take_epochs(&mut self) -> Result<Vec<SeenEpoch>, String> {
        let epochs = self.query.take_epochs()?;
        epochs
            .into_iter()
            .map(|epoch| self.seen_epoch(epoch))
            .collect()
    }

    /// The outer error is the harness's, the inner one the engine's.
    async fn step(&mut self, step: &Step) -> Result<Result<(), EngineError>, String> {
        let staged = self.inbox.stage(step)?;
        let hidden = self.case.trigger != Trigger::Default || staged.len() > 1;
        let started = match step {
            // One file appears in one instant. Several must all be there before the next epoch is
            // planned, so the query is not running while they are renamed; an orderly restart changes nothing.
            Step::Add(_) if !hidden => place(&staged).map(Ok)?,
            Step::Add(_) => {
                let stopped = self.query.stop().await;
                place(&staged)?;
                self.start_after(stopped).await
            }
            Step::Restart(restart) => {
                let stopped = self.restart(restart).await;
                self.start_after(stopped).await
            }
        };
        Ok(match started {
            Ok(()) => self.query.settle().await,
            Err(error) => Err(error),
        })
    }

    async fn start_after(&mut self, stopped: Result<(), EngineError>) -> Result<(), EngineError> {
        stopped?;
        self.start().await
    }

    async fn restart(&mut self, restart: &Restart) -> Result<(), EngineError> {
        self.query.stop().await?;
        let Restart::With {
            lose_commit,
            config,
        } = restart
        else {
            return Ok(());
        };
        if *lose_commit {
            self.query.lose_commit()?;
        }
        for (key, value) in config {
            self.query.set_config(key, value)?;
        }
        Ok(())
    }

    fn seen_epoch(&self, epoch: Epoch) -> Result<SeenEpoch, String> {
        let mut rows = Vec::new();
        for batch in &epoch.batches {
            rows.extend(value::rows(batch)?);
        }
        Ok(SeenEpoch {
            id: epoch.id,
            kind: epoch.kind,
            watermark: self.watermark(Some(epoch.watermark)),
            rows,
        })
    }

    /// The cases tell no watermark for a query that declares none.
    fn watermark(&self, millis: Option<i64>) -> Option<String> {
        let millis = millis.filter(|_| self.case.has_watermark());
        millis.map(calendar::watermark)
    }
}
