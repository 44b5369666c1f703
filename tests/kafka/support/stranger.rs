//! Another consumer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::{Kafka, config};

/// A consumer that takes part in a group, as other programs do.
pub(crate) struct Stranger(Arc<AtomicBool>);

impl Stranger {
    /// Joins a group and reads; returns when it has partitions.
    pub(crate) fn join(kafka: &Kafka, group: &str, topic: &str) -> Self {
        let consumer: BaseConsumer = config(&kafka.bootstrap)
            .set("group.id", group)
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", "6000")
            .create()
            .unwrap();
        consumer.subscribe(&[topic]).unwrap();
        let mut polls = 0;
        while consumer.assignment().unwrap().count() == 0 {
            assert!(polls < 600, "the stranger gets no partitions");
            drop(consumer.poll(Duration::from_millis(100)));
            polls += 1;
        }
        let goes_on = Arc::new(AtomicBool::new(true));
        let running = Arc::clone(&goes_on);
        std::thread::spawn(move || {
            while running.load(Ordering::SeqCst) {
                drop(consumer.poll(Duration::from_millis(100)));
            }
        });
        Self(goes_on)
    }

    /// Leaves the group, which makes it share its partitions anew.
    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.leave();
    }
}
