//! Static clusters that contain management servers: addresses and connection settings.
// S0.175

use std::time::Duration;

use xds_core::types;

use super::{
    EnvoyBootstrap,
    message::{Message, read_u32},
};
use crate::{
    error::{BootstrapError, ErrorKind},
    json::Field,
};

/// Addresses and connection settings of a static cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpstreamCluster {
    /// Addresses of the endpoints, as `host:port` or `unix:/path`, in file order.
    pub addresses: Vec<String>,
    /// Timeout for connecting. Default: 5 s, as in Envoy.
    pub connect_timeout: Duration,
    /// TCP keepalive of connections, if enabled.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// Whether connections have a transport socket, such as TLS. Its configuration is not read.
    pub transport_socket: TransportSocket,
}

/// `TcpKeepalive` settings. `None` uses the default of the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpKeepalive {
    /// Number of unanswered probes after which the connection is closed.
    pub probes: Option<u32>,
    /// Idle time before the first probe.
    pub time: Option<Duration>,
    /// Time between two probes.
    pub interval: Option<Duration>,
}

/// Whether a cluster has a transport socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportSocket {
    /// No transport socket: plain text.
    None,
    /// A transport socket is configured.
    Configured,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl EnvoyBootstrap {
    /// Returns the static cluster with the given name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if an endpoint has no usable address, or a field is invalid.
    pub fn upstream_cluster(&self, name: &str) -> Result<Option<UpstreamCluster>, BootstrapError> {
        let is_it = |resource: &&super::StaticResource| {
            resource.type_url == types::CLUSTER
                && resource.message.value().get("name").and_then(|it| it.as_str()) == Some(name)
        };
        let Some(resource) = self.static_resources.iter().find(is_it) else { return Ok(None) };
        let field = Field { value: resource.message.value(), path: resource.path.clone() };
        UpstreamCluster::read(field).map(Some)
    }
}

impl UpstreamCluster {
    fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let cluster = Message::open(field)?;
        let mut addresses = Vec::new();
        if let Some(assignment) = cluster.get("load_assignment") {
            for locality in Message::open(assignment)?.elements("endpoints")? {
                for endpoint in Message::open(locality)?.elements("lb_endpoints")? {
                    let endpoint = Message::open(endpoint)?.require("endpoint")?;
                    addresses.push(address(Message::open(endpoint)?.require("address")?)?);
                }
            }
        }
        let connect_timeout = cluster.get("connect_timeout");
        let connect_timeout = connect_timeout.map(|field| field.positive_duration()).transpose()?;
        let options = cluster.get("upstream_connection_options").map(Message::open).transpose()?;
        let keepalive = options.and_then(|options| options.get("tcp_keepalive"));
        Ok(Self {
            addresses,
            connect_timeout: connect_timeout.unwrap_or(CONNECT_TIMEOUT),
            tcp_keepalive: keepalive.map(TcpKeepalive::read).transpose()?,
            transport_socket: match cluster.get("transport_socket") {
                None => TransportSocket::None,
                Some(_) => TransportSocket::Configured,
            },
        })
    }
}

impl TcpKeepalive {
    fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let names = ["keepalive_probes", "keepalive_time", "keepalive_interval"];
        let message = Message::read(field, &names)?;
        let number = |name| message.get(name).map(|field| read_u32(&field)).transpose();
        let seconds =
            |name| number(name).map(|it| it.map(|seconds| Duration::from_secs(u64::from(seconds))));
        Ok(Self {
            probes: number("keepalive_probes")?,
            time: seconds("keepalive_time")?,
            interval: seconds("keepalive_interval")?,
        })
    }
}

fn address(field: Field<'_>) -> Result<String, BootstrapError> {
    let message = Message::open(field)?;
    if let Some(pipe) = message.get("pipe") {
        return Ok(format!("unix:{}", Message::open(pipe)?.require("path")?.nonempty()?));
    }
    let socket = Message::open(message.require("socket_address")?)?;
    let host = socket.require("address")?.nonempty()?;
    let port = socket.require("port_value")?;
    let port = u16::try_from(read_u32(&port)?)
        .map_err(|_| port.error(ErrorKind::InvalidValue("must be a port from 0 to 65535")))?;
    match host.contains(':') {
        true => Ok(format!("[{host}]:{port}")),
        false => Ok(format!("{host}:{port}")),
    }
}
