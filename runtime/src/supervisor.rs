//! The query as an actor: owns the checkpoint's lease, starts generations one after the other, and ends the query.

use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;
use weir_state::{
    CheckpointLocation, CheckpointLog, Lease, LeaseOptions, Metadata, OwnerInfo, Recovery,
    TornManifest,
};

use crate::coordinator::{Coordinator, ProcessAll, StopGeneration};
use crate::error::{Fault, Result, WeirError};
use crate::generation::{self, Recovered};
use crate::listener::QueryEvent;
use crate::progress::{QueryProgress, QueryStatus, iso};
use crate::shared::QueryShared;
use crate::system::new_arbiter;
use crate::topology::Topology;
use crate::watermark::WatermarkSettings;

/// The actor of a query. Its address is what other actors use: see the messages of this module.
pub struct QueryActor {
    shared: Arc<QueryShared>,
    topology: Option<Topology>,
    ready: Option<oneshot::Sender<Result<()>>>,
    coordinator: Option<Addr<Coordinator>>,
    /// Requests that came before a coordinator was there.
    early: Vec<oneshot::Sender<()>>,
}

impl QueryActor {
    /// Starts the actor on an arbiter of its own; the receiver tells how its first generation came up.
    pub(crate) async fn spawn(
        topology: Topology,
        shared: Arc<QueryShared>,
    ) -> Result<(Addr<Self>, oneshot::Receiver<Result<()>>)> {
        let (ready_sender, ready) = oneshot::channel();
        let arbiter = new_arbiter().await?;
        let actor = Self {
            shared,
            topology: Some(topology),
            ready: Some(ready_sender),
            coordinator: None,
            early: Vec::new(),
        };
        let addr = Self::start_in_arbiter(&arbiter.handle(), move |_| actor);
        Ok((addr, ready))
    }

    fn generation_up(&mut self, coordinator: Addr<Coordinator>) {
        for reply in self.early.drain(..) {
            coordinator.do_send(ProcessAll(reply));
        }
        self.coordinator = Some(coordinator);
        if let Some(ready) = self.ready.take() {
            let shared = &self.shared;
            let timestamp = iso(shared.config.clock.now_ms());
            shared.emit(&QueryEvent::Started {
                id: shared.id(),
                run_id: shared.run_id,
                name: shared.config.name.clone(),
                timestamp,
            });
            // The caller of `start` may have gone.
            let _gone = ready.send(Ok(())).is_err();
        }
    }
}

impl Actor for QueryActor {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        let Some(topology) = self.topology.take() else {
            return;
        };
        let supervised = supervise(topology, Arc::clone(&self.shared), context.address());
        context.spawn(supervised.into_actor(self).map(|result, actor, context| {
            actor.coordinator = None;
            actor.early.clear();
            let exception = result.err();
            actor.shared.end(exception.clone());
            if let Some(ready) = actor.ready.take() {
                let error = exception.unwrap_or_else(|| WeirError::killed("the query"));
                let _gone = ready.send(Err(error)).is_err();
            }
            context.stop();
            Arbiter::current().stop();
        }));
    }
}

impl Drop for QueryActor {
    /// The actor system was stopped under the query.
    fn drop(&mut self) {
        self.shared.end(Some(WeirError::killed(
            "the query (its actor system was stopped)",
        )));
    }
}

/// Runs generations until the query ends by itself, is stopped, or fails for good.
async fn supervise(
    topology: Topology,
    shared: Arc<QueryShared>,
    actor: Addr<QueryActor>,
) -> Result<()> {
    let location = open_location(&topology, &shared)?;
    let mut lease = acquire(&location, &shared).await?;
    let mut arbiters = Vec::new();
    for _ in 0..shared.config.parallelism.max(1) {
        arbiters.push(new_arbiter().await?);
    }
    let handles: Vec<_> = arbiters.iter().map(Arbiter::handle).collect();
    let mut attempt = 0;
    let result = loop {
        let outcome =
            run_generation(&topology, &shared, &location, &mut lease, &handles, &actor).await;
        let error = match outcome {
            Ok(()) => break Ok(()),
            Err(failed) => {
                attempt = if failed.committed > 0 { 0 } else { attempt };
                failed.error
            }
        };
        let Some(backoff) = shared
            .config
            .restart
            .backoff(&error, attempt)
            .filter(|_| !shared.is_stopping())
        else {
            break Err(error);
        };
        attempt += 1;
        if let Err(error) = lease.advance().await {
            break Err(error.into());
        }
        tracing::warn!(%error, attempt, ?backoff, "the generation failed; restarting from the newest manifest");
        shared.set_status(format!("Restarting after: {error}"), false, false);
        tokio::time::sleep(backoff).await;
        if shared.is_stopping() {
            break Ok(());
        }
    };
    arbiters.iter().for_each(|arbiter| {
        arbiter.stop();
    });
    if let Err(error) = lease.release().await {
        tracing::warn!(%error, "the lease of the checkpoint could not be given back; it runs out by itself");
    }
    result
}

struct Failed {
    error: WeirError,
    committed: u64,
}

impl From<WeirError> for Failed {
    fn from(error: WeirError) -> Self {
        Self {
            error,
            committed: 0,
        }
    }
}

async fn run_generation(
    topology: &Topology,
    shared: &Arc<QueryShared>,
    location: &CheckpointLocation,
    lease: &mut Lease,
    arbiters: &[ArbiterHandle],
    actor: &Addr<QueryActor>,
) -> Result<(), Failed> {
    shared.set_status("Initializing sources", false, false);
    let recovered = recover(topology, shared, location, lease).await?;
    shared.set_id(recovered.query_id);
    let mut generation = generation::start(topology, shared, recovered, arbiters).await?;
    actor.do_send(GenerationUp(generation.coordinator.clone()));
    if shared.is_stopping() {
        generation.coordinator.do_send(StopGeneration);
    }
    let end = wait_for_end(&mut generation, lease).await;
    generation
        .shut_down(end.as_ref().is_ok_and(|end| end.orderly))
        .await;
    let end = end?;
    end.result.map_err(|error| Failed {
        error,
        committed: end.committed,
    })
}

/// Waits for the coordinator, keeping the lease alive meanwhile.
async fn wait_for_end(
    generation: &mut generation::Generation,
    lease: &mut Lease,
) -> Result<crate::coordinator::GenerationEnd> {
    loop {
        tokio::select! {
            ended = &mut generation.ended => return ended.map_err(|_| WeirError::killed("the coordinator")),
            () = tokio::time::sleep(lease.renew_every()) => keep(lease).await?,
        }
    }
}

/// Renews the lease; trouble of the storage is tried again, losing it is final.
async fn keep(lease: &mut Lease) -> Result<()> {
    match lease.renew().await.map_err(WeirError::from) {
        Err(error) if error.is_retryable() => {
            tracing::warn!(%error, "the lease of the checkpoint could not be renewed, trying again");
            Ok(())
        }
        outcome => outcome,
    }
}

fn open_location(topology: &Topology, shared: &QueryShared) -> Result<CheckpointLocation> {
    match (&shared.config.checkpoint, topology.needs_checkpoint()) {
        (Some(location), _) => Ok(CheckpointLocation::open_with(
            location,
            &shared.config.object_stores,
        )?),
        (None, Some(sink)) => Err(WeirError::config(format!(
            "{sink} needs a checkpoint location: set option 'checkpointLocation' or config 'spark.sql.streaming.checkpointLocation'"
        ))),
        (None, None) => {
            let location = format!("memory://weir-{}", shared.run_id);
            tracing::warn!(
                "the query has no checkpoint location: every restart begins from nothing"
            );
            Ok(CheckpointLocation::open(&location)?)
        }
    }
}

async fn acquire(location: &CheckpointLocation, shared: &QueryShared) -> Result<Lease> {
    let clock = Arc::clone(&shared.config.clock);
    let owner = OwnerInfo::current(shared.run_id, clock.as_ref());
    let options = LeaseOptions {
        clock,
        ..LeaseOptions::default()
    };
    Ok(Lease::acquire_with(location, owner, options).await?)
}

/// Reads the checkpoint, or begins it.
async fn recover(
    topology: &Topology,
    shared: &QueryShared,
    location: &CheckpointLocation,
    lease: &Lease,
) -> Result<Recovered> {
    let log = Arc::new(CheckpointLog::new(location.clone()));
    let fingerprints = topology.fingerprints();
    // A newest manifest that is torn is one that was never written: its epoch runs again, as after a crash before it.
    let recovery = log.recover_with(TornManifest::RunAgain).await?;
    let mut recovered = Recovered {
        log: Arc::clone(&log),
        location: location.clone(),
        generation: lease.generation(),
        query_id: uuid::Uuid::nil(),
        next_epoch: weir_state::Epoch::FIRST,
        last: None,
        replay: None,
    };
    let Recovery::Resume {
        last_manifest,
        last_plan,
        replay,
        next_epoch,
        discarded,
    } = recovery
    else {
        let metadata = Metadata::new(fingerprints);
        recovered.query_id = metadata.id;
        log.create_metadata(&metadata).await?;
        return Ok(recovered);
    };
    let mut metadata = log.load_metadata().await?.ok_or_else(|| {
        WeirError::new(
            Fault::Checkpoint,
            format!("{} has logs but no metadata", location.display()),
        )
    })?;
    if !discarded.is_empty() {
        tracing::warn!(files = ?discarded, "torn files of an epoch that never began were discarded");
    }
    let changes = log.check_operators(&metadata, &fingerprints)?;
    if !changes.is_empty() {
        metadata.operators = fingerprints;
        log.update_metadata(&metadata).await?;
    }
    if let Some(plan) = &replay {
        check_frozen(plan, shared)?;
    }
    recovered.query_id = metadata.id;
    recovered.next_epoch = next_epoch;
    recovered.replay = replay;
    recovered.last = last_manifest.zip(last_plan);
    Ok(recovered)
}

/// A replay must give the same rows, so it needs the same settings (invariant E1).
fn check_frozen(plan: &weir_state::Plan, shared: &QueryShared) -> Result<()> {
    let now = &shared.config.frozen;
    let differing = plan
        .config
        .iter()
        .filter(|(key, value)| !WatermarkSettings::owns(key) && now.get(*key) != Some(value));
    let differing: Vec<String> = differing
        .map(|(key, value)| format!("{key} was '{value}' and is {:?}", now.get(key)))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(WeirError::new(
        Fault::Checkpoint,
        format!(
            "epoch {} was planned under other settings and has to be finished under them first: {}",
            plan.epoch,
            differing.join("; ")
        ),
    ))
}

/// A generation is up (from the supervising future to its own actor).
#[derive(Message)]
#[rtype(result = "()")]
struct GenerationUp(Addr<Coordinator>);

impl Handler<GenerationUp> for QueryActor {
    type Result = ();

    fn handle(&mut self, message: GenerationUp, _: &mut Self::Context) {
        self.generation_up(message.0);
    }
}

/// End the query in order.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Stop;

impl Handler<Stop> for QueryActor {
    type Result = ();

    fn handle(&mut self, _: Stop, _: &mut Self::Context) {
        self.shared.request_stop();
        if let Some(coordinator) = &self.coordinator {
            coordinator.do_send(StopGeneration);
        }
    }
}

/// Reply when everything that is in the sources now is committed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ProcessAllAvailable(pub oneshot::Sender<()>);

impl Handler<ProcessAllAvailable> for QueryActor {
    type Result = ();

    fn handle(&mut self, request: ProcessAllAvailable, _: &mut Self::Context) {
        match &self.coordinator {
            Some(coordinator) => coordinator.do_send(ProcessAll(request.0)),
            None => self.early.push(request.0),
        }
    }
}

/// What the query does at the moment.
#[derive(Debug, Message)]
#[rtype(result = "QueryStatus")]
pub struct GetStatus;

impl Handler<GetStatus> for QueryActor {
    type Result = MessageResult<GetStatus>;

    fn handle(&mut self, _: GetStatus, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.shared.status())
    }
}

/// Progress of the newest epoch.
#[derive(Debug, Message)]
#[rtype(result = "Option<QueryProgress>")]
pub struct GetLastProgress;

impl Handler<GetLastProgress> for QueryActor {
    type Result = MessageResult<GetLastProgress>;

    fn handle(&mut self, _: GetLastProgress, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.shared.last_progress())
    }
}
