//! Settings of a session about files: their logs and who cleans up.

use std::num::NonZeroU32;
use std::time::Duration;

use weir_connectors::file::logs::LogSettings;
use weir_connectors::file::sink::FileSinkConfig;
use weir_connectors::file::source::FileSourceConfig;

use super::conf::{Conf, Setting, flag, is_flag, is_positive, is_time, time};

const SOURCE: &str = "spark.sql.streaming.fileSource";
const SINK: &str = "spark.sql.streaming.fileSink";
const IGNORE_MANIFESTS: &str = "spark.sql.streaming.fileStreamSink.ignoreMetadata";

const fn setting(
    key: &'static str,
    default: &'static str,
    allowed: &'static str,
    valid: fn(&str) -> bool,
) -> Setting {
    Setting {
        key,
        default: Some(default),
        allowed,
        valid,
    }
}

const INTERVAL: &str = "a number from 1";
const DELAY: &str = "a time such as 10m";
const FLAG: &str = "true, false";

/// The settings, each with what it may be.
pub(super) const SETTINGS: &[Setting] = &[
    setting(
        "spark.sql.streaming.fileSource.log.deletion",
        "true",
        FLAG,
        is_flag,
    ),
    setting(
        "spark.sql.streaming.fileSource.log.compactInterval",
        "10",
        INTERVAL,
        is_interval,
    ),
    setting(
        "spark.sql.streaming.fileSource.log.cleanupDelay",
        "0ms",
        DELAY,
        is_time,
    ),
    setting(
        "spark.sql.streaming.fileSource.cleaner.numThreads",
        "1",
        "a number from 0",
        is_count,
    ),
    setting(
        "spark.sql.streaming.fileSource.schema.forceNullable",
        "true",
        "true",
        is_true,
    ),
    setting(
        "spark.sql.streaming.schemaInference",
        "false",
        "false",
        is_false,
    ),
    setting(IGNORE_MANIFESTS, "false", FLAG, is_flag),
    setting(
        "spark.sql.streaming.fileSink.log.deletion",
        "true",
        FLAG,
        is_flag,
    ),
    setting(
        "spark.sql.streaming.fileSink.log.compactInterval",
        "10",
        INTERVAL,
        is_interval,
    ),
    setting(
        "spark.sql.streaming.fileSink.log.cleanupDelay",
        "0ms",
        DELAY,
        is_time,
    ),
];

fn is_interval(text: &str) -> bool {
    is_positive(text) && text.trim().parse::<NonZeroU32>().is_ok()
}

fn is_count(text: &str) -> bool {
    text.trim().parse::<u16>().is_ok()
}

fn is_true(text: &str) -> bool {
    flag(text) == Some(true)
}

fn is_false(text: &str) -> bool {
    flag(text) == Some(false)
}

impl Conf {
    fn log_of(&self, files: &str) -> LogSettings {
        let defaults = LogSettings::default();
        let text = |name: &str| self.get(&format!("{files}.log.{name}")).unwrap_or_default();
        LogSettings {
            compact_interval: text("compactInterval")
                .trim()
                .parse()
                .unwrap_or(defaults.compact_interval),
            delete: flag(&text("deletion")).unwrap_or(defaults.delete),
            cleanup_delay: time(&text("cleanupDelay")).unwrap_or(Duration::ZERO),
        }
    }

    /// Tells a file source what the session says.
    pub(crate) fn set_up_source(&self, config: &mut FileSourceConfig) {
        config.log = self.log_of(SOURCE);
        config.ignore_manifests = self.is_on(IGNORE_MANIFESTS);
        self.reach_source(config);
        let threads = self.get(&format!("{SOURCE}.cleaner.numThreads"));
        if let Some(threads) = threads.and_then(|text| text.trim().parse().ok()) {
            config.cleaner_threads = threads;
        }
    }

    /// Tells a file sink what the session says.
    pub(crate) fn set_up_sink(&self, config: &mut FileSinkConfig) {
        config.log = self.log_of(SINK);
    }
}

#[cfg(test)]
mod tests {
    use weir_connectors::file::encode::{JsonWriteOptions, WriteFormat};
    use weir_connectors::file::source::JsonSource;

    use super::*;

    fn source(conf: &Conf) -> FileSourceConfig {
        let schema = crate::types::parse_schema("v INT").expect("a schema");
        let mut config = JsonSource::new("/in")
            .schema(schema)
            .into_config()
            .expect("allowed");
        conf.set_up_source(&mut config);
        config
    }

    #[test]
    fn settings_of_logs_and_cleaner_reach_source_and_sink() {
        let conf = Conf::default();
        let defaults = source(&conf);
        assert_eq!(
            (defaults.log, defaults.cleaner_threads),
            (LogSettings::default(), 1)
        );
        for (key, value) in [
            ("spark.sql.streaming.fileSource.log.compactInterval", "3"),
            ("spark.sql.streaming.fileSource.log.cleanupDelay", "10m"),
            ("spark.sql.streaming.filesource.cleaner.numthreads", "0"),
            ("spark.sql.streaming.fileSink.log.deletion", "false"),
            ("spark.sql.streaming.fileStreamSink.ignoreMetadata", "true"),
        ] {
            conf.set(key, value).expect("allowed");
        }
        let config = source(&conf);
        assert_eq!(config.log.compact_interval.get(), 3);
        assert_eq!(config.log.cleanup_delay, Duration::from_secs(600));
        assert!(config.log.delete && config.cleaner_threads == 0 && config.ignore_manifests);
        let format = WriteFormat::Json(JsonWriteOptions::default());
        let mut sink = FileSinkConfig::new("/out", format);
        conf.set_up_sink(&mut sink);
        assert!(!sink.log.delete && sink.log.compact_interval.get() == 10);
    }

    #[test]
    fn values_that_are_not_allowed_or_not_offered_are_refused() {
        let conf = Conf::default();
        for (key, value) in [
            ("spark.sql.streaming.fileSource.log.compactInterval", "0"),
            ("spark.sql.streaming.fileSink.log.cleanupDelay", "soon"),
            ("spark.sql.streaming.fileSource.cleaner.numThreads", "-1"),
            ("spark.sql.streaming.schemaInference", "true"),
            (
                "spark.sql.streaming.fileSource.schema.forceNullable",
                "false",
            ),
        ] {
            let error = conf.set(key, value).expect_err(key).to_string();
            assert!(error.contains(key) && error.contains("allowed"), "{error}");
        }
    }
}
