//! Output of a run, within the width of a terminal.

use xds_sim::trace::Trace;

use crate::{
    failure::Failure,
    output::{self, Layout},
};

/// Prints the newest events of a run as a diagram, or in words if the terminal is too narrow.
pub(super) fn print_trace(trace: &Trace, last: usize) -> Result<(), Failure> {
    print_folded(&trace.to_text_within(last, Layout::of_stdout().width()))
}

/// Prints lines, folded to the width of a terminal.
pub(super) fn print_folded(lines: &str) -> Result<(), Failure> {
    output::print(&Layout::of_stdout().fold(lines))
}
