//! Output formats of `xds watch`.

use std::collections::BTreeSet;

use xds_core::client::ClientStats;

use crate::{args::Subscription, failure::Failure, resource_events::WatchEvent};

/// Output format of events.
pub(super) trait WatchPrinter {
    fn begin(
        &mut self,
        _server: &str,
        _node: &str,
        _: &BTreeSet<Subscription>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    fn print(&mut self, event: &WatchEvent) -> Result<(), Failure>;

    fn end(&mut self, _stats: &ClientStats) -> Result<(), Failure> {
        Ok(())
    }
}
