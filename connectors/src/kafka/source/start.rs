//! Where a new query begins and where a bounded one ends, in numbers.

use std::collections::BTreeSet;

use weir_runtime::{Result, WeirError};

use super::cluster::{Cluster, View};
use super::config::{EARLIEST, KafkaSourceConfig, LATEST, OWNER, Position, Subscription};
use super::loss::Loss;
use super::offsets::{Offsets, TopicPartition};

/// The offsets a new query begins at, for every partition there is.
///
/// # Errors
/// A topic or partition that does not exist; offsets or times that leave out a partition or name one that is not read; a partition
/// without a record as new as the given time, unless its end was asked for; offsets that are not there any more, unless losses are
/// accepted; the cluster's own.
pub(crate) fn first(cluster: &Cluster, config: &KafkaSourceConfig, view: &View) -> Result<Offsets> {
    check_exist(&config.subscription, view)?;
    match &config.starting {
        Position::Earliest => Ok(view.earliest()),
        Position::Latest => Ok(view.latest()),
        Position::Offsets(given) => {
            check_partitions("startingOffsets", given, view)?;
            given
                .iter()
                .map(|(at, offset)| Ok((at.clone(), given_start(config, view, at, offset)?)))
                .collect()
        }
        Position::Timestamp(ms) => {
            let times = view.bounds.keys().map(|at| (at.clone(), *ms));
            at_times(cluster, config, view, times.collect())
        }
        Position::Timestamps(times) => {
            check_partitions("startingOffsetsByTimestamp", times, view)?;
            at_times(cluster, config, view, times.clone())
        }
    }
}

/// The offsets a bounded run ends at. `begin` is where its partitions begin.
///
/// # Errors
/// As [`first`]; an offset beyond the end of its partition.
pub(crate) fn last(cluster: &Cluster, config: &KafkaSourceConfig, view: &View) -> Result<Offsets> {
    let or_latest = |found: Offsets| -> Offsets {
        let found = found.iter().map(|(at, offset)| {
            let latest = view.bounds.get(at).map_or(offset, |bounds| bounds.latest);
            (at.clone(), if offset == LATEST { latest } else { offset })
        });
        found.collect()
    };
    match &config.ending {
        Position::Earliest => Ok(view.earliest()),
        Position::Latest => Ok(view.latest()),
        Position::Offsets(given) => {
            check_partitions("endingOffsets", given, view)?;
            let given = or_latest(given.clone());
            for (at, end) in given.iter() {
                let latest = view.bounds.get(at).map_or(end, |bounds| bounds.latest);
                if end > latest {
                    return Err(WeirError::config(format!(
                        "option 'endingOffsets' of {OWNER} ends {at} at {end}, but the partition ends at {latest}"
                    )));
                }
            }
            Ok(given)
        }
        Position::Timestamp(ms) => {
            let times = view.bounds.keys().map(|at| (at.clone(), *ms));
            Ok(or_latest(cluster.offsets(times)?))
        }
        Position::Timestamps(times) => {
            check_partitions("endingOffsetsByTimestamp", times, view)?;
            let times = times.iter().map(|(at, ms)| (at.clone(), ms));
            Ok(or_latest(cluster.offsets(times)?))
        }
    }
}

fn given_start(
    config: &KafkaSourceConfig,
    view: &View,
    at: &TopicPartition,
    offset: i64,
) -> Result<i64> {
    let bounds = view.bounds.get(at).copied();
    match (offset, bounds) {
        (LATEST, Some(bounds)) => return Ok(bounds.latest),
        (EARLIEST, Some(bounds)) => return Ok(bounds.earliest),
        _ => {}
    }
    let Some(loss) = Loss::judge(at, offset, false, bounds) else {
        return Ok(offset);
    };
    if config.fail_on_data_loss {
        return Err(data_loss(&[loss]));
    }
    tracing::warn!(
        "{OWNER}: startingOffsets: {loss}; failOnDataLoss is false, so the query begins at the earliest"
    );
    Ok(loss.resume().unwrap_or(offset))
}

fn at_times(
    cluster: &Cluster,
    config: &KafkaSourceConfig,
    view: &View,
    times: Offsets,
) -> Result<Offsets> {
    let asked = times.iter().map(|(at, ms)| (at.clone(), ms));
    let found = cluster.offsets(asked)?;
    let mut first = Offsets::default();
    for (at, offset) in found.iter() {
        let offset = match (offset, view.bounds.get(at)) {
            (LATEST, Some(bounds)) if config.latest_if_no_timestamp => bounds.latest,
            (LATEST, _) => {
                let ms = times.get(at).unwrap_or_default();
                return Err(WeirError::config(format!(
                    "{at} has no record with a timestamp of {ms} (unix milliseconds) or later to start at; give an earlier time, or set \
                     the option 'startingOffsetsByTimestampStrategy' to 'latest' to start such partitions at their end"
                )));
            }
            (offset, _) => offset,
        };
        first.insert(at.clone(), offset);
    }
    Ok(first)
}

/// Offsets by partition must name exactly the partitions that are read: one left out would begin nobody knows where.
fn check_partitions(option: &str, given: &Offsets, view: &View) -> Result<()> {
    let there: BTreeSet<&TopicPartition> = view.bounds.keys().collect();
    let named: BTreeSet<&TopicPartition> = given.partitions().collect();
    if there == named {
        return Ok(());
    }
    let list = |partitions: &BTreeSet<&TopicPartition>| {
        let texts: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    Err(WeirError::config(format!(
        "option '{option}' of {OWNER} must name every partition that is read and no other (use -1 for the latest and -2 for the earliest \
         offset); it names {}, read are {}",
        list(&named),
        list(&there)
    )))
}

/// Topics and partitions that were named must be there when a query begins. A pattern may match nothing yet.
fn check_exist(subscription: &Subscription, view: &View) -> Result<()> {
    let missing: Vec<String> = match subscription {
        Subscription::Topics(topics) => topics
            .iter()
            .filter(|topic| !view.topics.contains_key(*topic))
            .map(|topic| format!("topic '{topic}'"))
            .collect(),
        Subscription::Partitions(partitions) => partitions
            .iter()
            .filter(|at| !view.bounds.contains_key(*at))
            .map(|at| format!("partition {at}"))
            .collect(),
        Subscription::Pattern(_) => Vec::new(),
    };
    match missing.is_empty() {
        true => Ok(()),
        false => Err(WeirError::config(format!(
            "{OWNER} reads what does not exist: {}; create it before the query starts, or use 'subscribePattern' for topics that come later",
            missing.join(", ")
        ))
        .with_condition("UNKNOWN_TOPIC_OR_PARTITION")),
    }
}

/// The error that names every loss.
pub(crate) fn data_loss(losses: &[Loss]) -> WeirError {
    let texts: Vec<String> = losses.iter().map(ToString::to_string).collect();
    WeirError::data(format!(
        "records that were not read yet are gone: {}; set the option 'failOnDataLoss' to 'false' to go on with what is there",
        texts.join("; ")
    ))
    .with_condition("KAFKA_DATA_LOSS")
}
