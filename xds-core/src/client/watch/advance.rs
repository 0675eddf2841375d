//! Progress of wildcard and glob watches through the list of changes.
//!
//! Entries are in the order of their last change, so a position is sufficient as long as entries
//! only move because of new values: a marker in the list for a wildcard, a number for a glob. An
//! entry that moves because of its error alone may have a value, and an error, that the watch has
//! seen already. Its reported state is noted before it moves.

use super::Watches;
use crate::{
    client::{cache::Cache, subscription::TypeInterest},
    slab::Slot,
};

/// Notes the state of an entry as reported to wildcard and glob watches, before its error changes.
pub(crate) fn note_reported(
    slot: Slot,
    cache: &Cache,
    interest: &TypeInterest,
    watches: &mut Watches,
) {
    let Some(entry) = cache.get(slot) else { return };
    let note = |watches: &mut Watches, watch| {
        let watch = watches.get_mut(watch);
        if let Some(cursor) = watch.and_then(|watch| watch.target.cursor_mut()) {
            cursor.note_reported(slot, entry);
        }
    };
    if !entry.has_authority {
        for &watch in &interest.wildcards {
            note(watches, watch);
        }
        return;
    }
    for (_, glob) in cache.globs.covering(entry.name.as_str()) {
        let subscription = interest.subscriptions.at(glob.subscription);
        let first = subscription.map_or(Slot::NONE, |subscription| subscription.first_watch);
        for watch in watches.of_name(first) {
            note(watches, watch);
        }
    }
}
