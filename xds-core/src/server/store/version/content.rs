//! Versions derived from content alone, so that all replicas agree on them.
// M72, M124

use alloc::format;
use core::num::NonZeroU64;

use crate::{
    cache_control::CacheControl, server::store::resource_options::ResourceOptions, text::Version,
};

/// Digest of the bytes and options of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContentHash([u8; 16]);

impl ContentHash {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(first_half(blake3::hash(bytes)))
    }

    /// Returns the digest of a resource with options. It differs from that of the bytes alone, so
    /// that clients with the same bytes are sent the options.
    // M166
    pub(crate) fn with(bytes: &[u8], options: &ResourceOptions) -> Self {
        let plain = Self::of(bytes);
        if options.is_plain() {
            return plain;
        }
        let ResourceOptions { ttl, aliases, cache_control, version } = options;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&plain.0);
        hasher.update(&ttl.map_or(0, |ttl| ttl.as_nanos()).to_le_bytes());
        for alias in aliases {
            hasher.update(&(alias.as_str().len() as u64).to_le_bytes());
            hasher.update(alias.as_str().as_bytes());
        }
        // These values are greater than the length of any alias.
        if let CacheControl::DoNotCache = cache_control {
            hasher.update(&(u64::MAX - 1).to_le_bytes());
        }
        if let Some(version) = version {
            hasher.update(&u64::MAX.to_le_bytes());
            hasher.update(version.as_str().as_bytes());
        }
        Self(first_half(hasher.finalize()))
    }

    /// Returns the version of the resource, as sent in incremental responses: 16 hexadecimal
    /// digits.
    pub(crate) fn digits(self) -> [u8; 16] {
        hex(&self.0)
    }
}

/// Digest of all resources of a type.
///
/// It is the sum of one term per resource. The order does not matter and terms can be subtracted,
/// so an update takes constant time. It is stored as two halves, because their alignment saves
/// memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeVersion {
    high: u64,
    low: u64,
}

impl TypeVersion {
    pub(crate) fn add(&mut self, name: &str, content: ContentHash) {
        self.store(self.sum().wrapping_add(term(name, content)));
    }

    pub(crate) fn subtract(&mut self, name: &str, content: ContentHash) {
        self.store(self.sum().wrapping_sub(term(name, content)));
    }

    /// Returns the version as it is stated to clients.
    pub(crate) fn stated(self) -> StatedVersion {
        StatedVersion::new(self.high ^ self.low)
    }

    fn sum(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    fn store(&mut self, sum: u128) {
        (self.high, self.low) = ((sum >> 64) as u64, sum as u64);
    }
}

/// Version of a type as stated to clients. It is stored as the complement of its number, so that
/// an `Option` of it takes no extra space in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatedVersion(NonZeroU64);

impl StatedVersion {
    /// Creates a version. `u64::MAX` cannot be represented and becomes `u64::MAX - 1`.
    pub(crate) fn new(number: u64) -> Self {
        Self(NonZeroU64::new(!number).unwrap_or(NonZeroU64::MIN))
    }

    pub(crate) fn number(self) -> u64 {
        !self.0.get()
    }

    /// Returns the digest of an application-defined version and the content for which it is
    /// stated.
    pub(crate) fn of_text(text: &str, content: TypeVersion) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&content.stated().number().to_le_bytes());
        hasher.update(text.as_bytes());
        let hash = hasher.finalize();
        let bytes = hash.as_bytes().first_chunk().copied().unwrap_or_default();
        Self::new(u64::from_le_bytes(bytes))
    }

    /// Returns the version as 16 hexadecimal digits, after a revision of the source, if there is one.
    pub(crate) fn to_version(self, revision: Option<NonZeroU64>) -> Version {
        let number = self.number();
        Version::new(match revision {
            Some(revision) => format!("{revision}-{number:016x}"),
            None => format!("{number:016x}"),
        })
    }

    /// Whether `text` equals the text returned by [`to_version`](Self::to_version) without a
    /// revision.
    pub(crate) fn has_text(self, text: &str) -> bool {
        *text.as_bytes() == hex(&self.number().to_be_bytes())
    }
}

/// Returns the hexadecimal digits of the first eight bytes.
fn hex(bytes: &[u8]) -> [u8; 16] {
    let mut digits = [0; 16];
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let hex = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    digits.iter_mut().zip(nibbles).for_each(|(digit, nibble)| *digit = hex(nibble));
    digits
}

/// Returns the term of one resource. The length prefix separates the name from the content.
fn term(name: &str, content: ContentHash) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update(&content.0);
    u128::from_le_bytes(first_half(hasher.finalize()))
}

fn first_half(hash: blake3::Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    half
}

#[cfg(test)]
mod tests {
    use crate::server::store::version::content::*;

    fn version(resources: &[(&str, &[u8])]) -> TypeVersion {
        let mut version = TypeVersion::default();
        for (name, bytes) in resources {
            version.add(name, ContentHash::of(bytes));
        }
        version
    }

    #[test]
    fn type_version_is_independent_of_order() {
        let one = version(&[("a", b"1"), ("b", b"2")]);
        assert_eq!(one, version(&[("b", b"2"), ("a", b"1")]));
        assert_ne!(one, version(&[("a", b"2"), ("b", b"1")]));
        assert_ne!(one, version(&[("a", b"1")]));
    }

    #[test]
    fn subtracting_a_resource_restores_the_version() {
        let mut changed = version(&[("a", b"1"), ("b", b"2")]);
        changed.subtract("b", ContentHash::of(b"2"));
        assert_eq!(changed, version(&[("a", b"1")]));
    }

    #[test]
    fn resource_version_has_sixteen_digits() {
        let hash = ContentHash([0x0a, 0xf1, 0x90, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(&hash.digits(), b"0af1900304050607");
    }

    #[test]
    fn has_text_accepts_only_the_exact_text() {
        let one = version(&[("a", b"1")]).stated();
        let printed = one.to_version(None);
        assert_eq!(printed.as_str().len(), 16);
        assert!(one.has_text(printed.as_str()));
        assert!(!one.has_text(""));
        assert!(!one.has_text(&printed.as_str()[1..]));
        assert!(!one.has_text(&format!("{printed}0")));
        assert!(TypeVersion::default().stated().has_text("0000000000000000"));
    }
}
