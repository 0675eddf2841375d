//! How far the watch of a wildcard or a glob has come in the list of changes, and what it was told of
//! entries that moved on behind its back.
//!
//! The list is in the order in which entries last changed, so a watch needs no more than a marker in it,
//! or for a glob, whose members are filed by the number of their change, that number, as long as an entry
//! moves for a new value. One that moves for an error alone has a value that the
//! watch may know or not, and an error that it may have heard of or not; that is noted when it moves.

use super::Watches;
use crate::{
    client::{cache::Cache, subscription::TypeInterest},
    slab::Slot,
};

/// Notes what the watches of wildcards and globs were told of an entry before the error beside it changes.
pub(crate) fn note_told(slot: Slot, cache: &Cache, interest: &TypeInterest, watches: &mut Watches) {
    let Some(entry) = cache.get(slot) else { return };
    let note = |watches: &mut Watches, watch| {
        let watch = watches.get_mut(watch);
        if let Some(cursor) = watch.and_then(|watch| watch.target.cursor_mut()) {
            cursor.note_told(slot, entry);
        }
    };
    if !entry.is_foreign {
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
