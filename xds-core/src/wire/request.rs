//! `DiscoveryRequest` as it lies in a message.

use super::walk::{Fields, Malformed};

/// A request that has been stepped over once and found sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) version: &'a str,
    /// The encoded `Node`, where there is one.
    pub(crate) node: Option<&'a [u8]>,
    pub(crate) type_url: &'a str,
    pub(crate) nonce: &'a str,
    /// The encoded `google.rpc.Status`: what alone makes the request a NACK (B04).
    pub(crate) error_detail: Option<&'a [u8]>,
    pub(crate) name_count: usize,
    pub(crate) longest_name: usize,
    message: &'a [u8],
}

const VERSION_INFO: u32 = 1;
const NODE: u32 = 2;
const RESOURCE_NAMES: u32 = 3;
const TYPE_URL: u32 = 4;
const RESPONSE_NONCE: u32 = 5;
const ERROR_DETAIL: u32 = 6;

impl<'a> Request<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut request = Self {
            version: "",
            node: None,
            type_url: "",
            nonce: "",
            error_detail: None,
            name_count: 0,
            longest_name: 0,
            message,
        };
        for field in Fields::of(message) {
            let field = field?;
            match field.number {
                VERSION_INFO => request.version = field.string()?,
                NODE => request.node = Some(field.block()?),
                RESOURCE_NAMES => {
                    request.name_count += 1;
                    request.longest_name = request.longest_name.max(field.string()?.len());
                }
                TYPE_URL => request.type_url = field.string()?,
                RESPONSE_NONCE => request.nonce = field.string()?,
                ERROR_DETAIL => request.error_detail = Some(field.block()?),
                _ => {}
            }
        }
        Ok(request)
    }

    /// The names in wire order, repeated ones included.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        Fields::of(self.message)
            .filter_map(Result::ok)
            .filter(|field| field.number == RESOURCE_NAMES)
            .filter_map(|field| field.string().ok())
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec, vec::Vec};

    use prost::Message as _;

    use super::*;
    use crate::proto;

    #[test]
    fn what_prost_encodes_is_read_in_place() {
        let message = proto::DiscoveryRequest {
            version_info: String::from("1"),
            node: Some(proto::Node { id: String::from("me"), ..Default::default() }),
            resource_names: vec![String::from("a"), String::from("bcd")],
            type_url: String::from("t/x"),
            response_nonce: String::from("n"),
            error_detail: Some(proto::Status::default()),
            ..Default::default()
        }
        .encode_to_vec();
        let request = Request::parse(&message).unwrap();
        assert_eq!((request.version, request.nonce, request.type_url), ("1", "n", "t/x"));
        assert_eq!(request.names().collect::<Vec<_>>(), ["a", "bcd"]);
        assert_eq!((request.name_count, request.longest_name), (2, 3));
        assert_eq!(request.error_detail, Some(&[][..]), "an empty status is a NACK all the same");
        assert!(request.node.is_some());
    }

    #[test]
    fn names_that_are_not_text_are_refused() {
        assert_eq!(Request::parse(&[0x1a, 1, 0xff]).unwrap_err(), Malformed::Utf8 { field: 3 });
    }
}
