//! What Kafka's own client reads of what the sink writes.

use weir::connectors::kafka::sink::KafkaSink;

use super::driver::{Query, rows};
use super::servers;
use super::topics::create;
use crate::kafka_broker::Broker;

/// Values of at most so many records, in order: topics of these tests have one partition.
fn read_by_java(topic: &str, most: usize) -> Vec<String> {
    tokio::task::block_in_place(|| Broker::shared().consume(topic, most))
}

#[tokio::test(flavor = "multi_thread")]
async fn kafkas_own_client_reads_every_compression() {
    let values: Vec<String> = (0..500).map(|n| format!("{n:0>100}")).collect();
    let texts: Vec<&str> = values.iter().map(String::as_str).collect();
    for compression in ["gzip", "snappy", "lz4", "zstd"] {
        let topic = create(servers(), compression, 1, &[]);
        let sink = KafkaSink::builder(servers())
            .topic(&topic)
            .property("compression.type", compression);
        let mut generation = Query::new().open(sink).await.unwrap();
        generation.epoch(0, &texts).await.unwrap();
        assert_eq!(read_by_java(&topic, values.len()), values, "{compression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kafkas_own_client_reads_what_is_committed_and_nothing_else() {
    let topic = create(servers(), "java", 1, &[]);
    let mut query = Query::new();
    let sink = || KafkaSink::builder(servers()).topic(&topic);
    let mut generation = query.open(sink()).await.unwrap();
    generation.epoch(0, &["a", "b"]).await.unwrap();
    generation.write(0, 1, rows(&["given up"])).await.unwrap();
    generation.prepare(1).await.unwrap();
    drop(generation);
    query.committed = Some(0);
    query.unfinished(1);
    let mut generation = query.open(sink()).await.unwrap();
    generation.epoch(1, &["c"]).await.unwrap();
    generation.write(0, 2, rows(&["open"])).await.unwrap();
    generation.prepare(2).await.unwrap();
    assert_eq!(read_by_java(&topic, 9), ["a", "b", "c"]);
}
