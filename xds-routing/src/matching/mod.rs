//! Properties of a call that routes match on, and an index of routes by path.

mod index;

pub(crate) use self::index::{PathTest, RouteIndex};
use crate::pattern::Headers;

/// Properties of a call that routes match on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Call<'a, H: ?Sized> {
    /// Path of the call, `/package.Service/Method`.
    pub path: &'a str,
    /// Headers that the application set.
    pub headers: &'a H,
}

impl<'a, H: Headers + ?Sized> Call<'a, H> {
    /// Creates a call from its path and headers.
    #[must_use]
    pub const fn new(path: &'a str, headers: &'a H) -> Self {
        Self { path, headers }
    }
}
