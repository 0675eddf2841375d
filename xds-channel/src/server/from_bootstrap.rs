//! Servers from a bootstrap.

use core::net::SocketAddr;

use super::{XdsServer, XdsServerOptions};
use crate::bootstrap::{InvalidServer, XdsChannels};

impl XdsChannels {
    /// Creates a server on tokio that listens on an address and is configured by xDS. The name of its
    /// listener comes from the bootstrap's `server_listener_resource_name_template`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bootstrap has no such template, or the port is 0.
    pub fn server(&self, address: SocketAddr) -> Result<XdsServer, InvalidServer> {
        Ok(XdsServer::new(self.client(), address, self.server_options(address)?))
    }

    /// Returns the options of a [server](Self::server) from the bootstrap, for
    /// [`XdsServer::new`].
    ///
    /// # Errors
    ///
    /// Returns an error if the bootstrap has no `server_listener_resource_name_template`, or the port
    /// is 0.
    pub fn server_options(&self, address: SocketAddr) -> Result<XdsServerOptions, InvalidServer> {
        if address.port() == 0 {
            return Err(InvalidServer::NoPort(address));
        }
        let listener = self.bootstrap.server_listener_name(&address.to_string());
        let mut options = XdsServerOptions::new(listener.ok_or(InvalidServer::NoTemplate)?);
        options.certificate_providers.clone_from(&self.options().certificate_providers);
        options.seed = self.options().seed;
        Ok(options)
    }
}
