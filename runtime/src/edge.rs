//! The bounded link between two subtasks.
//!
//! An edge is bounded by rows and bytes, not by messages, because batches differ in size a thousandfold. It always admits
//! one batch when it is empty, however large, so that no batch can block for ever; watermarks, barriers and the end cost
//! nothing and keep their order. A full edge blocks its sender, up to the reader that is then not polled (invariant E5).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use weir_state::Clock;

use crate::error::{Result, WeirError};
use crate::message::Message;

/// How much an edge holds before it blocks its sender.
///
/// The defaults keep a few decoded batches (16,384 rows each) in flight: enough to hide scheduling, small enough that
/// alignment at a barrier is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeBudget {
    /// Rows waiting in the edge.
    pub rows: usize,
    /// Bytes waiting in the edge.
    pub bytes: usize,
}

impl Default for EdgeBudget {
    fn default() -> Self {
        Self {
            rows: 65_536,
            bytes: 32 << 20,
        }
    }
}

/// Counters of one edge since the start of its generation.
#[derive(Debug, Default)]
pub struct EdgeMetrics {
    rows: AtomicU64,
    bytes: AtomicU64,
    blocked_ns: AtomicU64,
    max_queued_bytes: AtomicU64,
}

impl EdgeMetrics {
    /// Rows sent.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes sent.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Time the sender was blocked, in nanoseconds.
    pub fn blocked_ns(&self) -> u64 {
        self.blocked_ns.load(Ordering::Relaxed)
    }

    /// The most bytes that ever waited in the edge.
    pub fn max_queued_bytes(&self) -> u64 {
        self.max_queued_bytes.load(Ordering::Relaxed)
    }
}

struct Queued {
    message: Message,
    rows: usize,
    bytes: usize,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Queued>,
    rows: usize,
    bytes: usize,
    sender_gone: bool,
    receiver_gone: bool,
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

struct Shared {
    budget: EdgeBudget,
    clock: Arc<dyn Clock>,
    queue: Mutex<Queue>,
    metrics: Arc<EdgeMetrics>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The sending end; owned by one subtask.
pub struct EdgeSender(Arc<Shared>);

/// The receiving end; owned by one subtask.
pub struct EdgeReceiver(Arc<Shared>);

/// An edge with this budget; the clock measures how long its sender is blocked.
pub fn edge(budget: EdgeBudget, clock: Arc<dyn Clock>) -> (EdgeSender, EdgeReceiver) {
    let shared = Arc::new(Shared {
        budget,
        clock,
        queue: Mutex::default(),
        metrics: Arc::default(),
    });
    (EdgeSender(Arc::clone(&shared)), EdgeReceiver(shared))
}

impl EdgeSender {
    /// Sends a message, waiting while the budget is used up.
    ///
    /// # Errors
    /// `Killed` if the receiver is gone.
    pub async fn send(&mut self, message: Message) -> Result<()> {
        let (rows, bytes) = match &message {
            Message::Batch(batch) => (batch.rows.num_rows(), batch.rows.bytes()),
            _ => (0, 0),
        };
        let mut item = Some(Queued {
            message,
            rows,
            bytes,
        });
        let mut blocked_since = None;
        let result = poll_fn(|cx| self.poll_send(&mut item, &mut blocked_since, cx)).await;
        if let Some(since) = blocked_since {
            let blocked = u64::try_from(self.0.clock.monotonic().saturating_sub(since).as_nanos())
                .unwrap_or(u64::MAX);
            self.0
                .metrics
                .blocked_ns
                .fetch_add(blocked, Ordering::Relaxed);
        }
        result
    }

    fn poll_send(
        &self,
        item: &mut Option<Queued>,
        blocked_since: &mut Option<Duration>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let mut queue = self.0.lock();
        if queue.receiver_gone {
            return Poll::Ready(Err(WeirError::killed("the receiver of an edge")));
        }
        let Some(queued) = item.as_ref() else {
            return Poll::Ready(Ok(()));
        };
        let full = queue.rows + queued.rows > self.0.budget.rows
            || queue.bytes + queued.bytes > self.0.budget.bytes;
        if queued.rows > 0 && queue.rows > 0 && full {
            blocked_since.get_or_insert_with(|| self.0.clock.monotonic());
            queue.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if let Some(queued) = item.take() {
            self.0.admit(&mut queue, queued);
        }
        Poll::Ready(Ok(()))
    }

    /// Counters of this edge.
    pub fn metrics(&self) -> Arc<EdgeMetrics> {
        Arc::clone(&self.0.metrics)
    }
}

impl Shared {
    fn admit(&self, queue: &mut Queue, queued: Queued) {
        queue.rows += queued.rows;
        queue.bytes += queued.bytes;
        self.metrics
            .rows
            .fetch_add(queued.rows as u64, Ordering::Relaxed);
        self.metrics
            .bytes
            .fetch_add(queued.bytes as u64, Ordering::Relaxed);
        self.metrics
            .max_queued_bytes
            .fetch_max(queue.bytes as u64, Ordering::Relaxed);
        queue.messages.push_back(queued);
        if let Some(waker) = queue.receiver.take() {
            waker.wake();
        }
    }
}

impl EdgeReceiver {
    /// The next message, or `None` when the sender is gone and everything was received.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut queue = self.0.lock();
        if let Some(queued) = queue.messages.pop_front() {
            queue.rows -= queued.rows;
            queue.bytes -= queued.bytes;
            if let Some(waker) = queue.sender.take() {
                waker.wake();
            }
            return Poll::Ready(Some(queued.message));
        }
        if queue.sender_gone {
            return Poll::Ready(None);
        }
        queue.receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits for the next message; `None` when the sender is gone and everything was received.
    pub async fn recv(&mut self) -> Option<Message> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Counters of this edge.
    pub fn metrics(&self) -> Arc<EdgeMetrics> {
        Arc::clone(&self.0.metrics)
    }
}

impl Drop for EdgeSender {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.sender_gone = true;
        if let Some(waker) = queue.receiver.take() {
            waker.wake();
        }
    }
}

impl Drop for EdgeReceiver {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.receiver_gone = true;
        queue.messages.clear();
        if let Some(waker) = queue.sender.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use futures::FutureExt;
    use weir_state::Epoch;

    use super::*;
    use crate::message::{Barrier, EpochBatch, Origin, Rows};

    fn new_edge(budget: EdgeBudget) -> (EdgeSender, EdgeReceiver) {
        edge(budget, Arc::new(weir_state::SystemClock::new()))
    }

    fn batch(rows: usize) -> Message {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
        let values = Int64Array::from_iter_values(0..rows as i64);
        let batch = RecordBatch::try_new(schema, vec![Arc::new(values)]).expect("batch");
        Message::Batch(EpochBatch {
            epoch: Epoch(0),
            origin: Origin::default(),
            rows: Rows::inserts(batch),
        })
    }

    #[test]
    fn full_edge_blocks_the_sender_until_rows_leave() {
        let (mut sender, mut receiver) = new_edge(EdgeBudget {
            rows: 10,
            bytes: usize::MAX,
        });
        assert!(sender.send(batch(8)).now_or_never().is_some());
        assert!(
            sender.send(batch(8)).now_or_never().is_none(),
            "16 rows do not fit into 10"
        );
        assert!(receiver.recv().now_or_never().flatten().is_some());
        assert!(sender.send(batch(8)).now_or_never().is_some());
    }

    #[test]
    fn one_oversize_batch_is_always_admitted() {
        let (mut sender, _receiver) = new_edge(EdgeBudget { rows: 1, bytes: 1 });
        assert!(sender.send(batch(1000)).now_or_never().is_some());
        assert!(sender.send(batch(1)).now_or_never().is_none());
    }

    #[test]
    fn control_messages_cost_nothing_and_keep_their_order() {
        let (mut sender, mut receiver) = new_edge(EdgeBudget { rows: 1, bytes: 1 });
        sender
            .send(batch(5))
            .now_or_never()
            .expect("admitted")
            .expect("sent");
        sender
            .send(Message::Barrier(Barrier { epoch: Epoch(0) }))
            .now_or_never()
            .expect("admitted")
            .expect("sent");
        assert!(matches!(
            receiver.recv().now_or_never(),
            Some(Some(Message::Batch(_)))
        ));
        assert!(matches!(
            receiver.recv().now_or_never(),
            Some(Some(Message::Barrier(_)))
        ));
    }

    #[test]
    fn either_end_sees_that_the_other_is_gone() {
        let (mut sender, receiver) = new_edge(EdgeBudget::default());
        drop(receiver);
        assert!(
            sender
                .send(batch(1))
                .now_or_never()
                .expect("ready")
                .is_err()
        );
        let (sender, mut receiver) = new_edge(EdgeBudget::default());
        drop(sender);
        assert!(matches!(receiver.recv().now_or_never(), Some(None)));
    }

    #[test]
    fn metrics_count_rows_and_the_largest_queue() {
        let (mut sender, mut receiver) = new_edge(EdgeBudget::default());
        for _ in 0..3 {
            sender
                .send(batch(4))
                .now_or_never()
                .expect("ready")
                .expect("sent");
        }
        let _ = receiver.recv().now_or_never();
        assert_eq!(receiver.metrics().rows(), 12);
        assert!(receiver.metrics().max_queued_bytes() >= 3 * 32);
    }
}
