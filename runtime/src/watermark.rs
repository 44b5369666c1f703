//! The query's watermark: a pure function of the event times seen through an epoch and of processing times that plans fix
//! (invariant E7).
//!
//! Each operator that defines a watermark contributes `largest event time - delay`; the policy merges them; the result never
//! goes back and is what the next plan fixes. Only the merged value is durable: after a restart the operators' own values start
//! empty (as Spark's do), unless one of the options of [`WatermarkSettings`] is on.

mod settings;

use std::collections::BTreeMap;

use weir_state::WatermarkPart;

pub use self::settings::{WatermarkPolicy, WatermarkSettings};
use crate::operator::EventTimeStats;

/// How far one operator or one of its splits is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    watermark_ms: i64,
    /// Processing time of the epoch that last had an event time of it; at first, of the first look.
    active_ms: i64,
}

impl Part {
    fn observe(&mut self, stats: &EventTimeStats, now_ms: i64) {
        let candidate = stats.max_ms.saturating_sub(stats.delay_ms);
        self.watermark_ms = self.watermark_ms.max(candidate);
        self.active_ms = self.active_ms.max(now_ms);
    }
}

/// (source id, split name); `None` for the operator as a whole.
type PartId = Option<(String, String)>;

/// An operator that defines a watermark.
#[derive(Debug, Clone)]
struct Definer {
    /// Sources whose rows reach the operator.
    sources: Vec<String>,
    whole: Option<Part>,
    splits: BTreeMap<(String, String), Part>,
}

/// Merges event times into the watermark of the next epoch.
#[derive(Debug, Clone)]
pub struct WatermarkTracker {
    settings: WatermarkSettings,
    definers: BTreeMap<String, Definer>,
    current_ms: i64,
}

impl WatermarkTracker {
    /// A tracker for the operators that define watermarks, each with the sources above it, going on from a durable value (0 for
    /// a new query).
    pub fn new(
        settings: WatermarkSettings,
        definers: impl IntoIterator<Item = (String, Vec<String>)>,
        current_ms: i64,
    ) -> Self {
        let definers = definers.into_iter().map(|(uid, sources)| {
            let definer = Definer {
                sources,
                whole: None,
                splits: BTreeMap::new(),
            };
            (uid, definer)
        });
        Self {
            settings,
            definers: definers.collect(),
            current_ms,
        }
    }

    /// How it merges.
    pub fn settings(&self) -> &WatermarkSettings {
        &self.settings
    }

    /// An epoch planned earlier runs with this watermark: it does not fall behind it again.
    pub fn raise(&mut self, watermark_ms: i64) {
        self.current_ms = self.current_ms.max(watermark_ms);
    }

    /// True if the query has a watermark.
    pub fn is_defined(&self) -> bool {
        !self.definers.is_empty()
    }

    /// Names the splits of a source that live as long as the query: from now on each has a say of its own.
    pub fn know_splits(&mut self, source: &str, splits: &[String], now_ms: i64) {
        if !self.settings.per_split {
            return;
        }
        let definers = self.definers.values_mut();
        for definer in definers.filter(|definer| definer.sources.iter().any(|own| own == source)) {
            for split in splits {
                let id = (source.to_owned(), split.clone());
                definer.splits.entry(id).or_insert(Part {
                    watermark_ms: 0,
                    active_ms: now_ms,
                });
            }
        }
    }

    /// Takes the event times of one epoch planned at `now_ms`, by operator id, over all subtasks.
    pub fn observe(&mut self, uid: &str, stats: &EventTimeStats, now_ms: i64) {
        if let Some(definer) = self.definers.get_mut(uid) {
            let whole = definer.whole.get_or_insert(Part {
                watermark_ms: 0,
                active_ms: now_ms,
            });
            whole.observe(stats, now_ms);
        }
    }

    /// Takes the event times of one long-lived split; those of other splits count for the operator as a whole only.
    pub fn observe_split(
        &mut self,
        uid: &str,
        source: &str,
        split: &str,
        stats: &EventTimeStats,
        now_ms: i64,
    ) {
        let id = (source.to_owned(), split.to_owned());
        let definer = self.definers.get_mut(uid);
        if let Some(part) = definer.and_then(|definer| definer.splits.get_mut(&id)) {
            part.observe(stats, now_ms);
        }
    }

    /// The watermark for an epoch planned at `now_ms`, in milliseconds since 1970: parts that have been silent for the idle timeout
    /// hold nothing back.
    pub fn at(&mut self, now_ms: i64) -> i64 {
        let mut parts = Vec::new();
        for definer in self.definers.values_mut() {
            let whole = *definer.whole.get_or_insert(Part {
                watermark_ms: 0,
                active_ms: now_ms,
            });
            match definer.splits.is_empty() {
                true => parts.push(whole),
                false => parts.extend(definer.splits.values().copied()),
            }
        }
        let merged = match self.settings.policy {
            WatermarkPolicy::Min => self.slowest(&parts, now_ms),
            WatermarkPolicy::Max => parts.iter().map(|part| part.watermark_ms).max(),
        };
        self.current_ms = self.current_ms.max(merged.unwrap_or(0));
        self.current_ms
    }

    /// The slowest part that is not idle; when all are, none holds another back, so the fastest.
    fn slowest(&self, parts: &[Part], now_ms: i64) -> Option<i64> {
        let timeout_ms = self.settings.idle_timeout_ms();
        let idle = |part: &&Part| {
            timeout_ms.is_some_and(|timeout| now_ms.saturating_sub(part.active_ms) >= timeout)
        };
        let awake = parts.iter().filter(|part| !idle(part));
        let all = parts.iter().map(|part| part.watermark_ms);
        awake
            .map(|part| part.watermark_ms)
            .min()
            .or_else(|| all.max())
    }

    /// What a restart needs to go on exactly here; empty as long as no option asks for more than the merged value.
    pub fn parts(&self) -> Vec<WatermarkPart> {
        if !self.settings.keeps_parts() {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for (uid, definer) in &self.definers {
            let whole = definer.whole.map(|part| (None, part));
            let splits = definer
                .splits
                .iter()
                .map(|(id, part)| (Some(id.clone()), *part));
            parts.extend(
                whole
                    .into_iter()
                    .chain(splits)
                    .map(|(id, part)| stored(uid, id, part)),
            );
        }
        parts
    }

    /// Takes back what [`parts`](Self::parts) gave.
    pub fn restore(&mut self, parts: &[WatermarkPart]) {
        if !self.settings.keeps_parts() {
            return;
        }
        for stored in parts {
            let Some(definer) = self.definers.get_mut(&stored.operator) else {
                continue;
            };
            let part = Part {
                watermark_ms: stored.watermark_ms,
                active_ms: stored.active_ms,
            };
            match (&stored.source, &stored.split) {
                (Some(source), Some(split)) if self.settings.per_split => {
                    let id = (source.clone(), split.clone());
                    definer.splits.insert(id, part);
                }
                (None, None) => definer.whole = Some(part),
                _ => {}
            }
        }
    }
}

fn stored(uid: &str, id: PartId, part: Part) -> WatermarkPart {
    let (source, split) = id.unzip();
    WatermarkPart {
        operator: uid.to_owned(),
        source,
        split,
        watermark_ms: part.watermark_ms,
        active_ms: part.active_ms,
    }
}

/// Event times of several subtasks as one.
pub fn merge_event_times(a: EventTimeStats, b: EventTimeStats) -> EventTimeStats {
    EventTimeStats {
        min_ms: a.min_ms.min(b.min_ms),
        max_ms: a.max_ms.max(b.max_ms),
        sum_ms: a.sum_ms + b.sum_ms,
        count: a.count + b.count,
        delay_ms: a.delay_ms,
    }
}

#[cfg(test)]
mod tests;
