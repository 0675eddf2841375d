//! Validation of values that several messages share: durations, addresses, config sources.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use alloc::string::{String, ToString as _};
use xds_core::proto;

use crate::{
    proto::envoy::config::core::v3::{
        Address, ConfigSource, address,
        config_source::ConfigSourceSpecifier,
        socket_address::{PortSpecifier, Protocol},
    },
    validation::Validator,
};

/// Maximum number of seconds of a protobuf `Duration`: about 10,000 years.
const SECONDS: u64 = 315_576_000_000;

/// Converts a duration. Returns `None` if it is negative or out of range.
pub(crate) fn duration(duration: &proto::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok().filter(|&seconds| seconds <= SECONDS);
    let nanos = u32::try_from(duration.nanos).ok().filter(|&nanos| nanos < 1_000_000_000);
    seconds.zip(nanos).map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

/// Validates a duration, which must not be negative.
pub(crate) fn validate_duration(
    stated: &proto::Duration,
    validator: &mut Validator<'_>,
) -> Option<Duration> {
    let valid = duration(stated);
    if valid.is_none() {
        validator.error("must be a duration from zero to 315576000000 seconds");
    }
    valid
}

/// Address to connect to or to listen on.
///
/// As text, `host:port`, with brackets around an IPv6 address. An address of an endpoint thus parses
/// as a `std::net::SocketAddr`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SocketAddress {
    /// Host. For endpoints, an IP address in canonical form. For
    /// [logical DNS clusters](crate::cluster::Discovery::LogicalDns), a DNS name. For
    /// [server listeners](crate::listener::SocketListener::address), the text as received.
    pub host: String,
    /// Port number.
    pub port: u16,
}

impl SocketAddress {
    pub(crate) const fn new(host: String, port: u16) -> Self {
        Self { host, port }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
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

/// Form of the host of an address: an IP address only, or any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostForm {
    Ip,
    Name,
}

pub(crate) fn validate_address(
    address: Option<&Address>,
    form: HostForm,
    validator: &mut Validator<'_>,
) -> Option<SocketAddress> {
    let Some(address::Address::SocketAddress(socket)) = address.and_then(|it| it.address.as_ref())
    else {
        validator.error_in("socket_address", "must be set");
        return None;
    };
    validator.field("socket_address", |validator| {
        let port = match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) => u16::try_from(port).ok(),
            _ => None,
        };
        if port.is_none() {
            validator.error_in("port_value", "must be a number up to 65535");
        }
        let host = match form {
            // Equal addresses may be written differently. This gives them one form.
            HostForm::Ip => match socket.address.parse::<IpAddr>() {
                Ok(address) => address.to_string(),
                Err(_) => {
                    let why = format_args!("`{}` is not an IP address", socket.address);
                    validator.error_in("address", why);
                    return None;
                }
            },
            HostForm::Name => {
                if socket.address.is_empty() {
                    validator.error_in("address", "must not be empty");
                }
                if !socket.resolver_name.is_empty() {
                    validator.error_in("resolver_name", "not supported by gRPC");
                }
                socket.address.clone()
            }
        };
        Some(SocketAddress::new(host, port?))
    })
}

/// Validates the address of a server listener. The server compares it with its own address, so the
/// host stays text, and an absent port becomes 0, which matches no real port (gRFC A36).
pub(crate) fn validate_listen_address(
    address: &Address,
    validator: &mut Validator<'_>,
) -> Option<SocketAddress> {
    let Some(address::Address::SocketAddress(socket)) = address.address.as_ref() else {
        validator.error_in("socket_address", "must be set");
        return None;
    };
    validator.field("socket_address", |validator| {
        if socket.protocol != Protocol::Tcp as i32 {
            validator.error_in("protocol", "must be TCP");
        }
        let port = match socket.port_specifier {
            Some(PortSpecifier::PortValue(port)) => u16::try_from(port).ok(),
            _ => Some(0),
        };
        if port.is_none() {
            validator.error_in("port_value", "must be a number up to 65535");
        }
        Some(SocketAddress::new(socket.address.clone(), port?))
    })
}

/// Validates a config source: gRPC supports ADS and `self` only (gRFC A47).
pub(crate) fn validate_source(source: Option<&ConfigSource>, validator: &mut Validator<'_>) {
    match source.and_then(|source| source.config_source_specifier.as_ref()) {
        Some(ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_)) => {}
        None => validator.error("must be ads or self"),
    }
}
