//! Simulated client: the state machine of the client, with an application that follows references
//! and gives verdicts.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use rand_pcg::{Pcg32, rand_core::Rng as _};
use xds_core::{
    ChannelId, Client, Frame, ResourceName, Time, TypeUrl, UpdateId, WatchId,
    client::{
        Change, ChannelEvent, ClientConfig, Interest, InvalidWatch, Node, Notice, Output,
        Rejection, RequestCause, Resource, ResourceType, VerdictSource,
    },
    references::{Reference, ReferenceTarget, references},
    types,
};

/// Behaviour that all clients share.
#[derive(Debug)]
pub(super) struct Plan {
    /// Configuration of the client with the number 0. The others differ in the node id.
    pub(super) config: ClientConfig,
    /// Type and name of what each client subscribes to; without a name, all resources of the type. In
    /// a name, `{}` stands for the number of the client.
    pub(super) subscriptions: Vec<(TypeUrl, Option<String>)>,
    /// Share of the responses that are rejected.
    pub(super) nack: f64,
    /// Share of the clients that are slow.
    pub(super) slow: f64,
    /// Delay of the verdicts of a slow client.
    pub(super) slow_by: Duration,
    pub(super) seed: u64,
}

/// Types that clients follow references to.
const FOLLOWED: [&str; 6] = [
    types::LISTENER,
    types::ROUTE_CONFIGURATION,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::CLUSTER,
    types::CLUSTER_LOAD_ASSIGNMENT,
    types::SECRET,
];

/// Message of the NACKs.
const REASON: &str = "rejected by xds load";

impl Plan {
    /// Completes the configuration with the types of the subscriptions and those that are followed.
    pub(super) fn with_types(mut self) -> Self {
        let mut types: BTreeSet<TypeUrl> = FOLLOWED.iter().map(|&it| it.into()).collect();
        types.extend(self.subscriptions.iter().map(|(type_url, _)| type_url.clone()));
        for type_url in types {
            self.config = self.config.with_type(LoadType(type_url));
        }
        self
    }

    /// Whether references to a type are followed.
    fn follows(&self, type_url: &str) -> bool {
        let has_all = |(other, name): &(TypeUrl, Option<String>)| {
            name.is_none() && other.as_str() == type_url
        };
        FOLLOWED.contains(&type_url) && !self.subscriptions.iter().any(has_all)
    }
}

/// Resource type whose resources are not decoded.
#[derive(Debug)]
struct LoadType(TypeUrl);

impl ResourceType for LoadType {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn verdict_source(&self) -> VerdictSource {
        VerdictSource::External
    }
}

/// Action that the driver of a simulated client must perform.
pub(super) enum ClientAction {
    Open(ChannelId),
    Close(ChannelId),
    Transmit(ChannelId),
}

type Target = (TypeUrl, ResourceName);

/// Client with its application.
#[derive(Debug)]
pub(super) struct SimulatedClient {
    core: Client,
    plan: Arc<Plan>,
    random: Pcg32,
    is_slow: bool,
    /// Type of each watch; the name is `None` for all resources of the type.
    watches: BTreeMap<WatchId, (TypeUrl, Option<ResourceName>)>,
    /// Targets of references: their watches, and the number of resources that refer to them.
    targets: BTreeMap<Target, (WatchId, usize)>,
    /// References of each resource.
    references: BTreeMap<Target, Vec<Target>>,
    /// Verdicts to give, in the order of their times.
    verdicts: VecDeque<(Time, UpdateId, Vec<ResourceName>)>,
}

impl SimulatedClient {
    /// Creates the client with this number, and starts its subscriptions.
    pub(super) fn new(plan: &Arc<Plan>, number: u32, now: Time) -> Result<Self, InvalidWatch> {
        let mut config = plan.config.clone();
        let mut node = config.node.message().clone();
        node.id = format!("{}-{number}", node.id);
        config.node = Node::from(node);
        let mut random = Pcg32::new(plan.seed, u64::from(number));
        let seed = random.next_u64();
        let is_slow = share(&mut random) < plan.slow;
        let mut client = Self {
            core: Client::new(config, seed, now),
            plan: Arc::clone(plan),
            random,
            is_slow,
            watches: BTreeMap::new(),
            targets: BTreeMap::new(),
            references: BTreeMap::new(),
            verdicts: VecDeque::new(),
        };
        for (type_url, name) in &plan.subscriptions {
            let name = name.as_ref().map(|name| name.replace("{}", &number.to_string()));
            let interest = name.as_deref().map_or(Interest::Wildcard, Interest::Name);
            let watch = client.core.watch(type_url, interest, now)?;
            client.watches.insert(watch, (type_url.clone(), name.map(ResourceName::from)));
        }
        Ok(client)
    }

    /// Handles an event of the transport.
    pub(super) fn handle_event(&mut self, event: ChannelEvent, now: Time) {
        self.core.handle_event(event, now);
    }

    /// Performs what is due, and returns the next action for the driver.
    pub(super) fn poll(&mut self, now: Time) -> Option<ClientAction> {
        if self.core.poll_timeout().is_some_and(|deadline| deadline.at <= now) {
            self.core.handle_timeout(now);
        }
        loop {
            self.give_verdicts(now);
            match self.core.poll_output()? {
                Output::Open(channel, _) => return Some(ClientAction::Open(channel)),
                Output::Close(channel, _) => return Some(ClientAction::Close(channel)),
                Output::Writable(channel) => return Some(ClientAction::Transmit(channel)),
                Output::Notify(watch, notice) => self.notified(watch, notice, now),
                Output::Update(id, update) => {
                    let is_rejected = share(&mut self.random) < self.plan.nack;
                    let first = update.resources.first().filter(|_| is_rejected);
                    let rejected = first.map(|it| it.name.clone()).into_iter().collect();
                    let delay = if self.is_slow { self.plan.slow_by } else { Duration::ZERO };
                    self.verdicts.push_back((now.after(delay), id, rejected));
                }
                _ => {}
            }
        }
    }

    /// Renders the next request of a channel.
    pub(super) fn poll_transmit(
        &mut self,
        channel: ChannelId,
        now: Time,
        frame: &mut Frame,
    ) -> Option<RequestCause> {
        self.core.poll_transmit(channel, now, frame).map(|sent| sent.cause)
    }

    pub(super) fn wants_read(&self, channel: ChannelId) -> bool {
        self.core.wants_read(channel)
    }

    /// Returns the time at which to poll again, if nothing happens before.
    pub(super) fn due(&self) -> Option<Time> {
        let verdict = self.verdicts.front().map(|(due, ..)| *due);
        let core = self.core.poll_timeout().map(|deadline| deadline.at);
        [verdict, core].into_iter().flatten().min()
    }

    fn give_verdicts(&mut self, now: Time) {
        while self.verdicts.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, id, rejected)) = self.verdicts.pop_front() else { return };
            let rejected = rejected.into_iter().map(|name| (name, Rejection::new(REASON)));
            // It has ended with its channel if there is an error.
            let _ = self.core.submit_verdict(id, rejected, now);
        }
    }

    fn notified(&mut self, watch: WatchId, notice: Notice, now: Time) {
        let Some((type_url, name)) = self.watches.get(&watch).cloned() else { return };
        match (notice, name) {
            (Notice::Changed(result), Some(name)) => {
                self.changed((type_url, name), result.as_ref().ok(), now);
            }
            (Notice::ChangesAvailable, _) => {
                while let Some(change) = self.core.next_change(watch) {
                    if let Change::Resource { name, result } = change {
                        self.changed((type_url.clone(), name), result.as_ref().ok(), now);
                    }
                }
            }
            _ => {}
        }
    }

    /// Follows the references of a changed resource, or of none if it is gone.
    fn changed(&mut self, owner: Target, resource: Option<&Resource>, now: Time) {
        let mut new = resource.map(|it| self.targets_of(&owner.0, &it.bytes)).unwrap_or_default();
        // A name that cannot be watched is not followed.
        new.retain(|target| self.retain(target, now));
        let old = match new.is_empty() {
            true => self.references.remove(&owner),
            false => self.references.insert(owner, new),
        };
        for target in old.into_iter().flatten() {
            self.release(&target, now);
        }
    }

    /// Counts a reference to a target, which is watched from its first reference on. Returns whether
    /// it is.
    fn retain(&mut self, target: &Target, now: Time) -> bool {
        if let Some((_, count)) = self.targets.get_mut(target) {
            *count += 1;
            return true;
        }
        let interest = Interest::Name(target.1.as_str());
        let Ok(watch) = self.core.watch(&target.0, interest, now) else { return false };
        self.watches.insert(watch, (target.0.clone(), Some(target.1.clone())));
        self.targets.insert(target.clone(), (watch, 1));
        true
    }

    /// Ends the watch of a target that no resource refers to any more.
    fn release(&mut self, target: &Target, now: Time) {
        let Some((watch, count)) = self.targets.get_mut(target) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        let watch = *watch;
        self.targets.remove(target);
        self.watches.remove(&watch);
        self.core.unwatch(watch, now);
        self.changed(target.clone(), None, now);
    }

    fn targets_of(&self, type_url: &TypeUrl, resource: &[u8]) -> Vec<Target> {
        // A resource that cannot be read has no references; the verdict does not depend on it.
        let found = references(type_url.as_str(), resource).unwrap_or_default();
        let named =
            found.into_iter().filter_map(|Reference { type_url, target, .. }| match target {
                ReferenceTarget::Name(name) => Some((type_url, name)),
                _ => None,
            });
        let mut targets: Vec<Target> = named
            .filter(|(type_url, _)| self.plan.follows(type_url))
            .map(|(type_url, name)| (type_url.into(), name.into()))
            .collect();
        // Sources differ between references to one resource.
        targets.sort_unstable();
        targets.dedup();
        targets
    }
}

/// Returns a random number of at least 0 and less than 1.
fn share(random: &mut Pcg32) -> f64 {
    f64::from(random.next_u32()) / (f64::from(u32::MAX) + 1.0)
}
