//! Standard output and error. Whoever reads them may go away, or stop reading.
//!
//! Commands that end by themselves write standard output directly: they wait for their reader. Commands that run until
//! they are stopped [queue](queue_stdout) it, so that a reader who does not read holds nothing up: `serve`
//! [offers](offer) what happens, and what has no room is dropped and counted. What is only the newest state, as the
//! table of `serve` and the resources of `watch`, waits for [room] instead, and nothing of it is lost. Standard
//! error and the log are always offered.

mod queue;

use core::future::pending;
use std::{
    io::{self, Write as _},
    sync::OnceLock,
};

use self::queue::Queue;
use crate::{failure::Failure, text::count};

static STDOUT: OnceLock<Queue> = OnceLock::new();
static STDERR: OnceLock<Queue> = OnceLock::new();

/// From here on standard output is written by a thread of its own. `notice` makes a line of how many texts were
/// dropped.
pub(crate) fn queue_stdout(notice: fn(u64) -> String) {
    STDOUT.get_or_init(|| Queue::start(io::stdout(), notice));
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
        Some(queue) => queue.push(text),
        None => {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        }
    }
    .map_err(Failure::Output)
}

/// Prints one or several lines if there is room for them, and otherwise counts them as dropped.
pub(crate) fn offer(lines: &str) -> Result<(), Failure> {
    match STDOUT.get() {
        Some(queue) => queue.offer(whole_lines(lines)).map(drop).map_err(Failure::Output),
        None => print(lines),
    }
}

/// Waits until there is room in the queue of standard output, if there is one. Cancel safe.
pub(crate) async fn room() -> Result<(), Failure> {
    match STDOUT.get() {
        Some(queue) => queue.room().await.map_err(Failure::Output),
        None => Ok(()),
    }
}

/// Waits until whoever read standard output has gone. Cancel safe.
pub(crate) async fn reader_gone() -> Failure {
    match STDOUT.get() {
        Some(queue) => Failure::Output(queue.failed().await),
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

/// Waits until everything is written that somebody reads. To be called before the process ends.
pub(crate) fn finish() {
    [&STDOUT, &STDERR].into_iter().filter_map(OnceLock::get).for_each(Queue::finish);
}

fn whole_lines(lines: &str) -> String {
    let text = lines.strip_suffix('\n').unwrap_or(lines);
    format!("{text}\n")
}
