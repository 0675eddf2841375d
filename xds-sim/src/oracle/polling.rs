//! Who asks again and again, and who answers: requests and responses that stand for themselves.

use std::collections::BTreeMap;

use bytes::Bytes;
use xds_core::types;

use super::{Event, Fold, Oracle, Report, Rule, client_talk::Wanted};
use crate::world::{
    LinkId, Party, World,
    message::{Names, Request, Response, Text},
};

const WHOLE: Rule = Rule::new(
    "IC7",
    "a request that stands for itself states the node, all that is watched, and a version that its server gave out",
);
const ANSWER: Rule = Rule::new(
    "IS31",
    "a request is answered when there is another state of what it asks for than the one that it states, with all of it",
);
const HELD: Rule = Rule::new(
    "IS31",
    "a request is held only while there is nothing that its client does not know",
);
const NO_FLAPPING: Rule = Rule::new(
    "IS31",
    "the same state of the same names has one version, whichever server gives it out",
);

/// What there is of what is asked for.
type State = BTreeMap<Text, Bytes>;

/// Judges polls.
#[derive(Debug, Default)]
pub(super) struct Polling {
    /// What each version stands for, by the type.
    states: BTreeMap<(usize, Text), State>,
    /// And which version each state has that is not empty.
    versions: BTreeMap<(usize, State), Text>,
    /// What the newest request of each channel states to have.
    stated: BTreeMap<LinkId, Stated>,
}

#[derive(Debug)]
struct Stated {
    version: Text,
    is_rejection: bool,
    /// Whether anything of the type was set or deleted since: it may have come and gone.
    is_touched: bool,
}

fn asked_of(fold: &Fold, link: LinkId, kind: usize, world: &World) -> State {
    let has = world.has(world.link(link).server, 0)[kind].iter();
    let asked = has.filter(|(name, _)| fold.covers(name));
    asked.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
}

impl Polling {
    fn requested(&mut self, link: LinkId, request: &Request, world: &World, report: &mut Report) {
        let it = world.link(link);
        let Some(kind) = request.kind else { return };
        let Names::Whole(names) = &request.names else { return };
        let wanted = Wanted::of(it.client, it.server, kind, world);
        let named = names.iter().filter(|name| *name != "*");
        let is_whole = named.clone().count() == wanted.names.len()
            && named.clone().all(|name| wanted.names.contains(name));
        let is_known = request.version.is_empty()
            || self.states.contains_key(&(kind, request.version.clone()));
        report.ensure(is_whole && is_known && request.node.is_some(), WHOLE, || {
            format!("{request:?} where {wanted:?} is watched")
        });
        let is_rejection = request.error.is_some();
        let version = if is_rejection { &request.nonce } else { &request.version };
        self.stated
            .insert(link, Stated { version: version.clone(), is_rejection, is_touched: false });
    }

    fn responded(&mut self, link: LinkId, response: &Response, world: &World, report: &mut Report) {
        let Some(kind) = response.kind else { return };
        let Some(fold) = world.link(link).asked(kind) else { return };
        let said = response.resources.iter();
        let said: State =
            said.filter_map(|item| Some((item.name.clone(), item.bytes.clone()?))).collect();
        let expected = asked_of(fold, link, kind, world);
        let is_other = self
            .stated
            .get(&link)
            .is_none_or(|stated| stated.is_touched || stated.version != response.version);
        report.ensure(is_other && said == expected, ANSWER, || {
            format!("{:?} with {:?} after {:?}", response.version, said.keys(), self.stated)
        });
        let key = (kind, response.version.clone());
        let known = self.states.entry(key).or_insert_with(|| said.clone());
        let is_one_state = *known == said;
        let of_it = match said.is_empty() {
            true => &response.version,
            false => self.versions.entry((kind, said)).or_insert_with(|| response.version.clone()),
        };
        report.ensure(is_one_state && *of_it == response.version, NO_FLAPPING, || {
            format!("{:?} and {of_it:?}", response.version)
        });
    }

    fn given_up(&self, link: LinkId, world: &World, report: &mut Report) {
        let it = world.link(link);
        if world.is_starved(Party::Server(it.server)) {
            return; // It has no turn in which it could answer.
        }
        let Some((kind, fold)) = it.only.and_then(|kind| Some((kind, it.asked(kind)?))) else {
            return;
        };
        let Some(stated) = self.stated.get(&link).filter(|stated| !stated.is_rejection) else {
            return;
        };
        let there_is = asked_of(fold, link, kind, world);
        let known = self.states.get(&(kind, stated.version.clone()));
        // What is missing is news only where that deletes it.
        let is_full = types::is_full_state_in_sotw(world.types()[kind].as_str());
        let has_all = known.is_some_and(|known| {
            there_is.iter().all(|(name, bytes)| known.get(name) == Some(bytes))
                && (!is_full || known.len() == there_is.len())
        });
        let is_known = there_is.is_empty() || has_all;
        report
            .ensure(is_known, HELD, || format!("{stated:?}, and there are {:?}", there_is.keys()));
    }
}

impl Oracle for Polling {
    fn rules(&self) -> &'static [Rule] {
        &[WHOLE, ANSWER, HELD, NO_FLAPPING]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match event {
            Event::Requested { link, request } => self.requested(*link, request, world, report),
            Event::Responded { link, response } => self.responded(*link, response, world, report),
            Event::Applied { server, kind, .. } => {
                let place = |link: &LinkId| (world.link(*link).server, world.link(*link).only);
                let it = (*server, Some(*kind));
                let touched = self.stated.iter_mut().filter(|(link, _)| place(link) == it);
                touched.for_each(|(_, stated)| stated.is_touched = true);
            }
            Event::GivenUp { link } => self.given_up(*link, world, report),
            Event::EndedAtClient { link, .. } => drop(self.stated.remove(link)),
            _ => {}
        }
    }
}
