//! Cryptography of TLS connections.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

/// Returns the cryptography of TLS connections: the process's default provider of rustls
/// ([`CryptoProvider::install_default`]) if one is installed, otherwise that of ring.
#[must_use]
pub fn crypto_provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().map_or_else(|| Arc::new(ring::default_provider()), Arc::clone)
}
