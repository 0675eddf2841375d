//! Log output on standard error.

use std::{
    borrow::Cow,
    env, io,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::ColorChoice;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    layer::{Context, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

use super::{
    Stderr,
    log_format::{self, LogFormat},
};
use crate::style::Style;

/// Log level without `-v`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Quietest {
    Errors,
    Warnings,
}

/// Starts logging. `RUST_LOG` selects the level if it is set, otherwise the number of `-v`.
pub(crate) fn init(quietest: Quietest, verbose: u8, color: ColorChoice, format: LogFormat) {
    let directives = env::var(EnvFilter::DEFAULT_ENV).ok().filter(|var| !var.trim().is_empty());
    let default = match (quietest, verbose) {
        (Quietest::Errors, 0) => "error",
        // What kube_client logs is also an error that it returns. A peer can make h2 warn of each frame.
        (Quietest::Warnings, 0) => "warn,kube_client=off,h2=error",
        // Crates such as h2 log every HTTP/2 frame at these levels.
        (_, 1) => "warn,kube_client=off,h2=error,xds=debug,xds_grpc=debug",
        (_, _) => "warn,xds=trace,xds_grpc=trace,xds_handle=trace",
    };
    let widest = if verbose == 0 { LINE } else { usize::MAX };
    let style = Style::of(color, &io::stderr());
    let reported = ReportedFailures { are_logged: verbose > 0 || directives.is_some() };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(directives.as_deref().unwrap_or(default)));
    match format {
        LogFormat::Text => lines
            .with_ansi(style.is_on())
            .with_target(false)
            .with_writer(move || Lines { widest, style })
            .finish()
            .with(reported)
            .init(),
        LogFormat::Json => {
            log_format::use_json();
            lines.json().flatten_event(true).with_writer(|| Stderr).finish().with(reported).init();
        }
    }
}

/// Whether the command itself reports the failures of its client.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Leaves failures of the client out of the log, because the command reports each of them. `-v` and
/// `RUST_LOG` bring them back.
pub(crate) fn omit_client_failures() {
    IS_REPORTED.store(true, Ordering::Relaxed);
}

/// Filter for failures that the command reports.
#[derive(Debug)]
struct ReportedFailures {
    are_logged: bool,
}

impl ReportedFailures {
    /// Whether an event is a failure of the client: it has a reason, unlike other warnings.
    fn is_failure(event: &Metadata<'_>) -> bool {
        event.target().starts_with("xds_grpc::client") && event.fields().field("reason").is_some()
    }
}

impl<S: Subscriber> Layer<S> for ReportedFailures {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.are_logged
            || !IS_REPORTED.load(Ordering::Relaxed)
            || !Self::is_failure(event.metadata())
    }
}

/// Maximum length of a line without `-v`, in bytes; the middle of a longer one is left out. The reason
/// of a rejection may quote a whole resource.
const LINE: usize = 400;

/// Line writer to standard error. A reader that does not read does not block the caller.
struct Lines {
    widest: usize,
    style: Style,
}

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = cut(line, self.widest, self.style);
        Stderr.write_all(&shown).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Stderr.flush()
    }
}

fn cut(line: &[u8], widest: usize, style: Style) -> Cow<'_, [u8]> {
    // A reason that quotes a resource comes after it.
    let tail = widest / 2;
    let head = widest - tail;
    let Some((start, end)) = line.split_at_checked(head).filter(|_| line.len() > widest) else {
        return line.into();
    };
    let end = end.get(end.len().saturating_sub(tail)..).unwrap_or_default();
    let (start, end) = (String::from_utf8_lossy(start), String::from_utf8_lossy(end));
    // The cuts may have split characters.
    let start = start.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let end = end.trim_start_matches(char::REPLACEMENT_CHARACTER);
    // The styled text also resets a colour whose end was cut out.
    format!("{start}{}{end}", style.quiet("… (-v shows all) …")).into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_in_the_middle_at_character_boundaries() {
        let cut = |line: &str, widest| {
            String::from_utf8(cut(line.as_bytes(), widest, Style::PLAIN).into_owned()).unwrap()
        };
        assert_eq!(cut("short\n", 6), "short\n");
        assert_eq!(cut("short\n", usize::MAX), "short\n");
        assert_eq!(cut("a longer line\n", 10), "a lon… (-v shows all) …line\n");
        assert_eq!(cut("öööööö\n", 8), "öö… (-v shows all) …ö\n");
    }
}
