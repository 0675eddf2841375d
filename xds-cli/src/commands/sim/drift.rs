//! Reports of replayed tapes that led to another run than the recorded one.

use xds_sim::tape::Drift;

use crate::output;

/// Describes the drift of a run that breaks no rule.
pub(super) fn another_run(drift: Drift) -> String {
    format!("{drift}; this run breaks no rule")
}

pub(super) fn print_drift(drift: Option<Drift>) {
    if let Some(drift) = drift {
        output::print_to_stderr(&format!("xds: {drift}"));
    }
}
