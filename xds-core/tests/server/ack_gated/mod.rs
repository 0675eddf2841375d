//! Make before break behind the client's ACKs: what waits for what, and what stays meanwhile.
//!
//! In these scripts a cluster whose content begins with `eds` names endpoints: those of its own name, or
//! those behind a colon, as in `c=eds:e`.

mod answers;
mod asking;
mod lingering;
mod moved;
mod moved_and_rejected;
mod repointed;
mod steps;
mod stuck;

use crate::support::{Rig, run_all_with};
use core::time::Duration;
use std::sync::Arc;
use xds_core::{
    Malformed,
    references::{Reference, ReferenceExtractor, Target},
    server::{
        AckGated, HeldBack, HeldBy, NackRecovery, Observation, OnStuck, OrderingPolicy,
        ServerConfig, Window,
    },
    types,
};

#[derive(Debug)]
struct ScriptReferences;

impl ReferenceExtractor for ScriptReferences {
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        let text = core::str::from_utf8(resource).expect("a script's resource");
        let (name, content) = text.split_once('=').expect("a script's resource");
        if let (types::CLUSTER, Some(rest)) = (type_url, content.strip_prefix("eds")) {
            let endpoints = rest.split_once(':').map_or(name, |(_, endpoints)| endpoints);
            let target = Target::Name(endpoints);
            found(Reference::new(types::CLUSTER_LOAD_ASSIGNMENT, target));
        }
        Ok(())
    }
}

fn gated(change: impl FnOnce(&mut AckGated)) -> ServerConfig {
    let mut policy = AckGated::default();
    policy.references = Some(Arc::new(ScriptReferences));
    change(&mut policy);
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(policy);
    config
}

/// With a stage timeout that leaves room for other things to happen meanwhile.
fn patient() -> ServerConfig {
    gated(|policy| policy.stage_timeout = Duration::from_secs(15))
}

/// What was held back too long, as the held type, what of it, the type waited for, and why.
fn held(rig: &mut Rig) -> Vec<(String, HeldBack, String, HeldBy)> {
    let short = |url: &str| types::short_name(url).unwrap_or(url).to_owned();
    let held = |observation| match observation {
        Observation::Held { type_url, what, waits_for, why, after, .. } => {
            assert_eq!(after, AckGated::default().stage_timeout);
            Some((short(type_url.as_str()), what, short(waits_for.as_str()), why))
        }
        _ => None,
    };
    rig.observations().into_iter().filter_map(held).collect()
}

/// A client with a listener, a route, a cluster and its endpoints, all accepted.
const SETTLED: &str = "
    set cds a=1; eds a=1; lds l=1; rds r=1
    > cds
    < cds first a=1
    > cds
    > eds a
    < eds first a=1
    > eds a
    > lds
    < lds first l=1
    > lds
    > rds r
    < rds first r=1
    > rds r
    <
";

const SETTLED_INCREMENTALLY: &str = "
    set cds a=1; eds a=1; lds l=1; rds r=1
    d> cds +*
    d< cds first a=1
    d> cds ack
    d> eds +a
    d< eds first a=1
    d> eds ack
    d> lds +*
    d< lds first l=1
    d> lds ack
    d> rds +r
    d< rds first r=1
    d> rds ack
    d<
";

fn settled(rest: &str) -> String {
    format!("{SETTLED}{rest}")
}

fn settled_incrementally(rest: &str) -> String {
    format!("{SETTLED_INCREMENTALLY}{rest}")
}

fn run(cases: &[(&str, String)]) {
    for (covers, script) in cases {
        run_all_with(&gated(|_| ()), &[(*covers, script.as_str())]);
    }
}
