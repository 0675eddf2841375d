//! Output format `ndjson`: one JSON object per line and event.

use super::printer::WatchPrinter;
use crate::{
    failure::Failure,
    output,
    resource_events::{WatchEvent, object},
};

#[derive(Debug)]
pub(crate) struct WatchNdjson;

impl WatchPrinter for WatchNdjson {
    fn print(&mut self, event: &WatchEvent) -> Result<(), Failure> {
        output::print(&output::event_line(object(event)))
    }
}
