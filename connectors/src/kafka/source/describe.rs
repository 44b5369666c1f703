//! Topics with their ids. A topic that was deleted and created again has the same name and, soon enough, the same offsets; only its
//! id tells. librdkafka knows it, but its Rust wrapper does not hand it out: this file makes that one call itself.

#![allow(
    unsafe_code,
    reason = "the one admin call that tells topic ids has no safe wrapper"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::bindings::{self as sys, rd_kafka_resp_err_t as Code};
use rdkafka::client::Client;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

/// The id brokers before 2.8 give, and topics without one.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// What the cluster says about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicInfo {
    /// Its id in base 64; `None` if the broker knows none.
    pub(crate) id: Option<String>,
    /// Numbers of its partitions, ascending.
    pub(crate) partitions: Vec<i32>,
}

/// The topics of these names that exist. Waits for about `timeout` at most.
///
/// `broker` is asked, one that is known to answer (-1: the controller the client knows): left to itself, the client would wait for the
/// broker it last took for the controller, also if that one is gone, and try to reach it without a pause.
///
/// # Errors
/// If the cluster does not answer, or refuses to tell about a topic.
pub(crate) fn describe<C: ClientContext>(
    client: &Client<C>,
    broker: i32,
    names: &[String],
    timeout: Duration,
) -> KafkaResult<BTreeMap<String, TopicInfo>> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names: Vec<CString> = names
        .iter()
        .map(|name| CString::new(name.as_str()))
        .collect::<Result<_, _>>()?;
    let event = ask(client, broker, &names, timeout)?;
    read(&event)
}

/// Frees what librdkafka gave.
struct Owned<T> {
    pointer: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// `pointer` must be owned by the caller and be freed by `free`.
    fn new(pointer: *mut T, free: unsafe extern "C" fn(*mut T)) -> KafkaResult<Self> {
        let pointer = NonNull::new(pointer);
        let pointer = pointer.ok_or(KafkaError::AdminOp(RDKafkaErrorCode::Fail))?;
        Ok(Self { pointer, free })
    }

    fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from librdkafka, is owned by this value alone and is freed once, by the function that belongs
        // to it.
        unsafe { (self.free)(self.pointer.as_ptr()) }
    }
}

fn ask<C: ClientContext>(
    client: &Client<C>,
    broker: i32,
    names: &[CString],
    timeout: Duration,
) -> KafkaResult<Owned<sys::rd_kafka_event_t>> {
    let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    let handle = client.native_ptr();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: `handle` lives as long as `client`; every pointer passed is valid for the call, and librdkafka copies the names. What
    // is created is owned here and freed after use, in the reverse order of creation.
    unsafe {
        let topics = Owned::new(
            sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len()),
            sys::rd_kafka_TopicCollection_destroy,
        )?;
        let options = Owned::new(
            sys::rd_kafka_AdminOptions_new(
                handle,
                sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            ),
            sys::rd_kafka_AdminOptions_destroy,
        )?;
        let mut text = [0; 256];
        let set = sys::rd_kafka_AdminOptions_set_request_timeout(
            options.as_ptr(),
            timeout_ms,
            text.as_mut_ptr(),
            text.len(),
        );
        if set != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::AdminOp(set.into()));
        }
        if broker >= 0 {
            let set = sys::rd_kafka_AdminOptions_set_broker(
                options.as_ptr(),
                broker,
                text.as_mut_ptr(),
                text.len(),
            );
            if set != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(KafkaError::AdminOp(set.into()));
            }
        }
        let queue = Owned::new(sys::rd_kafka_queue_new(handle), sys::rd_kafka_queue_destroy)?;
        sys::rd_kafka_DescribeTopics(handle, topics.as_ptr(), options.as_ptr(), queue.as_ptr());
        // The call itself ends after the timeout; a little more is only for the way back.
        let event = sys::rd_kafka_queue_poll(queue.as_ptr(), timeout_ms.saturating_add(1000));
        match event.is_null() {
            true => Err(KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut)),
            false => Owned::new(event, sys::rd_kafka_event_destroy),
        }
    }
}

fn read(event: &Owned<sys::rd_kafka_event_t>) -> KafkaResult<BTreeMap<String, TopicInfo>> {
    let mut found = BTreeMap::new();
    // SAFETY: the event is alive, and everything read from it lives as long as it does; arrays are read within the lengths that
    // librdkafka gives with them, texts end with zero.
    unsafe {
        let failed = sys::rd_kafka_event_error(event.as_ptr());
        if failed != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::AdminOp(failed.into()));
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event.as_ptr());
        if result.is_null() {
            return Err(KafkaError::AdminOp(RDKafkaErrorCode::Fail));
        }
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        for index in 0..count {
            let topic = *topics.add(index);
            let name = text(sys::rd_kafka_TopicDescription_name(topic));
            match sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(topic)) {
                Code::RD_KAFKA_RESP_ERR_NO_ERROR => {}
                Code::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
                | Code::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC => continue,
                error => return Err(KafkaError::MetadataFetch(error.into())),
            }
            let id = sys::rd_kafka_TopicDescription_topic_id(topic);
            let id = match id.is_null() {
                true => String::new(),
                false => text(sys::rd_kafka_Uuid_base64str(id)),
            };
            let mut count = 0;
            let numbers = sys::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
            let mut partitions: Vec<i32> = (0..count)
                .map(|index| sys::rd_kafka_TopicPartitionInfo_partition(*numbers.add(index)))
                .collect();
            partitions.sort_unstable();
            let id = (!id.is_empty() && id != NO_ID).then_some(id);
            found.insert(name, TopicInfo { id, partitions });
        }
    }
    Ok(found)
}

/// The text at a pointer of librdkafka; empty for null.
///
/// # Safety
/// `pointer` is null or points to text that ends with zero and stays valid for the call.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}
