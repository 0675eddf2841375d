//! Rejection as reported by the client.

use alloc::sync::Arc;

use crate::{
    server::session::request::ack::truncate_message,
    wire::{
        Malformed,
        walk::{FieldValue, Fields},
    },
};

/// Parsed `error_detail` of a client.
#[derive(Clone, Debug)]
pub(crate) struct ErrorDetail {
    pub(crate) code: i32,
    pub(crate) message: Arc<str>,
}

impl ErrorDetail {
    /// Parses an encoded `google.rpc.Status`.
    pub(crate) fn parse(status: &[u8]) -> Result<Self, Malformed> {
        const CODE: u32 = 1;
        const MESSAGE: u32 = 2;

        let (mut code, mut message) = (0, "");
        for field in Fields::of(status) {
            let field = field?;
            match (field.number, field.value) {
                // An int32: negative values are sign-extended to 64 bits.
                (CODE, FieldValue::Number(number)) => code = number as i32,
                (CODE, _) => drop(field.number()?),
                (MESSAGE, _) => message = field.string()?,
                _ => {}
            }
        }
        Ok(Self { code, message: truncate_message(message).into() })
    }
}
