//! Report of a failed run: shrunk and printed, or written to files.

use std::path::Path;

use xds_sim::{Config, Failure as Broken, shrink};

use super::{artifacts, shown::print_folded};
use crate::{
    failure::Failure,
    output::{self, progress::Progress},
};

/// Reports a failed run, and returns an error.
pub(super) fn report_failure(
    broken: &Broken,
    config: &Config,
    folder: Option<&Path>,
) -> Result<(), Failure> {
    report(broken, config, folder)?;
    Err(failure_of(broken))
}

/// Shrinks a failed run and prints its report.
pub(super) fn report(
    broken: &Broken,
    config: &Config,
    folder: Option<&Path>,
) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let mut tries = 0;
    let mut smallest = shrink(broken, config, &mut |now| {
        tries = now.tries;
        progress.show(|| {
            let (tries, limit, choices) = (now.tries, now.limit, now.choices);
            format!("shrinking: {tries} of {limit} tries, {choices} choices left")
        });
    });
    progress.clear();
    smallest.seed = broken.seed;
    print_folded(&smallest.to_text(Some((broken, tries))))?;
    match folder {
        Some(folder) => {
            for file in artifacts::write(folder, broken, &smallest, tries)? {
                output::print(&format!("written: {}", file.display()))?;
            }
        }
        None => output::print(&format!("as a test:\n\n{}", smallest.to_test()))?,
    }
    Ok(())
}

pub(super) fn failure_of(broken: &Broken) -> Failure {
    let run = broken.seed.map_or_else(|| "the run".into(), |seed| format!("seed {seed}"));
    Failure::Simulated(format!("{run} breaks {}", broken.violation.invariant))
}
