//! Unary gRPC calls without a gRPC library: one length-prefixed message each way, and a status in
//! the trailers.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use xds_core::StatusCode as Code;

use crate::status::Status;

/// Length of the message prefix: a compression flag and the message length.
const PREFIX: usize = 5;

/// Headers about the body of an HTTP request or about its connection.
const OF_HTTP: [HeaderName; 16] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether a header is metadata of the call, such as `authorization`. All other headers describe
/// the body or the connection, or would have a meaning in the gRPC transport.
fn is_metadata(name: &HeaderName, headers: &HeaderMap) -> bool {
    let is_of_connection = || {
        let values = headers.get_all(header::CONNECTION).into_iter();
        let mut options = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
    };
    !OF_HTTP.contains(name) && !name.as_str().starts_with("grpc-") && !is_of_connection()
}

/// Creates a request for the method at `path`. It has the extensions of the REST request, and those
/// of its headers that are [metadata](is_metadata).
pub(crate) fn request(
    path: &'static str,
    message: &[u8],
    headers: &HeaderMap,
    extensions: http::Extensions,
) -> Request<Full<Bytes>> {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    // The length limit of HTTP bodies is far below `u32::MAX`.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    let mut request = Request::new(Full::new(framed.freeze()));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    *request.version_mut() = http::Version::HTTP_2;
    *request.extensions_mut() = extensions;
    for (name, value) in headers.iter().filter(|(name, _)| is_metadata(name, headers)) {
        request.headers_mut().append(name, value.clone());
    }
    let (grpc, te) =
        (HeaderValue::from_static("application/grpc"), HeaderValue::from_static("trailers"));
    request.headers_mut().insert(header::CONTENT_TYPE, grpc);
    request.headers_mut().insert(header::TE, te);
    request
}

/// Returns the message of a response, or the status without one.
pub(crate) async fn message_of<B: Body>(response: Response<B>) -> Result<Bytes, Status> {
    if let Some(status) = status_in(response.headers()).filter(|status| status.code != Code::Ok) {
        return Err(status);
    }
    if !response.status().is_success() {
        let message = format!("the service responded with HTTP status {}", response.status());
        return Err(Status { code: Code::Unknown, message });
    }
    let gone = |_| Status {
        code: Code::Unavailable,
        message: "the service stopped before the response was complete".into(),
    };
    let collected = response.into_body().collect().await.map_err(gone)?;
    let status = collected.trailers().and_then(status_in);
    let mut body = collected.to_bytes();
    match status {
        Some(status) if status.code != Code::Ok => Err(status),
        _ if body.len() >= PREFIX => {
            let is_compressed = body.get_u8() != 0;
            let length = body.get_u32() as usize;
            match body.len() == length && !is_compressed {
                true => Ok(body),
                false => Err(Status {
                    code: Code::Internal,
                    message: "the response is not a single message".into(),
                }),
            }
        }
        None => Err(Status { code: Code::Unknown, message: "the response has no message".into() }),
        Some(status) => Err(status),
    }
}

fn status_in(headers: &HeaderMap) -> Option<Status> {
    let code =
        headers.get("grpc-status")?.to_str().ok()?.parse().map_or(Code::Unknown, Code::from_i32);
    let message = headers.get("grpc-message").map(|it| decoded(it.as_bytes())).unwrap_or_default();
    Some(Status { code, message })
}

/// Decodes a percent-encoded gRPC status message.
fn decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, behind @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let digits = digit(*high).zip(digit(*low));
                digits.map(|(high, low)| ((high * 16 + low) as u8, behind))
            }
            _ => None,
        };
        let (byte, behind) = escaped.unwrap_or((*first, tail));
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_status_messages_are_percent_decoded() {
        for (text, read) in
            [("plain", "plain"), ("a%20b%C3%A4", "a bä"), ("100%", "100%"), ("%zz", "%zz")]
        {
            assert_eq!(decoded(text.as_bytes()), read);
        }
    }

    #[test]
    fn only_metadata_is_copied_to_the_grpc_request() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-request-id", "cookie"] {
            headers.append(name, HeaderValue::from_static("kept"));
        }
        for name in [
            "content-length",
            "expect",
            "grpc-accept-encoding",
            "grpc-encoding",
            "grpc-timeout",
            "keep-alive",
            "te",
            "upgrade",
            "x-hop",
            "x-other-hop",
        ] {
            headers.append(name, HeaderValue::from_static("gzip"));
        }
        headers.append("connection", HeaderValue::from_static("close, X-Hop"));
        headers.append("connection", HeaderValue::from_static("x-other-hop"));
        let request = request("/a/b", b"message", &headers, http::Extensions::new());
        let mut copied: Vec<_> = request.headers().iter().map(|(name, _)| name.as_str()).collect();
        copied.sort_unstable();
        let expected = ["authorization", "content-type", "cookie", "te", "x-request-id"];
        assert_eq!(copied, expected);
        assert_eq!(request.headers()["te"], "trailers");
    }
}
