//! Settings of a session, by Spark's names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_connectors::file::decode::parse::Zone;
use weir_runtime::{
    Compression, ObjectStoreSettings, QueryConfig, Result, StateSettings, WatermarkPolicy,
    WatermarkSettings, WeirError,
};

use super::store_conf::store_setting;

/// Zone in which local times are read and shown.
pub(crate) const TIME_ZONE: &str = "spark.sql.session.timeZone";
/// Directory under which queries without a checkpoint location of their own get one.
pub(crate) const CHECKPOINT: &str = "spark.sql.streaming.checkpointLocation";
/// Whether epochs without new rows run when the watermark has moved.
const NO_DATA_EPOCHS: &str = "spark.sql.streaming.noDataMicroBatches.enabled";
/// Memory for the state of a query.
const STATE_MEMORY: &str = "weir.state.memoryBudget";
/// Directory for state that does not fit in memory.
const STATE_DIR: &str = "weir.state.localDir";
/// How state files of a checkpoint are compressed.
const STATE_COMPRESSION: &str = "spark.sql.streaming.stateStore.compression.codec";
/// Files of changes before one that holds everything.
const STATE_CHAIN: &str = "spark.sql.streaming.stateStore.minDeltasForSnapshot";
/// Silence after which a stream no longer holds the watermark back.
const IDLE_TIMEOUT: &str = "weir.watermark.idleTimeout";
/// How far ahead of processing time an event time may lie and still move the watermark.
const MAX_FUTURE_SKEW: &str = "weir.watermark.maxFutureSkew";
/// Whether partitions have watermarks of their own.
const PER_SPLIT: &str = "weir.watermark.perSplit";
/// Whether aggregates that a checkpoint does not know may be added to its query.
pub(crate) const NEW_AGGREGATES: &str = "weir.state.allowNewAggregates";
/// Whether a query that ends by itself shows a progress bar.
pub(crate) const PROGRESS_BAR: &str = "weir.progressBar";

/// How long `drop_duplicates` remembers a key whose event time is no key.
pub(crate) const DUPLICATES_RETENTION: &str = "weir.dropDuplicates.retention";

/// Options of Kafka sources and sinks that the operator of the program does not allow.
pub(crate) const KAFKA_DISALLOWED: &str = "spark.sql.kafka.disallowedOptions";

/// One known setting.
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) default: Option<&'static str>,
    pub(super) allowed: &'static str,
    pub(super) valid: fn(&str) -> bool,
}

const SETTINGS: &[Setting] = &[
    Setting {
        key: TIME_ZONE,
        default: Some("UTC"),
        allowed: "UTC, an offset such as +01:00, or a region such as Europe/Rome",
        valid: is_zone,
    },
    Setting {
        key: CHECKPOINT,
        default: None,
        allowed: "a path or URL",
        valid: |text| !text.trim().is_empty(),
    },
    Setting {
        key: KAFKA_DISALLOWED,
        default: Some(""),
        allowed: "names of options, separated by commas",
        valid: |_| true,
    },
    Setting {
        key: "spark.sql.streaming.pollingDelay",
        default: Some("10ms"),
        allowed: "a time such as 10ms or 2s",
        valid: is_time,
    },
    Setting {
        key: "spark.sql.streaming.minBatchesToRetain",
        default: Some("100"),
        allowed: "a number from 1",
        valid: is_positive,
    },
    Setting {
        key: "spark.sql.streaming.noDataProgressEventInterval",
        default: Some("10s"),
        allowed: "a time such as 10s",
        valid: is_time,
    },
    Setting {
        key: "spark.sql.streaming.numRecentProgressUpdates",
        default: Some("100"),
        allowed: "a number from 1",
        valid: is_positive,
    },
    Setting {
        key: "spark.sql.streaming.multipleWatermarkPolicy",
        default: Some("min"),
        allowed: "min, max",
        valid: |text| policy(text).is_some(),
    },
    Setting {
        key: NO_DATA_EPOCHS,
        default: Some("true"),
        allowed: "true, false",
        valid: is_flag,
    },
    Setting {
        key: "spark.sql.streaming.unsupportedOperationCheck",
        default: Some("true"),
        allowed: "true",
        valid: |text| flag(text) == Some(true),
    },
    Setting {
        key: "spark.sql.ansi.enabled",
        default: Some("true"),
        allowed: "true",
        valid: |text| flag(text) == Some(true),
    },
    Setting {
        key: STATE_MEMORY,
        default: Some("1g"),
        allowed: "a size such as 512m or 2g",
        valid: |text| size(text).is_some(),
    },
    Setting {
        key: STATE_DIR,
        default: None,
        allowed: "a directory",
        valid: |text| !text.trim().is_empty(),
    },
    Setting {
        key: STATE_COMPRESSION,
        default: Some("lz4"),
        allowed: "lz4, none",
        valid: |text| compression(text).is_some(),
    },
    Setting {
        key: STATE_CHAIN,
        default: Some("32"),
        allowed: "a number from 1",
        valid: is_positive,
    },
    Setting {
        key: IDLE_TIMEOUT,
        default: None,
        allowed: "a time such as 30s",
        valid: is_time,
    },
    Setting {
        key: MAX_FUTURE_SKEW,
        default: None,
        allowed: "a time such as 1h",
        valid: is_time,
    },
    Setting {
        key: PER_SPLIT,
        default: Some("false"),
        allowed: "true, false",
        valid: is_flag,
    },
    Setting {
        key: NEW_AGGREGATES,
        default: Some("false"),
        allowed: "true, false",
        valid: is_flag,
    },
    Setting {
        key: DUPLICATES_RETENTION,
        default: None,
        allowed: "an interval such as 1 hour, not negative",
        valid: |text| retention_ms(text).is_some(),
    },
    Setting {
        key: PROGRESS_BAR,
        default: Some("true"),
        allowed: "true, false",
        valid: is_flag,
    },
];

/// The settings of a session. Known ones are checked when they are set; unknown ones are kept, with a warning each.
#[derive(Default)]
pub(crate) struct Conf {
    values: Mutex<BTreeMap<String, String>>,
    warned: Mutex<BTreeSet<String>>,
}

impl Conf {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a setting, or its default.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let known = setting(key);
        let own = known
            .map(|setting| setting.key)
            .or_else(|| store_setting(key));
        let value = self.lock().get(own.unwrap_or(key)).cloned();
        value.or_else(|| known.and_then(|setting| setting.default).map(str::to_owned))
    }

    /// Sets a value.
    ///
    /// # Errors
    /// If the setting is known and the value is not allowed.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<()> {
        let store = store_setting(key);
        if let Some(name) = store {
            ObjectStoreSettings::default().set(name, value)?;
        }
        let known = setting(key);
        if let Some(setting) = known
            && !(setting.valid)(value)
        {
            return Err(WeirError::config(format!(
                "setting '{key}' has the value '{value}', allowed: {}",
                setting.allowed
            )));
        }
        if known.is_none()
            && store.is_none()
            && self
                .warned
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(key.to_owned())
        {
            tracing::warn!(key, "unknown setting: it is kept and has no effect");
        }
        let own = known.map(|setting| setting.key).or(store);
        self.lock()
            .insert(own.unwrap_or(key).to_owned(), value.to_owned());
        Ok(())
    }

    /// Whether a flag is on.
    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.get(key).as_deref().and_then(flag).unwrap_or(false)
    }

    /// How long deduplication remembers keys, in milliseconds, if it is bounded.
    pub(crate) fn duplicates_retention_ms(&self) -> Option<i64> {
        self.get(DUPLICATES_RETENTION)
            .as_deref()
            .and_then(retention_ms)
    }

    /// The configuration of a query under these settings.
    pub(crate) fn query_config(&self) -> QueryConfig {
        let defaults = QueryConfig::default();
        let text = |name: &str| {
            self.get(&format!("spark.sql.streaming.{name}"))
                .unwrap_or_default()
        };
        let duration = |name: &str, default| time(&text(name)).unwrap_or(default);
        let number = |name: &str| text(name).trim().parse::<u64>().ok();
        let zone = self.get(TIME_ZONE).unwrap_or_default();
        QueryConfig {
            polling_delay: duration("pollingDelay", defaults.polling_delay),
            no_data_progress_interval: duration(
                "noDataProgressEventInterval",
                defaults.no_data_progress_interval,
            ),
            min_epochs_to_retain: number("minBatchesToRetain")
                .unwrap_or(defaults.min_epochs_to_retain),
            recent_progress: number("numRecentProgressUpdates")
                .and_then(|records| usize::try_from(records).ok())
                .unwrap_or(defaults.recent_progress),
            watermark: self.watermark(&text("multipleWatermarkPolicy")),
            no_data_epochs: self.is_on(NO_DATA_EPOCHS),
            state: self.state(),
            object_stores: self.object_stores(),
            frozen: BTreeMap::from([(TIME_ZONE.to_owned(), zone)]),
            ..defaults
        }
    }
}

impl Conf {
    fn state(&self) -> StateSettings {
        let defaults = StateSettings::default();
        let of = |key: &str| self.get(key);
        let chain = of(STATE_CHAIN).and_then(|text| text.trim().parse().ok());
        StateSettings {
            memory_budget: of(STATE_MEMORY)
                .and_then(|text| size(&text))
                .unwrap_or(defaults.memory_budget),
            max_chain: chain.unwrap_or(defaults.max_chain),
            compression: of(STATE_COMPRESSION)
                .and_then(|text| compression(&text))
                .unwrap_or(defaults.compression),
            local_dir: of(STATE_DIR).map(Into::into),
        }
    }

    fn watermark(&self, merging: &str) -> WatermarkSettings {
        let duration = |key: &str| self.get(key).as_deref().and_then(time);
        WatermarkSettings {
            policy: policy(merging).unwrap_or_default(),
            idle_timeout: duration(IDLE_TIMEOUT),
            max_future_skew: duration(MAX_FUTURE_SKEW),
            per_split: self.is_on(PER_SPLIT),
        }
    }
}

fn setting(key: &str) -> Option<&'static Setting> {
    SETTINGS
        .iter()
        .chain(super::file_conf::SETTINGS)
        .find(|setting| setting.key.eq_ignore_ascii_case(key))
}

pub(super) fn flag(text: &str) -> Option<bool> {
    text.trim().to_ascii_lowercase().parse().ok()
}

pub(super) fn is_flag(text: &str) -> bool {
    flag(text).is_some()
}

fn retention_ms(text: &str) -> Option<i64> {
    crate::interval::delay_ms(text).ok()
}

pub(super) fn is_positive(text: &str) -> bool {
    text.trim().parse::<u64>().is_ok_and(|number| number > 0)
}

fn is_zone(text: &str) -> bool {
    Zone::from_name(text).is_ok()
}

pub(super) fn is_time(text: &str) -> bool {
    time(text).is_some()
}

fn policy(text: &str) -> Option<WatermarkPolicy> {
    match text.trim().to_ascii_lowercase().as_str() {
        "min" => Some(WatermarkPolicy::Min),
        "max" => Some(WatermarkPolicy::Max),
        _ => None,
    }
}

fn compression(text: &str) -> Option<Compression> {
    match text.trim().to_ascii_lowercase().as_str() {
        "lz4" => Some(Compression::Lz4),
        "none" => Some(Compression::None),
        _ => None,
    }
}

/// Spark's size text: a whole number of bytes, or one with a unit (`k`, `m`, `g`, `t`, each also with a `b` after it).
fn size(text: &str) -> Option<usize> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: usize = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Spark's time text: a whole number of milliseconds, or one with a unit (`us`, `ms`, `s`, `m`, `min`, `h`, `d`).
pub(super) fn time(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let micros: u64 = match text[digits..].trim() {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.checked_mul(micros).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_sparks_defaults_and_any_letter_case() {
        let conf = Conf::default();
        assert_eq!(
            conf.get("spark.sql.session.timezone").as_deref(),
            Some("UTC")
        );
        conf.set("SPARK.SQL.STREAMING.MINBATCHESTORETAIN", "7")
            .expect("allowed");
        assert_eq!(conf.query_config().min_epochs_to_retain, 7);
        assert_eq!(conf.get("spark.nobody"), None);
    }

    #[test]
    fn values_that_are_not_allowed_are_refused_and_unknown_settings_are_kept() {
        let conf = Conf::default();
        for (key, value) in [
            (TIME_ZONE, "Mars/Base"),
            ("spark.sql.streaming.pollingDelay", "soon"),
            (PROGRESS_BAR, "perhaps"),
        ] {
            let error = conf.set(key, value).expect_err("refused").to_string();
            assert!(error.contains(key) && error.contains("allowed"), "{error}");
        }
        conf.set("spark.executor.memory", "2g").expect("kept");
        assert_eq!(conf.get("spark.executor.memory").as_deref(), Some("2g"));
    }

    #[test]
    fn settings_of_state_and_watermark_reach_the_query() {
        let conf = Conf::default();
        assert_eq!(conf.query_config().state, StateSettings::default());
        assert_eq!(conf.query_config().watermark, WatermarkSettings::default());
        for (key, value) in [
            (STATE_MEMORY, "64m"),
            (STATE_COMPRESSION, "none"),
            (IDLE_TIMEOUT, "30s"),
            (MAX_FUTURE_SKEW, "1h"),
            (PER_SPLIT, "true"),
            (NO_DATA_EPOCHS, "false"),
        ] {
            conf.set(key, value).expect("allowed");
        }
        let config = conf.query_config();
        assert_eq!(config.state.memory_budget, 64 << 20);
        assert_eq!(config.state.compression, Compression::None);
        assert_eq!(config.watermark.idle_timeout, Some(Duration::from_secs(30)));
        assert_eq!(
            config.watermark.max_future_skew,
            Some(Duration::from_secs(3600))
        );
        assert!(config.watermark.per_split && !config.no_data_epochs);
        assert!(conf.set(STATE_MEMORY, "much").is_err());
    }

    #[test]
    fn times_are_milliseconds_or_have_a_unit() {
        let millis = |text| time(text).map(|time| time.as_millis());
        assert_eq!(
            [
                millis("10"),
                millis("10ms"),
                millis("2 s"),
                millis("1min"),
                millis("x")
            ],
            [Some(10), Some(10), Some(2000), Some(60_000), None]
        );
    }
}
