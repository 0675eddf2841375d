//! Aliases against a minimal model: a client holds the resources its names resolve to.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::Rig;
use proptest::{collection::vec, prelude::*};
use xds_core::server::{Admission, ServerConfig};

const NAMES: [&str; 4] = ["a", "b", "c", "x"];
const ALIASES: [&str; 2] = ["x", "y"];
const ASKED: [&str; 6] = ["a", "b", "c", "x", "y", "*"];

#[derive(Clone, Debug)]
enum Op {
    Set(usize, Vec<(usize, Option<(u8, u8)>)>),
    Change(u8, u8),
    Assign(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let content = proptest::option::weighted(0.7, (0..2u8, 0..4u8));
    prop_oneof![
        5 => (0..2usize, vec((0..NAMES.len(), content), 1..3)).prop_map(|(view, set)| Op::Set(view, set)),
        2 => (0..64u8, 0..64u8).prop_map(|(add, drop)| Op::Change(add & drop, drop & !add)),
        3 => (0..6u8, any::<bool>()).prop_map(|(bit, add)| match add {
            true => Op::Change(1 << bit, 0),
            false => Op::Change(0, 1 << bit),
        }),
        1 => (0..3usize).prop_map(Op::Assign),
    ]
}

/// The resources of a view: the sent text and the aliases of each.
type View = BTreeMap<&'static str, (String, Vec<&'static str>)>;

/// The resource that a name resolves to.
fn meaning(view: &View, name: &'static str) -> Option<&'static str> {
    let by_alias = || view.iter().find(|(_, (_, aliases))| aliases.contains(&name)).map(|it| *it.0);
    view.contains_key(name).then_some(name).or_else(by_alias)
}

/// The view that a client sees: one of the two, or the first layered over the second.
fn seen(views: &[View; 2], current: usize) -> View {
    match views.get(current) {
        Some(view) => view.clone(),
        None => views.iter().rev().flatten().map(|(name, it)| (*name, it.clone())).collect(),
    }
}

/// The resources that the subscribed names resolve to.
fn meant(view: &View, asked: &BTreeSet<&'static str>) -> BTreeSet<&'static str> {
    asked.iter().filter_map(|name| meaning(view, name)).collect()
}

/// A client that records what it received.
#[derive(Default)]
struct Client {
    asked: BTreeSet<&'static str>,
    held: BTreeMap<String, String>,
    /// Names that were reported as missing.
    absent: BTreeSet<String>,
}

impl Client {
    fn change(&mut self, view: &View, add: u8, drop: u8) -> String {
        let before = meant(view, &self.asked);
        let is_in = |bits: u8, bit: usize| bits & (1 << bit) != 0;
        let named = |bits: u8| {
            ASKED.into_iter().enumerate().filter(move |it| is_in(bits, it.0)).map(|it| it.1)
        };
        let mut words = String::new();
        for name in named(add) {
            self.asked.insert(name);
            self.absent.remove(name);
            words += &format!(" +{name}");
        }
        for name in named(drop) {
            words += &format!(" -{name}");
            // Unsubscribing a name that is not subscribed ends the subscriptions by all names of
            // its resource.
            if !self.asked.remove(name)
                && let Some(resource) = meaning(view, name)
            {
                self.asked.retain(|name| meaning(view, name) != Some(resource));
            }
        }
        if !self.asked.contains("*") {
            // The client drops resources that it unsubscribed from.
            let now = meant(view, &self.asked);
            self.held.retain(|name, _| now.contains(&**name) || !before.contains(&**name));
        }
        words
    }

    fn take(&mut self, rig: &mut Rig) -> bool {
        let Some(received) = rig.receive(1) else { return false };
        let all = received.resources();
        for name in all.iter().filter_map(|text| text.strip_prefix('-')) {
            self.held.remove(name);
            self.absent.insert(name.into());
        }
        for text in all.iter().filter(|text| !text.starts_with('-')) {
            let names: Vec<_> = text.split('=').next().unwrap().split('+').collect();
            self.held.insert(names[0].into(), text.clone());
            for name in names {
                self.absent.remove(name);
            }
        }
        rig.run("d> eds ack");
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // IS5, IS11: a client of names, aliases and the wildcard ends up with the resources they
    // resolve to in its view, and knows which resolve to none.
    #[test]
    fn client_holds_resources_its_names_resolve_to(ops in vec(op(), 1..40)) {
        let mut config = ServerConfig::default();
        config.admission = Admission::ByApplication;
        let mut rig = Rig::new(config);
        let mut views = [View::new(), View::new()];
        let mut current = 0;
        let mut client = Client::default();
        rig.run("layers v2 v0 v1\nd> eds +none\nassign 1 v0\nd< eds first -none\nd> eds ack -none\nd<");
        for op in ops {
            match op {
                Op::Set(view, changes) => {
                    let mut words = String::new();
                    for (name, content) in changes {
                        let name = NAMES[name];
                        views[view].remove(name);
                        let Some((content, bits)) = content else {
                            words += &format!(" -{name}");
                            continue;
                        };
                        let is_in = |alias: &&str| {
                            **alias != *name && bits & (1 << usize::from(**alias == *"y")) != 0
                        };
                        let aliases: Vec<_> = ALIASES.into_iter().filter(is_in).collect();
                        let text = aliases.iter().fold(String::from(name), |it, alias| it + "+" + alias);
                        let text = format!("{text}={content}");
                        words += &format!(" {text}");
                        views[view].insert(name, (text, aliases));
                    }
                    rig.run(&format!("set @v{view} eds{words}"));
                }
                Op::Change(add, drop) => {
                    // Crossing messages are covered by another test.
                    while client.take(&mut rig) {}
                    let words = client.change(&seen(&views, current), add, drop);
                    rig.run(&format!("d> eds{words}"));
                }
                Op::Assign(view) => {
                    rig.run(&format!("assign 1 v{view}"));
                    current = view;
                }
            }
            let mut rounds = 0;
            while client.take(&mut rig) {
                rounds += 1;
                prop_assert!(rounds < 10, "it never ends");
            }
            let view = &seen(&views, current);
            let wanted = meant(view, &client.asked);
            let everything = client.asked.contains("*");
            let wanted: BTreeMap<String, String> = view
                .iter()
                .filter(|(name, _)| everything || wanted.contains(*name))
                .map(|(name, (text, _))| ((*name).into(), text.clone()))
                .collect();
            prop_assert_eq!(&client.held, &wanted);
            for name in client.asked.iter().filter(|name| **name != "*") {
                let is_told = client.absent.contains(*name);
                prop_assert_eq!(is_told, meaning(view, name).is_none(), "{} stands for nothing", name);
            }
        }
        rig.run("1close");
        let names: usize = views.iter().map(BTreeMap::len).sum();
        prop_assert_eq!(rig.server.stats().names, names);
    }
}
