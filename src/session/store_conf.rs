//! Settings of a session about object stores: `fs.s3a.*`, also with `spark.hadoop.` before, as Spark's programs write them.

use std::fmt;

use weir_connectors::file::source::FileSourceConfig;
use weir_runtime::{ObjectStoreSettings, Result};

use super::conf::Conf;
use crate::read::OptionTexts;

const HADOOP: &str = "spark.hadoop.";

/// The name of a setting about object stores, if the key is one.
pub(super) fn store_setting(key: &str) -> Option<&'static str> {
    let plain = match key.get(..HADOOP.len()) {
        Some(prefix) if prefix.eq_ignore_ascii_case(HADOOP) => &key[HADOOP.len()..],
        _ => key,
    };
    ObjectStoreSettings::known(plain)
}

impl Conf {
    /// How object stores are reached under these settings.
    pub(crate) fn object_stores(&self) -> ObjectStoreSettings {
        let mut settings = ObjectStoreSettings::default();
        for (key, value) in self.lock().iter() {
            if ObjectStoreSettings::known(key).is_some()
                && let Err(error) = settings.set(key, value)
            {
                tracing::warn!(%error, "setting is not used");
            }
        }
        settings
    }

    /// Takes the options about object stores out of those of a query and gives them with what the session says beside them.
    ///
    /// # Errors
    /// Values that are not allowed.
    pub(crate) fn take_object_stores(
        &self,
        options: &mut OptionTexts,
    ) -> Result<ObjectStoreSettings> {
        let mut own = ObjectStoreSettings::default();
        let names: Vec<String> = options.texts().keys().cloned().collect();
        for name in names {
            if ObjectStoreSettings::known(&name).is_some()
                && let Some(value) = options.take(&name)
            {
                own.set(&name, &value)?;
            }
        }
        Ok(own.or(&self.object_stores()))
    }

    /// Tells a file source how the session reaches object stores, where its options say nothing.
    pub(crate) fn reach_source(&self, config: &mut FileSourceConfig) {
        let own = std::mem::take(&mut config.object_stores);
        config.object_stores = own.or(&self.object_stores());
    }
}

impl fmt::Debug for Conf {
    /// Without values: some are nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_object_stores_are_found_by_both_spellings_and_never_shown() {
        let conf = Conf::default();
        for (key, value) in [
            ("spark.hadoop.fs.s3a.access.key", "AKIA"),
            ("FS.S3A.SECRET.KEY", "hush-hush"),
            ("fs.s3a.endpoint", "http://127.0.0.1:1"),
            ("spark.hadoop.fs.s3a.impl", "org.apache.S3AFileSystem"),
        ] {
            conf.set(key, value).expect("kept");
        }
        assert_eq!(
            conf.get("spark.hadoop.fs.s3a.endpoint").as_deref(),
            Some("http://127.0.0.1:1")
        );
        let mut expected = ObjectStoreSettings::default();
        for (key, value) in [
            ("fs.s3a.access.key", "AKIA"),
            ("fs.s3a.secret.key", "hush-hush"),
            ("fs.s3a.endpoint", "http://127.0.0.1:1"),
        ] {
            expected.set(key, value).expect("allowed");
        }
        assert_eq!(conf.object_stores(), expected);
        assert_eq!(conf.query_config().object_stores, expected);
        let shown = format!("{conf:?}");
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn values_that_are_not_allowed_are_refused_when_they_are_set() {
        let conf = Conf::default();
        for (key, value) in [
            ("spark.hadoop.fs.s3a.path.style.access", "perhaps"),
            ("fs.s3a.attempts.maximum", "0"),
        ] {
            let error = conf.set(key, value).expect_err(key).to_string();
            assert!(
                error.contains("fs.s3a") && error.contains("allowed"),
                "{error}"
            );
        }
    }

    #[test]
    fn options_of_a_query_come_before_the_session_and_are_taken_out() {
        let conf = Conf::default();
        conf.set("fs.s3a.endpoint", "http://session")
            .expect("allowed");
        conf.set("fs.s3a.endpoint.region", "eu-south-1")
            .expect("allowed");
        let mut options = OptionTexts::default();
        options.set("fs.s3a.Endpoint", "http://own");
        options.set("truncate", "true");
        let settings = conf.take_object_stores(&mut options).expect("allowed");
        let shown = format!("{settings:?}");
        assert!(
            shown.contains("http://own") && shown.contains("eu-south-1"),
            "{shown}"
        );
        assert_eq!(options.texts().len(), 1);
    }
}
