//! Expiry of resources with a TTL.
//!
//! The oracle records the resources that clients read and use, and so knows the expiry time of
//! each.

use std::collections::BTreeMap;

use bytes::Bytes;
use xds_core::{
    Time,
    client::{Change, Notice, ResourceState, WatchError, WatchErrorKind},
};

use super::{Event, Oracle, Report, Rule};
use crate::{
    options::ProfileName,
    situations::Situation,
    trace::Phase,
    world::{
        LinkId, World, meaning_of,
        message::{Response, Text},
    },
};

const IN_TIME: Rule = Rule::new(
    "IC33",
    "a resource with a TTL expires when the TTL has passed since it was sent or renewed, and not before",
);
const RENEWED: Rule = Rule::new(
    "IS27",
    "a resource with a TTL is renewed before it expires, unless there is a fault",
);

/// Indexes of client and type, and the name.
type Subject = (usize, usize, Text);

/// Checks the expiry of resources. Clients that reject whole responses are not checked, because it
/// is not visible which resources they use.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    /// Expiry times of resources in use.
    deadlines: BTreeMap<Subject, Time>,
    /// Resources in use before a response was read, of the heartbeats in it.
    before: BTreeMap<Text, Bytes>,
    phase: Option<Phase>,
    is_settled: bool,
}

/// Returns the resource that a client uses, if it uses one.
fn in_use<'a>(client: usize, kind: usize, name: &str, world: &'a World) -> Option<&'a Bytes> {
    world.status_of(client, kind, name)?.bytes
}

impl Expiry {
    fn read(&mut self, link: LinkId, response: &Response, world: &World) {
        let it = world.link(link);
        let Some(kind) = response.kind else { return };
        let has_ttls = response.resources.iter().any(|item| item.ttl.is_some());
        if !has_ttls && !self.deadlines.keys().any(|(owner, ..)| *owner == it.client) {
            return;
        }
        for item in &response.resources {
            let subject = (it.client, kind, item.name.clone());
            let Some(used) = world.status_of(it.client, kind, &item.name) else { continue };
            let Some(bytes) = used.bytes else { continue };
            // A rejected resource leaves the previous state. A heartbeat renews the version in use,
            // even after a newer one was rejected.
            let is_taken = match &item.bytes {
                Some(sent) => sent == bytes && used.state == ResourceState::Acked,
                None => {
                    let is_newest_in_use = used.state != ResourceState::Nacked;
                    let is_of_it = is_newest_in_use || item.version == used.version.as_str();
                    self.before.get(&item.name) == Some(bytes) && is_of_it
                }
            };
            match item.ttl {
                Some(ttl) if is_taken => {
                    self.deadlines.insert(subject, world.now().after(ttl));
                }
                None if is_taken => drop(self.deadlines.remove(&subject)),
                _ => {}
            }
        }
    }

    fn woken(&self, client: usize, world: &World, report: &mut Report) {
        let mut due = self.deadlines.iter().filter(|((owner, ..), _)| *owner == client);
        let late = due.find(|((_, kind, name), at)| {
            **at <= world.now() && in_use(client, *kind, name, world).is_some()
        });
        report.ensure(late.is_none(), IN_TIME, || format!("{late:?} is still in use"));
    }

    fn expired(
        &self,
        client: usize,
        watch: xds_core::WatchId,
        error: &WatchError,
        world: &World,
        report: &mut Report,
    ) {
        if *error.kind() != WatchErrorKind::Expired {
            return;
        }
        report.note(Situation::Expired);
        let Some(watch) = world.watch_of(client, watch) else { return };
        let Some(name) = error.name() else { return };
        let deadline = self.deadlines.get(&(client, watch.kind, meaning_of(name.as_str())));
        let is_due = deadline.is_some_and(|at| *at <= world.now());
        report.ensure(is_due, IN_TIME, || format!("{name} has gone, and lasts to {deadline:?}"));
        let is_settled = self.is_settled && self.phase == Some(Phase::Converge);
        // A deleted resource is not renewed; most types have no removals in the state of the world.
        let is_there = || {
            let view = world.view_of(client);
            let name = meaning_of(name.as_str());
            let mut servers = 0..world.server_count();
            servers.any(|server| world.has(server, view)[watch.kind].contains_key(&name))
        };
        report.ensure(!(is_settled && is_there()), RENEWED, || format!("{name} was not renewed"));
    }
}

impl Oracle for Expiry {
    fn rules(&self) -> &'static [Rule] {
        &[IN_TIME, RENEWED]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        if world.options().profile != ProfileName::Grpc {
            return;
        }
        match *event {
            Event::Reading { link, response } => {
                let client = world.link(link).client;
                let beats = response.resources.iter().filter(|item| item.bytes.is_none());
                let before = beats.filter_map(|item| {
                    let bytes = in_use(client, response.kind?, &item.name, world)?;
                    Some((item.name.clone(), bytes.clone()))
                });
                self.before = before.collect();
            }
            Event::Read { link, response: Some(response) } => self.read(link, response, world),
            Event::ClientWoken { client } => self.woken(client, world, report),
            Event::Notified { client, watch, notice: Notice::Changed(Err(error)) } => {
                self.expired(client, watch, error, world, report);
            }
            Event::Changed {
                client,
                watch,
                change: Change::Resource { result: Err(error), .. },
            } => self.expired(client, watch, error, world, report),
            Event::ClientRestarted { client } => {
                self.deadlines.retain(|(owner, ..), _| *owner != client);
            }
            Event::Phase(phase) => self.phase = Some(phase),
            Event::Rest => self.is_settled = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use xds_core::server::Variant;

    use super::*;
    use crate::{
        options::Options,
        oracle::testing::{broken_rule, errors_told},
        world::{Reach, message::ResponseItem},
    };

    /// Returns the error that a watcher receives when a resource expires.
    fn expired(name: &'static str) -> WatchError {
        let told = errors_told(Options::default(), move |world| {
            world.watch(0, 0, Some(name));
            world.set_for(0, name, "good", Duration::from_secs(10));
            world.advance(Duration::from_secs(1));
            world.set_reach(0, Reach::Refused, Duration::from_secs(100));
            let link = world.open_links()[0];
            world.reset(link, 14);
            world.advance(Duration::from_secs(20));
        });
        let expired = told.into_iter().find(|error| *error.kind() == WatchErrorKind::Expired);
        expired.expect("nobody has renewed it")
    }

    #[test]
    fn use_of_an_expired_resource_is_detected() {
        let woken = |left: Duration| {
            broken_rule(Options::default(), move |world, _, report| {
                let at = world.now().after(left);
                let deadlines = BTreeMap::from([((0, 0, "r0".into()), at)]);
                let mut oracle = Expiry { deadlines, ..Expiry::default() };
                oracle.on_event(&Event::ClientWoken { client: 0 }, world, report);
            })
        };
        assert_eq!(woken(Duration::from_secs(1)), None);
        assert_eq!(woken(Duration::ZERO), Some(IN_TIME));
        println!("covers: IC33");
    }

    #[test]
    fn heartbeat_renews_the_used_version_after_a_nack() {
        let options = Options { variant: Variant::Incremental, ..Options::default() };
        let renewed = |is_of_it: bool| {
            broken_rule(options.clone(), move |world, link, report| {
                let used = world.status_of(0, 0, "r0").expect("it was sent");
                let used_version = Text::from(used.version.as_str());
                world.set(0, "r0", "bad");
                world.advance(Duration::from_secs(1));
                let used = world.status_of(0, 0, "r0").expect("it is kept");
                assert!(used.state == ResourceState::Nacked && used.bytes.is_some());
                let deadlines = BTreeMap::from([((0, 0, "r0".into()), world.now())]);
                let mut oracle = Expiry { deadlines, ..Expiry::default() };
                let version = if is_of_it { used_version } else { "other".into() };
                let ttl = Some(Duration::from_secs(1));
                let item = ResponseItem { name: "r0".into(), version, bytes: None, ttl };
                let response = &Response {
                    kind: Some(0),
                    nonce: Text::default(),
                    version: Text::default(),
                    resources: vec![item],
                    removed: Vec::new(),
                    errors: Vec::new(),
                };
                oracle.on_event(&Event::Reading { link, response }, world, report);
                let read = Event::Read { link, response: Some(response) };
                oracle.on_event(&read, world, report);
                oracle.on_event(&Event::ClientWoken { client: 0 }, world, report);
            })
        };
        assert_eq!(renewed(true), None);
        assert_eq!(renewed(false), Some(IN_TIME), "it is of another version");
        println!("covers: IC33");
    }

    #[test]
    fn early_expiry_or_expiry_without_faults_is_detected() {
        let goes = move |name: &'static str, left: Duration, phase: Phase| {
            let error = expired(name);
            broken_rule(Options::default(), move |world, _, report| {
                let at = world.now().after(left);
                let deadlines = BTreeMap::from([((0, 0, name.into()), at)]);
                let mut oracle = Expiry { deadlines, ..Expiry::default() };
                let watch = world.watches(0).next().expect("there is one").0;
                let notice = &Notice::Changed(Err(error.clone()));
                let told = Event::Notified { client: 0, watch, notice };
                for event in [Event::Phase(phase), Event::Rest, told] {
                    oracle.on_event(&event, world, report);
                }
            })
        };
        assert_eq!(goes("r0", Duration::ZERO, Phase::Faults), None);
        assert_eq!(goes("r0", Duration::from_secs(1), Phase::Faults), Some(IN_TIME));
        assert_eq!(goes("r0", Duration::ZERO, Phase::Converge), Some(RENEWED));
        assert_eq!(goes("r1", Duration::ZERO, Phase::Converge), None, "there is no such resource");
        println!("covers: IS27");
    }
}
