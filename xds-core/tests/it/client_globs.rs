//! Overlapping watches of globs, a wildcard and names, against a correct incremental server and a
//! naive model: after all exchanges each watch holds the server's resources that it covers, and the
//! server's subscriptions are exactly those of the watches.
// FE-22 FE-23

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time, Timer, TypeUrl, WatchId,
    client::{
        AuthorityConfig, Change, ChannelError, ChannelEvent, ClientConfig, DataErrorPolicy,
        FlowControl, Interest, Node, Notice, OpaqueType, Output, Profile, ServerAddress,
    },
    proto,
    service::Variant,
    xdstp::XdstpName,
};

const TYPE: &str = "type.googleapis.com/T";

const NAMES: [&str; 10] = [
    "one",
    "two",
    "xdstp://a/T/1",
    "xdstp://a/T/x/1",
    "xdstp://a/T/x/2",
    "xdstp://a/T/x/1?k=1",
    "xdstp://a/T/x/2?k=1",
    "xdstp://a/T/x/y/1",
    "xdstp://a/T/x/y/2",
    "xdstp://a/T/z/1",
];

const GLOBS: [&str; 5] = [
    "xdstp://a/T/*",
    "xdstp://a/T/x/*",
    "xdstp://a/T/x/*?k=1",
    "xdstp://a/T/x/y/*",
    "xdstp://a/T/none/*",
];

/// Version that marks a resource to be sent again.
const OUTDATED: u64 = u64::MAX;

/// Whether a subscription covers a resource.
fn covers(subscription: &str, name: &str) -> bool {
    if subscription == "*" {
        return !name.starts_with("xdstp:");
    }
    subscription == name
        || XdstpName::parse(subscription)
            .is_ok_and(|glob| XdstpName::parse(name).is_ok_and(|name| glob.covers(&name)))
}

fn is_glob(subscription: &str) -> bool {
    GLOBS.contains(&subscription)
}

#[derive(Clone, Debug)]
enum Step {
    Watch(&'static str),
    Unwatch(usize),
    Set(usize, u8),
    Remove(usize),
    /// The driver processes all outputs, and requests reach the server.
    Drain,
    /// The server sends pending resources and one resource without a subscription.
    Push(usize),
    /// A wildcard or glob watch takes this many changes.
    Take(usize, usize),
    Break,
    Sleep(u64),
}

fn walk() -> impl Strategy<Value = Vec<Step>> {
    let names = 0..NAMES.len();
    let wanted = NAMES.into_iter().chain(GLOBS).chain(GLOBS).chain(["*"]).collect::<Vec<_>>();
    let step = prop_oneof![
        4 => proptest::sample::select(wanted).prop_map(Step::Watch),
        3 => (0..8usize).prop_map(Step::Unwatch),
        4 => (names.clone(), 0..3u8).prop_map(|(name, text)| Step::Set(name, text)),
        3 => names.clone().prop_map(Step::Remove),
        6 => Just(Step::Drain),
        6 => names.prop_map(Step::Push),
        4 => (0..8usize, 0..4usize).prop_map(|(watch, changes)| Step::Take(watch, changes)),
        1 => Just(Step::Break),
        1 => (0..20u64).prop_map(Step::Sleep),
    ];
    proptest::collection::vec(step, 0..80)
}

/// A server that sends everything once, to one stream at a time.
#[derive(Debug, Default)]
struct Server {
    /// Texts and versions by name.
    store: BTreeMap<&'static str, (u8, u64)>,
    versions: u64,
    subscribed: BTreeSet<String>,
    /// Versions that the client holds, according to its requests and the responses sent to it.
    known: BTreeMap<String, u64>,
    /// Subscriptions reported as empty.
    told_empty: BTreeSet<String>,
    /// Nonces of unanswered responses.
    unanswered: BTreeSet<String>,
    nonces: u64,
}

impl Server {
    fn is_covered(&self, name: &str) -> bool {
        self.subscribed.iter().any(|subscription| covers(subscription, name))
    }

    fn read(&mut self, request: proto::DeltaDiscoveryRequest) -> Result<(), TestCaseError> {
        if !request.response_nonce.is_empty() {
            prop_assert!(self.unanswered.remove(&request.response_nonce), "answered once");
            prop_assert!(request.error_detail.is_none(), "nothing is bad: {:?}", request);
        }
        for (name, version) in request.initial_resource_versions {
            self.known.insert(name, version.parse().expect("one of ours"));
        }
        for name in request.resource_names_unsubscribe {
            prop_assert!(self.subscribed.remove(&name), "{name} was not subscribed to");
            self.told_empty.remove(&name);
        }
        let subscribed = &self.subscribed;
        self.known.retain(|name, _| {
            subscribed.iter().chain(&request.resource_names_subscribe).any(|it| covers(it, name))
        });
        let is_first = request.node.is_some();
        for name in request.resource_names_subscribe {
            // A new subscription is answered even if the resource was sent before.
            if !is_first {
                let held = self.known.iter_mut().filter(|(known, _)| covers(&name, known));
                held.for_each(|(_, version)| *version = OUTDATED);
            }
            prop_assert!(self.subscribed.insert(name.clone()), "{name} was subscribed to");
        }
        Ok(())
    }

    /// Returns the next response, if anything is pending.
    fn push(&mut self, stray: Option<&'static str>) -> Option<proto::DeltaDiscoveryResponse> {
        let resource = |name: &str, text: u8, version: u64| proto::Resource {
            name: name.to_owned(),
            version: version.to_string(),
            resource: Some(proto::Any { type_url: TYPE.into(), value: vec![text].into() }),
            ..Default::default()
        };
        let mut response =
            proto::DeltaDiscoveryResponse { type_url: TYPE.into(), ..Default::default() };
        let mut removed = BTreeSet::new();
        for (name, (text, version)) in &self.store {
            if self.is_covered(name) && self.known.get(*name) != Some(version) {
                response.resources.push(resource(name, *text, *version));
            }
        }
        let store = &self.store;
        removed
            .extend(self.known.keys().filter(|name| !store.contains_key(name.as_str())).cloned());
        for subscription in &self.subscribed {
            let is_empty = !store.keys().any(|name| covers(subscription, name));
            if is_empty && subscription != "*" && !self.told_empty.contains(subscription) {
                removed.insert(subscription.clone());
                self.told_empty.insert(subscription.clone());
            } else if !is_empty {
                self.told_empty.remove(subscription);
            }
        }
        for name in &removed {
            self.known.remove(name);
        }
        for sent in &response.resources {
            self.known.insert(sent.name.clone(), sent.version.parse().expect("a number"));
        }
        let is_due = !response.resources.is_empty() || !removed.is_empty();
        response.resources.extend(stray.map(|name| resource(name, 99, 0)));
        response.removed_resources = removed.into_iter().collect();
        is_due.then(|| {
            self.nonces += 1;
            response.nonce = self.nonces.to_string();
            self.unanswered.insert(response.nonce.clone());
            response
        })
    }

    /// Resets the per-stream state after the stream has ended.
    fn forget(&mut self) {
        self.subscribed.clear();
        self.known.clear();
        self.told_empty.clear();
        self.unanswered.clear();
    }
}

/// A watcher's view, built from its notifications.
#[derive(Debug)]
struct Watcher {
    id: WatchId,
    wanted: &'static str,
    is_received: bool,
    view: BTreeMap<String, u8>,
}

impl Watcher {
    fn take(&mut self, change: Change) -> Result<(), TestCaseError> {
        match change {
            Change::Resource { name, result } => {
                prop_assert!(covers(self.wanted, name.as_str()), "{name} in {}", self.wanted);
                match result {
                    Ok(resource) => self.view.insert(name.to_string(), resource.bytes[0]),
                    Err(_) => self.view.remove(name.as_str()),
                };
            }
            Change::Collection(result) => self.is_received = result.is_ok(),
            Change::Resync => self.view.clear(),
            Change::Ambient { .. } | Change::CollectionAmbient(_) => {}
            other => prop_assert!(false, "unexpected {other:?}"),
        }
        Ok(())
    }
}

struct World {
    client: Client,
    server: Server,
    now: Time,
    channel: Option<ChannelId>,
    /// Whether the first request of the stream has not been sent yet.
    is_new: bool,
    watchers: Vec<Watcher>,
}

impl World {
    fn new() -> Self {
        let mut profile = Profile::grpc();
        profile.flow_control = FlowControl::Off;
        profile.idle_timeout = None;
        profile.data_errors = DataErrorPolicy::DropCached;
        let server = ServerAddress::new("server").with_variant(Variant::Incremental);
        let mut config = ClientConfig::new(Node::new("me"), server)
            .with_authority(AuthorityConfig::new("a"))
            .with_type(OpaqueType::new(TYPE))
            .with_nack_interval(Duration::ZERO)
            .with_profile(profile);
        config.limits.tombstones_per_type = 2;
        Self {
            client: Client::new(config, 7, Time::ZERO),
            server: Server::default(),
            now: Time::ZERO,
            channel: None,
            is_new: false,
            watchers: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Watch(wanted) => {
                let interest = match wanted {
                    "*" => Interest::Wildcard,
                    glob if is_glob(glob) => Interest::Glob(glob),
                    name => Interest::Name(name),
                };
                let id = self.client.watch(&TypeUrl::from(TYPE), interest, self.now);
                let id = id.expect("it can be watched");
                let (is_received, view) = (false, BTreeMap::new());
                self.watchers.push(Watcher { id, wanted, is_received, view });
            }
            Step::Unwatch(at) if at < self.watchers.len() => {
                let watcher = self.watchers.remove(at);
                self.client.unwatch(watcher.id, self.now);
            }
            Step::Set(at, text) => {
                self.server.versions += 1;
                self.server.store.insert(NAMES[at], (text, self.server.versions));
            }
            Step::Remove(at) => drop(self.server.store.remove(NAMES[at])),
            Step::Drain => self.drain()?,
            Step::Push(at) => self.push(Some(NAMES[at]))?,
            Step::Take(at, changes) if at < self.watchers.len() => self.follow(at, changes)?,
            Step::Break => self.end_stream(),
            Step::Sleep(seconds) => {
                self.now = self.now.after(Duration::from_secs(seconds));
                self.client.handle_timeout(self.now);
            }
            Step::Unwatch(_) | Step::Take(..) => {}
        }
        Ok(())
    }

    fn end_stream(&mut self) {
        if let Some(channel) = self.channel.take() {
            self.server.forget();
            let error =
                ChannelError::Status { code: StatusCode::Unavailable, message: "gone".into() };
            self.client.handle_event(ChannelEvent::Closed(channel, error), self.now);
        }
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open(channel, _) => {
                    (self.channel, self.is_new) = (Some(channel), true);
                    self.client.handle_event(ChannelEvent::Opened(channel), self.now);
                }
                Output::Writable(channel) => self.transmit(channel)?,
                Output::Notify(id, notice) => {
                    let watcher = self.watchers.iter_mut().find(|watcher| watcher.id == id);
                    let watcher = watcher.expect("no notice comes after the end of its watch");
                    if let Notice::Changed(result) = notice {
                        watcher.view = result
                            .map(|it| BTreeMap::from([(it.name.to_string(), it.bytes[0])]))
                            .unwrap_or_default();
                        watcher.is_received = true;
                    }
                }
                other => prop_assert!(false, "unexpected {other:?}"),
            }
        }
        Ok(())
    }

    fn transmit(&mut self, channel: ChannelId) -> Result<(), TestCaseError> {
        let mut frame = Frame::default();
        while let Some(_transmit) = self.client.poll_transmit(channel, self.now, &mut frame) {
            let request = proto::DeltaDiscoveryRequest::decode(frame.to_bytes()).expect("sound");
            if std::mem::take(&mut self.is_new) {
                self.check_versions(&request)?;
            }
            self.server.read(request)?;
        }
        Ok(())
    }

    /// Checks that `initial_resource_versions` lists exactly the cached resources that are
    /// subscribed to.
    // DX-17 IC8
    fn check_versions(&self, request: &proto::DeltaDiscoveryRequest) -> Result<(), TestCaseError> {
        let is_asked_for =
            |name: &str| request.resource_names_subscribe.iter().any(|it| covers(it, name));
        let held = self.client.status().filter(|status| status.bytes.is_some());
        let held = held.map(|status| (status.name.to_string(), status.version.to_string()));
        let held: BTreeMap<_, _> = held.filter(|(name, _)| is_asked_for(name)).collect();
        let stated: BTreeMap<_, _> =
            request.initial_resource_versions.clone().into_iter().collect();
        prop_assert_eq!(stated, held);
        Ok(())
    }

    /// Sends pending resources if the client has subscribed to any; `stray` is added if
    /// unsubscribed.
    fn push(&mut self, stray: Option<&'static str>) -> Result<(), TestCaseError> {
        let wants = |name: &&str| {
            let is_wanted = self.watchers.iter().any(|watcher| covers(watcher.wanted, name));
            is_wanted || self.server.is_covered(name)
        };
        let stray = stray.filter(|name| !wants(name));
        if let Some(channel) = self.channel
            && !self.server.subscribed.is_empty()
            && let Some(response) = self.server.push(stray)
        {
            let message = ChannelEvent::Message(channel, response.encode_to_vec().into());
            self.client.handle_event(message, self.now);
        }
        Ok(())
    }

    fn follow(&mut self, at: usize, most: usize) -> Result<(), TestCaseError> {
        let watcher = &mut self.watchers[at];
        for _ in 0..most {
            match self.client.next_change(watcher.id) {
                Some(change) => watcher.take(change)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Exchanges messages until nothing is pending.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..8 {
            self.drain()?;
            if let Some(deadline) = self.client.poll_timeout()
                && deadline.why == Timer::Reconnect
            {
                self.now = deadline.at;
                self.client.handle_timeout(self.now);
            }
            self.push(None)?;
            self.drain()?;
        }
        self.now = self.now.after(Duration::from_secs(15));
        self.client.handle_timeout(self.now);
        self.drain()?;
        for at in 0..self.watchers.len() {
            self.follow(at, usize::MAX)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let wanted: BTreeSet<String> =
            self.watchers.iter().map(|watcher| watcher.wanted.to_owned()).collect();
        prop_assert_eq!(&self.server.subscribed, &wanted, "what the server was told (IC10)");
        prop_assert!(self.server.unanswered.is_empty(), "each response is answered (IC1)");
        let store = &self.server.store;
        for watcher in &self.watchers {
            let held = store.iter().filter(|(name, _)| covers(watcher.wanted, name));
            let held: BTreeMap<_, _> =
                held.map(|(name, (text, _))| ((*name).to_owned(), *text)).collect();
            prop_assert_eq!(&watcher.view, &held, "{}", watcher.wanted);
            // An empty wildcard is the only subscription that a server cannot report as empty.
            let is_known = watcher.is_received || watcher.wanted == "*";
            prop_assert!(is_known, "{} was spoken of", watcher.wanted);
        }
        let told: BTreeSet<_> =
            self.client.status().map(|status| status.name.to_string()).collect();
        let is_watched = |name: &&&str| wanted.iter().any(|wanted| covers(wanted, name));
        let named = NAMES.iter().filter(|name| wanted.contains(**name));
        let expected = store.keys().filter(is_watched).chain(named);
        let expected: BTreeSet<_> = expected.map(|name| (*name).to_owned()).collect();
        prop_assert_eq!(told, expected, "what there is to be seen (IC15, IC32)");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn overlapping_watches_converge_to_covered_resources(before in walk(), after in walk()) {
        let mut world = World::new();
        for steps in [before, after] {
            for step in steps {
                world.step(step)?;
            }
            world.settle()?;
            world.check()?;
        }
        while !world.watchers.is_empty() {
            world.step(Step::Unwatch(0))?;
        }
        world.settle()?;
        world.check()?;
        prop_assert_eq!(world.client.status().count(), 0);
    }
}
