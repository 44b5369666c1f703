//! The options of the Kafka source, by Spark's names. `kafka.*` are properties of the client and not listed.

use crate::options::{OptionSpec, spec};

/// Options of source `kafka`; `kafka.bootstrap.servers` is required as well.
pub const SOURCE_OPTIONS: &[OptionSpec] = &[
    spec(
        "subscribe",
        "",
        "topics, with commas between them; one of subscribe, subscribePattern and assign is required",
    ),
    spec(
        "subscribePattern",
        "",
        "regular expression for names of topics; topics created later are found",
    ),
    spec(
        "assign",
        "",
        "partitions as JSON, such as {\"topic\":[0,1]}",
    ),
    spec(
        "startingOffsets",
        "latest (streams), earliest (batches)",
        "where a new query begins: earliest, latest, or JSON such as {\"topic\":{\"0\":23,\"1\":-2}}, -2 earliest, -1 latest",
    ),
    spec(
        "startingTimestamp",
        "",
        "begin at the first record of each partition at or after this time, milliseconds since 1970",
    ),
    spec(
        "startingOffsetsByTimestamp",
        "",
        "the same with a time for each partition, as JSON",
    ),
    spec(
        "startingOffsetsByTimestampStrategy",
        "error",
        "what to do where no record is that new: error, or latest to begin at the end",
    ),
    spec(
        "endingOffsets",
        "latest",
        "where a batch ends: latest, or JSON with offsets, -1 for latest; not for streams",
    ),
    spec(
        "endingTimestamp",
        "",
        "end before the first record at or after this time; not for streams",
    ),
    spec(
        "endingOffsetsByTimestamp",
        "",
        "the same with a time for each partition, as JSON; not for streams",
    ),
    spec(
        "failOnDataLoss",
        "true",
        "records that are gone are an error; with false they are counted, with a warning",
    ),
    spec(
        "maxOffsetsPerTrigger",
        "1000000",
        "most offsets of an epoch, shared among partitions by what they hold; unlimited for all there are",
    ),
    spec(
        "minOffsetsPerTrigger",
        "",
        "wait for this many new offsets, at most for maxTriggerDelay",
    ),
    spec(
        "maxTriggerDelay",
        "15m",
        "longest wait for minOffsetsPerTrigger",
    ),
    spec(
        "minPartitions",
        "",
        "cut large partitions until there are at least this many splits",
    ),
    spec("maxRecordsPerPartition", "", "most offsets of a split"),
    spec(
        "includeHeaders",
        "false",
        "add the column headers, an array of key and value",
    ),
    spec(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        "patience with brokers that do not answer, in milliseconds",
    ),
    spec(
        "fetchOffset.numRetries",
        "3",
        "further attempts to ask for offsets",
    ),
    spec(
        "fetchOffset.retryIntervalMs",
        "10",
        "wait between these attempts, in milliseconds",
    ),
    spec(
        "groupIdPrefix",
        "spark-kafka-source",
        "what the client's group id begins with; no offsets are kept under it",
    ),
];
