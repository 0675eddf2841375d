//! Reader of `DiscoveryResponse`.

use super::{
    resource::RawResource,
    resource_error::RawResourceError,
    walk::{Fields, Malformed, fields, string_field},
};

/// State-of-the-world response whose envelope was read once and is valid.
///
/// Resources, including their `Any`, are validated later, one by one: a malformed one is an invalid
/// resource, not an invalid response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'a> {
    pub(crate) version: &'a str,
    pub(crate) type_url: &'a str,
    pub(crate) nonce: &'a str,
    /// Identifier of the server instance, if stated.
    // B12
    pub(crate) control_plane: &'a str,
    /// Number of resources.
    pub(crate) resource_count: usize,
    /// Whether there are resource errors, so that the frame is walked only if there are.
    has_errors: bool,
    frame: &'a [u8],
}

const VERSION_INFO: u32 = 1;
const RESOURCES: u32 = 2;
const TYPE_URL: u32 = 4;
const NONCE: u32 = 5;
const CONTROL_PLANE: u32 = 6;
const RESOURCE_ERRORS: u32 = 7;

impl<'a> Response<'a> {
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        let mut response = Self {
            version: "",
            type_url: "",
            nonce: "",
            control_plane: "",
            resource_count: 0,
            has_errors: false,
            frame,
        };
        for field in Fields::of(frame) {
            let field = field?;
            match field.number {
                RESOURCES => {
                    field.block()?;
                    response.resource_count += 1;
                }
                RESOURCE_ERRORS => {
                    field.block()?;
                    response.has_errors = true;
                }
                VERSION_INFO => response.version = field.string()?,
                TYPE_URL => response.type_url = field.string()?,
                NONCE => response.nonce = field.string()?,
                CONTROL_PLANE => response.control_plane = string_field(field.block()?, 1)?,
                _ => {}
            }
        }
        Ok(response)
    }

    /// Returns the resources in wire order. It walks the frame again, so that no list of them is
    /// stored.
    pub(crate) fn resources(
        &self,
    ) -> impl Iterator<Item = Result<RawResource<'a>, Malformed>> + use<'a> {
        fields(self.frame, RESOURCES).map(|field| RawResource::parse(field.block()?))
    }

    /// Returns the resource errors, in wire order.
    // TP3
    pub(crate) fn resource_errors(
        &self,
    ) -> impl Iterator<Item = Result<RawResourceError<'a>, Malformed>> + use<'a> {
        let frame = if self.has_errors { self.frame } else { &[] };
        fields(frame, RESOURCE_ERRORS).map(|field| RawResourceError::parse(field.block()?))
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec, vec::Vec};

    use prost::Message as _;

    use crate::proto;
    use crate::wire::response::*;

    #[test]
    fn sotw_response_encoded_by_prost_is_parsed_in_place() {
        let any = |value: &'static [u8]| proto::Any {
            type_url: String::from("t/x"),
            value: bytes::Bytes::from_static(value),
        };
        let frame = proto::DiscoveryResponse {
            version_info: String::from("7"),
            nonce: String::from("n"),
            type_url: String::from("t/x"),
            resources: vec![any(b"one"), any(b"two")],
            canary: true,
            control_plane: Some(proto::ControlPlane { identifier: String::from("cp-1") }),
            resource_errors: vec![proto::ResourceError::default()],
        }
        .encode_to_vec();
        let response = Response::parse(&frame).unwrap();
        assert_eq!((response.version, response.nonce, response.type_url), ("7", "n", "t/x"));
        assert_eq!(response.control_plane, "cp-1");
        assert_eq!(response.resource_errors().count(), 1);
        let values: Vec<_> = response.resources().map(|raw| raw.unwrap().value).collect();
        assert_eq!(values, [b"one", b"two"]);
        for cut in 1..frame.len() {
            // A frame cut at the edge of a field is a valid shorter response; any other cut must be
            // detected.
            if let Ok(shorter) = Response::parse(&frame[..cut]) {
                assert!(shorter.resources().count() <= 2);
            }
        }
    }

    #[test]
    fn malformed_any_does_not_affect_other_resources() {
        let frame = [0x12, 2, 0x0a, 9, 0x12, 3, 0x12, 1, b'x'];
        let response = Response::parse(&frame).unwrap();
        let resources: Vec<_> = response.resources().collect();
        assert_eq!(resources[0], Err(Malformed::Truncated { at: 0 }));
        assert_eq!(resources[1].unwrap().value, b"x");
        assert_eq!(Response::parse(&[0x10, 2]).unwrap_err(), Malformed::Encoding { field: 2 });
    }
}
