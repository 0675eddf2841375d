//! Text form of messages: `(V=version,R=resources,N=nonce,T=type)`.
// S0.091

use std::fmt::Write as _;

use prost::{Message as _, Name as _};
use xds_core::{
    client::{RequestCause, Resource, Transmit, Update},
    proto,
    server::{Observation, SubscriptionStatus},
    types,
};

use crate::toy::Toy;

/// Formats a request as one line: the four main fields, then all other contents.
#[must_use]
pub fn request(bytes: &[u8]) -> String {
    let request = match proto::DiscoveryRequest::decode(bytes) {
        Ok(request) => request,
        Err(why) => return format!("(undecodable request: {why})"),
    };
    let mut line = format!(
        "(V={},R={{{}}},N={},T={})",
        request.version_info,
        shortened(&request.resource_names),
        request.response_nonce,
        type_name(&request.type_url),
    );
    if let Some(node) = request.node {
        let _ = write!(line, " node={}", node.id);
    }
    if let Some(status) = request.error_detail {
        let _ = write!(line, " NACK {}: {}", status.code, status.message);
    }
    line
}

/// Formats a file adapter's handling of a rendered request.
pub(crate) fn about_a_file(transmit: &Transmit) -> String {
    match &transmit.cause {
        RequestCause::Ack => format!("accepted version {}", transmit.version),
        RequestCause::Nack { rejected, message } => {
            format!("rejected version {rejected}: {message}")
        }
        _ => "is to be read".into(),
    }
}

/// Formats a response as one line: the four main fields, then all other contents. Resources are
/// `name=text`.
#[must_use]
pub fn response(bytes: &[u8]) -> String {
    let response = match proto::DiscoveryResponse::decode(bytes) {
        Ok(response) => response,
        Err(why) => return format!("(undecodable response: {why})"),
    };
    let resources: Vec<String> =
        response.resources.iter().map(|any| resource(any, &response.type_url)).collect();
    let mut line = format!(
        "(V={},R={{{}}},N={},T={})",
        response.version_info,
        shortened(&resources),
        response.nonce,
        type_name(&response.type_url),
    );
    for error in response.resource_errors {
        let name = error.resource_name.unwrap_or_default().name;
        let status = error.error_detail.unwrap_or_default();
        let _ = write!(line, " error {name:?} {}", status.code);
        if !status.message.is_empty() {
            let _ = write!(line, ": {}", shortened(&[status.message]));
        }
    }
    if let Some(control_plane) = response.control_plane {
        let _ = write!(line, " from {}", control_plane.identifier);
    }
    line
}

/// Formats a resource as `name=text`, with the contents of its wrapper in braces.
fn resource(any: &proto::Any, type_url: &str) -> String {
    if any.type_url != proto::Resource::type_url() {
        return match Toy::decode(&*any.value) {
            Ok(toy) if any.type_url == type_url => format!("{}={}", toy.name, toy.text),
            Ok(toy) => format!("{}/{}={}", type_name(&any.type_url), toy.name, toy.text),
            Err(_) => "~".into(),
        };
    }
    let Ok(wrapper) = proto::Resource::decode(&*any.value) else { return "{~}".into() };
    let content = wrapper.resource.map(|any| resource(&any, type_url)).unwrap_or_default();
    let ttl = wrapper.ttl.map(|ttl| format!("{}s", ttl.seconds));
    let metadata = wrapper.metadata.map(|metadata| names_of(&metadata));
    let said = [
        ("name", Some(wrapper.name).filter(|name| !name.is_empty())),
        ("v", Some(wrapper.version).filter(|version| !version.is_empty())),
        ("ttl", ttl),
        ("meta", metadata),
    ];
    let said: Vec<String> =
        said.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?))).collect();
    format!("{{{}}}{content}", said.join(","))
}

/// Returns the keys of a resource's metadata, joined with `+`.
pub(crate) fn names_of(metadata: &proto::Metadata) -> String {
    metadata.filter_metadata.keys().cloned().collect::<Vec<_>>().join("+")
}

/// Formats an incremental request as one line: subscriptions and unsubscriptions, then all other
/// contents.
#[must_use]
pub fn delta_request(bytes: &[u8]) -> String {
    let request = match proto::DeltaDiscoveryRequest::decode(bytes) {
        Ok(request) => request,
        Err(why) => return format!("(undecodable request: {why})"),
    };
    let mut line = format!(
        "(+{{{}}},-{{{}}},N={},T={})",
        shortened(&request.resource_names_subscribe),
        shortened(&request.resource_names_unsubscribe),
        request.response_nonce,
        type_name(&request.type_url),
    );
    if !request.initial_resource_versions.is_empty() {
        let versions = request.initial_resource_versions.iter();
        let mut versions: Vec<String> = versions.map(|(name, v)| format!("{name}@{v}")).collect();
        versions.sort();
        let _ = write!(line, " has {{{}}}", shortened(&versions));
    }
    if let Some(node) = request.node {
        let _ = write!(line, " node={}", node.id);
    }
    if let Some(status) = request.error_detail {
        let _ = write!(line, " NACK {}: {}", status.code, status.message);
    }
    line
}

/// Formats an incremental response as one line; resources are `name@version=text`.
#[must_use]
pub fn delta_response(bytes: &[u8]) -> String {
    let response = match proto::DeltaDiscoveryResponse::decode(bytes) {
        Ok(response) => response,
        Err(why) => return format!("(undecodable response: {why})"),
    };
    let text = |resource: &proto::Resource| {
        let aliases: String = resource.aliases.iter().map(|alias| format!("+{alias}")).collect();
        let head = format!("{}@{}{aliases}", resource.name, resource.version);
        match resource.resource.as_ref().map(|any| Toy::decode(&*any.value)) {
            Some(Ok(toy)) => format!("{head}={}", toy.text),
            Some(Err(_)) => format!("{head}=~"),
            None => head,
        }
    };
    let resources: Vec<String> = response.resources.iter().map(text).collect();
    format!(
        "(+{{{}}},-{{{}}},N={},T={})",
        shortened(&resources),
        shortened(&response.removed_resources),
        response.nonce,
        type_name(&response.type_url),
    )
}

/// Formats the contents of an update that awaits a verdict; incremental resources have versions.
pub(crate) fn update(update: &Update) -> String {
    let resource = |resource: &Resource| {
        let text = Toy::text_of(&resource.bytes);
        match resource.version == update.version {
            true => format!("{}={text}", resource.name),
            false => format!("{}@{}={text}", resource.name, resource.version),
        }
    };
    let resources: Vec<String> = update.resources.iter().map(resource).collect();
    let name = type_name(update.type_url.as_str());
    let mut line = format!("{name} {}", shortened(&resources));
    if !update.version.is_empty() {
        let _ = write!(line, " version {}", update.version);
    }
    line
}

/// Formats a server observation that is out of the ordinary; returns `None` for others.
#[must_use]
pub fn observation(observation: &Observation) -> Option<String> {
    Some(match observation {
        Observation::Nacked { stream, type_url, version, nonce, message, .. } => {
            let name = type_name(type_url.as_str());
            format!("server sees {stream} reject {name} {version} ({nonce}): {message}")
        }
        Observation::NodeChanged { stream } => format!("server sees {stream} change its node"),
        Observation::UnknownType { stream, type_url } => {
            format!("server sees {stream} request unknown {}", type_name(type_url.as_str()))
        }
        Observation::ParametersIgnored { stream, type_url } => {
            format!(
                "server ignores the parameters of {stream} for {}",
                type_name(type_url.as_str())
            )
        }
        Observation::VersionMismatch { stream, type_url, .. } => {
            format!("server sees {stream} state another {} version", type_name(type_url.as_str()))
        }
        Observation::StaleNonce { stream, type_url } => {
            format!("server sees {stream} with a stale {} nonce", type_name(type_url.as_str()))
        }
        Observation::BogusNonce { stream, type_url } => {
            format!("server sees {stream} with a bogus {} nonce", type_name(type_url.as_str()))
        }
        Observation::Oversize { stream, type_url, bytes } => {
            let name = type_name(type_url.as_str());
            format!("server sends {stream} {bytes} bytes of {name} at once")
        }
        Observation::ResourceTooLong { stream, type_url, name, bytes } => {
            let ty = type_name(type_url.as_str());
            format!("server reports to {stream} that {ty} {name} is too long: {bytes} bytes")
        }
        Observation::Connected { .. }
        | Observation::Identified { .. }
        | Observation::Subscribed { .. }
        | Observation::Acked { .. }
        | Observation::Disconnected { .. } => return None,
        other => format!("{other:?}"),
    })
}

/// Formats the server's state of one subscription.
#[must_use]
pub fn subscription(status: &SubscriptionStatus<'_>) -> String {
    format!(
        "{} {} {}: {:?}, {:?}, sent {}, accepted {}, {} responses, {} ACKs, {} NACKs",
        status.node_id,
        status.stream,
        type_name(status.type_url.as_str()),
        status.subscribed,
        status.state,
        status.sent_version.as_ref().map_or("nothing", xds_core::Version::as_str),
        status.acked_version.as_ref().map_or("nothing", xds_core::Version::as_str),
        status.responses,
        status.acks,
        status.nacks,
    )
}

/// Returns the short name of a known type, or else the part of the URL after the last slash.
#[must_use]
pub fn type_name(type_url: &str) -> &str {
    types::short_name(type_url).unwrap_or_else(|| type_url.rsplit('/').next().unwrap_or(type_url))
}

/// Formats a list; long lists and names are shortened.
fn shortened(items: &[String]) -> String {
    let item = |item: &String| match item.char_indices().nth(60) {
        Some((end, _)) => format!("{}.. {} bytes", &item[..end], item.len()),
        None => item.clone(),
    };
    match items {
        [first, .., last] if items.len() > 20 => {
            format!("{}, .. {} in all .., {}", item(first), items.len(), item(last))
        }
        _ => items.iter().map(item).collect::<Vec<_>>().join(","),
    }
}
