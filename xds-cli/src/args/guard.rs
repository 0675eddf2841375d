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
    /// The rules are:
    ///
    /// - min:TYPE=NUMBER: at least this number of resources of the type remain.
    ///
    /// - max-removal:TYPE=PERCENT: one change removes at most this share of the resources of the
    ///   type; without :TYPE, of all types together.
    ///
    /// - require:TYPE=NAME: the resource exists.
    ///
    /// - references: no reference is dangling.
    ///
    /// TYPE is cds, eds, lds and so on, or a type URL. @VIEW after a rule applies it to one view
    /// only, which is `default` or a name. The message about a refused change states how to apply
    /// it anyway.
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
