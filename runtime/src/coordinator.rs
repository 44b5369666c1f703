//! The coordinator actor: turns messages into protocol events and protocol actions into work of the [`Executor`]. It decides
//! nothing; see `protocol.rs`.

use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;

use crate::error::{Fault, Result, WeirError, root_cause};
use crate::executor::{Done, Executor};
use crate::protocol::{Action, Event, Protocol, SubtaskId};
use crate::task::{TaskAck, TaskEvent};
use crate::trigger::{Trigger, next_start};

/// How long a consequence ("upstream ended") waits for its cause to show up.
const CAUSE_GRACE: Duration = Duration::from_millis(300);

/// How the generation ended.
pub(crate) struct GenerationEnd {
    pub(crate) result: Result<()>,
    /// No epoch was open: tasks may finish in order.
    pub(crate) orderly: bool,
    /// Epochs committed by this generation.
    pub(crate) committed: u64,
}

/// Somebody waits until everything that is there is committed.
struct Waiter {
    reply: oneshot::Sender<()>,
    /// A look at the sources began after the request.
    armed: bool,
}

pub(crate) struct Coordinator {
    protocol: Protocol,
    executor: Option<Executor>,
    replay: bool,
    acks: Vec<TaskAck>,
    waiters: Vec<Waiter>,
    errors: Vec<WeirError>,
    timer: Option<SpawnHandle>,
    woken: bool,
    idle_since_ms: Option<i64>,
    committed: u64,
    /// How the generation is to end, while an action is still under way.
    ending: Option<GenerationEnd>,
    ended: Option<oneshot::Sender<GenerationEnd>>,
}

impl Coordinator {
    pub(crate) fn new(
        protocol: Protocol,
        executor: Executor,
        replay: bool,
        ended: oneshot::Sender<GenerationEnd>,
    ) -> Self {
        Self {
            protocol,
            executor: Some(executor),
            replay,
            acks: Vec::new(),
            waiters: Vec::new(),
            errors: Vec::new(),
            timer: None,
            woken: false,
            idle_since_ms: None,
            committed: 0,
            ending: None,
            ended: Some(ended),
        }
    }

    fn on_event(&mut self, event: Event, context: &mut Context<Self>) {
        let was_active = self.protocol.is_active();
        match self.protocol.on(event) {
            None => {}
            Some(Action::Schedule { idle }) => self.schedule(idle, context),
            Some(Action::Finish) => {
                let orderly = !was_active || event != Event::StopRequested;
                self.end(Ok(()), orderly, context);
            }
            Some(action) => self.execute(action, context),
        }
    }

    /// Runs an action; the executor travels with it, so only one runs at a time.
    fn execute(&mut self, action: Action, context: &mut Context<Self>) {
        let Some(mut executor) = self.executor.take() else {
            return self.fail(WeirError::internal("two protocol actions at once"), context);
        };
        if let Action::Plan(_) = action {
            self.waiters
                .iter_mut()
                .for_each(|waiter| waiter.armed = true);
        }
        let acks = if matches!(action, Action::CommitSinks(_)) {
            std::mem::take(&mut self.acks)
        } else {
            Vec::new()
        };
        let work = async move {
            let result = executor.execute(action, acks).await;
            (executor, result)
        };
        context.spawn(
            work.into_actor(self)
                .map(|(executor, result), coordinator, context| {
                    coordinator.executor = Some(executor);
                    if coordinator.ending.is_some() {
                        return coordinator.hand_over(context);
                    }
                    match result {
                        Ok(done) => coordinator.done(&done, context),
                        Err(error) => coordinator.fail(error, context),
                    }
                }),
        );
    }

    fn done(&mut self, done: &Done, context: &mut Context<Self>) {
        let event = match done {
            Done::Planned { work } => {
                self.note_idle(!work);
                Event::Planned { work: *work }
            }
            Done::Logged => Event::Logged,
            // The acks decide when the epoch is complete.
            Done::Begun => return self.deliver_early_acks(context),
            Done::SinksCommitted => Event::SinksCommitted,
            Done::Published => {
                self.committed += 1;
                Event::Published
            }
            Done::Announced => Event::Announced,
        };
        self.on_event(event, context);
    }

    /// Subtasks may have answered while the last splits were still being handed out.
    fn deliver_early_acks(&mut self, context: &mut Context<Self>) {
        let early: Vec<_> = self.acks.iter().map(|ack| (ack.id, ack.epoch)).collect();
        for (id, epoch) in early {
            self.on_event(Event::Acked(id, epoch), context);
        }
    }

    fn note_idle(&mut self, idle: bool) {
        let Some(executor) = &self.executor else {
            return;
        };
        let config = &executor.shared.config;
        let now_ms = config.clock.now_ms();
        if !idle {
            self.idle_since_ms = None;
            return;
        }
        for waiter in self.waiters.extract_if(.., |waiter| waiter.armed) {
            // Nobody waits any more if this fails.
            let _gone = waiter.reply.send(()).is_err();
        }
        let since = *self.idle_since_ms.get_or_insert(now_ms);
        let interval =
            i64::try_from(config.no_data_progress_interval.as_millis()).unwrap_or(i64::MAX);
        if now_ms.saturating_sub(since) >= interval {
            self.idle_since_ms = Some(now_ms);
            executor.announce_idle();
        }
    }

    fn schedule(&mut self, idle: bool, context: &mut Context<Self>) {
        let Some(executor) = &self.executor else {
            return;
        };
        if executor.shared.is_stopping() {
            return self.on_event(Event::StopRequested, context);
        }
        let config = &executor.shared.config;
        let polling_ms = u64::try_from(config.polling_delay.as_millis()).unwrap_or(u64::MAX);
        let now_ms = config.clock.now_ms();
        let started_ms = if executor.timing.trigger_ms == 0 {
            now_ms
        } else {
            executor.timing.trigger_ms
        };
        let next = next_start(config.trigger, started_ms, now_ms, idle, polling_ms);
        if let Some(elapsed_ms) = next.falling_behind_ms {
            tracing::warn!(trigger = ?config.trigger, elapsed_ms, "the query is falling behind: an epoch took longer than its trigger interval");
        }
        let waiting = match &executor.problem {
            Some(problem) => problem.as_str(),
            None if idle => "Waiting for data to arrive",
            None => "Waiting for next trigger",
        };
        executor.shared.set_status(waiting, !idle, false);
        if next.wait_ms == 0 || (idle && std::mem::take(&mut self.woken) && self.wakes()) {
            return self.on_event(Event::Due, context);
        }
        let wait = Duration::from_millis(next.wait_ms);
        self.timer = Some(context.run_later(wait, |coordinator, context| {
            coordinator.timer = None;
            coordinator.on_event(Event::Due, context);
        }));
    }

    /// New data ends the wait only where no interval was asked for.
    fn wakes(&self) -> bool {
        self.executor
            .as_ref()
            .is_some_and(|executor| executor.shared.config.trigger == Trigger::Default)
    }

    fn fail(&mut self, error: WeirError, context: &mut Context<Self>) {
        let is_cause = error.fault() != Fault::Killed;
        self.errors.push(error);
        if is_cause {
            return self.end_with_cause(context);
        }
        context.run_later(CAUSE_GRACE, |coordinator, context| {
            coordinator.end_with_cause(context)
        });
    }

    fn end_with_cause(&mut self, context: &mut Context<Self>) {
        if let Some(error) = root_cause(std::mem::take(&mut self.errors)) {
            self.end(Err(error), false, context);
        }
    }

    /// Ends the generation; the first reason counts. An action that is under way is waited for, so that nothing of this generation
    /// still commits while the next one recovers.
    fn end(&mut self, result: Result<()>, orderly: bool, context: &mut Context<Self>) {
        if self.ending.is_none() {
            self.ending = Some(GenerationEnd {
                result,
                orderly,
                committed: 0,
            });
        }
        if self.executor.is_some() {
            self.hand_over(context);
        }
    }

    /// Tells the supervisor and stops.
    fn hand_over(&mut self, context: &mut Context<Self>) {
        if let (Some(ended), Some(end)) = (self.ended.take(), self.ending.take()) {
            // The supervisor is gone only if the whole system is.
            let _gone = ended
                .send(GenerationEnd {
                    committed: self.committed,
                    ..end
                })
                .is_err();
        }
        context.stop();
    }
}

impl Actor for Coordinator {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        self.on_event(
            Event::Started {
                replay: self.replay,
            },
            context,
        );
    }
}

impl Handler<TaskEvent> for Coordinator {
    type Result = ();

    fn handle(&mut self, event: TaskEvent, context: &mut Self::Context) {
        match event {
            TaskEvent::Ack(ack) => {
                let (id, epoch) = (ack.id, ack.epoch);
                self.acks.push(*ack);
                // While splits are being handed out the ack waits in `acks`.
                if self.executor.is_some() {
                    self.on_event(Event::Acked(id, epoch), context);
                }
            }
            TaskEvent::Exited(_, Err(error)) => self.fail(error, context),
            TaskEvent::Exited(id, Ok(())) => {
                let SubtaskId { task, subtask } = id;
                self.fail(
                    WeirError::internal(format!(
                        "subtask {subtask} of task {task} ended before its query"
                    )),
                    context,
                );
            }
        }
    }
}

/// The user wants the query to end.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StopGeneration;

impl Handler<StopGeneration> for Coordinator {
    type Result = ();

    fn handle(&mut self, _: StopGeneration, context: &mut Self::Context) {
        self.on_event(Event::StopRequested, context);
    }
}

/// Something new is in a source.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Wake;

impl Handler<Wake> for Coordinator {
    type Result = ();

    fn handle(&mut self, _: Wake, context: &mut Self::Context) {
        if !self.wakes() {
            return;
        }
        match self.timer.take() {
            Some(timer) => {
                context.cancel_future(timer);
                self.on_event(Event::Due, context);
            }
            None => self.woken = true,
        }
    }
}

/// Reply when everything that is there is committed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ProcessAll(pub(crate) oneshot::Sender<()>);

impl Handler<ProcessAll> for Coordinator {
    type Result = ();

    fn handle(&mut self, request: ProcessAll, _: &mut Self::Context) {
        self.waiters.push(Waiter {
            reply: request.0,
            armed: false,
        });
    }
}
