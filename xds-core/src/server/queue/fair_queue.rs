//! Queue that serves connections in turn.

use alloc::collections::{BTreeMap, VecDeque};

/// First-in, first-out queue per connection. The connections with items take turns, one item each, so
/// the wait of an item depends on the number of connections and not on how much others have queued.
///
/// The server continues long requests in this order, and a driver should handle messages and render
/// responses in the same way. Any number that identifies a connection may be the key. Items of a
/// connection that has closed stay until they are removed in their turns.
///
/// ```
/// use xds_core::server::FairQueue;
///
/// let mut queue = FairQueue::default();
/// let items = [(1, "a"), (1, "b"), (1, "c"), (2, "x")];
/// items.map(|(connection, item)| queue.push(connection, item));
/// let order: Vec<_> = core::iter::from_fn(|| queue.pop()).collect();
/// assert_eq!(order, ["a", "x", "b", "c"]);
/// ```
#[derive(Clone, Debug)]
pub struct FairQueue<K, T> {
    items: BTreeMap<K, VecDeque<T>>,
    /// Connections with items, the next one first.
    turns: VecDeque<K>,
}

impl<K: Copy + Ord, T> FairQueue<K, T> {
    /// Adds an item of a connection.
    pub fn push(&mut self, connection: K, item: T) {
        let items = self.items.entry(connection).or_default();
        if items.is_empty() {
            self.turns.push_back(connection);
        }
        items.push_back(item);
    }

    /// Removes the first item of the connection whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let connection = self.turns.pop_front()?;
        let items = self.items.get_mut(&connection)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.items.remove(&connection);
        } else {
            self.turns.push_back(connection);
        }
        item
    }

    /// Returns whether no connection has items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), turns: VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use crate::server::queue::fair_queue::*;

    fn queue(items: &[(u64, char)]) -> FairQueue<u64, char> {
        let mut queue = FairQueue::default();
        items.iter().for_each(|(connection, item)| queue.push(*connection, *item));
        queue
    }

    fn rest(mut queue: FairQueue<u64, char>) -> String {
        let rest = core::iter::from_fn(|| queue.pop()).collect();
        assert!(queue.is_empty() && queue.items.is_empty(), "no connection is kept without items");
        rest
    }

    #[test]
    fn items_of_one_connection_keep_their_order() {
        assert_eq!(rest(queue(&[(7, 'a'), (7, 'b'), (7, 'c')])), "abc");
        assert_eq!(rest(queue(&[])), "");
    }

    #[test]
    fn connections_take_turns() {
        let items = [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'x'), (3, 'y'), (2, 'z')];
        assert_eq!(rest(queue(&items)), "axybzc");
    }

    #[test]
    fn item_waits_for_one_item_of_each_other_connection() {
        let mut queue = FairQueue::default();
        for number in 0..10_000 {
            queue.push(number % 10, 'a');
        }
        queue.push(10, 'x');
        let served = core::iter::from_fn(|| queue.pop()).position(|item| item == 'x');
        assert_eq!(served, Some(10));
    }

    #[test]
    fn connection_that_was_served_waits_for_the_others() {
        let mut queue = queue(&[(1, 'a'), (2, 'x'), (2, 'y')]);
        assert_eq!(queue.pop(), Some('a'));
        queue.push(1, 'b');
        assert_eq!(rest(queue), "xby");
    }
}
