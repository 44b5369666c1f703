//! [`Queue`]: the records a client has fetched of one partition, many of them taken at a time.
//!
//! librdkafka can hand out records in batches, and says where a partition ends; its Rust wrapper hands out one at a time, each with
//! allocations and a look at the clock, and keeps that offset to itself. This file makes those calls itself.

#![allow(
    unsafe_code,
    reason = "records by the batch, and the offset in a report of the end, have no safe wrapper"
)]

use std::cell::OnceCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings::{self as sys, rd_kafka_resp_err_t as Code};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, Headers};
use rdkafka::{Message, Timestamp};

use crate::kafka::client::Context;

/// Records taken at a time. They do not count in what the client may fetch ahead, so they are few.
const TAKEN: usize = 128;

/// What is next in a queue.
pub(super) enum Next<'a> {
    Record(Record<'a>),
    /// Everything before this offset was fetched, and the partition ended there at that moment.
    End(i64),
    Failed(KafkaError),
}

/// What was fetched of one partition and not looked at yet, in order.
pub(super) struct Queue {
    topic: String,
    partition: i32,
    /// Owned, as are the messages in `taken` from `at` on.
    pointer: NonNull<sys::rd_kafka_queue_t>,
    taken: Vec<*mut sys::rd_kafka_message_t>,
    at: usize,
    /// Of which the queue is a part.
    _client: Arc<BaseConsumer<Context>>,
}

// SAFETY: librdkafka's queues and messages may be used by any thread, by one at a time, which `&mut self` ensures.
unsafe impl Send for Queue {}

impl Queue {
    /// The queue of a partition, which from now on has its records alone. `None` for a name that no topic can have.
    pub(super) fn of(
        client: &Arc<BaseConsumer<Context>>,
        topic: &str,
        partition: i32,
    ) -> Option<Self> {
        let name = CString::new(topic).ok()?;
        // SAFETY: the client lives as long as the queue, which holds it; the name is valid for the call. The pointer is owned here.
        // To forward to nothing is to forward no more.
        let pointer = unsafe {
            let handle = client.client().native_ptr();
            let queue = sys::rd_kafka_queue_get_partition(handle, name.as_ptr(), partition);
            let queue = NonNull::new(queue)?;
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            queue
        };
        Some(Self {
            topic: topic.to_owned(),
            partition,
            pointer,
            taken: Vec::with_capacity(TAKEN),
            at: 0,
            _client: Arc::clone(client),
        })
    }

    /// Looks at what is next, waiting so long for it. It stays there until [`Queue::pass`].
    pub(super) fn next(&mut self, wait: Duration) -> Option<Next<'_>> {
        if self.at == self.taken.len() && !self.refill(wait) {
            return None;
        }
        let message = *self.taken.get(self.at)?;
        // SAFETY: messages from `at` on are alive until they are passed, for which `self` must not be borrowed.
        let message = unsafe { &*message };
        Some(match message.err {
            Code::RD_KAFKA_RESP_ERR_NO_ERROR => Next::Record(Record {
                message,
                topic: &self.topic,
                partition: self.partition,
                headers: OnceCell::new(),
            }),
            Code::RD_KAFKA_RESP_ERR__PARTITION_EOF => Next::End(message.offset),
            code => Next::Failed(KafkaError::MessageConsumption(RDKafkaErrorCode::from(code))),
        })
    }

    /// What was next is done with.
    pub(super) fn pass(&mut self) {
        if let Some(message) = self.taken.get(self.at) {
            self.at += 1;
            // SAFETY: it was owned, and is not looked at again: `at` is behind it now.
            unsafe { sys::rd_kafka_message_destroy(*message) }
        }
    }

    /// Takes what is there, or waits for one. False if there is none.
    fn refill(&mut self, wait: Duration) -> bool {
        self.at = 0;
        self.taken.clear();
        // The call waits until so many have come as are asked for.
        self.take(TAKEN, Duration::ZERO);
        if self.taken.is_empty() && !wait.is_zero() {
            self.take(1, wait);
        }
        !self.taken.is_empty()
    }

    fn take(&mut self, most: usize, wait: Duration) {
        let wait_ms = c_int::try_from(wait.as_millis()).unwrap_or(c_int::MAX);
        let most = most.min(self.taken.capacity());
        // SAFETY: `taken` is empty and has room for `most` pointers; as many as the call says are set afterwards, and owned here.
        unsafe {
            let (queue, room) = (self.pointer.as_ptr(), self.taken.as_mut_ptr());
            let taken = sys::rd_kafka_consume_batch_queue(queue, wait_ms, room, most);
            self.taken.set_len(usize::try_from(taken).unwrap_or(0));
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while self.at < self.taken.len() {
            self.pass();
        }
        // SAFETY: it is owned by this value alone, and its messages are gone.
        unsafe { sys::rd_kafka_queue_destroy(self.pointer.as_ptr()) }
    }
}

/// A record in the client's memory.
pub(super) struct Record<'a> {
    message: &'a sys::rd_kafka_message_t,
    topic: &'a str,
    partition: i32,
    /// Looked at on demand.
    headers: OnceCell<Option<RecordHeaders<'a>>>,
}

/// The headers of a record.
pub(super) struct RecordHeaders<'a>(&'a sys::rd_kafka_headers_t);

/// The bytes at a pointer of librdkafka; `None` for null, which an empty value is not.
///
/// # Safety
/// `pointer` is null or points to `length` bytes that stay as they are for `'a`.
unsafe fn bytes<'a>(pointer: *const c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: as the caller promises.
    (!pointer.is_null()).then(|| unsafe { std::slice::from_raw_parts(pointer.cast(), length) })
}

impl<'a> Message for Record<'a> {
    type Headers = RecordHeaders<'a>;

    fn key(&self) -> Option<&[u8]> {
        // SAFETY: the key is the message's, which lives as long as `self` does.
        unsafe { bytes(self.message.key, self.message.key_len) }
    }

    fn payload(&self) -> Option<&[u8]> {
        // SAFETY: the payload is the message's, which lives as long as `self` does.
        unsafe { bytes(self.message.payload, self.message.len) }
    }

    unsafe fn payload_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn topic(&self) -> &str {
        self.topic
    }

    fn partition(&self) -> i32 {
        self.partition
    }

    fn offset(&self) -> i64 {
        self.message.offset
    }

    fn timestamp(&self) -> Timestamp {
        use sys::rd_kafka_timestamp_type_t as Kind;
        let mut kind = Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive, and only read.
        let ms = unsafe { sys::rd_kafka_message_timestamp(self.message, &raw mut kind) };
        match kind {
            _ if ms == -1 => Timestamp::NotAvailable,
            Kind::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => Timestamp::NotAvailable,
            Kind::RD_KAFKA_TIMESTAMP_CREATE_TIME => Timestamp::CreateTime(ms),
            Kind::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => Timestamp::LogAppendTime(ms),
        }
    }

    fn headers(&self) -> Option<&RecordHeaders<'a>> {
        let find = || {
            let mut pointer = ptr::null_mut();
            // SAFETY: the message is alive. What is found belongs to it and lives as long as it does.
            unsafe {
                let found = sys::rd_kafka_message_headers(self.message, &raw mut pointer);
                let there = found == Code::RD_KAFKA_RESP_ERR_NO_ERROR;
                pointer.as_ref().filter(|_| there).map(RecordHeaders)
            }
        };
        self.headers.get_or_init(find).as_ref()
    }
}

impl Headers for RecordHeaders<'_> {
    fn count(&self) -> usize {
        // SAFETY: the headers are alive.
        unsafe { sys::rd_kafka_header_cnt(self.0) }
    }

    /// `None` also for a name that is no UTF-8.
    fn try_get(&self, index: usize) -> Option<Header<'_, &[u8]>> {
        let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the headers are alive; what is found lives as long as they do, and names end with zero.
        unsafe {
            let found = sys::rd_kafka_header_get_all(
                self.0,
                index,
                &raw mut name,
                &raw mut value,
                &raw mut length,
            );
            if found != Code::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
                return None;
            }
            Some(Header {
                key: CStr::from_ptr(name).to_str().ok()?,
                value: bytes(value, length),
            })
        }
    }
}
