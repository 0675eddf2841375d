//! Release of memory that a burst has left in a queue.

use alloc::collections::VecDeque;

/// Capacity up to which a queue is not worth shrinking.
const WORTH_KEEPING: usize = 256;

/// Releases the memory of an empty queue with a large capacity.
pub(crate) fn shrink_if_empty<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > WORTH_KEEPING {
        *queue = VecDeque::new();
    }
}
