//! Requests, as the conditions of policies see them.

use alloc::borrow::Cow;

use crate::{connection::Connection, pattern::Headers};

/// Request to a server.
///
/// As [`Headers`], it has the headers and pseudo-headers that header matchers see. `host` is an
/// alias of `:authority`. Hop-by-hop headers, such as `te`, are absent.
#[derive(Clone, Copy, Debug)]
pub struct RbacRequest<'a, H: ?Sized> {
    pub(super) path: &'a str,
    method: &'a str,
    authority: Option<&'a str>,
    headers: &'a H,
    pub(super) connection: &'a Connection,
}

impl<'a, H: Headers + ?Sized> RbacRequest<'a, H> {
    /// Creates a request with the method `POST`.
    ///
    /// The path is `/package.Service/Method`. A query string or a fragment is not part of it, so
    /// that no client circumvents a policy by adding one. An absent `:authority` is replaced by the
    /// header `host`. The headers need not contain pseudo-headers; those that they contain are not
    /// read. Binary headers are in base64, as they are transmitted.
    #[must_use]
    pub fn new(
        path: &'a str,
        authority: Option<&'a str>,
        headers: &'a H,
        connection: &'a Connection,
    ) -> Self {
        let path = path.split(['?', '#']).next().unwrap_or(path);
        Self { path, method: "POST", authority, headers, connection }
    }

    /// Sets the HTTP method. A server that rejects all methods except `POST` need not set it.
    #[must_use]
    pub const fn with_method(self, method: &'a str) -> Self {
        Self { method, ..self }
    }
}

/// Headers that belong to a connection, not to a request.
const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

impl<H: Headers + ?Sized> Headers for RbacRequest<'_, H> {
    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        match name {
            ":path" => Some(Cow::Borrowed(self.path)),
            ":method" => Some(Cow::Borrowed(self.method)),
            ":authority" | "host" => match self.authority {
                Some(authority) => Some(Cow::Borrowed(authority)),
                None => self.headers.value("host"),
            },
            _ if name.starts_with(':') || HOP_BY_HOP.contains(&name) => None,
            _ => self.headers.value(name),
        }
    }
}
