//! Clients that read files.

use std::collections::BTreeMap;

use bytes::Bytes;
use xds_core::{client::ResourceState, types};

use super::{Event, Oracle, Report, Rule};
use crate::{
    Toy,
    options::{ProfileName, Verdicts},
    world::{
        LinkId, World,
        message::{Response, Text},
    },
};

const WHOLE: Rule = Rule::new("IS32", "the readers of a file use its whole valid content");
const LAST_GOOD: Rule = Rule::new("IS32", "an unreadable file changes no resource in use");
const TOLD: Rule = Rule::new("IS32", "an unreadable file is counted as a failure of its server");

/// Checks clients that read files, if one server serves each name.
#[derive(Debug, Default)]
pub(super) struct FileReading {
    /// Resources in use before a file was found unreadable.
    before: EntryStates,
    /// Number of malformed files that its reader had counted when the file was found unreadable.
    counted: u64,
}

type EntryStates = BTreeMap<Text, (ResourceState, Option<Bytes>)>;

fn in_use(client: usize, kind: usize, world: &World) -> EntryStates {
    let known = world
        .status_of_type(client, kind)
        .map(|it| (it.name.as_str().into(), (it.state, it.bytes.cloned())));
    known.collect()
}

fn whole(link: LinkId, response: &Response, world: &World, report: &mut Report) {
    let it = world.link(link);
    let Some(kind) = it.only else { return };
    let known = in_use(it.client, kind, world);
    let watches = world.watches(it.client).filter(|(_, watch)| watch.kind == kind);
    let is_full = types::is_full_state_in_sotw(world.types()[kind].as_str());
    let names = watches.filter_map(|(_, watch)| watch.name.as_ref());
    for name in names.filter(|name| world.serves(it.server, name)) {
        let said = response.resources.iter().find(|item| item.name == *name);
        let Some((state, bytes)) = known.get(name) else { continue };
        let is_so = match said.and_then(|item| item.bytes.as_ref()) {
            Some(said) if Toy::is_invalid(said, world.options()) => *state == ResourceState::Nacked,
            Some(said) => bytes.as_ref() == Some(said),
            // In most types, a missing resource does not mean a deletion.
            None if is_full => {
                *state == ResourceState::DoesNotExist
                    && (bytes.is_none() || !world.options().drops_cached())
            }
            None => bytes.is_some() || *state == ResourceState::DoesNotExist,
        };
        report.ensure(is_so, WHOLE, || format!("{name} is {state:?} after {said:?}"));
    }
}

fn of_file(link: LinkId, world: &World) -> EntryStates {
    let it = world.link(link);
    it.only.map(|kind| in_use(it.client, kind, world)).unwrap_or_default()
}

/// Number of malformed files that the reader has counted.
fn counted(link: LinkId, world: &World) -> u64 {
    world.client(world.link(link).client).stats().malformed
}

fn unreadable(link: LinkId, before: &FileReading, world: &World, report: &mut Report) {
    let known = of_file(link, world);
    let bytes_of = |name: &Text| known.get(name).and_then(|(_, bytes)| bytes.as_ref());
    let lost = before.before.iter().find(|(name, (_, bytes))| bytes_of(name) != bytes.as_ref());
    report.ensure(lost.is_none(), LAST_GOOD, || format!("{lost:?} was in use"));
    let is_counted = counted(link, world) > before.counted;
    report.ensure(is_counted, TOLD, || "it is not".into());
}

impl Oracle for FileReading {
    fn rules(&self) -> &'static [Rule] {
        &[WHOLE, LAST_GOOD, TOLD]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Read { link, response: Some(response) }
                if world.server_count() == 1
                    && world.options().profile == ProfileName::Grpc
                    && world.options().verdicts == Verdicts::AtOnce =>
            {
                whole(link, response, world, report);
            }
            Event::FindsUnreadable { link } => {
                (self.before, self.counted) = (of_file(link, world), counted(link, world));
            }
            Event::Unreadable { link } => unreadable(link, self, world, report),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        options::{Options, Transport},
        oracle::testing::broken_rule,
        world::message::ResponseItem,
    };

    fn files() -> Options {
        Options { transport: Transport::Files, ..Options::default() }
    }

    /// Returns the rule broken by a client with a valid `r0` whose file contains this text.
    fn read(text: &'static str) -> Option<Rule> {
        broken_rule(files(), move |world, link, report| {
            let item = ResponseItem {
                name: "r0".into(),
                version: Text::default(),
                bytes: Some(Toy::bytes("r0", text)),
                ttl: None,
            };
            let response = Response {
                kind: Some(0),
                nonce: Text::default(),
                version: Text::default(),
                resources: if text.is_empty() { Vec::new() } else { vec![item] },
                removed: Vec::new(),
                errors: Vec::new(),
            };
            let event = Event::Read { link, response: Some(&response) };
            FileReading::default().on_event(&event, world, report);
        })
    }

    #[test]
    fn client_that_ignores_its_file_is_detected() {
        assert_eq!(read("good"), None);
        assert_eq!(read("better"), Some(WHOLE));
        assert_eq!(read("bad"), Some(WHOLE), "it was not rejected");
        assert_eq!(read(""), Some(WHOLE), "it is gone");
        println!("covers: IS32");
    }

    #[test]
    fn loss_of_resources_by_an_unreadable_file_is_detected() {
        let found = broken_rule(files(), |world, link, report| {
            let mut oracle = FileReading { before: of_file(link, world), counted: 0 };
            let lost = (ResourceState::Acked, Some(Toy::bytes("r9", "good")));
            oracle.before.insert("r9".into(), lost);
            oracle.on_event(&Event::Unreadable { link }, world, report);
        });
        assert_eq!(found, Some(LAST_GOOD));
    }

    #[test]
    fn unreadable_file_that_is_not_counted_is_detected() {
        let found = broken_rule(files(), |world, link, report| {
            let mut oracle = FileReading { before: of_file(link, world), counted: 0 };
            oracle.on_event(&Event::Unreadable { link }, world, report);
        });
        assert_eq!(found, Some(TOLD));
    }
}
