//! Arguments for rules that changes must satisfy.

use clap::Args;
use xds_core::{
    guards::{Guard, Guards},
    references::Consistency,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct GuardArgs {
    /// Refuse changes that violate this rule, and keep serving the last state. May be given several
    /// times.
    ///
    /// min:TYPE=NUMBER: there are at least so many resources of a type. max-removal:TYPE=PERCENT: one
    /// change removes at most this share of the resources of a type; without :TYPE, of all types
    /// together. require:TYPE=NAME: the resource exists. references: no reference is dangling. TYPE is
    /// cds, eds, lds and so on, or a type URL. @VIEW behind a rule applies it to one view, which is
    /// `default` or a name. A refusal states how to serve the change nevertheless.
    #[arg(long = "guard", value_name = "RULE")]
    guard: Vec<Guard>,
}

impl GuardArgs {
    /// Returns the rules. Those about references use a check that knows the external resources.
    pub(crate) fn guards(&self, consistency: &Consistency<'static>) -> Guards {
        let guards = self.guard.iter().cloned();
        guards.map(|guard| guard.with_consistency(consistency.clone())).collect()
    }
}
