//! The keys of an aggregation: columns, time windows, and several sets of them.

use arrow::datatypes::DataType;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, GroupingSet as Sets};
use weir_operators::{GroupingSet, TimeKey};
use weir_runtime::{Result, WeirError};

use super::calls::plain;
use crate::functions::normalize::normalized;
use crate::functions::windows::WindowSpec;
use crate::plan::event_time::carries;
use crate::plan::plan_error;

/// Name of the column that tells the groups of one set of keys from those of another.
pub(in crate::plan) const GROUPING_ID: &str = Aggregate::INTERNAL_GROUPING_ID;

/// One key of an aggregation.
pub(in crate::plan) struct Key {
    /// Name among the columns, and in the state.
    pub(in crate::plan) name: String,
    /// The expression over the input: of a window, its time.
    pub(in crate::plan) expr: Expr,
    pub(in crate::plan) window: Option<Window>,
    /// The key's type in the plan.
    pub(in crate::plan) data_type: DataType,
    /// A watermark follows the key.
    timed: bool,
}

/// Length, distance and shift of windows, in microseconds.
#[derive(Clone, Copy)]
pub(in crate::plan) struct Window {
    pub(in crate::plan) size: i64,
    pub(in crate::plan) slide: i64,
    pub(in crate::plan) start: i64,
}

impl Window {
    /// Rows between two starts share all their windows.
    pub(in crate::plan) fn has_panes(self) -> bool {
        self.slide < self.size && self.size % self.slide == 0
    }
}

/// All keys.
pub(in crate::plan) struct Keys {
    pub(in crate::plan) list: Vec<Key>,
    /// The sets of keys, if there are several; their id is one more key behind the others.
    pub(in crate::plan) sets: Option<Vec<GroupingSet>>,
}

impl Keys {
    pub(in crate::plan) fn of(node: &Aggregate) -> Result<Self> {
        let exprs = grouping_set_to_exprlist(&node.group_expr).map_err(plan_error)?;
        let mut list: Vec<Key> = Vec::new();
        for expr in &exprs {
            let key = key(expr, node)?;
            let name = unused(&key.name, &list);
            list.push(Key { name, ..key });
        }
        Ok(Self {
            sets: sets(node, &exprs)?,
            list,
        })
    }

    /// Names of the key columns of the aggregate.
    pub(in crate::plan) fn names(&self) -> Vec<String> {
        let id = self.sets.as_ref().map(|_| GROUPING_ID.to_owned());
        let names = self.list.iter().map(|key| key.name.clone());
        names.chain(id).collect()
    }

    /// The key that is a window.
    pub(in crate::plan) fn window(&self) -> Option<(usize, &Key, Window)> {
        let mut keys = self.list.iter().enumerate();
        keys.find_map(|(index, key)| Some((index, key, key.window?)))
    }

    /// The key that a watermark follows.
    pub(in crate::plan) fn time(&self) -> Option<TimeKey> {
        let in_all = |index: usize| {
            let sets = self.sets.as_ref();
            sets.is_none_or(|sets| sets.iter().all(|set| set.holds[index]))
        };
        let mut keys = self.list.iter().enumerate();
        let (index, key) = keys.find(|(index, key)| key.timed && in_all(*index))?;
        Some(match (key.window, &key.data_type) {
            (Some(window), _) => TimeKey::Start {
                key: index,
                size: window.size,
            },
            (None, DataType::Struct(_)) => TimeKey::Window(index),
            (None, _) => TimeKey::Instant(index),
        })
    }

    /// Positions, among the bits of the grouping id, of the keys these expressions are.
    pub(in crate::plan) fn bits(&self, arguments: &[Expr]) -> Result<Vec<usize>> {
        let count = self.list.len();
        if arguments.is_empty() {
            return Ok((0..count).rev().collect());
        }
        let bit = |argument: &Expr| {
            let name = plain(argument)?.schema_name().to_string();
            let key = self.list.iter().position(|key| key.name == name);
            key.map(|key| count - 1 - key).ok_or_else(|| {
                WeirError::plan(format!("grouping of {name}, which is no key"))
                    .with_condition("GROUPING_COLUMN_MISMATCH")
            })
        };
        arguments.iter().map(bit).collect()
    }
}

fn unused(name: &str, keys: &[Key]) -> String {
    let taken = |name: &str| keys.iter().any(|known| known.name == name);
    let mut copies =
        std::iter::once(name.to_owned()).chain((2..).map(|copy| format!("{name} ({copy})")));
    let free = copies.find(|name| !taken(name));
    free.expect("invariant: the numbers do not end")
}

fn key(expr: &Expr, node: &Aggregate) -> Result<Key> {
    let schema = node.input.schema();
    let data_type = expr.get_type(schema).map_err(plan_error)?;
    let name = plain(expr)?.schema_name().to_string();
    let timed = carries(expr, &node.input);
    match WindowSpec::of(expr) {
        Some(WindowSpec::Fixed {
            time,
            size,
            slide,
            start,
        }) => Ok(Key {
            name,
            expr: time,
            window: Some(Window { size, slide, start }),
            data_type,
            timed,
        }),
        // The aggregation over sessions makes the window itself.
        Some(WindowSpec::Session { time, .. }) => Ok(Key {
            name,
            expr: time,
            window: None,
            data_type,
            timed,
        }),
        None => Ok(Key {
            name,
            expr: normalized(expr.clone().unalias(), &data_type),
            window: None,
            data_type,
            timed,
        }),
    }
}

/// The sets of keys, each with an id: a bit for each key that it leaves out, the first key's the highest, and above them how
/// often the same set came before.
fn sets(node: &Aggregate, keys: &[&Expr]) -> Result<Option<Vec<GroupingSet>>> {
    let [Expr::GroupingSet(sets)] = node.group_expr.as_slice() else {
        return Ok(None);
    };
    let session = |key: &&Expr| matches!(WindowSpec::of(key), Some(WindowSpec::Session { .. }));
    if keys.iter().any(session) {
        return Err(WeirError::plan(
            "a session window cannot be one of several sets of keys",
        ));
    }
    if keys.len() > 30 {
        return Err(WeirError::plan(format!(
            "{} keys in grouping sets, allowed: 30",
            keys.len()
        )));
    }
    let mut found: Vec<GroupingSet> = Vec::new();
    for set in listed(sets) {
        let holds: Vec<bool> = keys.iter().map(|key| set.contains(key)).collect();
        let copies = found.iter().filter(|known| known.holds == holds).count();
        let missing = holds
            .iter()
            .fold(0, |bits, holds| bits << 1 | i64::from(!holds));
        found.push(GroupingSet {
            id: i64::try_from(copies).unwrap_or(i64::MAX) << keys.len() | missing,
            holds,
        });
    }
    Ok(Some(found))
}

/// The sets of keys one by one.
fn listed(sets: &Sets) -> Vec<Vec<&Expr>> {
    match sets {
        Sets::GroupingSets(sets) => sets.iter().map(|set| set.iter().collect()).collect(),
        Sets::Rollup(keys) => (0..=keys.len())
            .rev()
            .map(|length| keys[..length].iter().collect())
            .collect(),
        Sets::Cube(keys) => (0..1u64 << keys.len().min(20))
            .map(|left_out| {
                let held = keys.iter().enumerate();
                let held = held.filter(|(key, _)| left_out >> key & 1 == 0);
                held.map(|(_, key)| key).collect()
            })
            .collect(),
    }
}
