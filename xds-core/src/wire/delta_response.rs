//! Reader of `DeltaDiscoveryResponse`.

use super::{
    resource::{ResourceWrapper, strings},
    resource_error::RawResourceError,
    walk::{Fields, Malformed, fields, string_field},
};

/// Incremental response whose envelope was read once and is valid.
///
/// Resources and resource errors are validated later, one by one, as in a
/// [`Response`](super::response::Response).
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaResponse<'a> {
    /// For people and logs; each resource has its own version.
    pub(crate) system_version: &'a str,
    pub(crate) type_url: &'a str,
    pub(crate) nonce: &'a str,
    /// Identifier of the server instance, if stated.
    // B12
    pub(crate) control_plane: &'a str,
    /// Whether there are removed names, and errors, so that the frame is walked only if there are.
    has_removed: bool,
    has_errors: bool,
    frame: &'a [u8],
}

const SYSTEM_VERSION_INFO: u32 = 1;
const RESOURCES: u32 = 2;
const TYPE_URL: u32 = 4;
const NONCE: u32 = 5;
const REMOVED_RESOURCES: u32 = 6;
const CONTROL_PLANE: u32 = 7;
const REMOVED_RESOURCE_NAMES: u32 = 8;
const RESOURCE_ERRORS: u32 = 9;

impl<'a> DeltaResponse<'a> {
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, Malformed> {
        let mut response = Self {
            system_version: "",
            type_url: "",
            nonce: "",
            control_plane: "",
            has_removed: false,
            has_errors: false,
            frame,
        };
        for field in Fields::of(frame) {
            let field = field?;
            match field.number {
                RESOURCES => drop(field.block()?),
                RESOURCE_ERRORS => {
                    field.block()?;
                    response.has_errors = true;
                }
                REMOVED_RESOURCES => {
                    field.string()?;
                    response.has_removed = true;
                }
                REMOVED_RESOURCE_NAMES => {
                    string_field(field.block()?, 1)?;
                    response.has_removed = true;
                }
                SYSTEM_VERSION_INFO => response.system_version = field.string()?,
                TYPE_URL => response.type_url = field.string()?,
                NONCE => response.nonce = field.string()?,
                CONTROL_PLANE => response.control_plane = string_field(field.block()?, 1)?,
                _ => {}
            }
        }
        Ok(response)
    }

    /// Returns the added and changed resources, in wire order.
    pub(crate) fn resources(
        &self,
    ) -> impl Iterator<Item = Result<ResourceWrapper<'a>, Malformed>> + use<'a> {
        fields(self.frame, RESOURCES).map(|field| ResourceWrapper::parse(field.block()?))
    }

    /// Returns the removed names, including names that never existed, in both forms: first the
    /// plain names, then those with constraints, without the constraints.
    // B11
    pub(crate) fn removed(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let frame = if self.has_removed { self.frame } else { &[] };
        let with_constraints = fields(frame, REMOVED_RESOURCE_NAMES)
            .filter_map(|field| string_field(field.block().ok()?, 1).ok());
        strings(frame, REMOVED_RESOURCES).chain(with_constraints)
    }

    /// Returns the resource errors, in wire order.
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
    use crate::wire::delta_response::*;

    fn name(name: &str) -> proto::ResourceName {
        proto::ResourceName { name: String::from(name), ..Default::default() }
    }

    #[test]
    fn delta_response_encoded_by_prost_is_parsed_in_place() {
        let resource = |name: &str, version: &str| proto::Resource {
            name: String::from(name),
            version: String::from(version),
            ..Default::default()
        };
        let frame = proto::DeltaDiscoveryResponse {
            system_version_info: String::from("s"),
            nonce: String::from("n"),
            type_url: String::from("t/x"),
            resources: vec![resource("a", "1"), resource("b", "2")],
            removed_resources: vec![String::from("c"), String::from("d")],
            removed_resource_names: vec![name("e")],
            control_plane: Some(proto::ControlPlane { identifier: String::from("cp-1") }),
            resource_errors: vec![proto::ResourceError {
                resource_name: Some(name("f")),
                error_detail: Some(proto::Status { code: 5, ..Default::default() }),
            }],
        }
        .encode_to_vec();
        let response = DeltaResponse::parse(&frame).unwrap();
        assert_eq!((response.system_version, response.nonce), ("s", "n"));
        assert_eq!((response.type_url, response.control_plane), ("t/x", "cp-1"));
        let resources: Vec<_> =
            response.resources().map(Result::unwrap).map(|w| (w.name, w.version)).collect();
        assert_eq!(resources, [("a", "1"), ("b", "2")]);
        assert_eq!(response.removed().collect::<Vec<_>>(), ["c", "d", "e"]);
        let errors: Vec<_> = response.resource_errors().map(Result::unwrap).collect();
        assert_eq!(errors, [RawResourceError { name: "f", code: 5, message: "" }]);
        for cut in 1..frame.len() {
            // A frame cut at the edge of a field is a valid shorter response; any other cut must be
            // detected.
            if let Ok(shorter) = DeltaResponse::parse(&frame[..cut]) {
                assert!(shorter.resources().count() <= 2 && shorter.removed().count() <= 3);
            }
        }
    }

    #[test]
    fn malformed_resource_is_isolated_and_malformed_removal_fails_the_parse() {
        let frame = [0x12, 2, 0x1a, 9, 0x12, 3, 0x1a, 1, b'x'];
        let response = DeltaResponse::parse(&frame).unwrap();
        let resources: Vec<_> = response.resources().map(|r| r.map(|w| w.name)).collect();
        assert_eq!(resources, [Err(Malformed::Truncated { at: 0 }), Ok("x")]);
        assert_eq!(
            DeltaResponse::parse(&[0x32, 1, 0xff]).unwrap_err(),
            Malformed::Utf8 { field: 6 }
        );
        assert_eq!(
            DeltaResponse::parse(&[0x42, 2, 0x0a, 9]).unwrap_err(),
            Malformed::Truncated { at: 0 }
        );
        assert_eq!(DeltaResponse::parse(&[0x48, 1]).unwrap_err(), Malformed::Encoding { field: 9 });
    }
}
