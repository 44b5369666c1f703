//! Topics with four partitions: made, filled, read to their end, written to by a query.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use weir::prelude::*;

use super::cluster::{self, PATIENCE, is_passing, kafka};
use super::io;

/// Of every topic of the bench.
pub(super) const PARTITIONS: i32 = 4;

/// A topic of a cluster.
pub(super) struct Topic<'a> {
    servers: &'a str,
    name: String,
}

impl<'a> Topic<'a> {
    pub(super) fn new(servers: &'a str, name: String) -> Self {
        Self { servers, name }
    }

    /// A name no topic has.
    pub(super) fn unused(prefix: &str) -> String {
        format!("{prefix}-{}", uuid::Uuid::new_v4())
    }

    pub(super) fn servers(&self) -> &'a str {
        self.servers
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the topic if it is not there. Returns how many records it holds.
    pub(super) async fn create(&self) -> Result<u64> {
        match cluster::create(self.servers, &self.name, PARTITIONS).await? {
            true => Ok(0),
            false => self.records(),
        }
    }

    pub(super) async fn delete(&self) -> Result<()> {
        let (admin, options) = cluster::admin(self.servers)?;
        let gone = admin.delete_topics(&[&self.name], &options).await;
        match gone.map_err(kafka)?.pop() {
            Some(Err((_, code))) => Err(kafka(KafkaError::AdminOp(code))),
            _ => Ok(()),
        }
    }

    fn records(&self) -> Result<u64> {
        let consumer = cluster::reader(self.servers, &self.name, 0, &[])?;
        let mut records = 0;
        for partition in 0..PARTITIONS {
            let ends = consumer.fetch_watermarks(&self.name, partition, PATIENCE);
            let (first, end) = ends.map_err(kafka)?;
            records += (end - first).unsigned_abs();
        }
        Ok(records)
    }

    /// Sends so many lines of the files of a directory, to the partitions in turn. Returns their bytes.
    pub(super) fn fill(&self, directory: &Path, rows: u64) -> Result<u64> {
        let producer = cluster::producer(
            self.servers,
            &[("linger.ms", "50"), ("batch.size", "1000000")],
        )?;
        let (mut sent, mut bytes) = (0, 0);
        for file in files(directory)? {
            for line in BufReader::new(File::open(file).map_err(io)?).lines() {
                if sent == rows {
                    break;
                }
                let line = line.map_err(io)?;
                self.send(&producer, (sent % 4) as i32, &line)?;
                sent += 1;
                bytes += line.len() as u64;
            }
        }
        producer.flush(PATIENCE).map_err(kafka)?;
        match sent == rows {
            true => Ok(bytes),
            false => Err(WeirError::config(format!(
                "--rows {rows} is more than {} holds: {sent}",
                directory.display()
            ))),
        }
    }

    /// Sends a record, waiting while the producer is full.
    pub(super) fn send(&self, producer: &BaseProducer, partition: i32, value: &str) -> Result<()> {
        let mut record = BaseRecord::<(), str>::to(&self.name)
            .partition(partition)
            .payload(value);
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    producer.poll(Duration::from_millis(10));
                    record = back;
                }
                Err((error, _)) => return Err(kafka(error)),
            }
        }
        producer.poll(Duration::ZERO);
        Ok(())
    }

    /// Records and bytes of values, read to the end by one loop.
    pub(super) fn read(&self) -> Result<(u64, u64)> {
        // That a partition has ended is known when a fetch brings nothing, which otherwise takes half a second.
        cluster::wait_until_committed(self.servers, &self.name, PARTITIONS)?;
        let settings = [("fetch.wait.max.ms", "10")];
        let consumer = cluster::reader(self.servers, &self.name, PARTITIONS, &settings)?;
        let (mut records, mut bytes, mut ended) = (0, 0, 0);
        while ended < PARTITIONS {
            match consumer.poll(PATIENCE) {
                None => return Err(WeirError::external("the broker sends nothing")),
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                Some(Err(error)) if is_passing(&error) => {}
                Some(Err(error)) => return Err(kafka(error)),
                Some(Ok(message)) => {
                    records += 1;
                    bytes += message.payload().map_or(0, <[u8]>::len) as u64;
                }
            }
        }
        Ok((records, bytes))
    }

    /// A query's writer into this topic, exactly-once.
    pub(super) fn sink(&self, writer: DataStreamWriter) -> DataStreamWriter {
        writer
            .format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", &self.name)
            .option("deliveryGuarantee", "exactly-once")
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).map_err(io)?;
    let mut files = entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(io))
        .collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|name| name == "json"));
    files.sort();
    Ok(files)
}
