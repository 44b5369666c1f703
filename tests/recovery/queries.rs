//! The queries that have to survive: what each computes, where its rows go, and what has to be there in the end.
//!
//! Event times rise from file to file and the watermark stays behind by more than they go back, so no row is ever late and the
//! right output does not depend on how the files are cut into epochs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir::prelude::*;

use crate::target;

/// First event time, in microseconds since 1970: 2026-01-01.
const START: i64 = 1_767_225_600_000_000;
const SECOND: i64 = 1_000_000;
/// Event time of one file, and the width of a window.
const SPAN: i64 = 10 * SECOND;
/// How far the watermark stays behind.
const DELAY: i64 = 15 * SECOND;
/// Gap that ends a session.
const GAP: i64 = 3 * SECOND;
const USERS: i64 = 67;
const ACTIONS: [&str; 3] = ["purchase", "view", "return"];

/// A query over the actions of the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Stateless: purchases over 100, to files.
    Purchases,
    /// Count and sum by window and action, append mode, to files.
    Windows,
    /// Each (id, time) once; every second row of a file comes again in the next one. To files.
    Dedup,
    /// Sessions by user, append mode, to files.
    Sessions,
    /// Running totals by user, update mode, upserted into a table.
    Totals,
}

/// One action.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) id: i64,
    user: i64,
    action: &'static str,
    /// Whole part; every amount ends in .5.
    amount: i64,
    micros: i64,
}

impl Row {
    fn new(file: u64, row: u64) -> Self {
        let id = (file * 1_000_000 + row) as i64;
        Self {
            id,
            user: (id * 31) % USERS,
            action: ACTIONS[(id % 3) as usize],
            amount: (id * 7919) % 200,
            micros: START + file as i64 * SPAN + (id * 7919 % 9_000) * 1_000,
        }
    }

    pub(crate) fn json(&self) -> String {
        let Self {
            id,
            user,
            action,
            amount,
            micros,
        } = self;
        let time =
            chrono::DateTime::from_timestamp_micros(*micros).expect("a time of this century");
        let time = time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        format!(
            r#"{{"id":{id},"user":{user},"action":"{action}","amount":{amount}.5,"ts":"{time}"}}"#
        )
    }
}

/// The columns of [`Row::json`].
pub(crate) const SCHEMA: &str =
    "id BIGINT, user BIGINT, action STRING, amount DOUBLE, ts TIMESTAMP";

impl Kind {
    pub(crate) const STATEFUL: [Self; 4] =
        [Self::Windows, Self::Dedup, Self::Sessions, Self::Totals];

    /// By the name `Debug` gives; how a child process is told.
    pub(crate) fn named(name: &str) -> Self {
        let all = Self::STATEFUL.into_iter().chain([Self::Purchases]);
        let mut all = all.filter(|kind| format!("{kind:?}") == name);
        all.next().expect("a kind of query")
    }

    /// Rows of one file.
    pub(crate) fn rows(self, file: u64, rows: u64) -> Vec<Row> {
        let own = (0..rows).map(|row| Row::new(file, row));
        let again = match (self, file.checked_sub(1)) {
            (Self::Dedup, Some(before)) => (0..rows)
                .step_by(2)
                .map(|row| Row::new(before, row))
                .collect(),
            _ => Vec::new(),
        };
        own.chain(again).collect()
    }

    /// The query over the stream of rows.
    pub(crate) async fn frame(self, session: &Session, rows: DataFrame) -> Result<DataFrame> {
        if self == Self::Purchases {
            let bought = rows.filter("action = 'purchase' AND amount > 100")?;
            return bought.select(["id", "amount"]);
        }
        if self == Self::Totals {
            rows.create_or_replace_temp_view("actions")?;
            let totals = "SELECT user, count(*) AS n, sum(id) AS s FROM actions GROUP BY user";
            return session.sql(totals).await;
        }
        let timed = rows.with_watermark("ts", "15 seconds")?;
        if self == Self::Dedup {
            return timed
                .drop_duplicates(&["id", "ts"])?
                .select(["id", "amount"]);
        }
        timed.create_or_replace_temp_view("actions")?;
        let query = match self {
            Self::Windows => {
                "SELECT window.start AS start, action, count(*) AS n, sum(id) AS s
                 FROM actions GROUP BY window(ts, '10 seconds'), action"
            }
            _ => {
                "SELECT session_window.start AS start, session_window.end AS end, user, count(*) AS n, sum(id) AS s
                 FROM actions GROUP BY session_window(ts, '3 seconds'), user"
            }
        };
        session.sql(query).await
    }

    /// What has to be in the output after files 0..`files` of `rows` rows, each row as its values with `|` between them. Windows
    /// and sessions that the watermark has not passed are still open.
    pub(crate) fn expected(self, files: u64, rows: u64) -> Vec<String> {
        let distinct: BTreeMap<i64, Row> = (0..files)
            .flat_map(|file| self.rows(file, rows))
            .map(|row| (row.id, row))
            .collect();
        let rows: Vec<&Row> = distinct.values().collect();
        let newest = rows.iter().map(|row| row.micros).max().unwrap_or(START);
        // Watermarks are whole milliseconds.
        let watermark = (newest / 1_000 * 1_000) - DELAY;
        match self {
            Self::Purchases => rows
                .iter()
                .filter(|row| row.action == "purchase" && row.amount >= 100)
                .map(|row| format!("{}|{}.5", row.id, row.amount))
                .collect(),
            Self::Dedup => rows
                .iter()
                .map(|row| format!("{}|{}.5", row.id, row.amount))
                .collect(),
            Self::Windows => windows(&rows, watermark),
            Self::Sessions => sessions(&rows, watermark),
            Self::Totals => totals(&rows),
        }
    }

    /// What is in the output that is in `home`, as often as it is there, for each kind of reader.
    pub(crate) fn found(self, home: &Path) -> Vec<(&'static str, Vec<String>)> {
        match self {
            Self::Totals => vec![("table", target::Table::open(home).rows())],
            _ => vec![
                ("manifest", target::files_by_manifest(home)),
                ("listing", target::files_by_listing(home)),
            ],
        }
    }
}

/// Number and sum of ids.
type Sums<K> = BTreeMap<K, (i64, i64)>;

fn add<K: Ord>(sums: &mut Sums<K>, key: K, id: i64) {
    let sum = sums.entry(key).or_default();
    *sum = (sum.0 + 1, sum.1 + id);
}

fn totals(rows: &[&Row]) -> Vec<String> {
    let mut sums = Sums::new();
    rows.iter().for_each(|row| add(&mut sums, row.user, row.id));
    let totals = sums.into_iter();
    totals
        .map(|(user, (n, s))| format!("{user}|{n}|{s}"))
        .collect()
}

fn windows(rows: &[&Row], watermark: i64) -> Vec<String> {
    let mut sums = Sums::new();
    for row in rows {
        add(
            &mut sums,
            (row.micros - row.micros % SPAN, row.action),
            row.id,
        );
    }
    let closed = sums
        .into_iter()
        .filter(|((start, _), _)| start + SPAN <= watermark);
    closed
        .map(|((start, action), (n, s))| format!("{start}|{action}|{n}|{s}"))
        .collect()
}

fn sessions(rows: &[&Row], watermark: i64) -> Vec<String> {
    let mut by_user: BTreeMap<i64, BTreeSet<(i64, i64)>> = BTreeMap::new();
    for row in rows {
        by_user
            .entry(row.user)
            .or_default()
            .insert((row.micros, row.id));
    }
    let mut closed = Vec::new();
    for (user, rows) in by_user {
        let mut open: Vec<(i64, i64, i64, i64)> = Vec::new();
        for (micros, id) in rows {
            match open.last_mut() {
                Some((_, end, n, s)) if micros <= *end => {
                    (*end, *n, *s) = (micros + GAP, *n + 1, *s + id);
                }
                _ => open.push((micros, micros + GAP, 1, id)),
            }
        }
        let ended = open.into_iter().filter(|(_, end, ..)| *end <= watermark);
        closed.extend(ended.map(|(start, end, n, s)| format!("{start}|{end}|{user}|{n}|{s}")));
    }
    closed
}
