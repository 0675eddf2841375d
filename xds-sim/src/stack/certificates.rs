//! Certificates for TLS on a stage: Ed25519, because such signatures have no entropy. Their keys are
//! public, so they protect nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Certificate of the authority that signed the others, as PEM.
pub const AUTHORITY: &str = include_str!("certificates/ca.pem");

/// Certificate of the hosts `server`, `server-0`, `server-1`, `server-2` and `localhost`, as PEM.
pub const SERVER: &str = include_str!("certificates/server.pem");

/// Private key of [`SERVER`], as PEM.
pub const SERVER_KEY: &str = include_str!("certificates/server-key.pem");

/// Certificate of the host `client` with the name `spiffe://sim.example/client`, as PEM.
pub const CLIENT: &str = include_str!("certificates/client.pem");

/// Private key of [`CLIENT`], as PEM.
pub const CLIENT_KEY: &str = include_str!("certificates/client-key.pem");

/// Certificate of an authority that replaces [`AUTHORITY`], as PEM.
pub const NEW_AUTHORITY: &str = include_str!("certificates/new-ca.pem");

/// Certificate that replaces [`SERVER`] and is signed by [`NEW_AUTHORITY`], as PEM.
pub const NEW_SERVER: &str = include_str!("certificates/new-server.pem");

/// Private key of [`NEW_SERVER`], as PEM.
pub const NEW_SERVER_KEY: &str = include_str!("certificates/new-server-key.pem");

/// Paths of the certificates and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// [`AUTHORITY`].
    pub authority: PathBuf,
    /// [`SERVER`].
    pub server: PathBuf,
    /// [`SERVER_KEY`].
    pub server_key: PathBuf,
    /// [`CLIENT`].
    pub client: PathBuf,
    /// [`CLIENT_KEY`].
    pub client_key: PathBuf,
}

impl CertificateFiles {
    /// Writes the certificates and keys to a directory.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written.
    pub fn write(directory: &Path) -> io::Result<Self> {
        let write = |name: &str, content: &str| {
            let path = directory.join(name);
            fs::write(&path, content).map(|()| path)
        };
        Ok(Self {
            authority: write("ca.pem", AUTHORITY)?,
            server: write("server.pem", SERVER)?,
            server_key: write("server-key.pem", SERVER_KEY)?,
            client: write("client.pem", CLIENT)?,
            client_key: write("client-key.pem", CLIENT_KEY)?,
        })
    }
}
