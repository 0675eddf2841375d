//! Integration tests of `xds-bootstrap`, in one binary because that builds faster.

mod bootstrap;
mod by_configuration;
mod proxy_bootstrap;
