//! End-to-end latency: a producer sends records that say when they were sent, a query with the default trigger copies them exactly-once,
//! a consumer of committed records of the copy takes the time. All of them run in this process, so there is one clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::Producer;
use serde_json::{Value, json};
use weir::prelude::*;

use super::cluster::{self, PATIENCE, is_passing, kafka};
use super::topic::{PARTITIONS, Topic};
use super::{Measure, Usage, line};
use crate::usage::now;
use crate::{Arguments, add, fresh, report, session};

/// Seconds of sending before those that count.
const WARM_UP: u64 = 2;

/// Sends for `--seconds`, after a warm-up, and tells what a record took.
pub(super) async fn measure(arguments: &Arguments, servers: &str) -> Result<Value> {
    let [input, output] = ["in", "copy"]
        .map(|name| Topic::unused(&format!("weir-bench-{name}")))
        .map(|name| Topic::new(servers, name));
    input.create().await?;
    output.create().await?;
    let checkpoint = fresh(&arguments.work, "checkpoint")?;
    let query = session(arguments)?
        .read_stream()
        .format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", input.name())
        .option("startingOffsets", "earliest")
        .open()?
        .select(["value"])?
        .write_stream()
        .option("checkpointLocation", &checkpoint);
    let query = output.sink(query).start().await?;

    let clock = now();
    let rows = arguments.rate * (WARM_UP + arguments.seconds);
    let before = Usage::now()?;
    let stop = Arc::new(AtomicBool::new(false));
    let reader = read(servers, &output, rows, clock, &stop);
    let sender = send(servers, &input, rows, arguments.rate, clock);
    let sent = joined(sender).await;
    if sent.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    let took = joined(reader).await;
    let used = Usage::now()?.since(&before);
    query.stop().await;
    if let Some(error) = query.exception() {
        return Err(error);
    }
    let (behind, mut took) = (sent?, took?);
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    let mut told = line(arguments, Measure::Latency, rows, &used);
    let progress = query.recent_progress();
    add(
        &mut told,
        report(&progress, std::path::Path::new(&checkpoint))?,
    );
    add(
        &mut told,
        json!({"rate": arguments.rate, "measured_rows": took.len(), "min_ms": at(0.0), "p50_ms": at(0.5), "p90_ms": at(0.9),
               "p99_ms": at(0.99), "max_ms": at(1.0), "sender_behind_max_ms": behind.as_secs_f64() * 1000.0,
               "phases_p50_ms": phases(&progress, 0.5), "phases_p99_ms": phases(&progress, 0.99)}),
    );
    input.delete().await?;
    output.delete().await?;
    Ok(told)
}

/// Milliseconds that so many of the epochs with rows spent in each phase at most.
fn phases(progress: &[QueryProgress], share: f64) -> BTreeMap<String, u64> {
    let mut by_phase: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for epoch in progress.iter().filter(|epoch| epoch.num_input_rows > 0) {
        for (phase, ms) in &epoch.duration_ms {
            by_phase.entry(phase.clone()).or_default().push(*ms);
        }
    }
    let told = by_phase.into_iter().map(|(phase, mut ms)| {
        ms.sort_unstable();
        (phase, ms[((ms.len() - 1) as f64 * share) as usize])
    });
    told.collect()
}

/// What a thread returns, without holding up the query, which runs on this one.
async fn joined<T: Send + 'static>(thread: JoinHandle<Result<T>>) -> Result<T> {
    let joined = tokio::task::spawn_blocking(move || thread.join()).await;
    match joined {
        Ok(Ok(returned)) => returned,
        _ => Err(WeirError::internal("a thread of the bench panicked")),
    }
}

/// Sends records, each with the microseconds of `clock` at its sending, in portions of a millisecond. Returns how far it fell behind.
fn send(
    servers: &str,
    topic: &Topic<'_>,
    rows: u64,
    rate: u64,
    clock: Instant,
) -> JoinHandle<Result<Duration>> {
    let (servers, name) = (servers.to_owned(), topic.name().to_owned());
    std::thread::spawn(move || {
        let topic = Topic::new(&servers, name);
        // The topic is there for long, so that requests may overlap as they do elsewhere.
        let overlapping = ("max.in.flight.requests.per.connection", "5");
        let producer = cluster::producer(topic.servers(), &[("linger.ms", "0"), overlapping])?;
        let start = clock.elapsed();
        let mut behind = Duration::ZERO;
        for row in 0..rows {
            let due = start + Duration::from_micros(row * 1_000_000 / rate / 1000 * 1000);
            if let Some(wait) = due.checked_sub(clock.elapsed()) {
                std::thread::sleep(wait);
            }
            let sent = clock.elapsed();
            behind = behind.max(sent.saturating_sub(due));
            let partition = (row % PARTITIONS.unsigned_abs() as u64) as i32;
            topic.send(&producer, partition, &sent.as_micros().to_string())?;
        }
        producer.flush(PATIENCE).map_err(kafka)?;
        Ok(behind)
    })
}

/// Reads so many records, or until it is told to stop. Returns the microseconds that each took, without those of the warm-up.
fn read(
    servers: &str,
    topic: &Topic<'_>,
    rows: u64,
    clock: Instant,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Result<Vec<u64>>> {
    let (servers, name) = (servers.to_owned(), topic.name().to_owned());
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let consumer = cluster::reader(&servers, &name, PARTITIONS, &[])?;
        let mut took = Vec::new();
        let (mut records, mut first, mut last) = (0, None, clock.elapsed());
        while records < rows {
            let polled = consumer.poll(Duration::from_millis(100));
            let arrived = clock.elapsed();
            match polled {
                Some(Ok(message)) => {
                    let sent = micros(message.payload())?;
                    records += 1;
                    last = arrived;
                    if sent.saturating_sub(*first.get_or_insert(sent)) >= WARM_UP * 1_000_000 {
                        took.push(arrived.as_micros() as u64 - sent);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) | None => {}
                Some(Err(error)) if is_passing(&error) => {}
                Some(Err(error)) => return Err(kafka(error)),
            }
            if stop.load(Ordering::Relaxed) || arrived - last > PATIENCE {
                return Err(WeirError::external(format!(
                    "{records} of {rows} records arrived"
                )));
            }
        }
        Ok(took)
    })
}

fn micros(payload: Option<&[u8]>) -> Result<u64> {
    let text = std::str::from_utf8(payload.unwrap_or_default()).unwrap_or_default();
    let parsed = text.parse();
    parsed.map_err(|_| WeirError::internal(format!("'{text}' is no time of sending")))
}
