//! Which route a call takes.
//!
//! The first route that matches counts, whatever comes after it (S2.047, S2.054). [`VirtualHost::find`]
//! gives the same answer as looking at one route after the other, and looks at few: [`RouteIndex`] knows which
//! routes' paths can fit, and only their headers and fractions are asked.

mod index;

use alloc::string::String;

use thiserror::Error;

pub(crate) use self::index::RouteIndex;
use crate::{
    pattern::Headers,
    random::Random,
    route::{Route, VirtualHost},
};

/// What matching looks at of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a, H: ?Sized> {
    /// The path, `/package.Service/Method`.
    pub path: &'a str,
    /// The application's own headers.
    pub headers: &'a H,
}

impl<'a, H: Headers + ?Sized> Call<'a, H> {
    /// A call of a method with these headers.
    #[must_use]
    pub const fn new(path: &'a str, headers: &'a H) -> Self {
        Self { path, headers }
    }
}

/// No route of a virtual host is for a call, which fails with UNAVAILABLE (S2.057).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no route of virtual host `{host}` matches {path}: {routes} routes, {passed_over} passed over"
)]
#[non_exhaustive]
pub struct NoRoute {
    /// The virtual host's name.
    pub host: String,
    /// The call's path.
    pub path: String,
    /// How many routes were looked at.
    pub routes: usize,
    /// How many routes of the resource cannot match any call.
    pub passed_over: usize,
}

impl VirtualHost {
    /// The first route that matches a call.
    ///
    /// # Errors
    ///
    /// None does.
    pub fn find<H: Headers + ?Sized>(
        &self,
        call: &Call<'_, H>,
        random: &mut Random,
    ) -> Result<&Route, NoRoute> {
        let found = self.index.first(call.path, |position, path_fits| {
            let route = self.routes.get(position)?;
            let path_fits = path_fits || route.matches.path.matches(call.path);
            (path_fits && route.matches.rest_matches(call, random)).then_some(route)
        });
        found.ok_or_else(|| NoRoute {
            host: self.name.clone(),
            path: String::from(call.path),
            routes: self.routes.len(),
            passed_over: self.passed_over.len(),
        })
    }
}
