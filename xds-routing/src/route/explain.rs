//! Explanation of the choice of a route: for each route, the first criterion that a call does not
//! meet.
//!
//! [`VirtualHost::find`] and [`VirtualHost::explain`] evaluate the same criteria with the same code.
//! The explanation draws no random numbers. It states the share of the calls that each route gets.

use alloc::vec::Vec;

use super::{Mismatch, RouteMatch, SkipReason, VirtualHost};
use crate::{
    matching::{Call, PathTest},
    pattern::{Fraction, Headers},
};

/// Explanation for one route.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExplainedRoute {
    /// Index of the route in the virtual host of the resource.
    pub route: usize,
    /// Whether the route matches the call, regardless of the routes before it.
    pub verdict: Verdict,
    /// Whether some of the calls reach the route, because no earlier route takes all of them.
    pub is_reached: bool,
    /// Share of the calls that use the route, from 0 to 1.
    pub share: f64,
}

/// Whether a route matches a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The route matches. The fraction applies to the calls that meet all other criteria.
    Matches(Fraction),
    /// The route does not match, because of this criterion.
    Mismatch(Mismatch),
    /// No call uses the route.
    Skipped(SkipReason),
}

impl VirtualHost {
    /// Explains which of the routes a call uses, in the order of the resource.
    ///
    /// The route that [`find`](Self::find) returns has a positive share.
    pub fn explain<H: Headers + ?Sized>(&self, call: &Call<'_, H>) -> Vec<ExplainedRoute> {
        let mut routes = self.routes.iter();
        let mut skipped = self.skipped_routes.iter().peekable();
        let mut left = 1.0;
        let mut explained = Vec::new();
        for route in 0..self.routes.len() + self.skipped_routes.len() {
            let verdict = match skipped.next_if(|skipped| skipped.route == route) {
                Some(skipped) => Verdict::Skipped(skipped.why),
                None => match routes.next() {
                    Some(route) => verdict(&route.matches, call),
                    None => break,
                },
            };
            let share = match verdict {
                Verdict::Matches(fraction) => left * share_of(fraction),
                Verdict::Mismatch(_) | Verdict::Skipped(_) => 0.0,
            };
            explained.push(ExplainedRoute { route, verdict, is_reached: left > 0.0, share });
            left = match verdict {
                Verdict::Matches(Fraction::ALL) => 0.0,
                _ => left - share,
            };
        }
        explained
    }
}

/// Returns the verdict about one route.
pub(super) fn verdict<H: Headers + ?Sized>(matches: &RouteMatch, call: &Call<'_, H>) -> Verdict {
    let none = Fraction::from_millionths(0);
    match matches.mismatch(call, PathTest::Needed, |fraction| fraction != none) {
        Some(mismatch) => Verdict::Mismatch(mismatch),
        None => Verdict::Matches(matches.fraction.unwrap_or(Fraction::ALL)),
    }
}

fn share_of(fraction: Fraction) -> f64 {
    f64::from(fraction.millionths()) / f64::from(Fraction::ALL.millionths())
}
