//! An engine that answers what the case expects: it must pass, and with one thing bent it must not.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;

use crate::arrays;
use crate::case::{Case, EpochExpect, EpochKind, ExpectError, Row, StepExpect, Trigger, When};
use crate::driver::{Engine, EngineError, Epoch, Query};
use weir::types::parse_schema;

/// What the echo gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bend {
    Nothing,
    RowTwice,
    RowLost,
    Watermark,
    EpochNumber,
    ColumnName,
    NeverRefuses,
    NeverFails,
    Panics,
    Hangs,
    /// Runs its newest epoch again although that was committed.
    RunsAgain,
    /// Does not run an epoch again whose commit is gone.
    NeverRepeats,
    /// Goes on with another watermark after a start.
    ForgetsTime,
}

pub(crate) struct Echo(pub(crate) Bend);

struct EchoQuery {
    bend: Bend,
    schema: SchemaRef,
    home: PathBuf,
    /// Steps to come, and how the case ends.
    steps: VecDeque<Answer>,
    now: Option<Answer>,
    /// The newest epoch of the steps so far, and whether its commit was forgotten.
    newest: Option<AnswerEpoch>,
    lost: bool,
    running: bool,
    ends_by_itself: bool,
}

/// Number, kind, watermark and rows of an epoch.
type AnswerEpoch = (u64, EpochKind, i64, Vec<Row>);

/// What one step answers; an error if it has no epochs to tell.
struct Answer {
    epochs: Option<Vec<AnswerEpoch>>,
    watermark: Option<i64>,
}

#[async_trait(?Send)]
impl Engine for Echo {
    async fn build(&self, case: &Case, home: &Path) -> Result<Box<dyn Query>, EngineError> {
        let at_start = |error: &ExpectError| error.when == When::Start;
        if case.expect_error.as_ref().is_some_and(at_start) && self.0 != Bend::NeverRefuses {
            return Err("refused".to_owned());
        }
        for name in case.sources.keys() {
            assert!(crate::input::source_directory(home, name).is_dir());
        }
        for name in case.tables.keys() {
            assert!(crate::input::table_file(home, name).is_file());
        }
        let mut steps: VecDeque<Answer> = case.expect.iter().map(answer).collect();
        if case.expect_error.is_some() && self.0 != Bend::NeverFails {
            steps.push_back(Answer {
                epochs: None,
                watermark: None,
            });
        }
        Ok(Box::new(EchoQuery {
            bend: self.0,
            schema: schema(case, self.0),
            home: home.to_owned(),
            steps,
            now: None,
            newest: None,
            lost: false,
            running: false,
            ends_by_itself: case.trigger != Trigger::Default,
        }))
    }
}

fn schema(case: &Case, bend: Bend) -> SchemaRef {
    let field = |(name, text): (&String, &String)| {
        let name = if bend == Bend::ColumnName {
            format!("{name}_")
        } else {
            name.clone()
        };
        let typed = parse_schema(&format!("c {text}")).unwrap();
        typed.field(0).clone().with_name(name)
    };
    let fields: Vec<Field> = case.columns.iter().zip(&case.types).map(field).collect();
    SchemaRef::new(Schema::new(fields))
}

fn answer(step: &StepExpect) -> Answer {
    let epoch = |epoch: &EpochExpect| {
        let watermark = epoch.watermark.as_deref().map_or(0, millis);
        (epoch.id, epoch.kind, watermark, epoch.rows.clone())
    };
    Answer {
        epochs: Some(step.batches.iter().map(epoch).collect()),
        watermark: step.watermark.as_deref().map(millis),
    }
}

fn millis(text: &str) -> i64 {
    chrono::DateTime::parse_from_rfc3339(text)
        .unwrap()
        .timestamp_millis()
}

#[async_trait(?Send)]
impl Query for EchoQuery {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn start(&mut self, parallelism: usize) -> Result<(), EngineError> {
        assert!(!self.running, "started twice");
        assert!((1..=3).contains(&parallelism), "{parallelism} subtasks");
        assert!(self.home.is_dir());
        self.running = true;
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), EngineError> {
        assert!(self.running, "settled without being started");
        match self.bend {
            Bend::Panics => panic!("bent"),
            Bend::Hangs => futures::future::pending::<()>().await,
            _ => {}
        }
        self.running = !self.ends_by_itself;
        let answer = self.steps.pop_front().ok_or("more steps than expected")?;
        let failed = answer.epochs.is_none();
        let newest = answer.epochs.iter().flatten().next_back().cloned();
        self.newest = newest.or(self.newest.take());
        self.lost = false;
        self.now = Some(answer);
        if failed {
            Err("failed".to_owned())
        } else {
            Ok(())
        }
    }

    async fn settle_between(&mut self) -> Result<(), EngineError> {
        assert!(self.running, "settled without being started");
        self.running = !self.ends_by_itself;
        let again = std::mem::take(&mut self.lost) || self.bend == Bend::RunsAgain;
        let newest = self.newest.iter().filter(|_| again);
        let epochs = newest.cloned().collect();
        let watermark = self.now.as_ref().and_then(|answer| answer.watermark);
        self.now = Some(Answer {
            epochs: Some(epochs),
            watermark: watermark.map(|millis| millis - i64::from(self.bend == Bend::ForgetsTime)),
        });
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), EngineError> {
        self.running = false;
        Ok(())
    }

    fn set_config(&mut self, _key: &str, _value: &str) -> Result<(), EngineError> {
        Ok(())
    }

    fn lose_commit(&mut self) -> Result<(), EngineError> {
        assert!(
            !self.running,
            "the commit of a running query is not to be touched"
        );
        self.lost = self.bend != Bend::NeverRepeats;
        Ok(())
    }

    fn take_epochs(&mut self) -> Result<Vec<Epoch>, EngineError> {
        let epochs = self.now.as_ref().and_then(|answer| answer.epochs.as_ref());
        let epoch = |(id, kind, watermark, rows): &AnswerEpoch| Epoch {
            id: id + u64::from(self.bend == Bend::EpochNumber),
            kind: *kind,
            watermark: *watermark,
            batches: vec![arrays::batch(&self.schema, &bent(self.bend, rows))],
        };
        Ok(epochs.into_iter().flatten().map(epoch).collect())
    }

    fn next_watermark(&self) -> Result<Option<i64>, EngineError> {
        let watermark = self.now.as_ref().and_then(|answer| answer.watermark);
        Ok(watermark.map(|millis| millis + i64::from(self.bend == Bend::Watermark)))
    }
}

fn bent(bend: Bend, rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    match bend {
        Bend::RowTwice => rows.extend(rows.first().cloned()),
        Bend::RowLost => drop(rows.pop()),
        _ => {}
    }
    rows
}
