//! Selection of the route of a call.
//!
//! The first matching route is used. [`VirtualHost::find`] gives the same result as testing all
//! routes in order, but the [`RouteIndex`](crate::matching::RouteIndex) limits the test to routes
//! whose paths may match.
// S2.047, S2.054

use alloc::string::String;

use thiserror::Error;

use super::{Route, VirtualHost};
use crate::{matching::Call, pattern::Headers, random::Random};

/// Error for a call that no route of its virtual host matches. The call fails with UNAVAILABLE.
// S2.057
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no route of virtual host `{host}` matches path {path} ({routes} routes, {skipped_routes} skipped)"
)]
#[non_exhaustive]
pub struct NoRoute {
    /// Name of the virtual host.
    pub host: String,
    /// Path of the call.
    pub path: String,
    /// Number of routes that can match some call.
    pub routes: usize,
    /// Number of routes that were skipped during validation.
    pub skipped_routes: usize,
}

impl VirtualHost {
    /// Returns the first route that matches a call.
    ///
    /// # Errors
    ///
    /// Returns [`NoRoute`] if no route matches.
    pub fn find<H: Headers + ?Sized>(
        &self,
        call: &Call<'_, H>,
        random: &mut Random,
    ) -> Result<&Route, NoRoute> {
        let found = self.index.first(call.path, |position, path| {
            let route = self.routes.get(position)?;
            let mismatch = route.matches.mismatch(call, path, |fraction| fraction.draw(random));
            mismatch.is_none().then_some(route)
        });
        found.ok_or_else(|| NoRoute {
            host: self.name.clone(),
            path: String::from(call.path),
            routes: self.routes.len(),
            skipped_routes: self.skipped_routes.len(),
        })
    }
}
