//! Reader of `ResourceError`, the server's reason why a resource is not available.
// TP3

use super::walk::{Fields, Malformed, string_field};

/// Entry of `resource_errors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawResourceError<'a> {
    /// Empty if unset, which is an error of the server.
    // DE-17
    pub(crate) name: &'a str,
    /// gRPC status code; zero, which is no error, if unset.
    pub(crate) code: i32,
    pub(crate) message: &'a str,
}

const RESOURCE_NAME: u32 = 1;
const ERROR_DETAIL: u32 = 2;

impl<'a> RawResourceError<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        const CODE: u32 = 1;
        const MESSAGE: u32 = 2;
        let mut error = Self::default();
        for field in Fields::of(message) {
            let field = field?;
            match field.number {
                RESOURCE_NAME => error.name = string_field(field.block()?, 1)?,
                ERROR_DETAIL => {
                    for field in Fields::of(field.block()?) {
                        let field = field?;
                        match field.number {
                            // A negative code is encoded as 64 bits, of which the lower 32 are the
                            // code.
                            CODE => error.code = field.number()? as i32,
                            MESSAGE => error.message = field.string()?,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(error)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use prost::Message as _;

    use crate::proto;
    use crate::wire::resource_error::*;

    #[test]
    fn resource_error_encoded_by_prost_is_parsed_in_place() {
        for code in [0, 5, 7, -1, i32::MIN] {
            let message = proto::ResourceError {
                resource_name: Some(proto::ResourceName {
                    name: String::from("foo"),
                    ..Default::default()
                }),
                error_detail: Some(proto::Status {
                    code,
                    message: String::from("no"),
                    ..Default::default()
                }),
            }
            .encode_to_vec();
            let error = RawResourceError::parse(&message).unwrap();
            assert_eq!(error, RawResourceError { name: "foo", code, message: "no" });
        }
    }

    #[test]
    fn empty_resource_error_is_default_and_truncated_one_is_malformed() {
        assert_eq!(RawResourceError::parse(&[]), Ok(RawResourceError::default()));
        let broken = [0x0a, 2, 0x0a, 9];
        assert_eq!(RawResourceError::parse(&broken), Err(Malformed::Truncated { at: 0 }));
    }
}
