//! Values that many messages have.

use core::{net::IpAddr, time::Duration};

use alloc::string::String;
use xds_core::proto;

use crate::{
    judge::Judge,
    proto::envoy::config::core::v3::{
        Address, ConfigSource, address, config_source::ConfigSourceSpecifier,
        socket_address::PortSpecifier,
    },
};

/// The largest number of seconds that protobuf's durations can have: about 10,000 years.
const SECONDS: u64 = 315_576_000_000;

/// A duration that is not negative.
pub(crate) fn judge_duration(
    duration: &proto::Duration,
    judge: &mut Judge<'_>,
) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok().filter(|&seconds| seconds <= SECONDS);
    let nanos = u32::try_from(duration.nanos).ok().filter(|&nanos| nanos < 1_000_000_000);
    let valid = seconds.zip(nanos).map(|(seconds, nanos)| Duration::new(seconds, nanos));
    if valid.is_none() {
        judge.fault("must be a duration from zero to 315576000000 seconds");
    }
    valid
}

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SocketAddress {
    /// An IP address, or, for a cluster of [DNS](crate::cluster::Discovery::LogicalDns), a name.
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
        if form == HostForm::Ip && socket.address.parse::<IpAddr>().is_err() {
            judge.fault_in("address", format_args!("`{}` is no IP address", socket.address));
        }
        if socket.address.is_empty() && form == HostForm::Name {
            judge.fault_in("address", "must not be empty");
        }
        if form == HostForm::Name && !socket.resolver_name.is_empty() {
            judge.fault_in("resolver_name", "not supported by gRPC");
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
