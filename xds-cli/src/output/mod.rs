//! Standard output and error. Whoever reads them may go away, or stop reading.
//!
//! Commands that end by themselves write standard output directly: they wait for their reader. Commands that run until
//! they are stopped [queue](queue_stdout) it, so that a reader who does not read holds nothing up: `serve`
//! [offers](offer) what happens, and what has no room is dropped and counted. What is only the newest state, as the
//! table of `serve` and the resources of `watch`, waits for [room] instead, and nothing of it is lost. Standard
//! error and the log are always offered. [finish] writes what is still queued before the process ends.

mod queue;

use core::{future::pending, time::Duration};
use std::{
    io::{self, Write as _},
    sync::OnceLock,
};

use tokio::{
    select,
    time::{Instant, sleep_until},
};

use self::queue::{Queue, Unwritten};
use crate::{failure::Failure, stop::Signals, text::count};

static STDOUT: OnceLock<Stdout> = OnceLock::new();
static STDERR: OnceLock<Queue> = OnceLock::new();

/// Queued standard output.
#[derive(Debug)]
struct Stdout {
    queue: Queue,
    loss: ReaderLoss,
}

/// What a command does when its standard output can no longer be written, as after its reader has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderLoss {
    /// The command ends: printing fails.
    Ends,
    /// The command goes on: what is printed is discarded without an error.
    Ignored,
}

/// From here on standard output is written by a thread of its own. `notice` makes a line of how many texts were
/// dropped.
pub(crate) fn queue_stdout(notice: fn(u64) -> String, loss: ReaderLoss) {
    STDOUT.get_or_init(|| Stdout { queue: Queue::start(io::stdout(), notice), loss });
}

impl Stdout {
    fn outcome(&self, result: io::Result<()>) -> Result<(), Failure> {
        match self.loss {
            ReaderLoss::Ends => result.map_err(Failure::Output),
            ReaderLoss::Ignored => Ok(()),
        }
    }
}

/// The line about dropped events in output for people.
pub(crate) fn not_printed(events: u64) -> String {
    format!("{} not printed: standard output was not read", count(events, "event"))
}

/// The line about dropped events in lines of JSON.
pub(crate) fn not_printed_json(events: u64) -> String {
    serde_json::json!({ "event": "dropped", "events": events }).to_string()
}

fn stderr() -> &'static Queue {
    STDERR.get_or_init(|| {
        Queue::start(io::stderr(), |lines| {
            format!("{} not written: standard error was not read", count(lines, "message"))
        })
    })
}

/// Prints one or several lines at once. If standard output is queued, the caller waits for [room] before the next call.
pub(crate) fn print(lines: &str) -> Result<(), Failure> {
    let text = whole_lines(lines);
    match STDOUT.get() {
        Some(stdout) => stdout.outcome(stdout.queue.push(text)),
        None => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
        }
    }
}

/// Prints one or several lines if there is room for them, and otherwise counts them as dropped.
pub(crate) fn offer(lines: &str) -> Result<(), Failure> {
    match STDOUT.get() {
        Some(stdout) => stdout.outcome(stdout.queue.offer(whole_lines(lines)).map(drop)),
        None => print(lines),
    }
}

/// Waits until there is room in the queue of standard output, if there is one. Cancel safe.
pub(crate) async fn room() -> Result<(), Failure> {
    match STDOUT.get() {
        Some(stdout) => stdout.outcome(stdout.queue.room().await),
        None => Ok(()),
    }
}

/// Waits until whoever read standard output has gone. Cancel safe.
pub(crate) async fn reader_gone() -> Failure {
    match STDOUT.get() {
        Some(stdout) => Failure::Output(stdout.queue.failed().await),
        None => pending().await,
    }
}

/// Says on standard error what is wrong, if anybody listens.
pub(crate) fn complain(lines: &str) {
    let _ = stderr().offer(whole_lines(lines));
}

/// Standard error as a stream that never blocks: each write is a text of its own.
#[derive(Debug)]
pub(crate) struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let _ = stderr().offer(String::from_utf8_lossy(text).into_owned());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Blocks until standard error is written, so that what is printed directly comes after it. A reader that does not read
/// holds this up for a second at most.
pub(crate) fn flush_stderr() {
    if let Some(stderr) = STDERR.get() {
        stderr.flush(Duration::from_secs(1));
    }
}

/// How long the reader may take at the end of a command that a signal has ended.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// How long the reader may take after a further signal: only for what it reads at once.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Waits until everything queued is written. To be called before the process ends.
///
/// | the command has ended | the wait ends |
/// |---|---|
/// | by itself | with the next signal |
/// | by a signal | after 2 s, or with the next signal |
/// | by two signals | after 100 ms |
///
/// What is given up is reported on standard error.
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
        complain(&format!(
            "xds: standard output was not read: {}{dropped} not written",
            count(bytes, "byte")
        ));
    }
    let end = match unwritten {
        // Standard error has a moment of its own for the line about standard output.
        Some(_) => Some(Instant::now() + AT_ONCE),
        None => end,
    };
    if let Some(stderr) = STDERR.get() {
        // There is nowhere to report what is given up of it.
        let _ = written_until(stderr, end, signals.as_mut()).await;
    }
}

/// Waits until a queue is written, it is time to end, or the next signal. Returns what is given up.
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
