//! Brokers that refuse a message and take those behind it, as one does that has just become the leader of a partition. A real one does
//! so for a moment nobody can choose; the client library's stand-in does when it is told to.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use weir_runtime::{
    CommitOutcome, Epoch, EpochBatch, Origin, OutputMode, Result, Rows, Sink, SinkContext,
};

use super::super::KafkaSink;
use super::super::config::DeliveryGuarantee;
use crate::test_context::sink_context;

fn rows() -> RecordBatch {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    RecordBatch::try_from_iter([("value", values)]).unwrap()
}

fn context(generation: u64) -> SinkContext {
    SinkContext {
        schema: rows().schema(),
        parallelism: 1,
        ..sink_context(1, generation, OutputMode::Append, None)
    }
}

/// An epoch of a new generation, each message in a request of its own; before the rows are written, something happens.
async fn epoch(servers: &str, generation: u64, happens: impl FnOnce()) -> Result<CommitOutcome> {
    let sink = KafkaSink::builder(servers)
        .topic("t")
        .delivery(DeliveryGuarantee::AtLeastOnce)
        .property("batch.num.messages", "1")
        // The stand-in does not know what it allows.
        .property("message.max.bytes", "1000000")
        .build()?;
    let context = context(generation);
    sink.open(&context).await?;
    let (mut writer, mut committer) = (sink.writer(&context, 0)?, sink.committer(&context)?);
    happens();
    let batch = EpochBatch {
        epoch: Epoch(0),
        origin: Origin::default(),
        rows: Rows::inserts(rows()),
    };
    writer.write(batch).await?;
    let committable = writer.prepare(Epoch(0)).await?;
    committer.commit(Epoch(0), vec![committable]).await
}

// At least once: of transactions the stand-in knows too little to be refused in the middle of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_only_one_behind_it_vouches_for_fails_its_epoch() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    let servers = cluster.bootstrap_servers();
    let refuses = || {
        // Answers take this long, so that some requests are under way together.
        let slow = Duration::from_millis(100);
        cluster.broker_round_trip_time(1, slow).unwrap();
        let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
        cluster.request_errors(RDKafkaApiKey::Produce, &[refusal]);
    };
    let error = epoch(&servers, 1, refuses).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    let message = error.message();
    assert!(message.contains("has not confirmed"), "{message}");
    assert!(message.contains("partition 0 of topic 't'"), "{message}");
    let again = epoch(&servers, 2, || {}).await;
    assert_eq!(again.unwrap(), CommitOutcome::Committed);
}
