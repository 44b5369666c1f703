//! Weir behind the harness's traits: the one file that knows the session's API.

use std::fs;
use std::path::{Path, PathBuf};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use weir::{DataFrame, QueryConfig, Session, StreamingQuery, Trigger as WeirTrigger};

use crate::case::{Case, EpochKind, Op, Trigger};
use crate::collector::Collector;
use crate::driver::{Engine, EngineError, Epoch, Query};
use crate::input::{source_directory, table_file};

/// The engine under test.
pub(crate) fn engine() -> Option<&'static dyn Engine> {
    Some(&Weir)
}

struct Weir;

struct WeirQuery {
    session: Session,
    result: DataFrame,
    output_mode: String,
    trigger: Trigger,
    checkpoint: PathBuf,
    collector: Collector,
    query: Option<StreamingQuery>,
}

fn text(error: impl std::fmt::Display) -> EngineError {
    error.to_string()
}

/// Keys in the cases have no prefix.
fn config_key(key: &str) -> String {
    let prefix = if key.starts_with("ansi.") || key.starts_with("legacy.") {
        "spark.sql."
    } else {
        "spark.sql.streaming."
    };
    format!("{prefix}{key}")
}

#[async_trait(?Send)]
impl Engine for Weir {
    async fn build(&self, case: &Case, home: &Path) -> Result<Box<dyn Query>, EngineError> {
        let mut builder = Session::builder()
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.streaming.pollingDelay", "2ms");
        for (key, value) in &case.config {
            builder = builder.config(config_key(key), value);
        }
        let session = builder.build().map_err(text)?;
        register(&session, case, home).await?;
        let mut result = None;
        for op in &case.pipeline {
            let (name, frame) = relation(&session, op).await?;
            frame.create_or_replace_temp_view(name).map_err(text)?;
            result = Some(frame);
        }
        Ok(Box::new(WeirQuery {
            session,
            result: result.ok_or("a pipeline without steps")?,
            output_mode: case.output_mode.clone(),
            trigger: case.trigger,
            checkpoint: home.join("checkpoint"),
            collector: Collector::default(),
            query: None,
        }))
    }
}

async fn register(session: &Session, case: &Case, home: &Path) -> Result<(), EngineError> {
    for (name, table) in &case.tables {
        let reader = session.read().format("json").schema(table.schema.as_str());
        let frame = reader
            .load(&table_file(home, name).to_string_lossy())
            .await
            .map_err(text)?;
        frame.create_or_replace_temp_view(name).map_err(text)?;
    }
    for (name, source) in &case.sources {
        let mut reader = session.read_stream().format(source.format.as_str());
        // Text has its fixed schema; a case that repeats it says nothing new.
        if source.format != "text" {
            reader = reader.schema(source.schema.as_str());
        }
        for (key, value) in &source.options {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            reader = reader.option(key, &value);
        }
        let frame = reader
            .load(&source_directory(home, name).to_string_lossy())
            .map_err(text)?;
        frame.create_or_replace_temp_view(name).map_err(text)?;
    }
    Ok(())
}

/// One step of the pipeline: its name and what it defines.
async fn relation<'a>(session: &Session, op: &'a Op) -> Result<(&'a str, DataFrame), EngineError> {
    let (name, frame) = match op {
        Op::Sql { name, query } => (name, session.sql(query).await),
        Op::WithWatermark {
            name,
            input,
            column,
            delay,
        } => (
            name,
            session
                .table(input)
                .await
                .map_err(text)?
                .with_watermark(column, delay),
        ),
        Op::DropDuplicates {
            name,
            input,
            columns,
        } => {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            (
                name,
                session
                    .table(input)
                    .await
                    .map_err(text)?
                    .drop_duplicates(&columns),
            )
        }
        Op::DropDuplicatesWithinWatermark {
            name,
            input,
            columns,
        } => {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            (
                name,
                session
                    .table(input)
                    .await
                    .map_err(text)?
                    .drop_duplicates_within_watermark(&columns),
            )
        }
    };
    Ok((name, frame.map_err(text)?))
}

#[async_trait(?Send)]
impl Query for WeirQuery {
    fn schema(&self) -> SchemaRef {
        self.result.schema()
    }

    async fn start(&mut self, parallelism: usize) -> Result<(), EngineError> {
        let engine = QueryConfig {
            parallelism,
            ..QueryConfig::default()
        };
        let mut writer = self
            .result
            .clone()
            .write_stream()
            .engine(engine)
            .output_mode(self.output_mode.as_str())
            .option("checkpointLocation", self.checkpoint.to_string_lossy())
            .sink(std::sync::Arc::new(self.collector.clone()));
        writer = match self.trigger {
            Trigger::Default => writer,
            Trigger::AvailableNow => writer.trigger(WeirTrigger::AvailableNow),
            Trigger::Once => writer.trigger(WeirTrigger::Once),
        };
        self.query = Some(writer.start().await.map_err(text)?);
        Ok(())
    }

    async fn settle(&mut self) -> Result<(), EngineError> {
        let query = self.query.as_ref().ok_or("the query is not running")?;
        match self.trigger {
            Trigger::Default => query.process_all_available().await.map_err(text),
            Trigger::AvailableNow | Trigger::Once => query.await_termination().await.map_err(text),
        }
    }

    async fn stop(&mut self) -> Result<(), EngineError> {
        if let Some(query) = self.query.take() {
            query.stop().await;
        }
        Ok(())
    }

    fn set_config(&mut self, key: &str, value: &str) -> Result<(), EngineError> {
        self.session
            .conf()
            .set(&config_key(key), value)
            .map_err(text)
    }

    fn lose_commit(&mut self) -> Result<(), EngineError> {
        match newest(&self.checkpoint.join("commits"))? {
            Some((_, file)) => fs::remove_file(file).map_err(text),
            None => Ok(()),
        }
    }

    fn take_epochs(&mut self) -> Result<Vec<Epoch>, EngineError> {
        let progress = self
            .query
            .as_ref()
            .map(|query| query.recent_progress())
            .unwrap_or_default();
        let committed = self.collector.take().into_iter();
        committed
            .map(|(epoch, batches)| {
                let id = epoch.0;
                let told = progress.iter().rev().find(|p| p.batch_id == id);
                let told = told.ok_or_else(|| format!("no progress report for epoch {id}"))?;
                let new = told
                    .sources
                    .iter()
                    .any(|source| source.start_offset != source.end_offset);
                Ok(Epoch {
                    id,
                    kind: if new {
                        EpochKind::Data
                    } else {
                        EpochKind::NoData
                    },
                    watermark: told
                        .event_time
                        .get("watermark")
                        .map_or(Ok(0), |text| millis(text))?,
                    batches,
                })
            })
            .collect()
    }

    /// What the newest manifest says.
    fn next_watermark(&self) -> Result<Option<i64>, EngineError> {
        let Some((_, file)) = newest(&self.checkpoint.join("commits"))? else {
            return Ok(None);
        };
        let content = fs::read_to_string(&file).map_err(text)?;
        // The first line is the envelope's.
        let body = content.split_once('\n').map_or("", |(_, body)| body);
        let manifest: serde_json::Value = serde_json::from_str(body).map_err(text)?;
        Ok(manifest["next_watermark_ms"].as_i64())
    }
}

fn millis(text: &str) -> Result<i64, EngineError> {
    let time = chrono::DateTime::parse_from_rfc3339(text);
    time.map(|time| time.timestamp_millis())
        .map_err(|e| format!("watermark '{text}': {e}"))
}

/// The file with the highest number in a directory that need not exist.
fn newest(directory: &Path) -> Result<Option<(u64, PathBuf)>, EngineError> {
    if !directory.is_dir() {
        return Ok(None);
    }
    let mut newest = None;
    for entry in fs::read_dir(directory).map_err(text)? {
        let path = entry.map_err(text)?.path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.parse().ok());
        newest = newest.max(number.map(|number: u64| (number, path)));
    }
    Ok(newest)
}
