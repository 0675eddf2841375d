//! Interface of the candidates, and the contents that they store.

use bytes::Bytes;

/// Position in the history of the store.
pub(crate) type Revision = u64;

/// Content of a resource, as large as that of the server.
#[derive(Clone)]
pub(crate) struct Payload {
    framed: Bytes,
    value: Bytes,
    hash: u128,
    options: [u64; 2],
}

/// Bytes of a resource.
pub(crate) const BYTES: usize = 256;

impl Payload {
    pub(crate) fn new(content: u64) -> Self {
        let mut bytes = vec![0; BYTES];
        bytes[..8].copy_from_slice(&content.to_be_bytes());
        let framed = Bytes::from(bytes);
        let value = framed.slice(8..);
        Self { framed, value, hash: content.into(), options: [0; 2] }
    }

    /// Returns the content, and reads all parts.
    pub(crate) fn content(&self) -> u64 {
        let rest = self.framed.len() + self.value.len() + self.options.len() - (2 * BYTES - 6);
        u64::try_from(self.hash).unwrap_or_default() + rest as u64
    }
}

/// Resource in one version.
pub(crate) struct Version {
    /// Revision at which it was set.
    pub(crate) set: Revision,
    pub(crate) payload: Payload,
}

/// Store that answers what a client had when it ACKed last.
pub(crate) trait Candidate {
    /// State of a client: what it ACKed last.
    type Acked;

    const NAME: &'static str;

    /// Creates a store whose resources all exist.
    fn new(resources: u32) -> Self;

    /// Sets or removes a resource.
    fn change(&mut self, resource: u32, payload: Option<Payload>);

    /// Returns the state of a client that has everything.
    fn open(&mut self) -> Self::Acked;

    /// Records that a client has ACKed a response with these resources, after which it has
    /// everything. The response was rendered after the last change.
    fn ack(&mut self, acked: &mut Self::Acked, changed: &[u32]);

    fn close(&mut self, acked: Self::Acked);

    /// Returns the version of a resource that a client has.
    fn has<'a>(&'a self, acked: &'a Self::Acked, resource: u32) -> Option<(Revision, &'a Payload)>;
}
