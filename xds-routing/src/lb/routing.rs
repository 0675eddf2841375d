//! `xds_routing_experimental`: each call goes to the child of the first route that matches (S2.019).

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::time::Duration;

use thiserror::Error;
use xds_core::Time;

use super::children::{ChildChange, Children, ConnectivityState, KEPT};
use crate::{
    judge::{InvalidResource, Judge, Trust},
    matching::{Call, RouteIndex},
    pattern::Headers,
    random::Random,
    route::RouteMatch,
    rules::Rules,
};

/// Which calls, and the action for them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyRoute {
    /// Which calls.
    pub matches: RouteMatch,
    /// The name of the action, which several routes can share (S2.034).
    pub action: String,
}

impl PolicyRoute {
    /// These calls get this action.
    #[must_use]
    pub fn new(matches: RouteMatch, action: impl Into<String>) -> Self {
        Self { matches, action: action.into() }
    }
}

/// A valid configuration: every route's action is there (S2.040), and every action is some route's
/// (S2.043). `C` is what configures a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingConfig<C> {
    routes: Vec<PolicyRoute>,
    actions: BTreeMap<String, C>,
}

impl<C> RoutingConfig<C> {
    /// A configuration of these routes, of which the first that matches counts, and actions by name.
    ///
    /// # Errors
    ///
    /// A route's action is missing, or an action is no route's; it is not used then, not even in part
    /// (S2.045).
    pub fn new(
        routes: Vec<PolicyRoute>,
        actions: BTreeMap<String, C>,
    ) -> Result<Self, InvalidResource> {
        let rules = Rules::default();
        let mut judge = Judge::new(&rules, Trust::default());
        let judged = Self::judge(routes, actions, &mut judge);
        judge.finish(Some(judged))
    }

    pub(super) fn judge(
        routes: Vec<PolicyRoute>,
        actions: BTreeMap<String, C>,
        judge: &mut Judge<'_>,
    ) -> Self {
        for (index, route) in routes.iter().enumerate() {
            if !actions.contains_key(&route.action) {
                judge.element("route", index, |judge| {
                    let why = format_args!("`{}` is not among the actions", route.action);
                    judge.fault_in("action", why);
                });
            }
        }
        let used: BTreeSet<&str> = routes.iter().map(|route| route.action.as_str()).collect();
        for name in actions.keys().filter(|name| !used.contains(name.as_str())) {
            judge.element("action", format_args!("{name:?}"), |judge| {
                judge.fault("is not used by any route");
            });
        }
        Self { routes, actions }
    }

    /// The routes, in order.
    #[must_use]
    pub fn routes(&self) -> &[PolicyRoute] {
        &self.routes
    }

    /// The actions by name.
    #[must_use]
    pub const fn actions(&self) -> &BTreeMap<String, C> {
        &self.actions
    }
}

/// No route is for a call, which fails with UNAVAILABLE (S2.057).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("none of {routes} routes matches {path}")]
#[non_exhaustive]
pub struct NoPolicyRoute {
    /// The call's path.
    pub path: String,
    /// How many routes there are.
    pub routes: usize,
}

/// Who gets a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutedPick<'a, P> {
    /// Ask this picker: it is the newest of the route's child, however that is (S2.055).
    Child(&'a P),
    /// The route's child has given no picker yet: the call waits for the next change (S2.056).
    Queue,
    /// Nobody.
    Nobody(NoPolicyRoute),
}

/// Sends calls to the child of the first route that matches. `P` is what a child gives to pick with.
///
/// After [`update`](Self::update) and [`child_changed`](Self::child_changed) *all* calls that wait are
/// picked for again, whichever child they wait for: [`generation`](Self::generation) is another number then
/// (S2.058-S2.060).
#[derive(Clone, Debug)]
pub struct XdsRouting<P> {
    children: Children<P>,
    routes: Vec<PolicyRoute>,
    index: RouteIndex,
    generation: u64,
}

impl<P> Default for XdsRouting<P> {
    fn default() -> Self {
        Self::new(KEPT)
    }
}

impl<P> XdsRouting<P> {
    /// Without routes yet. A child that is removed may come back for this long; zero closes it at once. The
    /// default is 15 minutes (X47).
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Self {
            children: Children::new(keep),
            routes: Vec::new(),
            index: RouteIndex::default(),
            generation: 0,
        }
    }

    /// Takes a configuration. An action whose name is known gets its configuration as an update to its child
    /// (S2.052), so that routes can change without any child being made anew.
    pub fn update<C>(&mut self, config: RoutingConfig<C>, now: Time) -> Vec<ChildChange<C>> {
        self.generation = self.generation.wrapping_add(1);
        self.index = RouteIndex::new(config.routes.iter().map(|route| &route.matches.path));
        self.routes = config.routes;
        self.children.update(config.actions, now)
    }

    /// Takes what a child says: how it is, and what to pick with from now on.
    pub fn child_changed(&mut self, name: &str, state: ConnectivityState, picker: P) {
        self.generation = self.generation.wrapping_add(1);
        self.children.set_picker(name, picker);
        self.children.set_state(name, state);
    }

    /// A child is another policy now, made anew under the same name.
    pub(super) fn child_replaced(&mut self, name: &str) {
        self.generation = self.generation.wrapping_add(1);
        self.children.reset(name);
    }

    /// How the policy is: all its children taken together, though a call depends on one of them only
    /// (S2.061).
    #[must_use]
    pub fn state(&self) -> ConnectivityState {
        self.children.state()
    }

    /// Another number after every update and whenever a child has another picker: all calls that wait are
    /// to be picked for again.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Who gets a call.
    pub fn pick<H: Headers + ?Sized>(
        &self,
        call: &Call<'_, H>,
        random: &mut Random,
    ) -> RoutedPick<'_, P> {
        let route = self.index.first(call.path, |position, path_fits| {
            let route = self.routes.get(position)?;
            let path_fits = path_fits || route.matches.path.matches(call.path);
            (path_fits && route.matches.rest_matches(call, random)).then_some(route)
        });
        let Some(route) = route else {
            let (path, routes) = (String::from(call.path), self.routes.len());
            return RoutedPick::Nobody(NoPolicyRoute { path, routes });
        };
        match self.children.picker(&route.action) {
            Some(picker) => RoutedPick::Child(picker),
            None => RoutedPick::Queue,
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: a removed child has had its time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.children.next_expiry()
    }

    /// Says which children to close. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) -> Vec<String> {
        self.children.expire(now)
    }
}
