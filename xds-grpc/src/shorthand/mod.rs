//! Shorthand for messages in logs. State of the world uses the notation of the [xDS
//! protocol](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol) documentation, the
//! incremental variant a similar one.
//!
//! | message | shorthand |
//! |---|---|
//! | `DiscoveryRequest` | `(V=version,R=[names],N=nonce,T=type)` |
//! | `DiscoveryResponse` | `(V=version,R=[names],N=nonce,T=type)` |
//! | `DeltaDiscoveryRequest` | `(S=[names],U=[names],I=[name=version],N=nonce,T=type)` |
//! | `DeltaDiscoveryResponse` | `(V=version,R=[name=version],D=[names],N=nonce,T=type)` |
//!
//! `S` lists subscribed and `U` unsubscribed names, `I` the initial resource versions, and `D`
//! removed names. If a response identifies the control plane, it ends with `,C=identifier)`.
//!
//! Messages are decoded only when they are displayed, that is, when the log line is enabled. The
//! content of a resource is not shown, except for its name if the name is known to be the first
//! field; see [`PayloadPrinter`]. The variant must be known from the stream, because messages of
//! one variant decode as messages of the other.
// S0.091

mod delta;
mod sotw;
mod text;

use core::fmt;

use bytes::Bytes;
use prost::Name as _;
use xds_core::{proto, service::Variant};

pub(crate) use self::text::{Printable, PrintableReason, type_name};
use crate::{guard::caught, payload::PayloadPrinter};

/// Number of names of a list to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// The first few names, and the total.
    Few,
    All,
}

/// Display of an encoded request.
pub(crate) struct Request<'a>(pub(crate) Variant, pub(crate) &'a Bytes, pub(crate) Names);

/// Display of an encoded response.
pub(crate) struct Response<'a>(pub(crate) Variant, pub(crate) &'a Bytes, pub(crate) Names);

/// Display of the resources in an encoded response, with the application's printer.
pub(crate) struct Payloads<'a>(
    pub(crate) Variant,
    pub(crate) &'a Bytes,
    pub(crate) &'a dyn PayloadPrinter,
);

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(variant, message, names) = *self;
        match variant {
            Variant::StateOfTheWorld => match decode(message) {
                Some(request) => sotw::request(f, &request, names),
                None => undecodable(f, message),
            },
            Variant::Incremental => match decode(message) {
                Some(request) => delta::request(f, &request, names),
                None => undecodable(f, message),
            },
        }
    }
}

impl fmt::Display for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(variant, message, names) = *self;
        match variant {
            Variant::StateOfTheWorld => match decode(message) {
                Some(response) => sotw::response(f, &response, names),
                None => undecodable(f, message),
            },
            Variant::Incremental => match decode(message) {
                Some(response) => delta::response(f, &response, names),
                None => undecodable(f, message),
            },
        }
    }
}

impl fmt::Display for Payloads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(variant, message, printer) = *self;
        match variant {
            Variant::StateOfTheWorld => match decode::<proto::DiscoveryResponse>(message) {
                Some(response) => payloads(f, response.resources.iter().map(unwrapped), printer),
                None => undecodable(f, message),
            },
            Variant::Incremental => match decode::<proto::DeltaDiscoveryResponse>(message) {
                Some(response) => {
                    payloads(f, response.resources.into_iter().map(|it| it.resource), printer)
                }
                None => undecodable(f, message),
            },
        }
    }
}

/// Prints resources, each with its own type. A resource without a body is a heartbeat.
fn payloads(
    f: &mut fmt::Formatter<'_>,
    resources: impl Iterator<Item = Option<proto::Any>>,
    printer: &dyn PayloadPrinter,
) -> fmt::Result {
    for (at, resource) in resources.enumerate() {
        if at > 0 {
            f.write_str("; ")?;
        }
        match resource {
            Some(resource) => {
                let printed = caught(|| printer.print(&resource.type_url, &resource.value, f));
                printed.unwrap_or_else(|| f.write_str("(the printer panicked)"))?;
            }
            None => f.write_str("heartbeat")?,
        }
    }
    Ok(())
}

/// Returns the content of a wrapped resource, or the resource itself if it is not wrapped.
fn unwrapped(resource: &proto::Any) -> Option<proto::Any> {
    match wrapper(resource) {
        Some(wrapper) => wrapper.resource,
        None => Some(resource.clone()),
    }
}

fn wrapper(resource: &proto::Any) -> Option<proto::Resource> {
    let is_wrapped = resource.type_url == proto::Resource::type_url();
    if is_wrapped { decode(&resource.value) } else { None }
}

fn decode<M: prost::Message + Default>(message: &Bytes) -> Option<M> {
    M::decode(message.clone()).ok()
}

fn undecodable(f: &mut fmt::Formatter<'_>, message: &Bytes) -> fmt::Result {
    write!(f, "({} undecodable bytes)", message.len())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use xds_core::{
        service::Variant::{Incremental, StateOfTheWorld},
        types,
    };

    use super::*;
    use crate::payload::SizesOnly;

    fn request(names: &[&str]) -> Bytes {
        proto::DiscoveryRequest {
            version_info: "7".into(),
            resource_names: names.iter().map(|&name| name.into()).collect(),
            type_url: types::CLUSTER.into(),
            response_nonce: "n1".into(),
            ..Default::default()
        }
        .encode_to_vec()
        .into()
    }

    fn response(type_url: &str, value: &'static [u8]) -> Bytes {
        let resource = proto::Any { type_url: type_url.into(), value: Bytes::from_static(value) };
        proto::DiscoveryResponse {
            version_info: "8".into(),
            resources: vec![resource.clone(), resource],
            type_url: type_url.into(),
            nonce: "n2".into(),
            ..Default::default()
        }
        .encode_to_vec()
        .into()
    }

    #[test]
    fn request_shows_version_names_nonce_and_type() {
        assert_eq!(
            Request(StateOfTheWorld, &request(&[]), Names::Few).to_string(),
            "(V=7,R=[],N=n1,T=cds)"
        );
        assert_eq!(
            Request(StateOfTheWorld, &request(&["a", "b"]), Names::Few).to_string(),
            "(V=7,R=[a b],N=n1,T=cds)"
        );
    }

    #[test]
    fn long_name_lists_are_abbreviated_unless_all_are_requested() {
        let request = request(&["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(
            Request(StateOfTheWorld, &request, Names::Few).to_string(),
            "(V=7,R=[a b c d e ..7],N=n1,T=cds)"
        );
        assert_eq!(
            Request(StateOfTheWorld, &request, Names::All).to_string(),
            "(V=7,R=[a b c d e f g],N=n1,T=cds)"
        );
    }

    #[test]
    fn response_shows_names_of_known_types_only() {
        let known = response(types::SECRET, b"\x0a\x03key\x12\x04hush");
        assert_eq!(
            Response(StateOfTheWorld, &known, Names::Few).to_string(),
            "(V=8,R=[key key],N=n2,T=sds)"
        );
        let unknown = response("t/example.Custom", b"\x0a\x04hush");
        assert_eq!(
            Response(StateOfTheWorld, &unknown, Names::Few).to_string(),
            "(V=8,R=[<6 bytes> <6 bytes>],N=n2,T=example.Custom)"
        );
    }

    #[test]
    fn wrapped_resource_shows_the_name_of_its_wrapper() {
        let wrapper = proto::Resource { name: "w".into(), ..Default::default() };
        let resource = proto::Any {
            type_url: proto::Resource::type_url(),
            value: wrapper.encode_to_vec().into(),
        };
        let response = proto::DiscoveryResponse { resources: vec![resource], ..Default::default() };
        let shown =
            Response(StateOfTheWorld, &response.encode_to_vec().into(), Names::Few).to_string();
        assert_eq!(shown, "(V=,R=[w],N=,T=)");
    }

    #[test]
    fn payloads_show_only_sizes_without_a_printer() {
        let secret = response(types::SECRET, b"\x0a\x03key\x12\x04hush");
        assert_eq!(
            Payloads(StateOfTheWorld, &secret, &SizesOnly).to_string(),
            "11 bytes; 11 bytes"
        );
    }

    #[test]
    fn control_characters_of_a_peer_are_escaped_and_lines_limited() {
        let shown = Request(StateOfTheWorld, &request(&["a\nERROR b"]), Names::Few).to_string();
        assert_eq!(shown, "(V=7,R=[a\\nERROR b],N=n1,T=cds)");
        let long = "x".repeat(1 << 20);
        assert!(Request(StateOfTheWorld, &request(&[&long]), Names::All).to_string().len() < 400);
    }

    #[test]
    fn undecodable_message_is_shown_by_its_size() {
        let garbage = Bytes::from_static(b"\xff\xff");
        for variant in [StateOfTheWorld, Incremental] {
            let shown = [
                Request(variant, &garbage, Names::Few).to_string(),
                Response(variant, &garbage, Names::Few).to_string(),
                Payloads(variant, &garbage, &SizesOnly).to_string(),
            ];
            assert_eq!(shown, ["(2 undecodable bytes)"; 3]);
        }
    }

    fn delta_response(resources: Vec<proto::Resource>) -> Bytes {
        proto::DeltaDiscoveryResponse {
            system_version_info: "8".into(),
            resources,
            type_url: types::SECRET.into(),
            removed_resources: vec!["gone".into()],
            nonce: "n2".into(),
            ..Default::default()
        }
        .encode_to_vec()
        .into()
    }

    fn secret(version: &str) -> proto::Resource {
        let value = Bytes::from_static(b"\x0a\x03key\x12\x04hush");
        proto::Resource {
            name: "key".into(),
            version: version.into(),
            resource: Some(proto::Any { type_url: types::SECRET.into(), value }),
            ..Default::default()
        }
    }

    #[test]
    fn delta_messages_show_subscriptions_versions_and_removals() {
        let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
        let request = proto::DeltaDiscoveryRequest {
            type_url: types::CLUSTER.into(),
            resource_names_subscribe: names(&["a", "b"]),
            resource_names_unsubscribe: names(&["c"]),
            initial_resource_versions: [("a".into(), "1".into()), ("d".into(), "2\n".into())]
                .into(),
            response_nonce: "n1".into(),
            ..Default::default()
        };
        let shown = Request(Incremental, &request.encode_to_vec().into(), Names::Few).to_string();
        assert_eq!(shown, "(S=[a b],U=[c],I=[a=1 d=2\\n],N=n1,T=cds)");
        let shown = Response(Incremental, &delta_response(vec![secret("3")]), Names::Few);
        assert_eq!(shown.to_string(), "(V=8,R=[key=3],D=[gone],N=n2,T=sds)");
    }

    #[test]
    fn response_shows_its_control_plane_identifier() {
        let control_plane = Some(proto::ControlPlane { identifier: "plane-7".into() });
        let delta = proto::DeltaDiscoveryResponse {
            type_url: types::CLUSTER.into(),
            control_plane,
            ..Default::default()
        };
        let shown = Response(Incremental, &delta.encode_to_vec().into(), Names::Few).to_string();
        assert_eq!(shown, "(V=,R=[],D=[],N=,T=cds,C=plane-7)");
    }

    #[test]
    fn printer_receives_resources_with_their_own_type_url() {
        struct Printer;
        impl PayloadPrinter for Printer {
            fn print(&self, url: &str, bytes: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
                write!(out, "{url}: {} bytes", bytes.len())
            }
        }
        let heartbeat = proto::Resource { resource: None, ..secret("3") };
        let own = format!("{}: 11 bytes", types::SECRET);
        let delta = delta_response(vec![secret("3"), heartbeat]);
        let shown = Payloads(Incremental, &delta, &Printer).to_string();
        assert_eq!(shown, format!("{own}; heartbeat"));
        let wrapped = proto::Any {
            type_url: proto::Resource::type_url(),
            value: secret("3").encode_to_vec().into(),
        };
        let sotw = proto::DiscoveryResponse { resources: vec![wrapped], ..Default::default() };
        let shown = Payloads(StateOfTheWorld, &sotw.encode_to_vec().into(), &Printer).to_string();
        assert_eq!(shown, own);
    }
}
