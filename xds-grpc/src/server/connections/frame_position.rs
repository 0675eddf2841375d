//! Position within a sequence of HTTP/2 frames, for code that sees only parts of it.

/// Length of a frame header in bytes.
const HEADER: usize = 9;

/// Position after the bytes that were seen.
#[derive(Debug, Default)]
pub(crate) struct FramePosition {
    header: [u8; HEADER],
    /// Number of bytes of the header that were seen.
    filled: usize,
    /// Number of bytes that are left before the next header.
    left: usize,
}

impl FramePosition {
    /// Returns the position before `bytes` that are not a frame.
    pub(crate) fn before(bytes: usize) -> Self {
        Self { left: bytes, ..Self::default() }
    }

    /// Advances over further bytes. Calls `begin` with the type and the flags of each frame that
    /// begins in them.
    pub(crate) fn advance(&mut self, mut bytes: &[u8], mut begin: impl FnMut(u8, u8)) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = self.left.min(bytes.len());
                self.left -= count;
                bytes = bytes.get(count..).unwrap_or_default();
                continue;
            }
            let count = (HEADER - self.filled).min(bytes.len());
            let (own, rest) = bytes.split_at(count);
            for (to, from) in self.header.iter_mut().skip(self.filled).zip(own) {
                *to = *from;
            }
            (self.filled, bytes) = (self.filled + count, rest);
            if self.filled == HEADER {
                let [a, b, c, kind, flags, ..] = self.header;
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.filled = 0;
                begin(kind, flags);
            }
        }
    }

    pub(crate) fn is_between_frames(&self) -> bool {
        self.left == 0 && self.filled == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_the_bytes_are_split() {
        let ping = [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], b"12345678"].concat();
        let bytes = [b"preface", &ping[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], &ping].concat();
        let ends = [7, 24, 33, 50];
        for step in [1, 2, 7, 9, 20, bytes.len()] {
            let mut position = FramePosition::before(7);
            let (mut at, mut begun) = (0, Vec::new());
            for chunk in bytes.chunks(step) {
                position.advance(chunk, |kind, flags| begun.push((kind, flags)));
                at += chunk.len();
                assert_eq!(position.is_between_frames(), ends.contains(&at), "{step} {at}");
            }
            assert_eq!(begun, [(6, 1), (4, 0), (6, 1)]);
        }
    }
}
