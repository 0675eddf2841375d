//! Text of a resource's version, without an allocation.

use core::num::NonZeroU64;

use super::content::ContentHash;

/// Version of a resource: 16 hexadecimal digits of its content, after its revision in the source, if
/// it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VersionDigits {
    /// The text is at the end.
    text: [u8; MAX_LEN],
    start: usize,
}

/// Length of the greatest revision, a dash, and the digits of the content.
const MAX_LEN: usize = REVISION_LEN + CONTENT_LEN;
/// Maximum length of a revision and a dash.
pub(crate) const REVISION_LEN: usize = 21;
const CONTENT_LEN: usize = 16;

impl VersionDigits {
    pub(crate) fn new(revision: Option<NonZeroU64>, content: ContentHash) -> Self {
        let mut text = [b'-'; MAX_LEN];
        let mut free = text.iter_mut().rev();
        free.by_ref().zip(content.digits().iter().rev()).for_each(|(to, from)| *to = *from);
        let mut len = CONTENT_LEN;
        if let Some(revision) = revision {
            let mut left = revision.get();
            let _dash = free.next();
            len += 1;
            while left > 0
                && let Some(to) = free.next()
            {
                *to = b'0' + (left % 10) as u8;
                left /= 10;
                len += 1;
            }
        }
        Self { text, start: MAX_LEN - len }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.text.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use crate::server::store::version::digits::*;

    #[test]
    fn revision_precedes_the_digits_of_the_content() {
        let content = ContentHash::of(b"content");
        let plain = VersionDigits::new(None, content);
        assert_eq!(plain.as_str().as_bytes(), content.digits());
        for revision in [1, 90, 1_234_567_890, u64::MAX] {
            let with_revision = VersionDigits::new(NonZeroU64::new(revision), content);
            let expected = alloc::format!("{revision}-{}", plain.as_str());
            assert_eq!(with_revision.as_str(), expected);
        }
    }
}
