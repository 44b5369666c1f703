//! Topics that change while a query writes to them: they get more partitions, or are deleted and created again.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use weir::Fault;
use weir::connectors::kafka::sink::{DeliveryGuarantee, KafkaSink};
use weir::runtime::CommitOutcome::Committed;

use super::driver::{self, Query};
use super::servers;
use super::topics::{Isolation, committed_values, create, read};
use crate::support::Kafka;

const BOTH: [DeliveryGuarantee; 2] = [
    DeliveryGuarantee::ExactlyOnce,
    DeliveryGuarantee::AtLeastOnce,
];

/// Rows for these partitions; the value of each is the number of its partition.
fn rows(partitions: &[i32]) -> RecordBatch {
    let values = partitions.iter().map(ToString::to_string);
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    let partitions: ArrayRef = Arc::new(Int32Array::from(partitions.to_vec()));
    RecordBatch::try_from_iter([("value", values), ("partition", partitions)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn p091_partitions_that_are_added_are_written_to() {
    let kafka = Kafka::shared();
    for delivery in BOTH {
        let topic = create(servers(), "growing", 2, &[]);
        let sink = KafkaSink::builder(servers())
            .topic(&topic)
            .delivery(delivery);
        let mut generation = Query::of(rows(&[]).schema()).open(sink).await.unwrap();
        generation.write(0, 0, rows(&[0, 1])).await.unwrap();
        assert_eq!(generation.commit(0).await.unwrap(), Committed);
        kafka.grow(&topic, 4).await;
        generation.write(0, 1, rows(&[3, 2, 1])).await.unwrap();
        assert_eq!(generation.commit(1).await.unwrap(), Committed);
        let records = read(servers(), &topic, Isolation::Committed);
        let found: Vec<_> = records
            .iter()
            .map(|record| (record.partition, record.value().unwrap()))
            .collect();
        let expected = [0, 1, 1, 2, 3].map(|partition| (partition, partition.to_string()));
        assert_eq!(found, expected, "{delivery:?}");
        // One that is still not there is told as before.
        let error = generation.write(0, 2, rows(&[9])).await.unwrap_err();
        assert_eq!(error.fault(), Fault::Data, "{error:?}");
        assert!(error.message().contains("no partition 9"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p090_a_topic_that_is_created_again_gets_every_row_of_the_epochs_that_follow() {
    let kafka = Kafka::shared();
    for delivery in BOTH {
        let topic = create(servers(), "again", 2, &[]);
        let sink = || {
            KafkaSink::builder(servers())
                .topic(&topic)
                .delivery(delivery)
        };
        let mut query = Query::new();
        let mut generation = query.open(sink()).await.unwrap();
        generation.epoch(0, &["a"]).await.unwrap();
        kafka.delete(&topic).await;
        kafka.create(&topic, 2, &[]).await;
        let outcome = generation.epoch(1, &["b", "c"]).await;
        if let Err(error) = outcome {
            // Nothing of the epoch counts: the next generation writes it.
            assert!(error.is_retryable(), "{delivery:?}: {error:?}");
            drop(generation);
            query.committed = Some(0);
            query.unfinished(1);
            generation = query.open(sink()).await.unwrap();
            assert_eq!(generation.epoch(1, &["b", "c"]).await.unwrap(), Committed);
        }
        generation.write(1, 2, driver::rows(&["d"])).await.unwrap();
        assert_eq!(generation.commit(2).await.unwrap(), Committed);
        let mut found = committed_values(servers(), &topic);
        if delivery == DeliveryGuarantee::AtLeastOnce {
            found.dedup();
        }
        assert_eq!(found, ["b", "c", "d"], "{delivery:?}");
    }
}
