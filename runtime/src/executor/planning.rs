//! Where the next epoch ends and whether there is one; its plan made durable.

use serde_json::Value;
use weir_state::{Epoch, Plan, SourceRange};

use super::{Done, Executor, OpenEpoch, offset};
use crate::error::Result;
use crate::no_data::{NoDataFacts, no_data_epoch_is_due};
use crate::source::Admission;
use crate::trigger::Trigger;

impl Executor {
    pub(super) async fn plan(&mut self, epoch: Epoch) -> Result<Done> {
        self.start_trigger();
        self.failpoints().hit("plan:before")?;
        let (sources, rows) = self.ranges().await?;
        self.report_backlog().await;
        let now_ms = self.timing.trigger_ms;
        self.know_splits(now_ms).await;
        let watermark_ms = self.watermarks.at(now_ms);
        let config = &self.shared.config;
        let closes = no_data_epoch_is_due(&NoDataFacts {
            enabled: config.no_data_epochs,
            wanted: self.fixed.watermark_epochs,
            trigger: config.trigger,
            last_watermark_ms: self.last_watermark_ms,
            next_watermark_ms: watermark_ms,
        });
        let work = rows || closes;
        if work {
            let mut frozen = config.frozen.clone();
            self.watermarks.settings().write(&mut frozen);
            self.open = Some(OpenEpoch::new(Plan {
                epoch,
                generation: self.fixed.generation,
                watermark_ms,
                batch_timestamp_ms: now_ms,
                config: frozen,
                sources,
            }));
        }
        Ok(Done::Planned { work })
    }

    /// What each source would read, and whether any has something new.
    async fn ranges(&mut self) -> Result<(Vec<SourceRange>, bool)> {
        let admission = match self.shared.config.trigger {
            Trigger::Once => Admission::Everything,
            _ => Admission::Limited,
        };
        let mut ranges = Vec::with_capacity(self.sources.len());
        let mut work = false;
        self.problem = None;
        for slot in &mut self.sources {
            let mut source = slot.source.lock().await;
            let unavailable =
                |problem: String| format!("Source unavailable: {}: {problem}", slot.description);
            let status = source.problem().map_or_else(
                || format!("Getting offsets from {}", slot.description),
                unavailable,
            );
            self.shared.set_status(status, false, true);
            let latest = source
                .latest(slot.position.as_ref(), admission)
                .await
                .map_err(|error| error.at(&slot.uid, 0))?;
            if self.problem.is_none() {
                self.problem = source.problem().map(unavailable);
            }
            let end = latest.or_else(|| slot.position.clone());
            work |= end != slot.position;
            ranges.push(SourceRange {
                source: slot.uid.clone(),
                start: slot.position.clone(),
                end: end.unwrap_or(Value::Null),
            });
        }
        Ok((ranges, work))
    }

    /// Tells the watermark of the splits that live as long as the query.
    pub(super) async fn know_splits(&mut self, now_ms: i64) {
        if !self.shared.config.watermark.per_split {
            return;
        }
        for slot in &self.sources {
            let splits = slot.source.lock().await.long_lived_splits();
            self.watermarks.know_splits(&slot.uid, &splits, now_ms);
        }
    }

    pub(super) async fn write_plan(&mut self, epoch: Epoch) -> Result<Done> {
        self.shared.set_status("Writing offsets to log", true, true);
        let plan = self.open(epoch)?.plan.clone();
        self.log_sources(&plan).await?;
        self.publish_plan(&plan).await?;
        Ok(Done::Logged)
    }

    /// The subtasks read while the plan is written; what they answer is looked at when it is durable.
    pub(super) async fn begin_and_log(&mut self, epoch: Epoch) -> Result<Done> {
        let plan = self.open(epoch)?.plan.clone();
        self.log_sources(&plan).await?;
        self.begin(epoch).await?;
        self.publish_plan(&plan).await?;
        Ok(Done::Begun)
    }

    async fn log_sources(&self, plan: &Plan) -> Result<()> {
        let failpoints = self.failpoints();
        for (slot, range) in self.sources.iter().zip(&plan.sources) {
            failpoints.hit("source-log:before")?;
            if let Some(end) = offset(&range.end) {
                let mut source = slot.source.lock().await;
                source
                    .log(plan.epoch, range.start.as_ref(), end)
                    .await
                    .map_err(|error| error.at(&slot.uid, 0))?;
            }
        }
        Ok(())
    }

    async fn publish_plan(&self, plan: &Plan) -> Result<()> {
        let failpoints = self.failpoints();
        failpoints.hit("plan-log:before")?;
        self.log.publish_plan(plan).await?;
        failpoints.hit("plan-log:after")
    }
}
