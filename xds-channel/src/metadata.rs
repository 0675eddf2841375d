//! Headers of a call: metadata for routing, and the timeout.

use core::time::Duration;
use std::borrow::Cow;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{HeaderMap, HeaderValue, header::SET_COOKIE};
use prost::Message as _;
use xds_routing::{
    balancer::{CallPermit, LoadReport},
    filters::Session,
    pattern::Headers,
    proto::xds::data::orca::v3::OrcaLoadReport,
};

/// Base64 with or without padding, as gRPC's binary headers may have it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

const TIMEOUT: &str = "grpc-timeout";

/// Metadata of the application for route matching and access rules, without headers of HTTP and
/// gRPC. Bytes that are not UTF-8 become U+FFFD.
#[derive(Debug)]
pub(crate) struct Metadata<'a>(pub(crate) &'a HeaderMap);

impl Headers for Metadata<'_> {
    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        if name.starts_with("grpc-") || name == "te" {
            return None;
        }
        let values = self.0.get_all(name).iter();
        let mut values = values.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let first = values.next()?;
        let joined = values.fold(first, |mut joined, value| {
            joined.to_mut().push(',');
            joined.to_mut().push_str(&value);
            joined
        });
        Some(joined)
    }
}

/// Adds the cookie of a session to the headers of a response, unless that of the request is correct
/// (gRFC A55). A response that consists of trailers has the cookie there.
pub(crate) fn set_cookie(session: &Session, permit: &CallPermit, headers: &mut HeaderMap) {
    let cookie = permit.session_addresses().and_then(|actual| session.set_cookie(actual));
    match cookie.map(HeaderValue::try_from) {
        Some(Ok(cookie)) => {
            headers.append(SET_COOKIE, cookie);
        }
        Some(Err(_)) => {
            tracing::warn!("the cookie of a session has characters that a header cannot have");
        }
        None => {}
    }
}

/// Returns the load report of an endpoint, from the trailers of a response (gRFC A51).
pub(crate) fn load_report(trailers: &HeaderMap) -> Option<OrcaLoadReport> {
    let text = trailers.get(LoadReport::TRAILER)?;
    OrcaLoadReport::decode(&*BASE64.decode(text).ok()?).ok()
}

/// Parses the timeout that the application set: up to eight digits and a unit.
pub(crate) fn stated_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 60 * 60)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// Sets the timeout, in the finest unit that fits into eight digits. Rounded up, so that the server
/// does not end the call earlier.
pub(crate) fn set_timeout(headers: &mut HeaderMap, limit: Duration) {
    let units = [
        (1, 'n'),
        (1_000, 'u'),
        (1_000_000, 'm'),
        (1_000_000_000, 'S'),
        (60_000_000_000, 'M'),
        (3_600_000_000_000, 'H'),
    ];
    let units = units.map(|(nanos, unit)| (limit.as_nanos().div_ceil(nanos), unit));
    let fits = units.into_iter().find(|(count, _)| *count < 100_000_000);
    let text = fits.map(|(count, unit)| format!("{count}{unit}"));
    if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(TIMEOUT, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_parsed_and_formatted() {
        let mut headers = HeaderMap::new();
        for (limit, text) in [
            (Duration::from_millis(1_500), "1500000u"),
            (Duration::from_nanos(12), "12n"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(200_000_000), "3333334M"),
        ] {
            set_timeout(&mut headers, limit);
            let is = headers.get(TIMEOUT).expect("a timeout").to_str().expect("text").to_owned();
            assert_eq!(is, text);
        }
        for (text, limit) in [
            ("5S", Some(Duration::from_secs(5))),
            ("2H", Some(Duration::from_secs(7_200))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("100000000m", None),
            ("S", None),
            ("", None),
            ("1x", None),
            ("-1S", None),
        ] {
            headers.insert(TIMEOUT, HeaderValue::from_static(text));
            assert_eq!(stated_timeout(&headers), limit, "{text}");
        }
    }

    #[test]
    fn header_matching_sees_application_metadata_only() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("h", "a"), ("h", "b"), ("te", "trailers"), (TIMEOUT, "1S")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let metadata = Metadata(&headers);
        assert_eq!(metadata.value("h").as_deref(), Some("a,b"));
        assert_eq!((metadata.value("te"), metadata.value(TIMEOUT)), (None, None));
    }

    // Otherwise a client would hide a header from the access rules of a server.
    #[test]
    fn header_matching_sees_values_that_are_not_ascii() {
        let mut headers = HeaderMap::new();
        for value in [&b"evil\xff"[..], b"b", "\u{fc}".as_bytes()] {
            headers.append("h", HeaderValue::from_bytes(value).expect("a value"));
        }
        let metadata = Metadata(&headers);
        assert_eq!(metadata.value("h").as_deref(), Some("evil\u{fffd},b,\u{fc}"));
    }
}
