//! JWT call credentials from a file ([gRFC A97]).
//!
//! An xDS client makes one call per stream, so the file is read for every call. If reading fails,
//! the last token is used while it is valid. A call without a token is not made; the core's backoff
//! determines the next attempt.
//!
//! [gRFC A97]: https://github.com/grpc/proposal/blob/master/A97-xds-jwt-call-creds.md

use core::{fmt, time::Duration};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine as _,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::HeaderValue;
use serde_json::Value;
use tonic::Status;
use tracing::warn;

use super::{
    error::CredentialsError,
    files::{self, ReadLock, or_previous},
};
use crate::{guard::locked, runtime::SharedRuntime};

/// Time before its expiry at which a token counts as expired, because a call takes time to arrive.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);

/// Token file and its last valid token.
pub(super) struct TokenSource {
    /// `None` if the kind of credentials is not supported.
    path: Option<PathBuf>,
    last: Mutex<Option<Token>>,
    read_lock: ReadLock,
}

#[derive(Clone)]
struct Token {
    /// Value of the `authorization` header: `Bearer` and the token.
    header: HeaderValue,
    expires: SystemTime,
}

impl Token {
    fn is_valid_at(&self, now: SystemTime) -> bool {
        now.checked_add(EXPIRY_MARGIN).is_some_and(|soon| soon < self.expires)
    }
}

impl TokenSource {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path: Some(path), last: Mutex::default(), read_lock: ReadLock::default() }
    }

    /// Creates a source of an unsupported kind, which always fails.
    pub(super) fn unsupported() -> Self {
        Self { path: None, last: Mutex::default(), read_lock: ReadLock::default() }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the value of the `authorization` header.
    pub(super) async fn current(
        self: &Arc<Self>,
        runtime: Option<&SharedRuntime>,
    ) -> Result<HeaderValue, CredentialsError> {
        let source = Arc::clone(self);
        let clock = runtime.cloned();
        let now = move || clock.as_ref().map_or_else(SystemTime::now, SharedRuntime::system_time);
        let for_read = now.clone();
        let read = self.read_lock.run(runtime, move || source.token_at(for_read()));
        let last = || self.last_at(now()).map(|header| Ok((header, None)));
        let (header, error) = or_previous(runtime, read, last).await?;
        if let Some(why) = error {
            warn!(reason = %why, "cannot read a new token: the last one stays in use while it is valid");
        }
        Ok(header)
    }

    /// Returns the last token if it is still valid.
    fn last_at(&self, now: SystemTime) -> Option<HeaderValue> {
        let last = locked(&self.last);
        last.as_ref().filter(|token| token.is_valid_at(now)).map(|token| token.header.clone())
    }

    /// Returns the token to use, and the error if it is not the one in the file.
    fn token_at(
        &self,
        now: SystemTime,
    ) -> Result<(HeaderValue, Option<CredentialsError>), CredentialsError> {
        // The file is read before locking, because reading may hang.
        let read = self.read(now);
        let mut last = locked(&self.last);
        match read {
            Ok(token) => Ok((last.insert(token).header.clone(), None)),
            Err(why) => {
                last.take_if(|token| !token.is_valid_at(now));
                match &*last {
                    Some(token) => Ok((token.header.clone(), Some(why))),
                    None => Err(why),
                }
            }
        }
    }

    fn read(&self, now: SystemTime) -> Result<Token, CredentialsError> {
        let path = self.path.as_ref().ok_or(CredentialsError::Unsupported)?;
        let content = files::read(path)?;
        let token =
            parse(content.trim_ascii()).ok_or_else(|| CredentialsError::NoToken(path.clone()))?;
        match token.is_valid_at(now) {
            true => Ok(token),
            false => Err(CredentialsError::TokenExpired(path.clone())),
        }
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenSource").field(&self.path).finish()
    }
}

/// Base64 for URLs, with optional padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Parses a JWT to find its expiry time. Verification is up to the server.
fn parse(text: &[u8]) -> Option<Token> {
    let mut parts = text.split(|&byte| byte == b'.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let claims: Value = serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()?;
    let expires = Duration::try_from_secs_f64(claims.get("exp")?.as_f64()?).ok()?;
    let mut header = HeaderValue::from_bytes(&[b"Bearer ", text].concat()).ok()?;
    header.set_sensitive(true);
    Some(Token { header, expires: UNIX_EPOCH.checked_add(expires)? })
}

/// Maximum time to read all token files of a call. Reading may hang.
const MAX_READ_TIME: Duration = Duration::from_secs(20);

pub(super) async fn read_with_timeout<T>(
    runtime: &SharedRuntime,
    reading: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let late = || Status::unavailable(format!("the token was not read within {MAX_READ_TIME:?}"));
    runtime.timeout(MAX_READ_TIME, reading).await.ok_or_else(late)?
}

#[cfg(test)]
mod tests {
    use core::future::pending;

    use futures_util::FutureExt as _;
    use tonic::Code;

    use super::*;
    use crate::runtime::tests::Still;

    #[test]
    fn token_read_that_blocks_fails_the_call_after_a_timeout() {
        let runtime = SharedRuntime::new(Still);
        let read = read_with_timeout(&runtime, pending::<Result<(), _>>()).now_or_never();
        let status = read.expect("time is up").expect_err("nothing is read");
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("token"), "{status}");
        let read = read_with_timeout(&runtime, async { Ok(()) }).now_or_never();
        assert!(read.expect("it is read").is_ok());
        println!("covers: B42");
    }

    fn token(claims: &str) -> Vec<u8> {
        format!("e30.{}.c2ln", BASE64.encode(claims)).into_bytes()
    }

    #[test]
    fn token_is_a_jwt_with_a_numeric_expiry() {
        let parsed = parse(&token(r#"{"exp": 1700000000.5}"#)).expect("it is one");
        assert_eq!(parsed.expires, UNIX_EPOCH + Duration::from_millis(1_700_000_000_500));
        assert!(parsed.header.is_sensitive());
        let unpadded = String::from_utf8(token(r#"{"exp": 17000000}"#)).expect("it is text");
        assert!(parse(unpadded.replace('=', "").as_bytes()).is_some());
        for text in [
            b"".to_vec(),
            b"one".to_vec(),
            b"e30.e30".to_vec(),
            b"e30.e30.e30".to_vec(),
            b"e30.!!.e30".to_vec(),
            [&token(r#"{"exp": 17}"#), &b".e30"[..]].concat(),
            [&token(r#"{"exp": 17}"#), &b"\n1"[..]].concat(),
            token(r#"{"exp": "17"}"#),
            token(r#"{"exp": -1}"#),
            token(r#"{"exp": 1e300}"#),
            token("[]"),
        ] {
            assert!(parse(&text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn token_within_the_expiry_margin_is_invalid() {
        let expires = UNIX_EPOCH + Duration::from_secs(1_000);
        let token = Token { header: HeaderValue::from_static("x"), expires };
        assert!(token.is_valid_at(expires - EXPIRY_MARGIN - Duration::from_nanos(1)));
        assert!(!token.is_valid_at(expires - EXPIRY_MARGIN));
        assert!(!token.is_valid_at(expires + EXPIRY_MARGIN));
    }
}
