//! Room that a burst took and nothing needs any more.

use alloc::collections::VecDeque;

/// Fewer entries than this are not worth giving back.
const WORTH_KEEPING: usize = 256;

/// Gives back the room of a queue that has run empty, if it is much.
pub(crate) fn give_back<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > WORTH_KEEPING {
        *queue = VecDeque::new();
    }
}
