//! Globs against a minimal model: a client holds the resources that its globs and names cover.

use std::collections::{BTreeMap, BTreeSet};

use crate::globs::expand;
use crate::support::Rig;
use proptest::{collection::vec, prelude::*};

const NAMES: [&str; 5] = ["@/a", "@/g/b", "@/g/c", "@/g/x/d", "@/h/e"];
const ASKED: [&str; 7] = ["@/*", "@/g/*", "@/g/x/*", "@/g/b", "@/g/x/d", "@/none/*", "*"];

#[derive(Clone, Debug)]
enum Op {
    Set(usize, Option<u8>),
    Change(u8, u8),
    Take,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..NAMES.len(), proptest::option::weighted(0.6, 0..3u8))
            .prop_map(|(name, value)| Op::Set(name, value)),
        3 => (0..128u8, 0..128u8).prop_map(|(add, drop)| Op::Change(add & drop, drop & !add)),
        3 => (0..7u8, any::<bool>()).prop_map(|(bit, add)| match add {
            true => Op::Change(1 << bit, 0),
            false => Op::Change(0, 1 << bit),
        }),
        2 => Just(Op::Take),
    ]
}

fn stands_for(asked: &str, name: &str) -> bool {
    match asked.strip_suffix('*') {
        Some(directory) => name.starts_with(directory),
        None => asked == name,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // M138, M139, IS5, IS11: a client of overlapping globs, names and the wildcard ends up with the
    // covered resources, and then gets no more responses.
    #[test]
    fn client_holds_resources_its_globs_cover(ops in vec(op(), 1..40)) {
        let mut rig = Rig::default();
        let mut store: BTreeMap<&str, String> = BTreeMap::new();
        let mut asked: BTreeSet<&str> = BTreeSet::new();
        let mut held: BTreeMap<String, String> = BTreeMap::new();
        let mut spoken = false;
        let take = |rig: &mut Rig, held: &mut BTreeMap<String, String>| {
            let Some(received) = rig.receive(1) else { return false };
            for text in received.resources() {
                match text.strip_prefix('-') {
                    Some(name) => drop(held.remove(name)),
                    None => {
                        let name = text.split('=').next().unwrap().to_owned();
                        held.insert(name, text);
                    }
                }
            }
            rig.run("d> own ack");
            true
        };
        for op in ops.into_iter().chain([Op::Take]) {
            match op {
                Op::Set(name, Some(value)) => {
                    rig.run(&expand(&format!("set own {}={value}", NAMES[name])));
                    store.insert(NAMES[name], format!("{}={value}", NAMES[name]));
                }
                Op::Set(name, None) => {
                    rig.run(&expand(&format!("set own -{}", NAMES[name])));
                    store.remove(NAMES[name]);
                }
                Op::Change(add, drop) => {
                    // Crossing messages are covered by another test.
                    while spoken && take(&mut rig, &mut held) {}
                    let mut words = String::new();
                    let before = asked.clone();
                    for (bit, name) in ASKED.iter().enumerate() {
                        if add & (1 << bit) != 0 {
                            asked.insert(name);
                            words += &format!(" +{name}");
                        } else if drop & (1 << bit) != 0 {
                            asked.remove(name);
                            words += &format!(" -{name}");
                        }
                    }
                    // The client drops resources that only an unsubscribed name covered.
                    for name in before.iter().filter(|name| NAMES.contains(name)) {
                        if !asked.iter().any(|asked| stands_for(asked, name)) {
                            held.remove(&expand(name));
                        }
                    }
                    spoken = true;
                    rig.run(&expand(&format!("d> own{words}")));
                }
                Op::Take => {}
            }
            if !matches!(op, Op::Take) || !spoken {
                continue;
            }
            let mut rounds = 0;
            while take(&mut rig, &mut held) {
                rounds += 1;
                prop_assert!(rounds < 10, "it never ends");
            }
            let wanted: BTreeMap<_, _> = store
                .iter()
                .filter(|(name, _)| asked.iter().any(|asked| stands_for(asked, name)))
                .map(|(name, text)| (expand(name), expand(text)))
                .collect();
            prop_assert_eq!(&held, &wanted);
        }
        rig.run("1close");
        prop_assert_eq!(rig.server.stats().names, store.len());
    }
}
