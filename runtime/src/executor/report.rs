//! Progress of an epoch, made from its plan, its acknowledgements and the time its phases took.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_state::Epoch;

use super::{Executor, OpenEpoch, SinkSlot, SourceSlot, offset, written};
use crate::operator::EventTimeStats;
use crate::progress::{QueryProgress, SinkProgress, SourceProgress, iso, rate};
use crate::task::TaskAck;
use crate::watermark::merge_event_times;

impl Executor {
    pub(super) async fn progress(&self, open: &OpenEpoch) -> QueryProgress {
        let shared = &self.shared;
        let total = u64::try_from(self.clock().now_ms() - self.timing.trigger_ms).unwrap_or(0);
        let since_previous = self
            .timing
            .previous_trigger_ms
            .map_or(0, |previous| self.timing.trigger_ms - previous);
        let since_previous = u64::try_from(since_previous).unwrap_or(0);
        let mut sources = Vec::with_capacity(self.sources.len());
        for (index, slot) in self.sources.iter().enumerate() {
            sources.push(
                self.source_progress(open, index, slot, since_previous, total)
                    .await,
            );
        }
        let rows: u64 = sources.iter().map(|source| source.num_input_rows).sum();
        QueryProgress {
            id: shared.id(),
            run_id: shared.run_id,
            name: shared.config.name.clone(),
            timestamp: iso(self.timing.trigger_ms),
            batch_id: open.plan.epoch.0,
            batch_duration: total,
            duration_ms: self.durations(total),
            event_time: event_time(open, self.watermarks.is_defined()),
            state_operators: self.state_operators(open),
            sources,
            sink: self.sink_progress(open),
            num_input_rows: rows,
            input_rows_per_second: rate(rows, since_previous),
            processed_rows_per_second: rate(rows, total),
            observed_metrics: BTreeMap::new(),
        }
    }

    /// Whole milliseconds by phase; running the epoch is what the other phases leave of the whole.
    fn durations(&self, total: u64) -> BTreeMap<String, u64> {
        let mut durations: BTreeMap<String, u64> = self
            .timing
            .durations
            .iter()
            .map(|(phase, ms)| (phase.clone(), ms.round() as u64))
            .collect();
        let known: u64 = durations.values().sum();
        durations.insert("addBatch".to_owned(), total.saturating_sub(known));
        durations.insert("triggerExecution".to_owned(), total);
        durations
    }

    async fn source_progress(
        &self,
        open: &OpenEpoch,
        index: usize,
        slot: &SourceSlot,
        since: u64,
        total: u64,
    ) -> SourceProgress {
        let acks = || open.acks.iter().filter(|ack| ack.id.task == slot.task);
        let rows: u64 = acks().map(|ack| ack.rows).sum();
        let malformed = open
            .acks
            .iter()
            .filter_map(|ack| ack.malformed.get(&slot.node));
        let bad = acks().map(|ack| ack.bad_records).sum::<u64>() + malformed.sum::<u64>();
        let range = open.plan.source(&slot.uid);
        let source = slot.source.lock().await;
        let newest = source.newest();
        let mut metrics = source.metrics(range.and_then(|range| offset(&range.end)));
        drop(source);
        let text = |value: &Value| offset(value).map(ToString::to_string);
        let splits = open.splits.get(index).copied().unwrap_or(0);
        metrics.insert("badRecords".to_owned(), bad.to_string());
        metrics.insert("splits".to_owned(), splits.to_string());
        SourceProgress {
            description: slot.description.clone(),
            start_offset: range.and_then(|range| range.start.as_ref()).and_then(text),
            end_offset: range.and_then(|range| text(&range.end)),
            latest_offset: newest.as_ref().and_then(text),
            num_input_rows: rows,
            input_rows_per_second: rate(rows, since),
            processed_rows_per_second: rate(rows, total),
            metrics,
        }
    }

    fn sink_progress(&self, open: &OpenEpoch) -> SinkProgress {
        let slot = self.sinks.first();
        SinkProgress {
            description: slot
                .map(|slot| slot.description.clone())
                .unwrap_or_default(),
            num_output_rows: slot.map_or(0, |slot| written(&open.acks, slot.task)),
            metrics: slot
                .map(|slot| sink_metrics(&open.acks, slot))
                .unwrap_or_default(),
        }
    }
}

/// What the sink promises, and what its writers counted, all subtasks together.
fn sink_metrics(acks: &[TaskAck], slot: &SinkSlot) -> BTreeMap<String, String> {
    let own = acks.iter().filter(|ack| ack.id.task == slot.task);
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in own.flat_map(|ack| &ack.sink_metrics) {
        *sums.entry(name).or_default() += count;
    }
    let counted = sums
        .into_iter()
        .map(|(name, sum)| (name.to_owned(), sum.to_string()));
    let delivery = ("delivery".to_owned(), slot.delivery.clone());
    counted.chain([delivery]).collect()
}

fn event_time(open: &OpenEpoch, has_watermark: bool) -> BTreeMap<String, String> {
    let merged = open
        .acks
        .iter()
        .flat_map(|ack| &ack.event_times)
        .map(|(_, stats)| *stats)
        .reduce(merge_event_times);
    let mut fields = BTreeMap::new();
    if has_watermark {
        fields.insert("watermark".to_owned(), iso(open.plan.watermark_ms));
    }
    if let Some(EventTimeStats {
        min_ms,
        max_ms,
        sum_ms,
        count,
        ..
    }) = merged
    {
        fields.insert("min".to_owned(), iso(min_ms));
        fields.insert("max".to_owned(), iso(max_ms));
        fields.insert("avg".to_owned(), iso((sum_ms / count.max(1) as f64) as i64));
    }
    fields
}

/// A watermark that moves by more than this in one epoch is worth a warning, in milliseconds.
const JUMP_MS: i64 = 24 * 3_600_000;

/// Says which event time moved the watermark by more than a day: a single wrong one makes everything after it late.
pub(super) fn warn_of_jump(epoch: Epoch, before_ms: i64, next_ms: i64, acks: &[TaskAck]) {
    if before_ms <= 0 || next_ms.saturating_sub(before_ms) <= JUMP_MS {
        return;
    }
    let times = acks.iter().flat_map(|ack| &ack.event_times);
    if let Some((uid, stats)) = times.max_by_key(|(_, stats)| stats.max_ms) {
        tracing::warn!(
            operator = uid,
            epoch = epoch.0,
            event_time = iso(stats.max_ms),
            before = iso(before_ms),
            after = iso(next_ms),
            "one event time moved the watermark by more than a day: rows of the time between are late from now on; the setting \
             weir.watermark.maxFutureSkew keeps such times from moving it"
        );
    }
}
