//! The epoch protocol as a pure state machine: events in, actions out. The coordinator executes the actions; tests walk the
//! machine without actors, files or time.
//!
//! ```text
//! Waiting ─due─► Planning ─planned─► Logging ─logged─► Running ─all acks─► Committing ─► Publishing ─► Announcing ─┐
//!    ▲               │ nothing new                                        (sink first)   (manifest)               │
//!    └───────────────┴──────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Where the sinks hide an epoch until it is committed, it is read while its plan is still being written: no subtask's ack counts
//! before the plan is durable (invariant E1).

use std::collections::BTreeSet;

use weir_state::Epoch;

use crate::trigger::Trigger;

/// One subtask of one task of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubtaskId {
    /// Index of the task.
    pub task: usize,
    /// Index of the parallel instance.
    pub subtask: usize,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The generation is up; `replay` says that the next epoch is planned already.
    Started {
        /// The next epoch's plan is durable from an earlier run.
        replay: bool,
    },
    /// The trigger says it is time.
    Due,
    /// The sources were asked.
    Planned {
        /// Something is to be read, or the watermark has work to do.
        work: bool,
    },
    /// `offsets/N` is durable.
    Logged,
    /// A subtask has everything of the epoch durable.
    Acked(SubtaskId, Epoch),
    /// Every sink holds the epoch.
    SinksCommitted,
    /// `commits/N` is durable.
    Published,
    /// Sources and listeners were told.
    Announced,
    /// The user wants the query to end.
    StopRequested,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Wait for the trigger; `idle` if nothing was there.
    Schedule {
        /// The last look found nothing.
        idle: bool,
    },
    /// Ask the sources where the epoch ends.
    Plan(Epoch),
    /// Write `offsets/N`.
    Log(Epoch),
    /// Send the epoch's splits to the source subtasks.
    Begin(Epoch),
    /// Send the epoch's splits to the source subtasks and write `offsets/N` while they work; done when it is durable.
    BeginAndLog(Epoch),
    /// Make the epoch visible in every sink.
    CommitSinks(Epoch),
    /// Write `commits/N`.
    Publish(Epoch),
    /// Tell sources and listeners.
    Announce(Epoch),
    /// End the generation in order.
    Finish,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Starting,
    Waiting,
    Planning,
    Logging,
    Running(BTreeSet<SubtaskId>),
    Committing,
    Publishing,
    Announcing,
    Ended,
}

/// The protocol state of one generation.
#[derive(Debug, Clone)]
pub struct Protocol {
    trigger: Trigger,
    subtasks: BTreeSet<SubtaskId>,
    epoch: Epoch,
    phase: Phase,
    stopping: bool,
    logs_beside: bool,
}

impl Protocol {
    /// A generation of these subtasks whose next epoch is `epoch`.
    pub fn new(trigger: Trigger, subtasks: BTreeSet<SubtaskId>, epoch: Epoch) -> Self {
        Self {
            trigger,
            subtasks,
            epoch,
            phase: Phase::Starting,
            stopping: false,
            logs_beside: false,
        }
    }

    /// Plans are written while their epochs are read: nothing of an epoch is visible before it is committed.
    #[must_use]
    pub fn logging_beside(mut self, beside: bool) -> Self {
        self.logs_beside = beside;
        self
    }

    /// The epoch that is open or comes next.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// True when the generation has ended.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// True between the plan and the manifest of an epoch.
    pub fn is_active(&self) -> bool {
        !matches!(self.phase, Phase::Starting | Phase::Waiting | Phase::Ended)
    }

    /// Subtasks that still owe the open epoch.
    pub fn owed(&self) -> Vec<SubtaskId> {
        match &self.phase {
            Phase::Running(owed) => owed.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Takes an event; what it returns is to be done, if anything. Events that do not fit the phase (an ack of an epoch that was
    /// given up, an answer after the end) change nothing.
    pub fn on(&mut self, event: Event) -> Option<Action> {
        if event == Event::StopRequested {
            return self.stop();
        }
        let epoch = self.epoch;
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let (phase, action) = match (phase, event) {
            (Phase::Starting, Event::Started { replay: true }) => {
                (self.running(), Some(Action::Begin(epoch)))
            }
            (Phase::Starting, Event::Started { replay: false }) if self.trigger.is_bounded() => {
                (Phase::Planning, Some(Action::Plan(epoch)))
            }
            (Phase::Starting, Event::Started { .. }) => {
                (Phase::Waiting, Some(Action::Schedule { idle: false }))
            }
            (Phase::Waiting, Event::Due) => (Phase::Planning, Some(Action::Plan(epoch))),
            (Phase::Planning, Event::Planned { work: true }) if self.logs_beside => {
                (self.running(), Some(Action::BeginAndLog(epoch)))
            }
            (Phase::Planning, Event::Planned { work: true }) => {
                (Phase::Logging, Some(Action::Log(epoch)))
            }
            (Phase::Planning, Event::Planned { work: false }) => self.idle(),
            (Phase::Logging, Event::Logged) => (self.running(), Some(Action::Begin(epoch))),
            (Phase::Running(owed), Event::Acked(id, of)) => Self::acked(owed, id, of, epoch),
            (Phase::Committing, Event::SinksCommitted) => {
                (Phase::Publishing, Some(Action::Publish(epoch)))
            }
            (Phase::Publishing, Event::Published) => {
                (Phase::Announcing, Some(Action::Announce(epoch)))
            }
            (Phase::Announcing, Event::Announced) => self.next_epoch(),
            (phase, _) => (phase, None),
        };
        self.phase = phase;
        action
    }

    fn running(&self) -> Phase {
        Phase::Running(self.subtasks.clone())
    }

    fn idle(&self) -> (Phase, Option<Action>) {
        if self.trigger.is_bounded() || self.stopping {
            return (Phase::Ended, Some(Action::Finish));
        }
        (Phase::Waiting, Some(Action::Schedule { idle: true }))
    }

    fn acked(
        mut owed: BTreeSet<SubtaskId>,
        id: SubtaskId,
        of: Epoch,
        epoch: Epoch,
    ) -> (Phase, Option<Action>) {
        if of == epoch {
            owed.remove(&id);
        }
        if owed.is_empty() {
            return (Phase::Committing, Some(Action::CommitSinks(epoch)));
        }
        (Phase::Running(owed), None)
    }

    fn next_epoch(&mut self) -> (Phase, Option<Action>) {
        self.epoch = self.epoch.next();
        if self.stopping || self.trigger == Trigger::Once {
            return (Phase::Ended, Some(Action::Finish));
        }
        if self.trigger.is_bounded() {
            return (Phase::Planning, Some(Action::Plan(self.epoch)));
        }
        (Phase::Waiting, Some(Action::Schedule { idle: false }))
    }

    /// An epoch that sinks may already hold is finished; anything earlier is given up and replayed by the next run.
    fn stop(&mut self) -> Option<Action> {
        self.stopping = true;
        match self.phase {
            Phase::Committing | Phase::Publishing | Phase::Announcing | Phase::Ended => None,
            Phase::Starting
            | Phase::Waiting
            | Phase::Planning
            | Phase::Logging
            | Phase::Running(_) => {
                self.phase = Phase::Ended;
                Some(Action::Finish)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(subtask: usize) -> SubtaskId {
        SubtaskId { task: 0, subtask }
    }

    fn protocol(trigger: Trigger) -> Protocol {
        Protocol::new(trigger, BTreeSet::from([id(0), id(1)]), Epoch(5))
    }

    fn walk_to_commit(protocol: &mut Protocol) {
        assert_eq!(
            protocol.on(Event::Planned { work: true }),
            Some(Action::Log(Epoch(5)))
        );
        assert_eq!(protocol.on(Event::Logged), Some(Action::Begin(Epoch(5))));
        assert_eq!(protocol.on(Event::Acked(id(0), Epoch(5))), None);
        assert_eq!(
            protocol.on(Event::Acked(id(1), Epoch(5))),
            Some(Action::CommitSinks(Epoch(5)))
        );
    }

    #[test]
    fn e1_plan_is_logged_before_anything_is_read_and_e2_manifest_follows_the_sinks() {
        let mut protocol = protocol(Trigger::Default);
        assert_eq!(
            protocol.on(Event::Started { replay: false }),
            Some(Action::Schedule { idle: false })
        );
        assert_eq!(protocol.on(Event::Due), Some(Action::Plan(Epoch(5))));
        walk_to_commit(&mut protocol);
        assert_eq!(
            protocol.on(Event::SinksCommitted),
            Some(Action::Publish(Epoch(5)))
        );
        assert_eq!(
            protocol.on(Event::Published),
            Some(Action::Announce(Epoch(5)))
        );
        assert_eq!(
            protocol.on(Event::Announced),
            Some(Action::Schedule { idle: false })
        );
        assert_eq!(protocol.epoch(), Epoch(6));
    }

    #[test]
    fn e1_a_plan_written_beside_its_epoch_is_one_action_with_the_beginning() {
        let mut protocol = protocol(Trigger::Default).logging_beside(true);
        protocol.on(Event::Started { replay: false });
        protocol.on(Event::Due);
        assert_eq!(
            protocol.on(Event::Planned { work: true }),
            Some(Action::BeginAndLog(Epoch(5))),
            "whoever executes it hands on acks only when the plan is durable"
        );
        assert_eq!(protocol.owed(), [id(0), id(1)]);
        assert_eq!(protocol.on(Event::Acked(id(0), Epoch(5))), None);
        assert_eq!(
            protocol.on(Event::Acked(id(1), Epoch(5))),
            Some(Action::CommitSinks(Epoch(5)))
        );
    }

    #[test]
    fn e1_replay_begins_without_planning_or_logging_again() {
        let mut protocol = protocol(Trigger::AvailableNow);
        assert_eq!(
            protocol.on(Event::Started { replay: true }),
            Some(Action::Begin(Epoch(5)))
        );
    }

    #[test]
    fn acks_of_another_epoch_or_twice_from_one_subtask_do_not_complete_the_epoch() {
        let mut protocol = protocol(Trigger::Default);
        protocol.on(Event::Started { replay: true });
        assert_eq!(protocol.on(Event::Acked(id(0), Epoch(4))), None);
        assert_eq!(
            protocol.owed(),
            [id(0), id(1)],
            "an ack of epoch 4 says nothing of epoch 5"
        );
        assert_eq!(protocol.on(Event::Acked(id(0), Epoch(5))), None);
        assert_eq!(protocol.on(Event::Acked(id(0), Epoch(5))), None);
        assert_eq!(protocol.owed(), [id(1)]);
    }

    #[test]
    fn available_now_goes_on_until_nothing_is_new_and_then_ends() {
        let mut protocol = protocol(Trigger::AvailableNow);
        assert_eq!(
            protocol.on(Event::Started { replay: false }),
            Some(Action::Plan(Epoch(5)))
        );
        walk_to_commit(&mut protocol);
        protocol.on(Event::SinksCommitted);
        protocol.on(Event::Published);
        assert_eq!(protocol.on(Event::Announced), Some(Action::Plan(Epoch(6))));
        assert_eq!(
            protocol.on(Event::Planned { work: false }),
            Some(Action::Finish)
        );
        assert!(protocol.has_ended());
    }

    #[test]
    fn once_ends_after_one_epoch_replayed_or_not() {
        let mut protocol = protocol(Trigger::Once);
        protocol.on(Event::Started { replay: true });
        protocol.on(Event::Acked(id(0), Epoch(5)));
        protocol.on(Event::Acked(id(1), Epoch(5)));
        protocol.on(Event::SinksCommitted);
        protocol.on(Event::Published);
        assert_eq!(protocol.on(Event::Announced), Some(Action::Finish));
    }

    #[test]
    fn stop_gives_a_running_epoch_up_but_finishes_one_that_sinks_may_hold() {
        let mut running = protocol(Trigger::Default);
        running.on(Event::Started { replay: true });
        assert_eq!(running.on(Event::StopRequested), Some(Action::Finish));
        assert_eq!(
            running.on(Event::Acked(id(0), Epoch(5))),
            None,
            "nothing happens after the end"
        );

        let mut committing = protocol(Trigger::Default);
        committing.on(Event::Started { replay: false });
        committing.on(Event::Due);
        walk_to_commit(&mut committing);
        assert_eq!(committing.on(Event::StopRequested), None);
        assert_eq!(
            committing.on(Event::SinksCommitted),
            Some(Action::Publish(Epoch(5)))
        );
        committing.on(Event::Published);
        assert_eq!(committing.on(Event::Announced), Some(Action::Finish));
    }
}
