//! What a Kafka source keeps beside the plans, in `sources/<index>/` of the checkpoint:
//!
//! - `initial`: the offsets a new query begins at, in numbers, written before anything else happens. So a query that was started
//!   with `latest` and stopped before its first record does not begin at a later end (field case P054);
//! - a file for each epoch in which a partition does not go on where it ended: new partitions, and places where records were lost.
//!   Both files name the ids of topics, by which a topic that was deleted and created again is found out (P090).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_runtime::{Epoch, Fault, Result, WeirError};
use weir_state::source_log::COMPACT_INTERVAL;
use weir_state::{CheckpointLocation, CreateOutcome, SourceLog, StateError, envelope};

use super::offsets::Offsets;

const REMEDY: &str =
    "restore it from a copy of the checkpoint; without it the source cannot know where it began";

/// Where partitions begin that do not go on where they ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Starts {
    /// Offsets in Spark's form.
    offsets: Value,
    /// Ids of topics that are new or have changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) topic_ids: BTreeMap<String, String>,
    /// Offsets lost.
    #[serde(default)]
    pub(crate) lost: u64,
    /// Partitions in which something was lost.
    #[serde(default)]
    pub(crate) losses: u64,
}

impl Starts {
    pub(crate) fn new(offsets: &Offsets, topic_ids: BTreeMap<String, String>) -> Self {
        Self {
            offsets: offsets.to_json(),
            topic_ids,
            lost: 0,
            losses: 0,
        }
    }

    /// There is something to remember.
    pub(crate) fn says_something(&self) -> bool {
        *self != Self::new(&Offsets::default(), BTreeMap::new())
    }

    pub(crate) fn offsets(&self) -> Result<Offsets> {
        Offsets::from_json(&self.offsets).ok_or_else(|| {
            WeirError::new(
                Fault::Checkpoint,
                format!(
                    "the source log of source 'kafka' has offsets of another form: {}",
                    self.offsets
                ),
            )
        })
    }
}

/// The files of one source.
#[derive(Debug)]
pub(crate) struct StartLog {
    location: CheckpointLocation,
    name: String,
    log: SourceLog<Starts>,
    /// Ids of the topics as of the newest planned epoch.
    pub(crate) topic_ids: BTreeMap<String, String>,
    initial: Option<Starts>,
    epochs: BTreeMap<Epoch, Starts>,
}

impl StartLog {
    /// Reads what there is up to the newest planned epoch.
    pub(crate) async fn open(
        location: CheckpointLocation,
        index: usize,
        planned: Option<Epoch>,
    ) -> Result<Self> {
        let mut log =
            SourceLog::open(location.clone(), &index.to_string(), COMPACT_INTERVAL).await?;
        let name = format!("sources/{index}/initial");
        let initial = read(&location, &name).await?;
        let epochs: BTreeMap<Epoch, Starts> = log
            .load(planned)
            .await?
            .into_iter()
            .map(|logged| (logged.epoch, logged.entry))
            .collect();
        let mut topic_ids = BTreeMap::new();
        for starts in initial.iter().chain(epochs.values()) {
            topic_ids.extend(starts.topic_ids.clone());
        }
        Ok(Self {
            location,
            name,
            log,
            topic_ids,
            initial,
            epochs,
        })
    }

    /// Where the query begins, if that is known already.
    pub(crate) fn initial(&self) -> Result<Option<Offsets>> {
        self.initial.as_ref().map(Starts::offsets).transpose()
    }

    /// Fixes where the query begins. Another run that was faster wins.
    pub(crate) async fn write_initial(&mut self, starts: Starts) -> Result<Offsets> {
        let body = serde_json::to_vec(&starts)
            .map_err(|error| WeirError::internal("offsets are no JSON").with_source(error))?;
        let body = envelope::encode_text(&body);
        let starts = match self.location.create(&self.name, body).await? {
            CreateOutcome::Created => starts,
            CreateOutcome::AlreadyExists => read(&self.location, &self.name)
                .await?
                .ok_or_else(|| missing(&self.location, &self.name))?,
        };
        self.topic_ids.extend(starts.topic_ids.clone());
        let offsets = starts.offsets()?;
        self.initial = Some(starts);
        Ok(offsets)
    }

    /// Makes the exceptions of an epoch durable, before its plan is.
    pub(crate) async fn append(&mut self, epoch: Epoch, starts: Starts) -> Result<()> {
        self.log
            .append(epoch, vec![starts.clone()], |_| true)
            .await?;
        self.topic_ids.extend(starts.topic_ids.clone());
        self.epochs.insert(epoch, starts);
        Ok(())
    }

    /// The exceptions of an epoch.
    pub(crate) fn of(&self, epoch: Epoch) -> Option<&Starts> {
        self.epochs.get(&epoch)
    }
}

async fn read(location: &CheckpointLocation, name: &str) -> Result<Option<Starts>> {
    let Some(file) = location.get(name).await? else {
        return Ok(None);
    };
    let path = location.display_of(name);
    let body = envelope::decode_text(&file)
        .map_err(|error| error.into_error(path.clone(), None, REMEDY))?;
    let starts = serde_json::from_slice(body).map_err(|error| StateError::Damaged {
        path,
        epoch: None,
        reason: format!("its content is not understood: {error}"),
        remedy: REMEDY,
    })?;
    Ok(Some(starts))
}

fn missing(location: &CheckpointLocation, name: &str) -> WeirError {
    WeirError::new(
        Fault::Checkpoint,
        format!(
            "`{}` was there a moment ago and is gone: {REMEDY}",
            location.display_of(name)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::source::offsets::TopicPartition;

    fn offsets(offset: i64) -> Offsets {
        [(TopicPartition::new("t", 0), offset)]
            .into_iter()
            .collect()
    }

    fn location() -> CheckpointLocation {
        crate::test_context::checkpoint()
    }

    #[tokio::test]
    async fn p054_the_first_offsets_survive_and_never_change() {
        let location = location();
        let mut log = StartLog::open(location.clone(), 0, None)
            .await
            .expect("opens");
        assert_eq!(log.initial().expect("fine"), None);
        let ids = BTreeMap::from([("t".to_owned(), "a".to_owned())]);
        let first = log
            .write_initial(Starts::new(&offsets(7), ids.clone()))
            .await;
        assert_eq!(first.expect("written"), offsets(7));
        let mut again = StartLog::open(location, 0, None).await.expect("opens");
        assert_eq!(again.initial().expect("fine"), Some(offsets(7)));
        assert_eq!(again.topic_ids, ids);
        let second = again.write_initial(Starts::new(&offsets(9), ids)).await;
        assert_eq!(second.expect("the first counts"), offsets(7));
    }

    #[tokio::test]
    async fn exceptions_of_planned_epochs_survive_others_are_void() {
        let location = location();
        let mut log = StartLog::open(location.clone(), 0, None)
            .await
            .expect("opens");
        let ids = |id: &str| BTreeMap::from([("t".to_owned(), id.to_owned())]);
        for (epoch, id) in [(3, "b"), (4, "c")] {
            let starts = Starts::new(&offsets(60), ids(id));
            log.append(Epoch(epoch), starts).await.expect("appended");
        }
        let log = StartLog::open(location, 0, Some(Epoch(3)))
            .await
            .expect("opens");
        let starts = log.of(Epoch(3)).expect("there");
        assert_eq!(starts.offsets().expect("fine"), offsets(60));
        assert!(log.of(Epoch(4)).is_none());
        assert_eq!(log.topic_ids, ids("b"));
    }

    #[tokio::test]
    async fn a_damaged_first_file_is_an_error_that_names_it() {
        let location = location();
        location
            .put("sources/0/initial", "v1 junk")
            .await
            .expect("written");
        let error = StartLog::open(location, 0, None)
            .await
            .expect_err("damaged");
        assert_eq!(error.fault(), Fault::Checkpoint);
        assert!(error.message().contains("sources/0/initial"), "{error}");
    }
}
