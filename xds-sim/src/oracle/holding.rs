//! Agreement of watchers with their client: the value in use, and its error.
//!
//! Other oracles check the state that a client exposes. This one checks that the state reaches the
//! watchers: after each drain, a watcher that is not behind has all of it.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use foldhash::fast::FixedState;
use xds_core::{
    WatchId,
    client::{Change, Notice, ResourceStatus, WatchError, WatchErrorKind},
};

use super::{Event, Oracle, Report, Rule};
use crate::world::{World, is_alias, message::Text};

const LATE_COMERS: Rule = Rule::new(
    "IC14",
    "a watcher has its client's state of the resource, from the beginning of the watch on",
);
const IN_USE: Rule =
    Rule::new("IC32", "the value last notified is the one in use until the next notification");
const REJECTED: Rule = Rule::new(
    "IC20",
    "watchers are notified of a rejected update and of the value that stays in use",
);
const ENDS: Rule =
    Rule::new("IC28", "an error notified to a watcher lasts as long as it does at the client");

/// Number of watches above which a client is checked only occasionally.
pub(super) const MAX_WATCHES: usize = 64;

/// Checks the state of watchers.
#[derive(Debug, Default)]
pub(super) struct Holding {
    watches: HashMap<(usize, WatchId), WatcherState, FixedState>,
}

/// State of a watcher, by name.
#[derive(Debug, Default)]
struct WatcherState {
    of: BTreeMap<Text, NotifiedValue>,
}

#[derive(Debug, Default)]
struct NotifiedValue {
    value: Option<Bytes>,
    error: Option<WatchErrorKind>,
}

impl NotifiedValue {
    fn record(&mut self, result: Result<&Bytes, &WatchError>) {
        *self = match result {
            Ok(bytes) => Self { value: Some(bytes.clone()), error: None },
            Err(error) => Self { value: None, error: Some(error.kind().clone()) },
        };
    }
}

impl WatcherState {
    fn record(&mut self, name: &str, notice: &Notice) {
        let known = self.of.entry(name.into()).or_default();
        match notice {
            Notice::Changed(result) => {
                known.record(result.as_ref().map(|resource| &resource.bytes));
            }
            Notice::Ambient(error) => known.error = error.as_ref().map(|it| it.kind().clone()),
            _ => {}
        }
    }

    fn step(&mut self, change: &Change) {
        match change {
            Change::Resource { name, result: Ok(resource) } => {
                let known = self.of.entry(name.as_str().into()).or_default();
                known.record(Ok(&resource.bytes));
            }
            // A wildcard or glob watcher keeps no state of missing resources.
            Change::Resource { name, result: Err(_) } => drop(self.of.remove(name.as_str())),
            Change::Ambient { name, error } => {
                if let Some(known) = self.of.get_mut(name.as_str()) {
                    known.error = error.as_ref().map(|it| it.kind().clone());
                }
            }
            Change::Resync => self.of.clear(),
            _ => {}
        }
    }
}

fn is_unavailable(error: &WatchErrorKind) -> bool {
    matches!(error, WatchErrorKind::Unavailable(_))
}

/// Returns the rule that is broken if a watcher was not notified of an error.
fn rule_of(error: &WatchErrorKind) -> Rule {
    match error {
        WatchErrorKind::Invalid(_) => REJECTED,
        _ => LATE_COMERS,
    }
}

impl Holding {
    fn state(&mut self, client: usize, watch: WatchId) -> &mut WatcherState {
        self.watches.entry((client, watch)).or_default()
    }

    fn check(&self, client: usize, world: &World, report: &mut Report) {
        if world.is_shut_down(client) || world.watch_count(client) > MAX_WATCHES {
            return;
        }
        let nothing = NotifiedValue::default();
        for (id, watch) in world.watches(client).filter(|(_, watch)| !watch.is_behind()) {
            let state = self.watches.get(&(client, id));
            if watch.is_of_one() {
                let Some(name) = watch.name.as_deref().filter(|name| !is_alias(name)) else {
                    continue; // The client may have the alias's resource unknowingly.
                };
                let known = state.and_then(|state| state.of.get(name)).unwrap_or(&nothing);
                agree(
                    &format_args!("client-{client} {id} {name}"),
                    known,
                    world.status_of(client, watch.kind, name),
                    report,
                );
            } else {
                for (name, known) in state.iter().flat_map(|state| &state.of) {
                    let shown = world.status_of(client, watch.kind, name);
                    agree(&format_args!("client-{client} {id} {name}"), known, shown, report);
                }
            }
        }
    }
}

/// Checks that a watcher's state agrees with its client's.
fn agree(
    who: &std::fmt::Arguments<'_>,
    known: &NotifiedValue,
    shown: Option<ResourceStatus<'_>>,
    report: &mut Report,
) {
    let has = shown.as_ref().and_then(|it| it.bytes);
    report.ensure(known.value.as_ref() == has, IN_USE, || {
        format!("{who}: told {:?}, and the client has {has:?}", known.value)
    });
    let error = shown.and_then(|it| it.error).map(WatchError::kind);
    match (&known.error, error) {
        // Connectivity errors are checked separately (IC27), and hide other errors.
        (Some(state), _) if is_unavailable(state) => {}
        (state, Some(error)) if state.as_ref() != Some(error) => {
            report.breach(rule_of(error), || format!("{who}: {error}, and told {state:?}"));
        }
        (Some(state), None) => report.breach(ENDS, || format!("{who}: {state} is over")),
        _ => {}
    }
}

impl Oracle for Holding {
    fn rules(&self) -> &'static [Rule] {
        &[LATE_COMERS, IN_USE, REJECTED, ENDS]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Unwatched { client, watch } => drop(self.watches.remove(&(client, watch))),
            Event::ClientRestarted { client } | Event::ShutDown { client } => {
                self.watches.retain(|(owner, _), _| *owner != client);
            }
            Event::Notified { client, watch, notice } => {
                let known = world.watch_of(client, watch).filter(|it| it.is_of_one());
                let name = known.and_then(|it| it.name.clone());
                if let Some(name) = name {
                    self.state(client, watch).record(&name, notice);
                }
            }
            Event::Changed { client, watch, change } => self.state(client, watch).step(change),
            Event::ClientDrained { client } => self.check(client, world, report),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::{
        Options,
        oracle::testing::{broken_rule, judgement},
    };

    /// Returns the rule broken by a watcher whose state `tell` changes, of a client with a value.
    fn judged(
        tell: impl Fn(&mut NotifiedValue, &Bytes) + Send + Sync + 'static,
    ) -> Option<&'static str> {
        judgement(move |world, _, report| {
            let (watch, value) = {
                let (id, watch) = world.watches(0).next().expect("there is one");
                (id, watch.view["r0"].clone())
            };
            let mut oracle = Holding::default();
            let known = oracle.state(0, watch).of.entry("r0".into()).or_default();
            tell(known, &value);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
        })
    }

    #[test]
    fn missing_notice_is_detected() {
        assert_eq!(judged(|known, value| known.value = Some(value.clone())), None);
        assert_eq!(judged(|_, _| {}), Some("IC32"));
        assert_eq!(judged(|known, _| known.value = Some("old".into())), Some("IC32"));
        let stands = |known: &mut NotifiedValue, value: &Bytes| {
            *known =
                NotifiedValue { value: Some(value.clone()), error: Some(WatchErrorKind::Deleted) };
        };
        assert_eq!(judged(stands), Some("IC28"));
    }

    #[test]
    fn late_watcher_without_the_current_error_is_detected() {
        let found = broken_rule(Options::default(), |world, _, report| {
            let watch = world.watches(0).next().expect("there is one").0;
            world.unwatch(0, watch);
            world.watch(0, 1, Some("r9"));
            world.advance(Duration::from_secs(20));
            let oracle = Holding::default();
            oracle.check(0, world, report);
        });
        assert_eq!(found, Some(LATE_COMERS));
        println!("covers: IC14");
    }

    #[test]
    fn missing_notice_of_a_nack_is_detected() {
        let found = broken_rule(Options::default(), |world, _, report| {
            let watch = world.watches(0).next().expect("there is one").0;
            let value = world.watches(0).next().expect("there is one").1.view["r0"].clone();
            world.set(0, "r0", "bad");
            world.advance(Duration::from_secs(1));
            let mut oracle = Holding::default();
            let known = NotifiedValue { value: Some(value), error: None };
            oracle.state(0, watch).of.insert("r0".into(), known);
            oracle.check(0, world, report);
        });
        assert_eq!(found, Some(REJECTED));
        println!("covers: IC20");
    }
}
