//! One generation's connection to the cluster: the producer all its subtasks send through, and the transaction they share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::Producer as _;
use tokio::sync::oneshot;
use weir_runtime::{
    Clock, CommitOutcome, Epoch, FailPoints, Fault, Result, SinkContext, WeirError,
};

use super::config::{DeliveryGuarantee, KafkaSinkConfig};
use super::errors;
use super::group::Group;
use super::limits::Limits;
use super::marker::Known;
use super::producer::Producer;
use super::transaction::{Open, Rows, Transaction};
use crate::kafka::client::reach;

/// How long the cluster may take to answer when a generation starts.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Least time for the calls that end a transaction, also when the transaction is old.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);
/// Calls that end a transaction are repeated so often if they may be.
const ATTEMPTS: usize = 3;
/// A call that has not returned for so long is given up if the cluster answers; longer than brokers take to replace one that died.
const HUNG_AFTER: Duration = Duration::from_secs(20);
/// How long the cluster may take to show that it answers.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// The producer of a generation and its transactions.
pub(super) struct Connection {
    /// Taken when the connection is dropped.
    clients: Option<Clients>,
    exactly_once: Option<ExactlyOnce>,
    clock: Arc<dyn Clock>,
    failpoints: Arc<FailPoints>,
}

/// What talks to the cluster.
struct Clients {
    producer: Producer,
    limits: Limits,
}

/// What exactly-once needs beside the producer.
struct ExactlyOnce {
    transactional_id: String,
    timeout: Duration,
    group: Group,
    /// The topic at which the marker was found.
    marker_topic: Option<String>,
    transaction: Mutex<Transaction>,
}

impl Connection {
    /// Connects and, for exactly-once, ends what an earlier generation left open and asks the target what it holds. Blocks.
    ///
    /// # Errors
    /// If the cluster does not answer or refuses, or nobody can tell what the target holds.
    pub(super) fn open(config: &KafkaSinkConfig, context: &SinkContext) -> Result<Self> {
        reach(&config.client, PATIENCE)?;
        let limits = Limits::new(&config.client, config.message_limit());
        let limit = match &config.topic {
            Some(topic) => limits.look_up(topic)?,
            None => config.message_limit(),
        };
        let name = format!(
            "{}-{}-{}",
            config.transactional_id_prefix, context.query_id, context.uid
        );
        let id = match config.delivery {
            DeliveryGuarantee::ExactlyOnce => Some(name.as_str()),
            DeliveryGuarantee::AtLeastOnce => None,
        };
        let producer = Producer::new(&config.producer(id, limit))?;
        if let Some(topic) = &config.topic {
            producer.check_topic(topic, PATIENCE)?;
        }
        let exactly_once = match id {
            None => None,
            Some(_) => Some(ExactlyOnce::open(
                config, context, name, &producer, &limits,
            )?),
        };
        Ok(Self {
            clients: Some(Clients { producer, limits }),
            exactly_once,
            clock: Arc::clone(&context.clock),
            failpoints: Arc::clone(&context.failpoints),
        })
    }

    fn clients(&self) -> &Clients {
        self.clients
            .as_ref()
            .expect("invariant: only dropping the connection takes its clients")
    }

    pub(super) fn producer(&self) -> &Producer {
        &self.clients().producer
    }

    /// Largest message of a topic in bytes, if the cluster tells. A topic that is asked for the first time is there afterwards.
    ///
    /// # Errors
    /// If it is not, or the cluster cannot be asked.
    pub(super) async fn limit(self: &Arc<Self>, topic: &str) -> Result<Option<usize>> {
        if let Some(known) = self.clients().limits.known(topic) {
            return Ok(known);
        }
        let topic = topic.to_owned();
        self.blocking(move |connection| {
            let Clients { producer, limits } = connection.clients();
            producer.check_topic(&topic, PATIENCE)?;
            limits.look_up(&topic)
        })
        .await
    }

    /// Rows of an epoch the target does not hold are about to be sent, the first of them to `topic`: begins the transaction of
    /// the epoch unless it is open.
    ///
    /// # Errors
    /// If the transaction cannot be begun or has run out of time.
    pub(super) fn begin(&self, epoch: Epoch, topic: &str) -> Result<()> {
        let Some(exactly_once) = &self.exactly_once else {
            return Ok(());
        };
        let mut transaction = exactly_once.lock();
        match transaction.rows(epoch)? {
            Rows::Write => {}
            Rows::Begin => {
                self.failpoints.hit("kafka-sink:begin:before")?;
                let begun = self.producer().inner().begin_transaction();
                begun.map_err(|error| {
                    self.failed("cannot begin the transaction of an epoch", &error, None)
                })?;
                transaction.begun(Open {
                    epoch,
                    since: self.clock.monotonic(),
                    topic: topic.to_owned(),
                });
                self.failpoints.hit("kafka-sink:begin:after")?;
            }
        }
        let overdue = transaction.open().and_then(|open| self.overdue(open));
        overdue.map_or(Ok(()), Err)
    }

    /// True if the target holds the epoch.
    pub(super) fn holds(&self, epoch: Epoch) -> bool {
        self.exactly_once
            .as_ref()
            .is_some_and(|exactly_once| exactly_once.lock().holds(epoch))
    }

    /// What a writer's failure really was: a producer that was fenced, or whose transaction the broker has ended, reports it in
    /// many ways.
    pub(super) fn explain(&self, error: WeirError) -> WeirError {
        let Some(exactly_once) = &self.exactly_once else {
            return error;
        };
        if !matches!(error.fault(), Fault::External | Fault::Conflict) {
            return error;
        }
        let open = exactly_once.lock().open().cloned();
        if let Some(overdue) = open.as_ref().and_then(|open| self.overdue(open)) {
            return overdue;
        }
        match self.producer().inner().client().fatal_error() {
            Some((code, _)) => {
                let what = "the rows of an epoch cannot be written";
                self.failed(what, &KafkaError::Global(code), open.as_ref())
            }
            None => error,
        }
    }

    /// Ends the transaction of an epoch, marking the epoch in it.
    ///
    /// # Errors
    /// If that fails; whether the target holds the epoch then the next generation finds out.
    pub(super) async fn commit(self: &Arc<Self>, epoch: Epoch) -> Result<CommitOutcome> {
        self.failpoints.hit("kafka-sink:commit")?;
        let Some(exactly_once) = &self.exactly_once else {
            return Ok(CommitOutcome::Committed);
        };
        if self.holds(epoch) {
            return Ok(CommitOutcome::AlreadyCommitted);
        }
        let open = exactly_once.lock().of(epoch)?.cloned();
        if let Some(open) = open {
            self.failpoints.hit("kafka-sink:offsets:before")?;
            let of = open.clone();
            self.unless_hung(epoch, move |connection| connection.mark(&of))
                .await?;
            self.failpoints.hit("kafka-sink:commit:before")?;
            self.blocking(move |connection| connection.end(&open))
                .await?;
            self.failpoints.hit("kafka-sink:commit:after")?;
        }
        exactly_once.lock().committed(epoch);
        Ok(CommitOutcome::Committed)
    }

    /// Marks an epoch by a call of the client library that may never return, whatever its time limit: if the broker that keeps the group
    /// has left the cluster, the library waits for it and does not ask for its successor (confluentinc/librdkafka#5511, #5456). While
    /// the cluster as a whole is silent, the call is waited for. If it is given up, it goes on alone until the library lets go of it,
    /// and changes nothing: the next generation has fenced its producer by then.
    ///
    /// # Errors
    /// Those of the call, and that it was given up.
    async fn unless_hung(
        self: &Arc<Self>,
        epoch: Epoch,
        call: impl FnOnce(&Self) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let connection = Arc::clone(self);
        let (answer, mut answered) = oneshot::channel();
        // No thread of the runtime's own: those are waited for when it ends.
        let thread = std::thread::Builder::new().name("weir-kafka-mark".to_owned());
        thread
            .spawn(move || drop(answer.send(call(&connection))))
            .map_err(|error| {
                WeirError::internal("no thread to mark an epoch on").with_source(error)
            })?;
        loop {
            if let Ok(done) = tokio::time::timeout(HUNG_AFTER, &mut answered).await {
                return done.map_err(|_| {
                    WeirError::internal("the thread that marks an epoch has ended early")
                })?;
            }
            if self.is_answered().await {
                return Err(WeirError::external(format!(
                    "epoch {epoch} could not be marked within {} s although the cluster answers: the client hears nothing of the broker that \
                     kept the group of the sink and does not look for its successor. Nothing of the epoch is visible; it is written again by \
                     a new client",
                    HUNG_AFTER.as_secs()
                )));
            }
        }
    }

    /// Whether the cluster answers at the moment.
    async fn is_answered(self: &Arc<Self>) -> bool {
        let asked = self.blocking(|connection| {
            let client = connection.producer().inner().client();
            Ok(client.fetch_metadata(None, ANSWER_PATIENCE).is_ok())
        });
        asked.await.unwrap_or(false)
    }

    /// Adds the marker of the epoch to its transaction.
    fn mark(&self, open: &Open) -> Result<()> {
        let Some(exactly_once) = &self.exactly_once else {
            return Ok(());
        };
        let topic = exactly_once.marker_topic.as_ref().unwrap_or(&open.topic);
        let offsets = exactly_once.group.offset(open.epoch, topic)?;
        let what = format!("cannot mark epoch {} at topic '{topic}'", open.epoch);
        self.repeated(open, &what, |producer, patience| {
            producer.inner().send_offsets_to_transaction(
                &offsets,
                exactly_once.group.metadata(),
                patience,
            )
        })
    }

    fn end(&self, open: &Open) -> Result<()> {
        let what = format!("cannot commit the transaction of epoch {}", open.epoch);
        self.repeated(open, &what, |producer, patience| {
            producer.inner().commit_transaction(patience)
        })
    }

    /// Makes a call that may be repeated where it says so. If it fails, the transaction is given up, so that it holds back no
    /// reader.
    fn repeated(
        &self,
        open: &Open,
        what: &str,
        call: impl Fn(&Producer, Duration) -> KafkaResult<()>,
    ) -> Result<()> {
        let mut attempt = 1;
        let error = loop {
            match call(self.producer(), self.patience(open)) {
                Ok(()) => return Ok(()),
                Err(error) if attempt < ATTEMPTS && errors::may_repeat(&error) => attempt += 1,
                Err(error) => break error,
            }
        };
        let cause = self.producer().failure();
        let failed = cause.unwrap_or_else(|| self.failed(what, &error, Some(open)));
        if errors::requires_abort(&error) {
            match self.producer().inner().abort_transaction(LEAST_PATIENCE) {
                Ok(()) => self.forget_transaction(),
                Err(error) => {
                    tracing::warn!(%error, "a transaction could not be aborted, the next start of the query will")
                }
            }
        }
        Err(failed)
    }

    fn forget_transaction(&self) {
        if let Some(exactly_once) = &self.exactly_once {
            exactly_once.lock().aborted();
        }
    }

    /// Time left for the transaction.
    fn patience(&self, open: &Open) -> Duration {
        let timeout = self
            .exactly_once
            .as_ref()
            .map_or(PATIENCE, |exactly_once| exactly_once.timeout);
        timeout.saturating_sub(self.age(open)).max(LEAST_PATIENCE)
    }

    fn age(&self, open: &Open) -> Duration {
        self.clock.monotonic().saturating_sub(open.since)
    }

    /// The error of a transaction the broker has ended, or is about to.
    fn overdue(&self, open: &Open) -> Option<WeirError> {
        let timeout = self.exactly_once.as_ref()?.timeout;
        let age = self.age(open);
        (age >= timeout).then(|| {
            WeirError::external(format!(
                "epoch {} takes longer than its transaction may: {} ms after its first row, the broker ends transactions after {} ms. \
                 Nothing of it is visible; raise 'kafka.transaction.timeout.ms' (and the broker's 'transaction.max.timeout.ms'), or \
                 make epochs smaller (as with 'maxOffsetsPerTrigger', 'maxFilesPerTrigger')",
                open.epoch,
                age.as_millis(),
                timeout.as_millis()
            ))
        })
    }

    /// A call of the client library that failed, as an error of the engine.
    fn failed(&self, what: &str, error: &KafkaError, open: Option<&Open>) -> WeirError {
        // A broker that has ended an old transaction says the same as one that has met a newer producer.
        if let Some(overdue) = open.and_then(|open| self.overdue(open)) {
            return overdue;
        }
        let (id, group) = match &self.exactly_once {
            Some(exactly_once) => (
                exactly_once.transactional_id.as_str(),
                exactly_once.group.name(),
            ),
            None => ("", ""),
        };
        errors::transaction(what, error, id, group, self.producer().context())
    }

    /// Runs what blocks on a thread for that.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(self);
        run_blocking(move || work(&connection)).await
    }
}

/// Runs what blocks on a thread for that.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| WeirError::internal(format!("a call of the Kafka client: {error}")))?
}

impl ExactlyOnce {
    fn open(
        config: &KafkaSinkConfig,
        context: &SinkContext,
        name: String,
        producer: &Producer,
        limits: &Limits,
    ) -> Result<Self> {
        let id = name.clone();
        context.failpoints.hit("kafka-sink:init:before")?;
        // Fences the generations before, and waits until their transactions have ended, one way or the other.
        let begun = producer.inner().init_transactions(PATIENCE);
        begun.map_err(|error| {
            let what = "cannot begin to write in transactions";
            errors::transaction(what, &error, &id, &name, producer.context())
        })?;
        context.failpoints.hit("kafka-sink:init:after")?;
        let (group, found) = Group::open(
            &config.client,
            name,
            context.query_id,
            &context.uid,
            PATIENCE,
        )?;
        let mut known = Known {
            marker: found.as_ref().map(|found| &found.marker),
            committed: context.committed_epoch,
            unfinished: context.unfinished,
            now_ms: context.clock.now_ms(),
            retention: Duration::MAX,
            policy: config.lost_marker,
        };
        if known.depends_on_retention() {
            known.retention = limits.offsets_retention()?;
        }
        let held = known.held(group.name())?;
        Ok(Self {
            transactional_id: id,
            timeout: config.transaction_timeout(),
            group,
            marker_topic: found.map(|found| found.topic),
            transaction: Mutex::new(Transaction::new(held)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Transaction> {
        self.transaction
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    /// Gives up a transaction nobody will commit, so that it holds back no reader until it times out; on a thread of its own,
    /// because closing a client takes time. A process that dies cannot do this: the next generation does.
    fn drop(&mut self) {
        let Some(clients) = self.clients.take() else {
            return;
        };
        let open = self
            .exactly_once
            .as_ref()
            .is_some_and(|exactly_once| exactly_once.lock().open().is_some());
        let aborts = open && self.failpoints.hit("kafka-sink:abort").is_ok();
        let closing = move || {
            let producer = clients.producer.inner();
            if aborts && let Err(error) = producer.abort_transaction(LEAST_PATIENCE) {
                tracing::debug!(%error, "an unfinished transaction could not be aborted, the next start of the query will");
            }
            drop(clients);
        };
        let thread = std::thread::Builder::new().name("weir-kafka-close".to_owned());
        if let Err(error) = thread.spawn(closing) {
            tracing::warn!(%error, "no thread to close a Kafka producer on");
        }
    }
}
