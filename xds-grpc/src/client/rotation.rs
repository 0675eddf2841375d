//! Fair polling of several sources of events.

use core::task::Poll;

/// Round-robin position. The next poll starts after the source that was ready last, so that a busy
/// source does not starve the others.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    next: usize,
}

impl Rotation {
    /// Polls all sources in turn, and returns the first ready result and the position of its
    /// source.
    pub(crate) fn poll<T, N>(
        &mut self,
        all: &mut [T],
        mut poll: impl FnMut(&mut T) -> Poll<N>,
    ) -> Poll<(usize, N)> {
        let begin = if self.next < all.len() { self.next } else { 0 };
        for at in (begin..all.len()).chain(0..begin) {
            let Some(one) = all.get_mut(at) else { continue };
            if let Poll::Ready(ready) = poll(one) {
                self.next = at + 1;
                return Poll::Ready((at, ready));
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_source_does_not_starve_the_others() {
        let mut rotation = Rotation::default();
        // Number of events of each source.
        let mut all = [u32::MAX, 2, 0, 1];
        let mut turns = Vec::new();
        for _ in 0..7 {
            let turn = rotation.poll(&mut all, |left| match *left {
                0 => Poll::Pending,
                _ => {
                    *left -= 1;
                    Poll::Ready(())
                }
            });
            let Poll::Ready((at, ())) = turn else { panic!("there is always some") };
            turns.push(at);
        }
        assert_eq!(turns, [0, 1, 3, 0, 1, 0, 0]);
        // The last sources are removed.
        let mut fewer = [1];
        assert!(rotation.poll(&mut fewer, |_| Poll::Ready(())).is_ready());
        assert!(rotation.poll(&mut [0_u32; 0], |_| Poll::Ready(())).is_pending());
    }
}
