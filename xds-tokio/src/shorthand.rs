//! Messages in logs, in the shorthand of the protocol's documentation: `(V=,R=,N=,T=)` (S0.091).
//!
//! Nothing here runs unless the log line is wanted: the types decode when they are displayed. What is
//! inside a resource is never shown but its name, and that only where the name is known to be the
//! first field; see [`PayloadPrinter`] for more.

use core::fmt::{self, Write as _};

use bytes::Bytes;
use prost::{Message as _, Name as _};
use xds_core::{
    client::{OpaqueType, ResourceType as _},
    proto, types,
};

use crate::payload::PayloadPrinter;

/// How many names of a list are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// The first few, and how many there are.
    Few,
    All,
}

const FEW: usize = 5;

/// An encoded `DiscoveryRequest`.
pub(crate) struct Request<'a>(pub(crate) &'a Bytes, pub(crate) Names);

/// An encoded `DiscoveryResponse`.
pub(crate) struct Response<'a>(pub(crate) &'a Bytes, pub(crate) Names);

/// The resources of an encoded `DiscoveryResponse`, as the application's printer shows them.
pub(crate) struct Payloads<'a>(pub(crate) &'a Bytes, pub(crate) &'a dyn PayloadPrinter);

/// A type as logs name it: `cds`, or the message's name.
pub(crate) fn type_name(type_url: &str) -> &str {
    types::short_name(type_url).unwrap_or_else(|| type_url.rsplit('/').next().unwrap_or(type_url))
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(request) = proto::DiscoveryRequest::decode(self.0.clone()) else {
            return undecodable(f, self.0);
        };
        write!(f, "(V={},R=", Printable(&request.version_info))?;
        list(f, request.resource_names.len(), self.1, |f, at| {
            let name = request.resource_names.get(at).map_or("", String::as_str);
            fmt::Display::fmt(&Printable(name), f)
        })?;
        end(f, &request.response_nonce, &request.type_url)
    }
}

impl fmt::Display for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(response) = proto::DiscoveryResponse::decode(self.0.clone()) else {
            return undecodable(f, self.0);
        };
        write!(f, "(V={},R=", Printable(&response.version_info))?;
        list(f, response.resources.len(), self.1, |f, at| match response.resources.get(at) {
            Some(resource) => resource_name(f, resource),
            None => Ok(()),
        })?;
        end(f, &response.nonce, &response.type_url)
    }
}

impl fmt::Display for Payloads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(response) = proto::DiscoveryResponse::decode(self.0.clone()) else {
            return undecodable(f, self.0);
        };
        for (at, resource) in response.resources.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            self.1.print(&resource.type_url, &resource.value, f)?;
        }
        Ok(())
    }
}

/// Text of a peer as it may stand in a log line: no control characters, and not too long.
pub(crate) struct Printable<'a>(pub(crate) &'a str);

const LONGEST: usize = 256;

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, character) in self.0.chars().enumerate() {
            if at == LONGEST {
                return write!(f, "..{} bytes", self.0.len());
            }
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

fn end(f: &mut fmt::Formatter<'_>, nonce: &str, type_url: &str) -> fmt::Result {
    write!(f, ",N={},T={})", Printable(nonce), Printable(type_name(type_url)))
}

fn list(
    f: &mut fmt::Formatter<'_>,
    count: usize,
    names: Names,
    item: impl Fn(&mut fmt::Formatter<'_>, usize) -> fmt::Result,
) -> fmt::Result {
    let shown = match names {
        Names::Few => count.min(FEW),
        Names::All => count,
    };
    f.write_char('[')?;
    for at in 0..shown {
        if at > 0 {
            f.write_char(' ')?;
        }
        item(f, at)?;
    }
    if shown < count {
        write!(f, " ..{count}")?;
    }
    f.write_char(']')
}

/// The name of a resource whose type is known to have it in front, or of its wrapper; otherwise the
/// size.
fn resource_name(f: &mut fmt::Formatter<'_>, resource: &proto::Any) -> fmt::Result {
    if resource.type_url == proto::Resource::type_url()
        && let Ok(wrapper) = proto::Resource::decode(resource.value.clone())
        && !wrapper.name.is_empty()
    {
        return fmt::Display::fmt(&Printable(&wrapper.name), f);
    }
    if types::short_name(&resource.type_url).is_some()
        && let Ok(name) = OpaqueType::new(resource.type_url.as_str()).name(&resource.value)
    {
        return fmt::Display::fmt(&Printable(name), f);
    }
    write!(f, "<{} bytes>", resource.value.len())
}

fn undecodable(f: &mut fmt::Formatter<'_>, message: &Bytes) -> fmt::Result {
    write!(f, "({} bytes that do not decode)", message.len())
}

#[cfg(test)]
mod tests {
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
    fn a_request_shows_version_names_nonce_and_type() {
        assert_eq!(Request(&request(&[]), Names::Few).to_string(), "(V=7,R=[],N=n1,T=cds)");
        assert_eq!(
            Request(&request(&["a", "b"]), Names::Few).to_string(),
            "(V=7,R=[a b],N=n1,T=cds)"
        );
    }

    #[test]
    fn long_lists_are_cut_unless_all_is_asked_for() {
        let request = request(&["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(Request(&request, Names::Few).to_string(), "(V=7,R=[a b c d e ..7],N=n1,T=cds)");
        assert_eq!(Request(&request, Names::All).to_string(), "(V=7,R=[a b c d e f g],N=n1,T=cds)");
    }

    #[test]
    fn a_response_shows_names_of_known_types_only() {
        let known = response(types::SECRET, b"\x0a\x03key\x12\x04hush");
        assert_eq!(Response(&known, Names::Few).to_string(), "(V=8,R=[key key],N=n2,T=sds)");
        let unknown = response("t/example.Custom", b"\x0a\x04hush");
        assert_eq!(
            Response(&unknown, Names::Few).to_string(),
            "(V=8,R=[<6 bytes> <6 bytes>],N=n2,T=example.Custom)"
        );
    }

    #[test]
    fn a_wrapped_resource_shows_the_name_of_its_wrapper() {
        let wrapper = proto::Resource { name: "w".into(), ..Default::default() };
        let resource = proto::Any {
            type_url: proto::Resource::type_url(),
            value: wrapper.encode_to_vec().into(),
        };
        let response = proto::DiscoveryResponse { resources: vec![resource], ..Default::default() };
        let shown = Response(&response.encode_to_vec().into(), Names::Few).to_string();
        assert_eq!(shown, "(V=,R=[w],N=,T=)");
    }

    #[test]
    fn payloads_are_sizes_unless_the_application_prints_them() {
        let secret = response(types::SECRET, b"\x0a\x03key\x12\x04hush");
        assert_eq!(Payloads(&secret, &SizesOnly).to_string(), "11 bytes; 11 bytes");
    }

    #[test]
    fn a_peer_cannot_write_log_lines_of_its_own() {
        let shown = Request(&request(&["a\nERROR b"]), Names::Few).to_string();
        assert_eq!(shown, "(V=7,R=[a\\nERROR b],N=n1,T=cds)");
        let long = "x".repeat(1 << 20);
        assert!(Request(&request(&[&long]), Names::All).to_string().len() < 400);
    }

    #[test]
    fn garbage_is_shown_as_such() {
        let garbage = Bytes::from_static(b"\xff\xff");
        assert_eq!(Request(&garbage, Names::Few).to_string(), "(2 bytes that do not decode)");
        assert_eq!(Response(&garbage, Names::Few).to_string(), "(2 bytes that do not decode)");
    }
}
