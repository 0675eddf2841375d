//! Ids of changes, by which a person states one.

use alloc::vec::Vec;
use core::{fmt, str::FromStr};

use bytes::Bytes;
use thiserror::Error;

use super::view_change::ViewChange;

/// Id of a change: 12 hexadecimal digits of a hash of the resources that it adds, replaces and
/// removes.
///
/// Equal changes have equal ids in every process, and an id identifies one change: from the same
/// contents to the same contents.
// M272
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId([u8; LENGTH]);

/// Number of bytes of an id.
const LENGTH: usize = 6;

/// Text that is not the id of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected the id of a change, 12 hexadecimal digits")]
pub struct InvalidChangeId;

impl ChangeId {
    /// Returns the id of a change of several views, in any order.
    #[must_use]
    pub fn of<'c>(changes: impl IntoIterator<Item = ViewChange<'c>>) -> Self {
        let mut changes: Vec<_> = changes.into_iter().collect();
        changes.sort_by_key(|change| change.view());
        let mut hasher = Hasher(blake3::Hasher::new());
        for change in &changes {
            for ((type_url, name), (before, after)) in change.differences() {
                hasher.add(change.view().as_str().as_bytes());
                hasher.add(type_url.as_str().as_bytes());
                hasher.add(name.as_str().as_bytes());
                hasher.add_resource(before);
                hasher.add_resource(after);
            }
        }
        let mut id = [0; LENGTH];
        let hash = hasher.0.finalize();
        id.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
        Self(id)
    }
}

struct Hasher(blake3::Hasher);

impl Hasher {
    /// Adds bytes behind their length, so that the parts cannot be mistaken for others.
    fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn add_resource(&mut self, resource: Option<&Bytes>) {
        self.0.update(&[u8::from(resource.is_some())]);
        self.add(resource.map_or(&[], |resource| resource));
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for ChangeId {
    type Err = InvalidChangeId;

    fn from_str(text: &str) -> Result<Self, InvalidChangeId> {
        let digits = text.as_bytes();
        if digits.len() != 2 * LENGTH || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(InvalidChangeId);
        }
        let mut id = [0; LENGTH];
        for (byte, digits) in id.iter_mut().zip(digits.chunks(2)) {
            let digits = core::str::from_utf8(digits).map_err(|_| InvalidChangeId)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidChangeId)?;
        }
        Ok(Self(id))
    }
}
