//! Effect of lies on a client.
//!
//! The required state after a lie depends on which part of it the client accepts. Some rules always
//! apply: a wrong ACK or NACK is an error, resources that were not requested are ignored, and a
//! response of one type does not affect others. An undecodable response, or one of a type without
//! watches, has no effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::{self, Discriminant},
};

use bytes::Bytes;
use xds_core::{
    client::{ResourceState, WatchError},
    service::Variant,
    types,
};

use super::{Event, Oracle, Report, Rule};
use crate::{
    situations::Situation,
    world::{
        LinkId, World, glob_covers, is_glob,
        message::{Response, Text},
    },
};

const TWICE: Rule =
    Rule::new("IC17", "a response that contains a subscribed name twice is rejected");
const UNREQUESTED: Rule = Rule::new("IC13", "a resource that was not requested is not stored");

const NOTHING: Rule = Rule::new(
    "IC36",
    "an undecodable response, or one of a type without watches, changes nothing and is not answered",
);
const APART: Rule = Rule::new("IC36", "a response changes no other type");
const SILENT: Rule = Rule::new(
    "IC36",
    "a response changes only the resources it contains, except those absent from a full state",
);

/// Checks the effect of lies.
#[derive(Debug, Default)]
pub(super) struct LieEffects {
    /// Numbers of ACKs and NACKs of the client before the response.
    before: (u64, u64),
    /// Resources of the client before the response, by type.
    had: Vec<Holdings>,
    /// Whether the response must have no effect.
    is_nothing: bool,
}

/// Resources of a type by name.
type Holdings = BTreeMap<Text, HeldResource>;

/// Version, content, state and error of a resource.
type HeldResource = (Text, Option<Bytes>, Discriminant<ResourceState>, Option<WatchError>);

/// Returns the watched resources of a client, by type. Others may disappear with their channel.
fn holdings(link: LinkId, world: &World) -> Vec<Holdings> {
    let mut all = vec![Holdings::new(); world.types().len()];
    let client = world.link(link).client;
    for (kind, it) in world.status(client) {
        let watched = world.watched(client, kind);
        let name = it.name.as_str();
        // A wildcard or glob covers only existing resources.
        if !(watched.covers_by_name(name) || it.bytes.is_some() && watched.covers(name)) {
            continue;
        }
        let version = it.version.as_str().into();
        let holding = (version, it.bytes.cloned(), mem::discriminant(&it.state), it.error.cloned());
        all[kind].insert(name.into(), holding);
    }
    all
}

/// Returns a resource that changed, appeared or disappeared although the response does not name it.
fn changed_silently<'a>(
    response: &Response,
    before: &'a Holdings,
    after: &'a Holdings,
) -> Option<&'a Text> {
    let said = response.resources.iter().map(|item| &item.name);
    let said = said.chain(&response.removed).chain(response.errors.iter().map(|(name, _)| name));
    let said: BTreeSet<&Text> = said.collect();
    let mut names = before.keys().chain(after.keys());
    // A response about a glob concerns its members, and vice versa.
    let is_said = |name: &Text| {
        let is_of_said = |own: &&Text| glob_covers(own, name);
        said.contains(name) || is_glob(name) || said.iter().any(is_of_said)
    };
    names.find(|name| before.get(*name) != after.get(*name) && !is_said(name))
}

/// Iterates over repeated names.
fn repeated(response: &Response) -> impl Iterator<Item = &str> {
    let mut seen = BTreeSet::new();
    let names = response.resources.iter().map(|item| item.name.as_str());
    names.filter(move |name| !seen.insert(*name))
}

fn answers(link: LinkId, world: &World) -> (u64, u64) {
    let stats = world.client(world.link(link).client).stats();
    (stats.acks, stats.nacks)
}

impl LieEffects {
    fn reading(&mut self, link: LinkId, is_nothing: bool, world: &World) {
        (self.before, self.had) = (answers(link, world), holdings(link, world));
        self.is_nothing = is_nothing;
    }

    /// Checks the changes caused by a response, if one was read.
    fn changed(
        &mut self,
        link: LinkId,
        response: Option<&Response>,
        world: &World,
        report: &mut Report,
    ) {
        let has = holdings(link, world);
        let kind = response.and_then(|it| it.kind);
        if let Some((response, kind)) = response.zip(kind)
            && let Some((before, after)) = self.had.get(kind).zip(has.get(kind))
        {
            let is_whole = world.link(link).variant == Variant::StateOfTheWorld
                && types::is_full_state_in_sotw(world.types()[kind].as_str());
            let silent = changed_silently(response, before, after).filter(|_| !is_whole);
            report.ensure(silent.is_none(), SILENT, || format!("{silent:?} has changed"));
        }
        let mut others = self.had.iter().zip(&has).enumerate().filter(|(it, _)| Some(*it) != kind);
        let other = others.find(|(_, (before, after))| before != after).map(|(it, _)| it);
        let rule = if self.is_nothing { NOTHING } else { APART };
        report.ensure(other.is_none(), rule, || format!("type {other:?} has changed"));
        let is_silent = !self.is_nothing || answers(link, world) == self.before;
        report.ensure(is_silent, NOTHING, || "it is answered".into());
        self.is_nothing = false;
        self.had.clear();
    }

    fn read(&self, link: LinkId, response: &Response, world: &World, report: &mut Report) {
        let it = world.link(link);
        let Some(subscription) = response.kind.and_then(|kind| it.asked(kind)) else { return };
        let is_wanted = |name: &&str| subscription.covers(name) && world.serves(it.server, name);
        let (acks, nacks) = answers(link, world);
        if let Some(name) = repeated(response).find(is_wanted) {
            report.ensure(acks == self.before.0, TWICE, || format!("{name} comes twice"));
            if nacks > self.before.1 {
                report.note(Situation::DuplicateRejected);
            }
        }
        let asked = world.links(it.client).flat_map(|(_, link)| &link.asked);
        let mut asked = asked.chain(&it.asked);
        let wants_all = asked.any(crate::world::subscription::SubscriptionState::has_all);
        let mut watches = world.watches(it.client);
        if wants_all || watches.any(|(_, watch)| watch.name.is_none()) {
            return;
        }
        let kinds = 0..world.types().len();
        let is_held =
            |name: &str| kinds.clone().any(|kind| world.status_of(it.client, kind, name).is_some());
        let mut names = response.resources.iter().map(|item| item.name.as_str());
        let is_own = |name: &str| {
            let kind =
                response.kind.filter(|kind| world.watched(it.client, *kind).covers_by_name(name));
            is_world_name(name) || kind.is_some()
        };
        let unrequested = names.find(|name| !is_own(name) && is_held(name));
        report.ensure(unrequested.is_none(), UNREQUESTED, || format!("{unrequested:?} is held"));
    }
}

/// Whether a client may watch this name.
fn is_world_name(name: &str) -> bool {
    name.starts_with('r') || name.starts_with("xdstp:")
}

impl Oracle for LieEffects {
    fn rules(&self) -> &'static [Rule] {
        &[TWICE, UNREQUESTED, NOTHING, APART, SILENT]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Reading { link, response } => {
                self.reading(link, response.kind.is_none(), world);
            }
            Event::ReadingGarbage { link } => self.reading(link, true, world),
            Event::Read { link, response } => {
                self.changed(link, response, world, report);
                if let Some(response) = response {
                    self.read(link, response, world, report);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{options::Options, oracle::testing::broken_rule, world::message::ResponseItem};

    /// Returns the rule broken by a client whose `r0` of the first type changes by such a response.
    fn read(kind: Option<usize>, is_nothing: bool) -> Option<Rule> {
        broken_rule(Options::default(), move |world, link, report| {
            let mut oracle = LieEffects::default();
            oracle.reading(link, is_nothing, world);
            world.set(0, "r0", "better");
            world.advance(Duration::from_secs(1));
            let response = kind.map(|kind| Response { kind: Some(kind), ..response(&["r0"]) });
            oracle.changed(link, response.as_ref(), world, report);
        })
    }

    #[test]
    fn change_by_nothing_or_another_type_is_detected() {
        assert_eq!(read(None, true), Some(NOTHING));
        assert_eq!(read(Some(1), false), Some(APART));
        assert_eq!(read(Some(0), false), None);
        println!("covers: IC36");
    }

    #[test]
    fn change_of_a_resource_not_in_the_response_is_detected() {
        let says = |kind: usize, name: &'static str| {
            broken_rule(Options::default(), move |world, link, report| {
                world.watch(0, kind, Some("r1"));
                world.advance(Duration::from_secs(1));
                let mut oracle = LieEffects::default();
                oracle.reading(link, false, world);
                world.set(kind, "r1", "good");
                world.advance(Duration::from_secs(1));
                let response = Response { kind: Some(kind), ..response(&[name]) };
                oracle.changed(link, Some(&response), world, report);
            })
        };
        assert_eq!(says(1, "r1"), None);
        assert_eq!(says(1, "r0"), Some(SILENT));
        assert_eq!(says(0, "r0"), None, "a full state says of all others that they are gone");
        println!("covers: IC36");
    }

    #[test]
    fn unwatched_resource_may_be_dropped_with_its_channel() {
        let found = broken_rule(Options::default(), |world, link, report| {
            let watch = world.watch(0, 0, Some("r1")).expect("there is room for it");
            // The wildcard has no resource of that name.
            world.watch(0, 0, None);
            world.advance(Duration::from_secs(1));
            world.block_requests(link, Duration::from_secs(60));
            world.unwatch(0, watch);
            let mut oracle = LieEffects::default();
            oracle.reading(link, true, world);
            world.reset(link, 14);
            world.advance(Duration::from_millis(500));
            oracle.changed(link, None, world, report);
        });
        assert_eq!(found, None);
        println!("covers: IC36");
    }

    fn item(name: &str) -> ResponseItem {
        ResponseItem { name: name.into(), version: "1".into(), bytes: None, ttl: None }
    }

    fn response(names: &[&str]) -> Response {
        Response {
            kind: Some(0),
            nonce: "n".into(),
            version: "v".into(),
            resources: names.iter().copied().map(item).collect(),
            removed: Vec::new(),
            errors: Vec::new(),
        }
    }

    #[test]
    fn accepted_response_with_a_duplicate_name_is_detected() {
        let found = broken_rule(Options::default(), |world, link, report| {
            let mut oracle = LieEffects { before: answers(link, world), ..LieEffects::default() };
            oracle.read(link, &response(&["r0", "r0"]), world, report);
            assert!(report.breach.is_none(), "it was not accepted");
            oracle.before.0 -= 1;
            oracle.read(link, &response(&["r0"]), world, report);
            assert!(report.breach.is_none(), "it came once");
            oracle.read(link, &response(&["r0", "r0"]), world, report);
        });
        assert_eq!(found, Some(TWICE));
        println!("covers: IC17");
    }

    #[test]
    fn holding_an_unrequested_resource_is_detected() {
        let found = broken_rule(Options::default(), |world, link, report| {
            world.watch(0, 1, Some("made up"));
            world.watch(0, 0, Some("own"));
            let oracle = LieEffects { before: answers(link, world), ..LieEffects::default() };
            oracle.read(link, &response(&["more of it"]), world, report);
            assert!(report.breach.is_none(), "it is not held");
            oracle.read(link, &response(&["own"]), world, report);
            assert!(report.breach.is_none(), "it is watched");
            oracle.read(link, &response(&["made up"]), world, report);
        });
        assert_eq!(found, Some(UNREQUESTED));
        println!("covers: IC13");
    }
}
