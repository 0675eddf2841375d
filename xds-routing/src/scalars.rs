//! Values that many messages have.

use core::{net::IpAddr, time::Duration};

use alloc::string::{String, ToString as _};
use xds_core::proto;

use crate::{
    judge::Judge,
    proto::envoy::config::core::v3::{
        Address, ConfigSource, address,
        config_source::ConfigSourceSpecifier,
        socket_address::{PortSpecifier, Protocol},
    },
};

/// The largest number of seconds that protobuf's durations can have: about 10,000 years.
const SECONDS: u64 = 315_576_000_000;

/// A duration that is not negative; `None` if it is.
pub(crate) fn duration(duration: &proto::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok().filter(|&seconds| seconds <= SECONDS);
    let nanos = u32::try_from(duration.nanos).ok().filter(|&nanos| nanos < 1_000_000_000);
    seconds.zip(nanos).map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

/// A duration that must not be negative.
pub(crate) fn judge_duration(stated: &proto::Duration, judge: &mut Judge<'_>) -> Option<Duration> {
    let valid = duration(stated);
    if valid.is_none() {
        judge.fault("must be a duration from zero to 315576000000 seconds");
    }
    valid
}

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SocketAddress {
    /// An IP address in its shortest form, or, for a cluster of
    /// [DNS](crate::cluster::Discovery::LogicalDns), a name, or what a server
    /// [listens at](crate::listener::SocketListener::address), as it came.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl SocketAddress {
    pub(crate) const fn new(host: String, port: u16) -> Self {
        Self { host, port }
    }
}

impl core::fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Whether an address may be a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostForm {
    Ip,
    Name,
}

pub(crate) fn judge_address(
    address: Option<&Address>,
    form: HostForm,
    judge: &mut Judge<'_>,
) -> Option<SocketAddress> {
    let Some(address::Address::SocketAddress(socket)) = address.and_then(|it| it.address.as_ref())
    else {
        judge.fault_in("socket_address", "must be set");
        return None;
    };
    judge.field("socket_address", |judge| {
        let port = match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) => u16::try_from(port).ok(),
            _ => None,
        };
        if port.is_none() {
            judge.fault_in("port_value", "must be a number up to 65535");
        }
        let host = match form {
            // One address can be written in several ways, of which this makes one.
            HostForm::Ip => match socket.address.parse::<IpAddr>() {
                Ok(address) => address.to_string(),
                Err(_) => {
                    let why = format_args!("`{}` is no IP address", socket.address);
                    judge.fault_in("address", why);
                    return None;
                }
            },
            HostForm::Name => {
                if socket.address.is_empty() {
                    judge.fault_in("address", "must not be empty");
                }
                if !socket.resolver_name.is_empty() {
                    judge.fault_in("resolver_name", "not supported by gRPC");
                }
                socket.address.clone()
            }
        };
        Some(SocketAddress::new(host, port?))
    })
}

/// Where a server listens. It holds this against its own address, so that the host is a text and a port that is
/// not stated is none of its ports (A36).
pub(crate) fn judge_own_address(address: &Address, judge: &mut Judge<'_>) -> Option<SocketAddress> {
    let Some(address::Address::SocketAddress(socket)) = address.address.as_ref() else {
        judge.fault_in("socket_address", "must be set");
        return None;
    };
    judge.field("socket_address", |judge| {
        if socket.protocol != Protocol::Tcp as i32 {
            judge.fault_in("protocol", "must be TCP");
        }
        let port = match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) => u16::try_from(port).ok(),
            _ => Some(0),
        };
        if port.is_none() {
            judge.fault_in("port_value", "must be a number up to 65535");
        }
        Some(SocketAddress::new(socket.address.clone(), port?))
    })
}

/// Holds a source against what gRPC supports: the aggregated stream, or the same server (A47).
pub(crate) fn judge_source(source: Option<&ConfigSource>, judge: &mut Judge<'_>) {
    match source.and_then(|source| source.config_source_specifier.as_ref()) {
        Some(ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_)) => {}
        None => judge.fault("must be ads or self"),
    }
}
