//! The options of the Kafka sink. `kafka.*` are properties of the client and not listed.

use crate::options::{OptionSpec, spec};

/// Options of sink `kafka`; `kafka.bootstrap.servers` is required as well.
pub const SINK_OPTIONS: &[OptionSpec] = &[
    spec(
        "topic",
        "",
        "where every row goes; without it the column topic says so for each row",
    ),
    spec(
        "includeHeaders",
        "true",
        "a column headers becomes the headers of the message",
    ),
    spec(
        "deliveryGuarantee",
        "exactly-once",
        "exactly-once makes an epoch one transaction; at-least-once writes a replayed epoch again",
    ),
    spec(
        "transactionalIdPrefix",
        "weir",
        "what the transactional id and the consumer group of the sink begin with",
    ),
    spec(
        "lostMarker",
        "fail",
        "what to do with an unfinished epoch if the broker may have forgotten whether the target holds it: fail, write or discard",
    ),
    spec(
        "oversizedMessages",
        "fail",
        "what to do with a message that is larger than its topic allows: fail, or drop to leave it out and count it",
    ),
];
