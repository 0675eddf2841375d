//! `--watch`: the status again and again.

use core::time::Duration;

use tokio::{select, time::sleep};

use super::fold::{View, folded};
use crate::{
    args::StatusOutput,
    failure::Failure,
    output,
    stop::TimeLimit,
    style::is_dumb,
    text::{escaped, time_of_day},
};

/// Moves the cursor to the upper left corner and clears the terminal below it.
const REDRAW: &str = "\x1b[H\x1b[J";
/// Clears the terminal.
const CLEAR: &str = "\x1b[2J";

/// Status that can be read again and again.
pub(super) trait Followed {
    type Report;

    /// Returns the name of what is read, for people.
    fn name(&self) -> String;

    async fn read(&self) -> Result<Self::Report, Failure>;

    /// Formats a report for people.
    fn table(&self, report: &Self::Report, view: View) -> String;

    /// Formats the changes since a report, one text for each. Without a report, everything is new.
    fn changes(
        &self,
        before: Option<&Self::Report>,
        report: &Self::Report,
        view: View,
    ) -> Vec<String>;
}

/// Prints the status until the end of `--for`.
///
/// A status that cannot be read at first is an error. Later it may be away for a while.
pub(super) async fn run<F: Followed>(
    followed: &F,
    interval: Duration,
    format: StatusOutput,
    view: View,
    limit: TimeLimit,
) -> Result<(), Failure> {
    output::queue_stdout(output::not_printed, output::ReaderLoss::Ends);
    let redraws = format == StatusOutput::Table && view.width.is_some() && !is_dumb();
    let mut last: Option<F::Report> = None;
    let mut problem: Option<String> = None;
    loop {
        let answer = select! {
            () = limit.over() => return Ok(()),
            gone = output::reader_gone() => return Err(gone),
            report = followed.read() => report,
        };
        let before = problem.take();
        let report = match answer {
            Ok(report) => Some(report),
            Err(why) if last.is_none() => return Err(why),
            Err(why) => {
                problem = Some(why.to_string());
                None
            }
        };
        select! {
            () = limit.over() => return Ok(()),
            room = output::room() => room?,
        }
        let view = view.refreshed();
        let newest = report.as_ref().or(last.as_ref());
        if redraws && let Some(newest) = newest {
            let begin = if last.is_none() { CLEAR } else { "" };
            let heading = heading(&followed.name(), interval, problem.as_deref(), view);
            let table = followed.table(newest, view);
            output::print(&format!("{begin}{REDRAW}{heading}\n{table}"))?;
        } else {
            if let Some(why) = &problem
                && problem != before
            {
                output::print_to_stderr(&format!("xds: {why}"));
            }
            if let Some(report) = &report {
                let changes = followed.changes(last.as_ref(), report, view);
                let lines: String = changes.into_iter().map(|change| change + "\n").collect();
                if !lines.is_empty() {
                    output::print(&lines)?;
                }
            }
        }
        last = report.or(last);
        select! {
            () = limit.over() => return Ok(()),
            gone = output::reader_gone() => return Err(gone),
            () = sleep(interval) => {}
        }
    }
}

/// Formats the lines above a table that is redrawn.
fn heading(name: &str, interval: Duration, problem: Option<&str>, view: View) -> String {
    let line = format!("{}, every {interval:?}, {}", escaped(name), time_of_day());
    let line = view.style.quiet(folded(&line, 2, view.width)).to_string();
    match problem {
        Some(why) => {
            let why = folded(&escaped(why), 2, view.width);
            format!("{line}\n{}\n", view.style.bad(why))
        }
        None => line + "\n",
    }
}
