//! Registered waits for convergence.

use alloc::collections::BTreeSet;

use crate::{
    server::event::ServerOutput,
    slab::Slot,
    text::{TypeUrl, ViewName},
};

/// Registered wait for convergence.
#[derive(Debug)]
pub(crate) struct ConvergenceWait {
    pub(crate) view: ViewName,
    pub(crate) type_url: TypeUrl,
    /// Sessions that have not accepted the change.
    pub(crate) lagging: BTreeSet<Slot>,
}

impl ConvergenceWait {
    pub(crate) fn into_output(self, sequence: u64) -> ServerOutput {
        ServerOutput::Converged { view: self.view, type_url: self.type_url, sequence }
    }
}
