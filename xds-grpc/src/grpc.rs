//! The little of gRPC that both sides need: messages as bytes, and errors in words.

use core::error::Error;
use std::fmt::Write as _;

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::{
    Code, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// What HTTP/2 is called where TLS agrees on a protocol.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

/// What HTTP/1.1 is called there.
#[cfg(feature = "rest")]
pub(crate) const ALPN_HTTP1: &[u8] = b"http/1.1";

/// The service by which clients tell what they hold.
pub(crate) const CSDS_SERVICE: &str = "envoy.service.status.v3.ClientStatusDiscoveryService";
/// Its method for one question.
pub(crate) const FETCH_CLIENT_STATUS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
/// Its method for one question after the other.
pub(crate) const STREAM_CLIENT_STATUS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

/// Messages as they are: the cores encode and decode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(message.len());
        out.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}

/// Whether the status was made on this side because the peer's message is over the size limit, and
/// what is to be said about it.
///
/// The transport tells it by code and text alone; a test of this crate fails should either change.
/// If it did, the stream would still end with that text.
pub(crate) fn over_size_limit(status: &Status, limit: usize) -> Option<&str> {
    let text = status.message().strip_prefix("Error, ")?;
    let is_ours = status.code() == Code::OutOfRange
        && text.starts_with("decoded message length too large")
        && text.ends_with(&format!("the limit is: {limit} bytes"))
        && status.metadata().is_empty();
    is_ours.then_some(text)
}

/// The code and message to report for a call that ended.
///
/// What the peer said is kept as it is. A connection that broke under the call, as one whose
/// keepalive went unanswered, is `UNAVAILABLE`, with the causes behind it as the message.
pub(crate) fn status_parts(status: &Status) -> (i32, String) {
    let code = match status.source() {
        Some(source) => match (code_of_break(source), status.code()) {
            (Some(code), _) => code,
            (None, Code::Unknown) => Code::Unavailable,
            (None, code) => code,
        },
        None => status.code(),
    };
    let mut message = status.message().to_owned();
    if let Some(source) = status.source() {
        append_causes(&mut message, source);
    }
    (i32::from(code), message)
}

/// What gRPC makes of a stream or connection that HTTP/2 ended with a reason; `None` if it was something
/// else that ended it.
fn code_of_break(error: &(dyn Error + 'static)) -> Option<Code> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(reason) = error.downcast_ref::<h2::Error>().and_then(h2::Error::reason) {
            return Some(match reason {
                h2::Reason::REFUSED_STREAM => Code::Unavailable,
                h2::Reason::CANCEL => Code::Cancelled,
                h2::Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
                h2::Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
                h2::Reason::STREAM_CLOSED | h2::Reason::HTTP_1_1_REQUIRED => return None,
                _ => Code::Internal,
            });
        }
        next = error.source();
    }
    None
}

/// An error with its causes, each said once: `tcp connect error: Connection refused`.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    append_causes(&mut text, error);
    text
}

fn append_causes(text: &mut String, error: &(dyn Error + 'static)) {
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            let separator = if text.is_empty() { "" } else { ": " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{cause}");
        }
        next = error.source();
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use super::*;

    #[test]
    fn what_the_peer_said_is_kept() {
        let status = Status::new(Code::PermissionDenied, "not you");
        assert_eq!(status_parts(&status), (7, "not you".into()));
        assert_eq!(status_parts(&Status::unknown("odd")), (2, "odd".into()));
    }

    #[test]
    fn a_broken_connection_is_unavailable_with_its_causes() {
        let mut status = Status::unknown("broken");
        status.set_source(Arc::new(io::Error::other("reset")));
        assert_eq!(status_parts(&status), (14, "broken: reset".into()));
    }

    #[test]
    fn a_stream_that_was_reset_has_the_code_of_the_reason() {
        for (reason, code) in [
            (h2::Reason::NO_ERROR, 13),
            (h2::Reason::PROTOCOL_ERROR, 13),
            (h2::Reason::REFUSED_STREAM, 14),
            (h2::Reason::STREAM_CLOSED, 14),
            (h2::Reason::CANCEL, 1),
            (h2::Reason::ENHANCE_YOUR_CALM, 8),
            (h2::Reason::INADEQUATE_SECURITY, 7),
        ] {
            let mut status = Status::unknown("reset");
            status.set_source(Arc::new(h2::Error::from(reason)));
            assert_eq!(status_parts(&status).0, code, "{reason:?}");
        }
    }

    #[test]
    fn a_limit_of_the_peer_is_not_taken_for_ours() {
        assert_eq!(over_size_limit(&Status::out_of_range("resource 7"), 8), None);
        let ours = Status::out_of_range(
            "Error, decoded message length too large: found 9 bytes, the limit is: 8 bytes",
        );
        assert!(over_size_limit(&ours, 8).is_some_and(|text| text.contains("9 bytes")));
        assert_eq!(over_size_limit(&ours, 80), None, "a peer says the same of what we sent");
    }
}
