//! Standard output and standard error, whose readers may go away or stop reading.
//!
//! A thread writes standard output, so that a signal ends a command whose output is not read.
//! Commands that end on their own wait for the reader after each text. Commands that run until they
//! are stopped only [queue](queue_stdout) the output, so that a reader that does not read does not
//! block them. `serve` [offers](offer) its events; events that do not fit
//! into the queue are dropped and counted. Output of the newest state, such as the table of `serve`
//! and the resources of `watch`, waits for [room] instead and is never lost. Standard error and the
//! log are always offered. [finish] writes the queued output before the process exits.

mod layout;
pub(crate) mod log_format;
pub(crate) mod logging;
pub(crate) mod progress;
mod queue;

use core::{future::pending, time::Duration};
use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value as Json, json};
use tokio::{
    select,
    time::{Instant, sleep_until},
};

pub(crate) use self::layout::Layout;
use self::log_format::Severity;
use self::queue::{Queue, Unwritten};
use crate::{
    failure::Failure,
    stop::Signals,
    text::{count, timestamp},
};

static STDOUT: OnceLock<Stdout> = OnceLock::new();
static STDERR: OnceLock<Queue> = OnceLock::new();
/// Number of texts for standard error so far.
static STDERR_TEXTS: AtomicU64 = AtomicU64::new(0);

/// Standard output.
#[derive(Debug)]
struct Stdout {
    queue: Queue,
    /// Whether printing waits until the text is written.
    waits: bool,
    loss: ReaderLoss,
}

/// Behaviour of a command whose standard output can no longer be written, for example because the
/// reader has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderLoss {
    /// The command ends: printing returns an error.
    Ends,
    /// The command continues: output is discarded without an error.
    Ignored,
}

/// Queues standard output from now on: printing no longer waits for the reader. `notice` formats the
/// line about a number of dropped texts.
pub(crate) fn queue_stdout(notice: fn(u64) -> String, loss: ReaderLoss) {
    STDOUT.get_or_init(|| Stdout { queue: Queue::start(io::stdout(), notice), waits: false, loss });
}

fn stdout() -> &'static Stdout {
    STDOUT.get_or_init(|| Stdout {
        queue: Queue::start(io::stdout(), not_printed),
        waits: true,
        loss: ReaderLoss::Ends,
    })
}

impl Stdout {
    fn print(&self, text: Vec<u8>) -> Result<(), Failure> {
        let mut printed = self.queue.push(text);
        if self.waits && printed.is_ok() {
            printed = self.queue.flush(None);
        }
        self.outcome(printed)
    }

    fn outcome(&self, result: io::Result<()>) -> Result<(), Failure> {
        match self.loss {
            ReaderLoss::Ends => result.map_err(Failure::Output),
            ReaderLoss::Ignored => Ok(()),
        }
    }
}

/// Formats the line about dropped events for text output.
pub(crate) fn not_printed(events: u64) -> String {
    format!("{} not printed: standard output was not read", count(events, "event"))
}

/// Formats the line about dropped events for NDJSON output.
pub(crate) fn not_printed_json(events: u64) -> String {
    event_line(json!({ "event": "dropped", "events": events }))
}

/// Formats the object of an event as a line of NDJSON, with the time first.
pub(crate) fn event_line(event: Json) -> String {
    let mut line = json!({ "time": timestamp() });
    if let (Json::Object(line), Json::Object(event)) = (&mut line, event) {
        line.extend(event);
    }
    line.to_string()
}

fn stderr() -> &'static Queue {
    STDERR.get_or_init(|| {
        Queue::start(io::stderr(), |lines| {
            format!("{} not written: standard error was not read", count(lines, "message"))
        })
    })
}

/// Prints one or several lines at once. If standard output is [queued](queue_stdout), the caller
/// waits for [room] before the next call, otherwise the call blocks until the text is written.
pub(crate) fn print(lines: &str) -> Result<(), Failure> {
    stdout().print(whole_lines(lines).into_bytes())
}

/// Prints bytes as [`print`] does.
pub(crate) fn print_bytes(bytes: Vec<u8>) -> Result<(), Failure> {
    stdout().print(bytes)
}

/// Prints one or several lines if the queue has room for them, otherwise counts them as dropped.
pub(crate) fn offer(lines: &str) -> Result<(), Failure> {
    let stdout = stdout();
    stdout.outcome(stdout.queue.offer(whole_lines(lines).into_bytes()).map(drop))
}

/// Waits until the queue of standard output has room. Cancel safe.
pub(crate) async fn room() -> Result<(), Failure> {
    let stdout = stdout();
    stdout.outcome(stdout.queue.room().await)
}

/// Waits until the reader of standard output has gone. Cancel safe.
pub(crate) async fn reader_gone() -> Failure {
    Failure::Output(stdout().queue.failed().await)
}

/// Prints a note, a warning or an error about a part of the input to standard error, folded if it is
/// a terminal. It is dropped if the queue is full.
pub(crate) fn print_to_stderr(lines: &str) {
    print_as(Severity::Warning, lines);
}

/// Prints the reason for which the command ends to standard error, like [`print_to_stderr`].
pub(crate) fn print_failure(failure: &str) {
    print_as(Severity::Error, failure);
}

fn print_as(severity: Severity, lines: &str) {
    STDERR_TEXTS.fetch_add(1, Ordering::Relaxed);
    let json = log_format::json_line(severity, lines);
    let lines = json.unwrap_or_else(|| Layout::of_stderr().fold(lines).into_owned());
    let _ = stderr().offer(whole_lines(&lines).into_bytes());
}

/// Returns the number of texts for standard error so far, errors, warnings and log lines.
pub(crate) fn stderr_texts() -> u64 {
    STDERR_TEXTS.load(Ordering::Relaxed)
}

/// Standard error as a stream that never blocks. Each write is one text of the queue.
#[derive(Debug)]
pub(crate) struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        STDERR_TEXTS.fetch_add(1, Ordering::Relaxed);
        let _ = stderr().offer(text.to_vec());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Blocks until standard error is written, for 1 s at most, so that later standard output comes
/// after it.
pub(crate) fn flush_stderr() {
    if let Some(stderr) = STDERR.get() {
        let _ = stderr.flush(Some(Duration::from_secs(1)));
    }
}

/// Time that the reader has at the end of a command that was ended by a signal.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// Time that the reader has after a second signal.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Waits until all queued output is written. Must be called before the process exits.
///
/// | the command ended | the wait ends |
/// |---|---|
/// | on its own | with the next signal |
/// | by a signal | after 2 s, or with the next signal |
/// | by two signals | after 100 ms |
///
/// Output that is given up is reported on standard error.
pub(crate) async fn finish() {
    let stdout = STDOUT.get().map(|stdout| &stdout.queue);
    let queues = [stdout, STDERR.get()];
    if queues.iter().flatten().all(|queue| queue.unwritten().is_none()) {
        return;
    }
    // Where signals cannot be caught, they kill the process.
    let mut signals = Signals::listen().ok();
    let patience = match signals.as_mut().map_or(0, Signals::count) {
        0 => None,
        1 => Some(AFTER_SIGNAL),
        _ => Some(AT_ONCE),
    };
    let end = patience.map(|patience| Instant::now() + patience);
    let unwritten = match stdout {
        Some(stdout) => written_until(stdout, end, signals.as_mut()).await,
        None => None,
    };
    if let Some(Unwritten { bytes, dropped }) = unwritten {
        let dropped = match dropped {
            0 => String::new(),
            events => format!(" and {}", count(events, "event")),
        };
        print_to_stderr(&format!(
            "xds: standard output was not read: {}{dropped} not written",
            count(bytes, "byte")
        ));
    }
    let end = match unwritten {
        // Standard error gets extra time for the line about standard output.
        Some(_) => Some(Instant::now() + AT_ONCE),
        None => end,
    };
    if let Some(stderr) = STDERR.get() {
        // Output of standard error that is given up cannot be reported.
        let _ = written_until(stderr, end, signals.as_mut()).await;
    }
}

/// Waits until a queue is written, until `end`, or for the next signal. Returns the part that is
/// given up.
async fn written_until(
    queue: &Queue,
    end: Option<Instant>,
    signals: Option<&mut Signals>,
) -> Option<Unwritten> {
    let time_is_over = async {
        match end {
            Some(end) => sleep_until(end).await,
            None => pending().await,
        }
    };
    let signal = async {
        match signals {
            Some(signals) => signals.next().await,
            None => pending().await,
        }
    };
    select! {
        biased;
        () = queue.finished() => {}
        () = time_is_over => {}
        () = signal => {}
    }
    queue.unwritten()
}

fn whole_lines(lines: &str) -> String {
    let text = lines.strip_suffix('\n').unwrap_or(lines);
    format!("{text}\n")
}
