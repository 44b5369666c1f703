//! Which fragments and stored sessions are one session: the union of ranges that overlap or touch, key by key.

use weir_runtime::Result;
use weir_runtime::Table;

use super::fragments::Fragments;
use super::list::{Stored, sessions};

/// What a piece of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// An absorbed stored session, by its index in [`Union::absorbed`].
    Stored(u32),
    /// A fragment.
    Fragment(u32),
}

/// What a touched key has at the end of the epoch, in order of start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Final {
    /// A stored session that nothing touched, by its number in the stored list.
    Kept(u32),
    /// The session of this leader.
    New(u32),
}

/// A stored session that became part of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absorbed<'a> {
    pub(super) stored: Stored<'a>,
    /// The fragment that stands for the new session.
    pub(super) leader: u32,
}

/// The sessions of all touched keys. A new session is named by one of its fragments, its leader.
#[derive(Debug, Default)]
pub(super) struct Union<'a> {
    /// Leader of each fragment.
    pub(super) leaders: Vec<u32>,
    /// Whether every fragment is a session of its own.
    pub(super) alone: bool,
    /// Start and end of the session of each leader.
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) absorbed: Vec<Absorbed<'a>>,
    /// All pieces of new sessions in order of key and start; equal starts: stored sessions first.
    pub(super) pieces: Vec<Piece>,
    /// What the keys have now, slot after slot.
    pub(super) finals: Vec<Final>,
    /// Where the finals of each slot end.
    pub(super) bounds: Vec<u32>,
}

/// A session while its pieces are gathered.
#[derive(Clone, Copy)]
struct Open {
    start: i64,
    end: i64,
    leader: Option<u32>,
    /// Number of the first stored piece in the stored list.
    number: u32,
    /// Where its stored pieces begin in `absorbed`.
    absorbed: usize,
}

impl<'a> Union<'a> {
    /// Finds the sessions. The table is loaded.
    ///
    /// # Errors
    /// If a stored list is damaged.
    pub(super) fn of(fragments: &Fragments, table: &'a Table) -> Result<Self> {
        let slots = table.touched();
        let by_slot = fragments.by_slot(slots);
        let mut union = Self {
            leaders: vec![0; fragments.len()],
            alone: true,
            starts: fragments.starts.clone(),
            ends: fragments.ends.clone(),
            pieces: Vec::with_capacity(fragments.len()),
            finals: Vec::with_capacity(fragments.len()),
            bounds: Vec::with_capacity(slots),
            ..Self::default()
        };
        for slot in 0..slots {
            let stored = table.value(slot).unwrap_or_default();
            union.slot(fragments, by_slot.of(slot), stored)?;
            union.bounds.push(index(union.finals.len()));
        }
        Ok(union)
    }

    fn slot(&mut self, fragments: &Fragments, own: &[u32], stored: &'a [u8]) -> Result<()> {
        let mut own = own.iter().copied().peekable();
        let mut stored = sessions(stored).enumerate().peekable();
        let mut open: Option<Open> = None;
        loop {
            let fragment = own.peek().map(|f| fragments.starts[*f as usize]);
            let old = match stored.peek() {
                Some((_, Ok(stored))) => Some(stored.start),
                Some((_, Err(error))) => return Err(error.clone()),
                None => None,
            };
            match (fragment, old) {
                (None, None) => break,
                (Some(new), Some(old)) if new < old => {
                    self.fragment(fragments, &mut open, own.next())
                }
                (Some(_), None) => self.fragment(fragments, &mut open, own.next()),
                _ => {
                    if let Some((number, stored)) = stored.next() {
                        self.stored(&mut open, index(number), stored?);
                    }
                }
            }
        }
        self.close(open);
        Ok(())
    }

    fn fragment(&mut self, fragments: &Fragments, open: &mut Option<Open>, fragment: Option<u32>) {
        let Some(fragment) = fragment else {
            return;
        };
        let (start, end) = (
            fragments.starts[fragment as usize],
            fragments.ends[fragment as usize],
        );
        let session = self.joined(open, start, end, 0);
        let leader = *session.leader.get_or_insert(fragment);
        self.alone &= leader == fragment;
        self.leaders[fragment as usize] = leader;
        self.pieces.push(Piece::Fragment(fragment));
    }

    fn stored(&mut self, open: &mut Option<Open>, number: u32, stored: Stored<'a>) {
        self.joined(open, stored.start, stored.end, number);
        self.pieces.push(Piece::Stored(index(self.absorbed.len())));
        self.absorbed.push(Absorbed { stored, leader: 0 });
    }

    /// The open session after it took a range in; if the range does not touch it, it is closed and another one opened.
    fn joined<'b>(
        &mut self,
        open: &'b mut Option<Open>,
        start: i64,
        end: i64,
        number: u32,
    ) -> &'b mut Open {
        if open.is_some_and(|session| start > session.end) {
            self.close(open.take());
        }
        let absorbed = self.absorbed.len();
        let session = open.get_or_insert(Open {
            start,
            end,
            leader: None,
            number,
            absorbed,
        });
        session.end = session.end.max(end);
        session
    }

    fn close(&mut self, open: Option<Open>) {
        let Some(session) = open else {
            return;
        };
        let Some(leader) = session.leader else {
            // Stored sessions that no fragment touched: one, as stored ones do not touch each other either.
            let kept = self.absorbed.len() - session.absorbed;
            self.absorbed.truncate(session.absorbed);
            self.pieces.truncate(self.pieces.len() - kept);
            let numbers = session.number..session.number + index(kept);
            self.finals.extend(numbers.map(Final::Kept));
            return;
        };
        self.starts[leader as usize] = session.start;
        self.ends[leader as usize] = session.end;
        for absorbed in &mut self.absorbed[session.absorbed..] {
            absorbed.leader = leader;
        }
        self.finals.push(Final::New(leader));
    }
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("invariant: an epoch has fewer than 2^32 sessions")
}
