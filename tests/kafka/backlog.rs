//! A topic that is full when a query begins (field case P101): what an epoch takes of it unless told otherwise, and the memory of an
//! epoch that takes everything.

use std::process::Command;

use weir::prelude::*;

use crate::support::{Kafka, Record, session};

const CHILD: &str = "WEIR_TEST_BACKLOG_CHILD";
/// More than an epoch takes unless told otherwise, in records of 200 bytes.
const RECORDS: usize = 1_050_000;
/// Records sent at a time.
const SENT: usize = 25_000;
/// Far below what the backlog takes in memory, which is more than the 200 MiB of its values.
const MOST_KIB: u64 = 250 * 1024;

/// Not a test of its own: the body of a child process, which reads a topic and prints the rows of each epoch and the most memory it
/// ever had, in KiB.
#[tokio::test]
async fn child() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let told: Vec<&str> = told.split('\n').collect();
    let [servers, topic, limit] = told[..] else {
        panic!("three parts");
    };
    let session = session();
    let reader = session
        .read_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest");
    let reader = match limit {
        "" => reader,
        limit => reader.option("maxOffsetsPerTrigger", limit),
    };
    let frame = reader.open().unwrap();
    let query = frame
        .write_stream()
        .format("noop")
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    let progress = query.recent_progress();
    let rows: Vec<String> = progress
        .iter()
        .filter(|epoch| epoch.num_input_rows > 0)
        .map(|epoch| epoch.num_input_rows.to_string())
        .collect();
    println!("\nread {} peak {}", rows.join(","), peak_kib());
}

/// Most memory this process has had.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().trim_end_matches(" kB");
    peak.parse().unwrap()
}

/// Rows of each epoch, and the most memory in KiB, of a process that reads the topic.
fn read_by_child(kafka: &Kafka, topic: &str, limit: &str) -> (Vec<usize>, u64) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backlog::child", "--nocapture"])
        .env(CHILD, [kafka.bootstrap.as_str(), topic, limit].join("\n"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    let line = said.lines().find_map(|line| line.strip_prefix("read "));
    let (rows, peak) = line.unwrap().split_once(" peak ").unwrap();
    let rows = rows.split(',').map(|rows| rows.parse().unwrap());
    (rows.collect(), peak.parse().unwrap())
}

#[tokio::test]
async fn p101_an_epoch_takes_a_million_offsets_unless_told_otherwise_and_memory_is_bounded_in_any_case()
 {
    let kafka = Kafka::shared();
    let topic = kafka.topic("p101-full", 2).await;
    let record = |number: usize| Record {
        partition: i32::from(number % 2 == 1),
        value: Some(vec![b'x'; 200]),
        ..Record::default()
    };
    for from in (0..RECORDS).step_by(SENT) {
        let records: Vec<Record> = (from..from + SENT).map(record).collect();
        kafka.send(&topic, &records).await;
    }
    let (rows, peak) = read_by_child(&kafka, &topic, "");
    assert_eq!(rows, [1_000_000, 50_000]);
    assert!(peak < MOST_KIB, "{peak} KiB");
    let (rows, peak) = read_by_child(&kafka, &topic, "unlimited");
    assert_eq!(rows, [RECORDS]);
    assert!(peak < MOST_KIB, "{peak} KiB");
    kafka.delete(&topic).await;
}
