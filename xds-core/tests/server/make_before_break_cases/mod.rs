//! Make before break: order of updates by the client's ACKs, and deferred removals.
//!
//! In these scripts a cluster whose content begins with `eds` references the endpoints of its own
//! name, or those after a colon, as in `c=eds:e`.

mod answer_times;
mod changed_eds_targets;
mod deferred_removals;
mod eds_requests;
mod isolation;
mod stuck_clients;
mod update_order;
mod view_changes;
mod view_changes_after_nack;

use crate::support::{Rig, expanded, run_all_with, run_table};
use core::time::Duration;
use std::sync::Arc;
use xds_core::{
    Malformed,
    references::{Reference, ReferenceExtractor, ReferenceTarget},
    server::{
        BlockedBy, BlockedChange, MakeBeforeBreakPolicy, Missing, NackRecovery, Observation,
        OrderingPolicy, ServerConfig, StageTimeoutAction, Window,
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
            let target = ReferenceTarget::Name(endpoints);
            found(Reference::new(types::CLUSTER_LOAD_ASSIGNMENT, target));
        }
        Ok(())
    }
}

fn gated(change: impl FnOnce(&mut MakeBeforeBreakPolicy)) -> ServerConfig {
    let mut policy = MakeBeforeBreakPolicy::default();
    policy.references = Some(Arc::new(ScriptReferences));
    change(&mut policy);
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(policy);
    config
}

/// Returns a configuration with a stage timeout longer than the other intervals of the test.
fn patient() -> ServerConfig {
    gated(|policy| policy.stage_timeout = Duration::from_secs(15))
}

/// Takes the observed holds as held type, held part, awaited type and reason.
fn held(rig: &mut Rig) -> Vec<(String, BlockedChange, String, BlockedBy)> {
    let short = |url: &str| types::short_name(url).unwrap_or(url).to_owned();
    let held = |observation| match observation {
        Observation::Blocked { type_url, change, waits_for, reason, after, .. } => {
            assert_eq!(after, MakeBeforeBreakPolicy::default().stage_timeout);
            Some((short(type_url.as_str()), change, short(waits_for.as_str()), reason))
        }
        _ => None,
    };
    rig.observations().into_iter().filter_map(held).collect()
}

/// A client with a listener, a route, a cluster and its endpoints, all ACKed.
const SETTLED: &str = "
    set cds a=1; eds a=1; lds l=1; rds r=1
    > cds   | < cds first a=1
    > cds
    > eds a | < eds first a=1
    > eds a
    > lds   | < lds first l=1
    > lds
    > rds r | < rds first r=1
    > rds r | <
";

/// The incremental equivalent of [`SETTLED`].
const SETTLED_DELTA: &str = "
    set cds a=1; eds a=1; lds l=1; rds r=1
    d> cds +*  | d< cds first a=1
    d> cds ack
    d> eds +a  | d< eds first a=1
    d> eds ack
    d> lds +*  | d< lds first l=1
    d> lds ack
    d> rds +r  | d< rds first r=1
    d> rds ack | d<
";

const STARTS: [(&str, &str); 2] = [("settled", SETTLED), ("settled-delta", SETTLED_DELTA)];

/// Returns a script with `settled` and `settled-delta` expanded.
fn started(script: &str) -> String {
    expanded(&STARTS, script)
}

/// Runs a table of cases that may begin with `settled` or `settled-delta`.
fn run(table: &str) {
    run_table(&gated(|_| ()), &STARTS, table);
}
