//! Sessions that the watermark completes leave the table; what else is in their entries goes back.

use weir_runtime::Result;
use weir_runtime::{StateEntry, Table};

use super::emit::{Bytes, Leaving};
use super::list;

/// Removes the sessions that end at or before `bound`, in microseconds, and hands them to `complete` if given. Returns how many.
///
/// # Errors
/// Of the table; if a stored list is damaged.
pub(super) fn evict(
    table: &mut Table,
    bound: i64,
    mut complete: Option<&mut Leaving>,
) -> Result<u64> {
    let mut open = Open::default();
    let (mut removed, mut damaged) = (0, Ok(()));
    table.expire(bound, &mut |entry| {
        match split(&entry, bound, complete.as_deref_mut(), &mut open) {
            Ok(complete) => removed += complete,
            Err(error) => damaged = Err(error),
        }
        Ok(())
    })?;
    damaged?;
    for (index, (group, expires)) in open.entries.iter().enumerate() {
        let slot = table.touch(*group, 0, open.keys.get(index));
        table.set_expiring(slot, open.lists.get(index), *expires);
    }
    Ok(removed)
}

/// Entries of which sessions are still open, to be put back.
#[derive(Default)]
struct Open {
    /// Key group and first end.
    entries: Vec<(u32, i64)>,
    keys: Bytes,
    lists: Bytes,
}

/// Parts the sessions of an entry into complete and open ones; gives the number of complete ones.
fn split(
    entry: &StateEntry<'_>,
    bound: i64,
    mut complete: Option<&mut Leaving>,
    open: &mut Open,
) -> Result<u64> {
    let (mut first, mut removed) = (None, 0);
    let mut rest = Vec::new();
    for stored in list::sessions(entry.value) {
        let stored = stored?;
        if stored.end > bound {
            first.get_or_insert(stored.end);
            list::push(&mut rest, stored.row);
            continue;
        }
        removed += 1;
        if let Some(complete) = &mut complete {
            complete.push(entry.key, stored.row);
        }
    }
    if let Some(first) = first {
        open.entries.push((entry.group, first));
        open.keys.push(entry.key);
        open.lists.push(&rest);
    }
    Ok(removed)
}
