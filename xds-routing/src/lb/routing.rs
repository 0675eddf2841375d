//! `xds_routing_experimental`: sends each call to the child of the first matching route.
// S2.019

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::time::Duration;

use thiserror::Error;
use xds_core::Time;

use super::children::{ChildChange, ChildPolicies, ConnectivityState, KEEP_REMOVED};
use crate::{
    matching::{Call, RouteIndex},
    pattern::Headers,
    random::Random,
    route::RouteMatch,
    rules::Rules,
    validation::{InvalidResource, Validator},
};

/// Route of the policy: the calls it matches, and their action.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyRoute {
    /// Conditions for a call.
    pub matches: RouteMatch,
    /// Name of the action. Several routes can share it.
    // S2.034
    pub action: String,
}

impl PolicyRoute {
    /// Creates a route from its conditions and the name of its action.
    #[must_use]
    pub fn new(matches: RouteMatch, action: impl Into<String>) -> Self {
        Self { matches, action: action.into() }
    }
}

/// Valid configuration: the action of every route exists, and every action is used by a route. `C`
/// is the configuration of a child.
// S2.040, S2.043
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingConfig<C> {
    routes: Vec<PolicyRoute>,
    actions: BTreeMap<String, C>,
}

impl<C> RoutingConfig<C> {
    /// Creates a configuration. The first matching route is used.
    ///
    /// # Errors
    ///
    /// Returns an error if the action of a route is missing or an action is unused. The whole
    /// configuration is then rejected.
    // S2.045
    pub fn new(
        routes: Vec<PolicyRoute>,
        actions: BTreeMap<String, C>,
    ) -> Result<Self, InvalidResource> {
        let rules = Rules::default();
        let mut validator = Validator::new(&rules, None);
        let validated = Self::validator(routes, actions, &mut validator);
        validator.finish(Some(validated))
    }

    pub(super) fn validator(
        routes: Vec<PolicyRoute>,
        actions: BTreeMap<String, C>,
        validator: &mut Validator<'_>,
    ) -> Self {
        for (index, route) in routes.iter().enumerate() {
            if !actions.contains_key(&route.action) {
                validator.element("route", index, |validator| {
                    let why = format_args!("action `{}` is not defined", route.action);
                    validator.error_in("action", why);
                });
            }
        }
        let used: BTreeSet<&str> = routes.iter().map(|route| route.action.as_str()).collect();
        for name in actions.keys().filter(|name| !used.contains(name.as_str())) {
            validator.element("action", format_args!("{name:?}"), |validator| {
                validator.error("is not used by any route");
            });
        }
        Self { routes, actions }
    }

    /// Returns the routes, in order.
    #[must_use]
    pub fn routes(&self) -> &[PolicyRoute] {
        &self.routes
    }

    /// Returns the actions by name.
    #[must_use]
    pub const fn actions(&self) -> &BTreeMap<String, C> {
        &self.actions
    }
}

/// Error for a call that no route matches. The call fails with UNAVAILABLE.
// S2.057
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("none of {routes} routes matches {path}")]
#[non_exhaustive]
pub struct NoPolicyRoute {
    /// Path of the call.
    pub path: String,
    /// Number of routes.
    pub routes: usize,
}

/// Result of a pick.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoutedPick<'a, P> {
    /// Delegate to this picker, the newest of the route's child, whatever the child's state.
    // S2.055
    Child(&'a P),
    /// The route's child has no picker yet. The call waits for the next change.
    // S2.056
    Queue,
    /// No route matches.
    NoRoute(NoPolicyRoute),
}

/// Policy `xds_routing_experimental`, which sends calls to the child of the first matching route.
/// `P` is the picker of a child.
///
/// After [`update`](Self::update) and [`child_changed`](Self::child_changed), *all* waiting calls
/// are picked again, whichever child they wait for. [`generation`](Self::generation) changes then.
// S2.058-S2.060
#[derive(Clone, Debug)]
pub struct XdsRouting<P> {
    children: ChildPolicies<P>,
    routes: Vec<PolicyRoute>,
    index: RouteIndex,
    generation: u64,
}

impl<P> Default for XdsRouting<P> {
    fn default() -> Self {
        Self::new(KEEP_REMOVED)
    }
}

impl<P> XdsRouting<P> {
    /// Creates a policy without routes. A removed child is kept for `keep`; zero closes it at once.
    /// The default is 15 minutes.
    // X47
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self {
            children: ChildPolicies::new(keep),
            routes: Vec::new(),
            index: RouteIndex::default(),
            generation: 0,
        }
    }

    /// Applies a configuration. An action with a known name updates its child, so routes can change
    /// without new children.
    // S2.052
    pub fn update<C>(&mut self, config: RoutingConfig<C>, now: Time) -> Vec<ChildChange<C>> {
        self.generation = self.generation.wrapping_add(1);
        self.index = RouteIndex::new(config.routes.iter().map(|route| &route.matches.path));
        self.routes = config.routes;
        self.children.update(config.actions, now)
    }

    /// Sets the state and the picker of a child.
    pub fn child_changed(&mut self, name: &str, state: ConnectivityState, picker: P) {
        self.generation = self.generation.wrapping_add(1);
        self.children.set_picker(name, picker);
        self.children.set_state(name, state);
    }

    /// Resets a child that was replaced by another policy of the same name.
    pub(super) fn child_replaced(&mut self, name: &str) {
        self.generation = self.generation.wrapping_add(1);
        self.children.reset(name);
    }

    /// Returns the aggregated state of all children, although a call depends on only one of them.
    // S2.061
    #[must_use]
    pub fn state(&self) -> ConnectivityState {
        self.children.state()
    }

    /// Returns a number that changes with every update and every new picker of a child. All waiting
    /// calls must be picked again then.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Picks a child for a call.
    pub fn pick<H: Headers + ?Sized>(
        &self,
        call: &Call<'_, H>,
        random: &mut Random,
    ) -> RoutedPick<'_, P> {
        let route = self.index.first(call.path, |position, path| {
            let route = self.routes.get(position)?;
            let mismatch = route.matches.mismatch(call, path, |fraction| fraction.draw(random));
            mismatch.is_none().then_some(route)
        });
        let Some(route) = route else {
            let (path, routes) = (String::from(call.path), self.routes.len());
            return RoutedPick::NoRoute(NoPolicyRoute { path, routes });
        };
        match self.children.picker(&route.action) {
            Some(picker) => RoutedPick::Child(picker),
            None => RoutedPick::Queue,
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due to close a removed
    /// child.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.children.next_expiry()
    }

    /// Returns the children to close. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<String> {
        self.children.expire(now)
    }
}
