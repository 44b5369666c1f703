//! [`RateSource`]: rows per second of the clock. Its offset is the number of whole seconds since the source started;
//! the start is kept in the checkpoint, so that an offset means the same moment after a restart.

use std::collections::BTreeMap;
use std::num::ParseIntError;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::json;
use weir_runtime::{
    Admission, Clock, Epoch, Fault, Fingerprint, Offset, Polled, Result, Source, SourceContext,
    SourceReader, Split, WeirError, offset_as_u64,
};
use weir_state::{CreateOutcome, envelope};

use super::curve::Curve;
use super::{Partitions, batch, number, schema};
use crate::options::{OptionSpec, Options, spec};

/// Options of source `rate`.
pub const RATE_OPTIONS: &[OptionSpec] = &[
    spec("rowsPerSecond", "1", "rows for each second"),
    spec(
        "rampUpTime",
        "0s",
        "seconds until the full rate is reached, as 5, 5s, 2m, 1h",
    ),
    super::NUM_PARTITIONS,
];
const REMEDY: &str =
    "restore it from a copy of the checkpoint, or begin with a new checkpoint location";

/// So many rows per second of the engine's clock (Spark's source `rate`).
///
/// A second's rows are read when the second is over. The first epoch of a new query is empty, as in Spark: it fixes
/// the start.
#[derive(Debug)]
pub struct RateSource {
    curve: Curve,
    partitions: Partitions,
    run: Option<Run>,
    /// Where a bounded run ends.
    fixed: Option<u64>,
}

#[derive(Debug)]
struct Run {
    clock: Arc<dyn Clock>,
    /// Start of the source, unix milliseconds.
    start_ms: i64,
    /// Largest offset seen: the wall clock may go back, the offset may not.
    newest: u64,
}

impl RateSource {
    /// `rows_per_second` rows per second, at least 1, from the first second on.
    #[must_use]
    pub fn new(rows_per_second: u64) -> Self {
        Self {
            curve: Curve {
                rows_per_second: rows_per_second.max(1),
                ramp_up_s: 0,
            },
            partitions: Partitions::default(),
            run: None,
            fixed: None,
        }
    }

    /// Reaches the full rate only after so many seconds.
    #[must_use]
    pub fn ramp_up_seconds(mut self, seconds: u64) -> Self {
        self.curve.ramp_up_s = seconds;
        self
    }

    /// Cuts each epoch into so many splits (at least 1); without it, one for each reader.
    #[must_use]
    pub fn num_partitions(mut self, partitions: usize) -> Self {
        self.partitions.given = Some(partitions.max(1));
        self
    }

    /// From Spark's options: `rowsPerSecond` (1), `rampUpTime` (`0s`; whole seconds, as `5`, `5s`, `2m`, `1h`),
    /// `numPartitions` (the query's parallelism). Names in any case.
    ///
    /// # Errors
    /// An unknown option or one that is not a positive number.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self> {
        let options = Options::new("source 'rate'", RATE_OPTIONS, options)?;
        let rows = options.parse_with("rowsPerSecond", "a positive whole number", positive)?;
        let ramp_up = options.parse_with(
            "rampUpTime",
            "whole seconds as a number with or without a unit, such as 5, 5s, 2m, 1h",
            parse_seconds,
        )?;
        let partitions =
            options.parse_with("numPartitions", "a positive whole number", positive)?;
        let mut source = Self::new(rows.unwrap_or(1)).ramp_up_seconds(ramp_up.unwrap_or(0));
        source.partitions.given = partitions.and_then(|count| usize::try_from(count).ok());
        source.check_reach(source.curve.ramp_up_s)?;
        Ok(source)
    }

    /// BIGINT ends somewhere; Spark refuses the same way.
    fn check_reach(&self, seconds: u64) -> Result<()> {
        if i64::try_from(self.curve.rows_after(seconds)).is_ok() {
            return Ok(());
        }
        Err(WeirError::data(format!(
            "{} rows per second with a ramp-up time of {} s exceed the largest BIGINT within {seconds} s",
            self.curve.rows_per_second, self.curve.ramp_up_s
        )))
    }

    fn run(&mut self) -> Result<&mut Run> {
        self.run
            .as_mut()
            .ok_or_else(|| WeirError::internal("source 'rate' is used before it is open"))
    }
}

/// A number greater than 0.
pub(super) fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

/// Time in whole seconds, spelt as Spark's time options are.
fn parse_seconds(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let (factor, divisor) = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "s" => (1, 1),
        "ms" => (1, 1000),
        "us" => (1, 1_000_000),
        "m" | "min" => (60, 1),
        "h" => (3600, 1),
        "d" => (86_400, 1),
        _ => return None,
    };
    number
        .is_multiple_of(divisor)
        .then(|| (number / divisor).checked_mul(factor))
        .flatten()
}

/// The start of the source as the checkpoint holds it, written there if the query is new.
async fn durable_start(context: &SourceContext) -> Result<i64> {
    let name = format!("sources/{}/0", context.index);
    if let Some(start) = stored_start(context, &name).await? {
        return Ok(start);
    }
    if context.committed.is_some() {
        return Err(WeirError::new(
            Fault::Checkpoint,
            format!(
                "file '{}' with the start time of source 'rate' is missing although an epoch is committed; {REMEDY}",
                context.checkpoint.display_of(&name)
            ),
        ));
    }
    let now_ms = context.clock.now_ms();
    let body = format!("{now_ms}\n");
    match context
        .checkpoint
        .create(&name, envelope::encode_text(body.as_bytes()))
        .await?
    {
        CreateOutcome::Created => Ok(now_ms),
        CreateOutcome::AlreadyExists => stored_start(context, &name).await?.ok_or_else(|| {
            WeirError::internal(format!(
                "file '{}' is there and cannot be read",
                context.checkpoint.display_of(&name)
            ))
        }),
    }
}

async fn stored_start(context: &SourceContext, name: &str) -> Result<Option<i64>> {
    let Some(bytes) = context.checkpoint.get(name).await? else {
        return Ok(None);
    };
    let path = context.checkpoint.display_of(name);
    let body = envelope::decode_text(&bytes);
    let body = body.map_err(|error| error.into_error(path.clone(), None, REMEDY))?;
    let text = String::from_utf8_lossy(body);
    let start = text.trim().parse().map_err(|error: ParseIntError| {
        let message = format!(
            "file '{path}' holds '{}', not the start time of source 'rate'; {REMEDY}",
            text.trim()
        );
        WeirError::new(Fault::Checkpoint, message).with_source(error)
    })?;
    Ok(Some(start))
}

impl Run {
    /// Whole seconds since the start.
    fn seconds(&mut self) -> u64 {
        let elapsed_ms = self.clock.now_ms().saturating_sub(self.start_ms);
        let seconds = u64::try_from(elapsed_ms.div_euclid(1000)).unwrap_or(0);
        self.newest = self.newest.max(seconds);
        self.newest
    }
}

#[async_trait]
impl Source for RateSource {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn description(&self) -> String {
        format!(
            "RateStreamV2[rowsPerSecond={}, rampUpTimeSeconds={}, numPartitions={}]",
            self.curve.rows_per_second,
            self.curve.ramp_up_s,
            self.partitions
                .given
                .map_or("default".to_owned(), |count| count.to_string())
        )
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::source("rate")
            .param("rowsPerSecond", self.curve.rows_per_second)
            .param("rampUpTimeSeconds", self.curve.ramp_up_s)
    }

    fn max_parallelism(&self) -> Option<usize> {
        self.partitions.given
    }

    async fn open(&mut self, context: SourceContext) -> Result<()> {
        let committed = context.committed.as_ref();
        let newest = committed.map_or(Ok(0), |offset| offset_as_u64("rate", offset))?;
        let start_ms = durable_start(&context).await?;
        self.partitions.forget_readers();
        self.run = Some(Run {
            clock: context.clock,
            start_ms,
            newest,
        });
        Ok(())
    }

    async fn latest(
        &mut self,
        start: Option<&Offset>,
        _admission: Admission,
    ) -> Result<Option<Offset>> {
        let from = start.map_or(Ok(0), |offset| offset_as_u64("rate", offset))?;
        let fixed = self.fixed;
        let seconds = self.run()?.seconds();
        Ok(Some(json!(fixed.unwrap_or(seconds).max(from))))
    }

    async fn fix_end(&mut self) -> Result<()> {
        let seconds = self.run()?.seconds();
        self.fixed.get_or_insert(seconds);
        Ok(())
    }

    async fn splits(
        &mut self,
        _epoch: Epoch,
        start: Option<&Offset>,
        end: &Offset,
    ) -> Result<Vec<Split>> {
        let from = start.map_or(Ok(0), |offset| offset_as_u64("rate", offset))?;
        let to = offset_as_u64("rate", end)?;
        self.check_reach(to)?;
        let start_ms = self.run()?.start_ms;
        let (from, to) = (self.curve.rows_after(from), self.curve.rows_after(to));
        let payload = |from, to| json!({ "from": from, "to": to, "startMs": start_ms });
        Ok(self.partitions.cut(from, to, payload))
    }

    fn reader(&self, subtask: usize) -> Result<Box<dyn SourceReader>> {
        self.partitions.note_reader(subtask);
        Ok(Box::new(RateReader {
            curve: self.curve,
            from: 0,
            to: 0,
            start_ms: 0,
        }))
    }

    fn newest(&self) -> Option<Offset> {
        self.run.as_ref().map(|run| json!(run.newest))
    }
}

struct RateReader {
    curve: Curve,
    from: u64,
    to: u64,
    start_ms: i64,
}

impl SourceReader for RateReader {
    fn open(&mut self, split: &Split) -> Result<()> {
        let start = split
            .payload
            .get("startMs")
            .and_then(serde_json::Value::as_i64);
        let start =
            start.ok_or_else(|| WeirError::internal("split of source 'rate' without start"));
        (self.from, self.to, self.start_ms) =
            (number(split, "from")?, number(split, "to")?, start?);
        Ok(())
    }

    fn poll(&mut self, max_rows: usize, _max_wait: Duration) -> Result<Polled> {
        if self.from >= self.to {
            return Ok(Polled::Done);
        }
        let millis = self.curve.millis(self.from, self.to, max_rows.max(1));
        let first = i64::try_from(self.from).unwrap_or(i64::MAX);
        let values: Vec<i64> = (first..).take(millis.len()).collect();
        self.from += millis.len() as u64;
        let micros = millis.into_iter().map(|after| {
            let after = i64::try_from(after).unwrap_or(i64::MAX);
            self.start_ms.saturating_add(after).saturating_mul(1000)
        });
        Ok(Polled::Batch(batch(micros.collect(), values)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_seconds_takes_whole_seconds_in_any_unit() {
        for (text, seconds) in [
            ("0s", 0),
            ("5", 5),
            ("2m", 120),
            ("1 h", 3600),
            ("3000ms", 3),
        ] {
            assert_eq!(parse_seconds(text), Some(seconds), "{text}");
        }
        for text in [
            "",
            "s",
            "-1s",
            "1.5s",
            "1500ms",
            "5 weeks",
            "99999999999999999999",
        ] {
            assert_eq!(parse_seconds(text), None, "{text}");
        }
    }
}
