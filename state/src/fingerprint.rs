//! Does the program that starts now still mean what the checkpoint's state means?
//!
//! Spark accepts a changed window size, output mode or watermark delay in silence and mixes old and new
//! windows. Here every parameter that gives state its meaning is part of the operator's [`Fingerprint`],
//! recorded in `metadata`, and [`check_compatible`] refuses a change naming all of them at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// What one operator is, as far as its state or position depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// What kind of operator, for example `window_aggregate` or `file_source`.
    pub kind: String,
    /// Every parameter that gives the state its meaning (window size, delay, join condition, topics,
    /// directory …) as text. What may change freely (rate limits, file formats' options) is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// True when something of the operator survives a restart: its state, or a source's position.
    pub stateful: bool,
}

impl Fingerprint {
    /// A source: it keeps a position, so it counts as stateful.
    #[must_use]
    pub fn source(kind: impl Into<String>) -> Self {
        Self::stateful(kind)
    }

    /// An operator with state.
    #[must_use]
    pub fn stateful(kind: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            params: BTreeMap::new(),
            stateful: true,
        }
    }

    /// An operator without state, or a sink: it may be added, removed or changed freely.
    #[must_use]
    pub fn stateless(kind: impl Into<String>) -> Self {
        Self {
            stateful: false,
            ..Self::stateful(kind)
        }
    }

    /// Adds one parameter.
    #[must_use]
    pub fn param(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.params.insert(name.into(), value.to_string());
        self
    }
}

/// A difference that is allowed: it concerns operators without state only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The operator is new.
    Added {
        /// Uid of the operator.
        uid: String,
    },
    /// The operator is gone.
    Removed {
        /// Uid of the operator.
        uid: String,
    },
    /// Kind or parameters differ.
    Changed {
        /// Uid of the operator.
        uid: String,
    },
}

/// A difference that would give stored state or a stored position another meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A stateful operator or source of the checkpoint is not in the program (or no longer stateful).
    Disappeared {
        /// Uid of the operator.
        uid: String,
        /// Its kind as recorded.
        kind: String,
    },
    /// A stateful operator or source of the program has nothing in the checkpoint.
    Appeared {
        /// Uid of the operator.
        uid: String,
        /// Its kind in the program.
        kind: String,
    },
    /// The kind differs.
    KindChanged {
        /// Uid of the operator.
        uid: String,
        /// Kind as recorded.
        old: String,
        /// Kind in the program.
        new: String,
    },
    /// One parameter differs; `None` where it is not set.
    ParamChanged {
        /// Uid of the operator.
        uid: String,
        /// Name of the parameter.
        param: String,
        /// Value as recorded.
        old: Option<String>,
        /// Value in the program.
        new: Option<String>,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| match value {
            Some(value) => format!("`{value}`"),
            None => "not set".to_string(),
        };
        match self {
            Problem::Disappeared { uid, kind } => write!(
                f,
                "operator `{uid}` ({kind}) has state or a position in the checkpoint but is not in the program as a source or \
                 stateful operator"
            ),
            Problem::Appeared { uid, kind } => write!(
                f,
                "operator `{uid}` ({kind}) needs state or a position but the checkpoint has none for it"
            ),
            Problem::KindChanged { uid, old, new } => {
                write!(
                    f,
                    "operator `{uid}` changed its kind from `{old}` to `{new}`"
                )
            }
            Problem::ParamChanged {
                uid,
                param,
                old,
                new,
            } => {
                write!(
                    f,
                    "operator `{uid}` changed `{param}` from {} to {}",
                    shown(old),
                    shown(new)
                )?;
                match consequence(param) {
                    Some(consequence) => write!(f, " ({consequence})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What would be wrong with results if a parameter changed under the state.
fn consequence(param: &str) -> Option<&'static str> {
    Some(match param {
        "aggregates" => "the state has no values of earlier rows for a new function",
        "keys" | "partition" => "the state is kept by the old keys",
        "window" => "the state holds windows of the old length and start",
        "watermark" => "rows that the old delay dropped and groups that it closed do not come back",
        "mode" => "the sink holds what the old output mode gave it",
        "order" => "the state is kept in the old order",
        _ => return None,
    })
}

/// All differences that forbid continuing; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incompatible {
    /// Every problem, ordered by operator uid, then by parameter.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        write!(
            f,
            "the program does not fit the checkpoint: {}; restore the old definition or start with a new \
             checkpoint (operators without state and sinks may change freely)",
            problems.join("; ")
        )
    }
}

impl std::error::Error for Incompatible {}

/// Compares the operators a checkpoint was written with (`old`) with those of the program (`new`).
///
/// Operators without state may be added, removed or changed: these are returned. A source or stateful
/// operator must be there on both sides with the same kind and parameters.
///
/// # Errors
/// [`Incompatible`] with every problem, not only the first.
pub fn check_compatible(
    old: &BTreeMap<String, Fingerprint>,
    new: &BTreeMap<String, Fingerprint>,
) -> Result<Vec<Change>, Incompatible> {
    let mut changes = Vec::new();
    let mut problems = Vec::new();
    let uids: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for uid in uids {
        compare_operator(uid, old.get(uid), new.get(uid), &mut changes, &mut problems);
    }
    if problems.is_empty() {
        Ok(changes)
    } else {
        Err(Incompatible { problems })
    }
}

fn compare_operator(
    uid: &str,
    old: Option<&Fingerprint>,
    new: Option<&Fingerprint>,
    changes: &mut Vec<Change>,
    problems: &mut Vec<Problem>,
) {
    let uid = uid.to_string();
    let pinned_old = old.filter(|f| f.stateful);
    let pinned_new = new.filter(|f| f.stateful);
    match (pinned_old, pinned_new) {
        (Some(old), Some(new)) => compare_pinned(&uid, old, new, problems),
        (Some(old), None) => problems.push(Problem::Disappeared {
            uid,
            kind: old.kind.clone(),
        }),
        (None, Some(new)) => problems.push(Problem::Appeared {
            uid,
            kind: new.kind.clone(),
        }),
        (None, None) => match (old, new) {
            (None, _) => changes.push(Change::Added { uid }),
            (_, None) => changes.push(Change::Removed { uid }),
            (old, new) if old != new => changes.push(Change::Changed { uid }),
            _ => {}
        },
    }
}

fn compare_pinned(uid: &str, old: &Fingerprint, new: &Fingerprint, problems: &mut Vec<Problem>) {
    if old.kind != new.kind {
        problems.push(Problem::KindChanged {
            uid: uid.to_string(),
            old: old.kind.clone(),
            new: new.kind.clone(),
        });
    }
    let names: BTreeSet<&String> = old.params.keys().chain(new.params.keys()).collect();
    for param in names {
        let (old, new) = (old.params.get(param), new.params.get(param));
        if old != new {
            problems.push(Problem::ParamChanged {
                uid: uid.to_string(),
                param: param.clone(),
                old: old.cloned(),
                new: new.cloned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operators(list: &[(&str, Fingerprint)]) -> BTreeMap<String, Fingerprint> {
        list.iter()
            .map(|(uid, f)| (uid.to_string(), f.clone()))
            .collect()
    }

    fn window(size: &str) -> Fingerprint {
        Fingerprint::stateful("window_aggregate").param("size", size)
    }

    #[test]
    fn compatible_same_operators_gives_no_change() {
        let all = operators(&[("src", Fingerprint::source("file")), ("w", window("10s"))]);
        assert_eq!(check_compatible(&all, &all), Ok(vec![]));
    }

    #[test]
    fn compatible_stateless_operators_may_come_go_and_change() {
        let old = operators(&[
            ("a", Fingerprint::stateless("filter").param("expr", "x > 1")),
            ("b", Fingerprint::stateless("project")),
            ("sink", Fingerprint::stateless("file_sink")),
        ]);
        let new = operators(&[
            ("a", Fingerprint::stateless("filter").param("expr", "x > 2")),
            ("c", Fingerprint::stateless("map")),
            ("sink", Fingerprint::stateless("kafka_sink")),
        ]);
        let uid = |s: &str| s.to_string();
        assert_eq!(
            check_compatible(&old, &new),
            Ok(vec![
                Change::Changed { uid: uid("a") },
                Change::Removed { uid: uid("b") },
                Change::Added { uid: uid("c") },
                Change::Changed { uid: uid("sink") },
            ])
        );
    }

    #[test]
    fn compatible_window_size_changed_is_refused_with_both_values() {
        let error = check_compatible(
            &operators(&[("w", window("10 seconds"))]),
            &operators(&[("w", window("20 seconds"))]),
        )
        .expect_err("changed window");
        let text = error.to_string();
        for part in [
            "operator `w`",
            "`size`",
            "`10 seconds`",
            "`20 seconds`",
            "new checkpoint",
            "restore the old definition",
        ] {
            assert!(text.contains(part), "`{part}` not in: {text}");
        }
    }

    #[test]
    fn compatible_every_problem_is_listed_at_once() {
        let old = operators(&[
            ("dedup", Fingerprint::stateful("dedup").param("keys", "id")),
            ("join", Fingerprint::stateful("join").param("type", "inner")),
            ("src", Fingerprint::source("file").param("path", "/in")),
        ]);
        let new = operators(&[
            ("agg", window("1s")),
            ("join", Fingerprint::stateful("join").param("on", "id")),
            ("src", Fingerprint::source("kafka").param("path", "/in")),
        ]);
        let error = check_compatible(&old, &new).expect_err("incompatible");
        let text = |s: &str| s.to_string();
        assert_eq!(
            error.problems,
            vec![
                Problem::Appeared {
                    uid: text("agg"),
                    kind: text("window_aggregate")
                },
                Problem::Disappeared {
                    uid: text("dedup"),
                    kind: text("dedup")
                },
                Problem::ParamChanged {
                    uid: text("join"),
                    param: text("on"),
                    old: None,
                    new: Some(text("id"))
                },
                Problem::ParamChanged {
                    uid: text("join"),
                    param: text("type"),
                    old: Some(text("inner")),
                    new: None
                },
                Problem::KindChanged {
                    uid: text("src"),
                    old: text("file"),
                    new: text("kafka")
                },
            ]
        );
        assert!(error.to_string().contains("`type` from `inner` to not set"));
    }

    #[test]
    fn compatible_operator_that_gains_or_loses_state_is_refused() {
        let with = operators(&[("m", Fingerprint::stateful("map"))]);
        let without = operators(&[("m", Fingerprint::stateless("map"))]);
        assert!(matches!(
            check_compatible(&with, &without)
                .expect_err("lost")
                .problems[..],
            [Problem::Disappeared { .. }]
        ));
        assert!(matches!(
            check_compatible(&without, &with)
                .expect_err("gained")
                .problems[..],
            [Problem::Appeared { .. }]
        ));
    }
}
