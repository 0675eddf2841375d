//! Model of the effect of responses on a client's resources, for one type.
//!
//! The oracle compares the client's state before and after each response, and derives the required
//! state of each name. It checks names that are served by only one server, because a client may
//! otherwise hold another server's resource.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use foldhash::fast::FixedState;
use xds_core::{
    client::{ResourceState, ResourceStatus},
    service::Variant,
    types,
};

use super::{Event, Oracle, Report, Rule};
use crate::{
    Toy,
    options::{Options, ProfileName},
    situations::Situation,
    world::{
        LinkId, World, glob_covers, is_alias, is_glob,
        message::{Names, Response, Text},
    },
};

const UNREQUESTED: Rule = Rule::new(
    "IC13",
    "a response changes no resource that it does not contain or that was not requested",
);
const OTHERS: Rule = Rule::new("IC30", "a response changes no resource of another authority");
const PARTS: Rule =
    Rule::new("IC18", "the valid resources of a response are used, even if others are invalid");
const REMOVALS: Rule =
    Rule::new("IC19", "a removal takes effect, even in a response that is rejected");
const RECREATED: Rule = Rule::new("IC23", "a removed resource is used again when it is recreated");
const LAST_GOOD: Rule = Rule::new(
    "IC20",
    "after a rejected update the last valid value stays in use, or none, as configured",
);
const ABSENCE: Rule =
    Rule::new("IC21", "absence from a full state deletes received resources, and nothing else");
const NO_ABSENCE: Rule = Rule::new("IC22", "absence from a partial response deletes nothing");
const VERDICT: Rule =
    Rule::new("IC3", "a response is rejected if and only if a subscribed part of it is invalid");
const HELD_VERSIONS: Rule = Rule::new(
    "IC8",
    "a new incremental stream states the versions of all resources in use, and no others",
);

const REPORTED: Rule = Rule::new(
    "IC31",
    "a reported resource error is stored, and ends the use of the resource only if it is permanent and the policy says so",
);
const RENEWED: Rule = Rule::new("IC33", "a heartbeat changes only the expiry time of a resource");

const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;

/// State of a resource at a client.
#[derive(Clone, Debug, PartialEq)]
struct CachedEntry {
    state: ResourceState,
    bytes: Option<Bytes>,
    version: Text,
}

impl CachedEntry {
    fn of(status: &ResourceStatus<'_>) -> Self {
        let version = status.version.as_str().into();
        Self { state: status.state, bytes: status.bytes.cloned(), version }
    }
}

type Entries = BTreeMap<Text, CachedEntry>;

/// Checks the effect of responses.
#[derive(Debug, Default)]
pub(super) struct CacheModel {
    before: Entries,
    acks: (u64, u64),
    /// Stream on which each type of each server was last rejected.
    rejected: BTreeMap<(usize, usize, usize), LinkId>,
}

fn entries(world: &World, client: usize, kind: usize) -> Entries {
    let known = world.status_of_type(client, kind);
    known.map(|it| (it.name.as_str().into(), CachedEntry::of(&it))).collect()
}

/// Whether no other server serves the same names.
fn is_alone(world: &World, server: usize) -> bool {
    world.options().servers == 1 || server == 2
}

/// Content of a response about one name.
#[derive(Clone, Copy)]
enum NamedContent<'a> {
    Valid(&'a Bytes),
    Invalid,
    Removed,
    Error(i32),
    /// Renews the resource of this version.
    Heartbeat(&'a Text),
    Absent,
}

/// Content of a response by name, for repeated lookups.
struct ResponseContents<'a>(HashMap<&'a str, NamedContent<'a>, FixedState>);

impl<'a> ResponseContents<'a> {
    /// For a name that occurs several times, the first occurrence counts, and resources take
    /// precedence.
    fn of(response: &'a Response, options: &Options) -> Self {
        let mut contents = HashMap::default();
        for item in &response.resources {
            contents.entry(&*item.name).or_insert_with(|| match &item.bytes {
                Some(bytes) if Toy::is_invalid(bytes, options) => NamedContent::Invalid,
                Some(bytes) => NamedContent::Valid(bytes),
                None => NamedContent::Heartbeat(&item.version),
            });
        }
        for name in &response.removed {
            contents.entry(name).or_insert(NamedContent::Removed);
        }
        for (name, code) in &response.errors {
            contents.entry(name).or_insert(NamedContent::Error(*code));
        }
        Self(contents)
    }

    fn about(&self, name: &str) -> NamedContent<'a> {
        self.0.get(name).copied().unwrap_or(NamedContent::Absent)
    }
}

/// Notes whether a resource that is valid only from a trusted server was accepted or rejected.
fn note_privileged(
    response: &Response,
    nacks: u64,
    is_asked: &dyn Fn(&str) -> bool,
    world: &World,
    report: &mut Report,
) {
    let asked = response.resources.iter().filter(|item| is_asked(&item.name));
    let mut bytes = asked.filter_map(|item| item.bytes.as_ref());
    if !bytes.any(|bytes| Toy::is_privileged(bytes)) {
        return;
    }
    match (nacks, world.options().are_servers_trusted()) {
        (0, true) => report.note(Situation::PrivilegedAccepted),
        (1, false) => report.note(Situation::PrivilegedRejected),
        _ => {}
    }
}

impl CacheModel {
    fn read(&mut self, link: LinkId, response: &Response, world: &World, report: &mut Report) {
        let it = world.link(link);
        let Some(kind) = response.kind else { return };
        let stats = world.client(it.client).stats();
        let (acks, nacks) = (stats.acks - self.acks.0, stats.nacks - self.acks.1);
        let Some(subscription) = it.asked(kind).filter(|_| acks + nacks == 1) else { return };
        let place = (it.client, it.server, kind);
        let watched = |name: &str| world.watched(it.client, kind).covers(name);
        let is_asked = |name: &str| world.serves(it.server, name) && subscription.covers(name);
        // An alias that was not requested from this server does not make the client use its resource.
        let is_used = |name: &str| {
            let watches = world.watched(it.client, kind);
            is_asked(name)
                && (watches.covers_as_such(name)
                    || watches.covers_by_alias(name) && subscription.other_name(name).is_some())
        };
        let contents = ResponseContents::of(response, world.options());
        let has = |is: &dyn Fn(&str, &NamedContent<'_>) -> bool| {
            response.resources.iter().any(|item| is(&item.name, &contents.about(&item.name)))
        };
        let may_be_bad = self.may_be_rejected(link, response, &contents, world);
        report.ensure(nacks == 0 || may_be_bad, VERDICT, || "it is rejected for nothing".into());
        let is_bad = has(&|name, content| {
            matches!(content, NamedContent::Invalid)
                && is_asked(name)
                && watched(name)
                && !is_alias(name)
        });
        report.ensure(nacks == 1 || !is_bad, VERDICT, || "it is accepted with a bad one".into());
        if nacks == 1 {
            self.rejected.insert(place, link);
            if has(&|_, content| matches!(content, NamedContent::Valid(_))) {
                report.note(Situation::ValidAndInvalid);
            }
        } else if self.rejected.remove(&place).is_some_and(|before| before != link) {
            report.note(Situation::NackThenReconnectThenAck);
        }
        note_privileged(response, nacks, &is_asked, world, report);
        if world.options().profile != ProfileName::Grpc || !is_alone(world, it.server) {
            return;
        }
        let after = |name: &str| {
            world.status_of(it.client, kind, name).map(|status| CachedEntry::of(&status))
        };
        let is_full = it.variant == Variant::StateOfTheWorld
            && types::is_full_state_in_sotw(world.types()[kind].as_str());
        let drops = world.options().drops_cached();
        let news = response.resources.iter().map(|item| &item.name);
        for name in news.filter(|name| !self.before.contains_key(*name) && !is_alias(name)) {
            let now = after(name).and_then(|it| it.bytes);
            match contents.about(name) {
                NamedContent::Valid(bytes) if is_used(name) => {
                    report.ensure(now.as_ref() == Some(bytes), PARTS, || {
                        format!("{name} is {now:?}")
                    });
                }
                NamedContent::Invalid => {
                    report.ensure(now.is_none(), LAST_GOOD, || format!("{name} is {now:?}"));
                }
                _ if !is_asked(name) && !watched(name) => {
                    report.ensure(now.is_none(), UNREQUESTED, || format!("{name} is {now:?}"));
                }
                _ => {}
            }
        }
        let globs: Vec<&Text> = response.removed.iter().filter(|name| is_glob(name)).collect();
        for (name, before) in &self.before {
            if is_alias(name) {
                continue; // Responses about an alias concern its resource.
            }
            let is_its_business = world.serves(it.server, name);
            let is_asked = is_asked(name);
            let now = after(name);
            let check = EntryCheck { name, before, now, drops, is_full };
            match contents.about(name) {
                _ if !is_its_business => check.unchanged(OTHERS, report),
                // An empty glob also concerns each of its members.
                NamedContent::Absent if globs.iter().any(|it| glob_covers(it, name)) => {}
                NamedContent::Absent if !is_asked => check.unchanged(UNREQUESTED, report),
                // The response to an unsubscribe may arrive after the next subscribe.
                _ if !is_asked || !watched(name) => {}
                NamedContent::Valid(bytes) => {
                    let was_gone = check.before.state == ResourceState::DoesNotExist;
                    let rule = if was_gone { RECREATED } else { PARTS };
                    check.is(ResourceState::Acked, Some(bytes), rule, report);
                }
                NamedContent::Invalid => {
                    check.is(ResourceState::Nacked, check.kept(), LAST_GOOD, report)
                }
                NamedContent::Removed => {
                    check.is(ResourceState::DoesNotExist, check.kept(), REMOVALS, report);
                }
                NamedContent::Error(code) => {
                    let is_transient = ![NOT_FOUND, PERMISSION_DENIED].contains(&code);
                    let kept = check.before.bytes.as_ref().filter(|_| is_transient || !drops);
                    check.is(ResourceState::ReceivedError, kept, REPORTED, report);
                }
                NamedContent::Heartbeat(_) if check.before.state == ResourceState::Acked => {
                    check.unchanged(RENEWED, report);
                }
                NamedContent::Heartbeat(_) => {}
                NamedContent::Absent => check.absent(report),
            }
        }
    }

    /// Whether the response may contain an invalid resource that the client watches.
    fn may_be_rejected(
        &self,
        link: LinkId,
        response: &Response,
        contents: &ResponseContents<'_>,
        world: &World,
    ) -> bool {
        let it = world.link(link);
        let Some(kind) = response.kind else { return false };
        let is_wanted = |name: &str| {
            let is_asked = it.asked(kind).is_some_and(|subscription| subscription.covers(name));
            is_asked && world.serves(it.server, name) || world.watched(it.client, kind).covers(name)
        };
        response.resources.iter().any(|item| {
            match contents.about(&item.name) {
                NamedContent::Invalid => is_wanted(&item.name),
                // A heartbeat for a resource that is not in use is invalid.
                NamedContent::Heartbeat(version) => !self.is_in_use(&item.name, version),
                _ => false,
            }
        })
    }

    /// Whether a client uses the resource that a heartbeat renews.
    fn is_in_use(&self, name: &str, version: &Text) -> bool {
        let before = self.before.get(name);
        before.is_some_and(|it| it.state == ResourceState::Acked && it.version == *version)
    }

    /// Checks the initial resource versions of a new stream.
    fn stated(
        link: LinkId,
        kind: usize,
        stated: &[(Text, Text)],
        world: &World,
        report: &mut Report,
    ) {
        let it = world.link(link);
        let known = entries(world, it.client, kind);
        let Some(subscription) = it.asked(kind) else { return };
        for (name, version) in stated {
            let known = known.get(name);
            let is_held =
                known.is_some_and(|known| known.bytes.is_some() && known.version == *version);
            let is_asked = world.serves(it.server, name) && subscription.covers(name);
            report.ensure(is_held && is_asked, HELD_VERSIONS, || {
                format!("{name} {version:?}: {known:?}, asked for: {is_asked}")
            });
        }
        if !is_alone(world, it.server) {
            return;
        }
        let named: HashSet<&str, FixedState> = stated.iter().map(|(name, _)| &**name).collect();
        for (name, known) in &known {
            let is_gone = known.state == ResourceState::DoesNotExist;
            let is_held = known.bytes.is_some() && !is_gone;
            let is_asked = world.serves(it.server, name) && subscription.covers(name);
            let is_stated = named.contains(&**name);
            report.ensure(!is_held || !is_asked || is_stated, HELD_VERSIONS, || {
                format!("{name} is left out")
            });
        }
    }
}

/// State of one name before and after a response.
struct EntryCheck<'a> {
    name: &'a str,
    before: &'a CachedEntry,
    now: Option<CachedEntry>,
    drops: bool,
    is_full: bool,
}

impl EntryCheck<'_> {
    fn kept(&self) -> Option<&Bytes> {
        self.before.bytes.as_ref().filter(|_| !self.drops)
    }

    fn unchanged(&self, rule: Rule, report: &mut Report) {
        // An unknown entry that nothing names may be removed at any time.
        let is_nothing = self.now.is_none() && self.before.bytes.is_none();
        report.ensure(is_nothing || self.now.as_ref() == Some(self.before), rule, || {
            format!("{} was {:?} and is {:?}", self.name, self.before, self.now)
        });
    }

    fn is(&self, state: ResourceState, bytes: Option<&Bytes>, rule: Rule, report: &mut Report) {
        let is_so = match &self.now {
            Some(now) => now.state == state && now.bytes.as_ref() == bytes,
            // An entry covered only by a wildcard is removed with its resource.
            None => bytes.is_none(),
        };
        report.ensure(is_so, rule, || {
            format!("{} was {:?} and is {:?}", self.name, self.before, self.now)
        });
    }

    fn absent(&self, report: &mut Report) {
        let was_received =
            self.before.bytes.is_some() || self.before.state == ResourceState::Nacked;
        match self.is_full {
            true if was_received && self.before.state != ResourceState::ReceivedError => {
                self.is(ResourceState::DoesNotExist, self.kept(), ABSENCE, report);
            }
            true => self.unchanged(ABSENCE, report),
            false => self.unchanged(NO_ABSENCE, report),
        }
    }
}

impl Oracle for CacheModel {
    fn rules(&self) -> &'static [Rule] {
        &[
            UNREQUESTED,
            OTHERS,
            PARTS,
            RECREATED,
            REMOVALS,
            LAST_GOOD,
            ABSENCE,
            NO_ABSENCE,
            VERDICT,
            HELD_VERSIONS,
            REPORTED,
            RENEWED,
        ]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Requested { link, request } => {
                let Some(kind) = request.kind else { return };
                let is_first =
                    world.link(link).asked(kind).is_some_and(|subscription| subscription.is_first);
                if let Names::Change { versions, .. } = &request.names
                    && is_first
                {
                    Self::stated(link, kind, versions, world, report);
                    if !versions.is_empty() {
                        report.note(Situation::InitialVersionsStated);
                    }
                }
            }
            Event::Reading { link, response } => {
                let it = world.link(link);
                let stats = world.client(it.client).stats();
                self.acks = (stats.acks, stats.nacks);
                let renews = response.resources.iter().any(|item| item.bytes.is_none());
                let is_grpc = world.options().profile == ProfileName::Grpc;
                let is_checked = renews || is_grpc && is_alone(world, it.server);
                self.before = match response.kind {
                    Some(kind) if is_checked => entries(world, it.client, kind),
                    _ => Entries::new(),
                };
            }
            Event::Read { link, response: Some(response) } => {
                self.read(link, response, world, report);
            }
            Event::ClientRestarted { client } => {
                self.rejected.retain(|(owner, ..), _| *owner != client);
            }
            _ => {}
        }
    }
}
