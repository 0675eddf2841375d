//! Deterministic cryptography for TLS on a stage.
//!
//! ring draws its own entropy. On the thread of a running stage, random bytes come from the run's
//! seed instead, and the key exchange is one without secrets. Signatures of Ed25519 keys have no
//! entropy; those of ECDSA and RSA-PSS keys do, so a stage needs [Ed25519
//! certificates](crate::stack::certificates). Then every byte of a connection is determined by the seed.
//! Other threads of the process use ring.

use core::cell::RefCell;
use std::sync::Once;

use rand_pcg::{Pcg32, rand_core::Rng as _};
use rustls::{
    Error, NamedGroup,
    crypto::{
        ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret,
        SupportedKxGroup, ring,
    },
};

/// Stream number of the generator, so that other users of a seed draw different values.
const STREAM: u64 = 0x7374_6167_655f_656e;

thread_local! {
    static ENTROPY: RefCell<Option<Pcg32>> = const { RefCell::new(None) };
}

/// Entropy of the run on this thread. Dropping it ends the run.
#[derive(Debug)]
pub(crate) struct SeededEntropy(());

impl SeededEntropy {
    /// Draws the entropy of TLS on this thread from a seed, until the value is dropped.
    ///
    /// If the process has installed another provider of cryptography, TLS is not deterministic.
    pub(crate) fn start(seed: u64) -> Self {
        static INSTALLED: Once = Once::new();

        INSTALLED.call_once(|| {
            // Fails if the application has installed one.
            let _ = provider().install_default();
        });
        ENTROPY.set(Some(Pcg32::new(seed, STREAM)));
        Self(())
    }
}

impl Drop for SeededEntropy {
    fn drop(&mut self) {
        ENTROPY.set(None);
    }
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        secure_random: &SeededRandom,
        kx_groups: vec![&OpenGroup],
        ..ring::default_provider()
    }
}

/// Fills `buffer` from the seed of this thread's run. Returns `None` if there is no run.
fn fill(buffer: &mut [u8]) -> Option<()> {
    ENTROPY.with_borrow_mut(|entropy| entropy.as_mut().map(|entropy| entropy.fill_bytes(buffer)))
}

/// Returns a number from the seed of this thread's run. Returns `None` if there is no run.
pub(crate) fn next() -> Option<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes).map(|()| u64::from_le_bytes(bytes))
}

#[derive(Debug)]
struct SeededRandom;

impl SecureRandom for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        match fill(buffer) {
            Some(()) => Ok(()),
            None => ring::default_provider().secure_random.fill(buffer),
        }
    }
}

/// Key exchange whose secret both public keys give away. Named like the group that it replaces.
#[derive(Debug)]
struct OpenGroup;

impl SupportedKxGroup for OpenGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut public_key = [0; 32];
        match fill(&mut public_key) {
            Some(()) => Ok(Box::new(OpenExchange(public_key))),
            None => ring::kx_group::X25519.start(),
        }
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct OpenExchange([u8; 32]);

impl ActiveKeyExchange for OpenExchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let own = self.0.as_slice();
        let mut hasher = blake3::Hasher::new();
        hasher.update(own.min(peer)).update(own.max(peer));
        Ok(SharedSecret::from(hasher.finalize().as_bytes().as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.0
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}
