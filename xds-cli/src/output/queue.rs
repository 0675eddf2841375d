//! A bounded queue of output for a stream that may not be read, and the thread that writes it.

use core::time::Duration;
use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Write},
    pin::pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use tokio::sync::Notify;

/// Maximum number of queued bytes. One text of any length is accepted by an empty queue, and `push`
/// ignores the limit.
const ROOM: usize = 4 << 20;
/// Maximum size of one write, in bytes, so that a slow reader frees room early.
const PIECE: usize = 4 << 10;
/// Time between two attempts to write to a stream that does not block.
const PAUSE: Duration = Duration::from_millis(10);

/// Result of offering a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// The text is queued.
    Queued,
    /// The queue was full. The text is counted, and the count is printed once there is room again.
    Dropped,
}

/// Queue of texts to write to a stream.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<QueueState>,
    /// Wakes the writer thread, and threads that wait in [`Queue::flush`].
    changed: Condvar,
    /// Wakes tasks that wait for room or for an error.
    progress: Notify,
    /// Formats the line about dropped texts.
    notice: fn(u64) -> String,
    room: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes in `waiting`, and of the text being written.
    bytes: usize,
    /// Number of texts dropped since the last queued text.
    dropped: u64,
    /// Error that stopped the writer thread.
    error: Option<io::Error>,
}

impl Queue {
    /// Starts the writer thread.
    pub(super) fn start(writer: impl Write + Send + 'static, notice: fn(u64) -> String) -> Self {
        Self::with_room(writer, notice, ROOM)
    }

    fn with_room(
        writer: impl Write + Send + 'static,
        notice: fn(u64) -> String,
        room: usize,
    ) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            progress: Notify::new(),
            notice,
            room,
        });
        let of_thread = Arc::clone(&shared);
        let started = thread::Builder::new().name("output".into()).spawn(move || {
            if let Err(why) = of_thread.write_all(writer) {
                of_thread.fail(why);
            }
        });
        if let Err(why) = started {
            shared.fail(why);
        }
        Self(shared)
    }

    /// Queues a text even if the queue is full. The caller waits for [room](Self::room) before the
    /// next one.
    pub(super) fn push(&self, text: Vec<u8>) -> io::Result<()> {
        let mut state = self.0.lock();
        state.check()?;
        self.0.queue(&mut state, text);
        Ok(())
    }

    /// Queues a text if there is room for it.
    pub(super) fn offer(&self, text: Vec<u8>) -> io::Result<Offered> {
        let mut state = self.0.lock();
        state.check()?;
        if !state.has_room(text.len(), self.0.room) {
            state.dropped += 1;
            return Ok(Offered::Dropped);
        }
        self.0.queue(&mut state, text);
        Ok(Offered::Queued)
    }

    /// Waits until the queue has room. Cancel safe.
    pub(super) async fn room(&self) -> io::Result<()> {
        self.0
            .until(|state| match state.check() {
                Ok(()) => state.has_room(1, self.0.room).then_some(Ok(())),
                failed => Some(failed),
            })
            .await
    }

    /// Waits until writing has failed, for example because the reader has gone. Cancel safe.
    pub(super) async fn failed(&self) -> io::Error {
        self.0.until(|state| state.check().err()).await
    }

    /// Waits until all texts are written or writing has failed. Cancel safe.
    pub(super) async fn finished(&self) {
        self.0.until(|state| state.is_done().then_some(())).await;
    }

    /// Blocks until all texts are written or writing has failed, no longer than `limit`.
    pub(super) fn flush(&self, limit: Option<Duration>) -> io::Result<()> {
        let state = self.0.lock();
        let limit = limit.unwrap_or(Duration::MAX);
        let waited = self.0.changed.wait_timeout_while(state, limit, |state| !state.is_done());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.check()
    }

    /// Returns the part that is not written yet; `None` if all is written or writing has failed.
    pub(super) fn unwritten(&self) -> Option<Unwritten> {
        let state = self.0.lock();
        let (bytes, dropped) = (state.bytes as u64, state.dropped);
        (!state.is_done()).then_some(Unwritten { bytes, dropped })
    }
}

/// Output that a queue has not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwritten {
    /// Length of the queued texts, in bytes.
    pub(super) bytes: u64,
    /// Number of texts dropped after the queued ones.
    pub(super) dropped: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // Nothing panics under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, state: &mut QueueState, text: Vec<u8>) {
        state.add_notice(self.notice);
        state.add(text);
        self.changed.notify_all();
    }

    fn fail(&self, why: io::Error) {
        let mut state = self.lock();
        state.error = Some(why);
        state.waiting = VecDeque::new();
        self.notify();
    }

    fn notify(&self) {
        self.changed.notify_all();
        self.progress.notify_waiters();
    }

    async fn until<T>(&self, probe: impl Fn(&QueueState) -> Option<T>) -> T {
        loop {
            let mut progress = pin!(self.progress.notified());
            // Notifications sent from here on are not missed.
            progress.as_mut().enable();
            let answer = probe(&self.lock());
            match answer {
                Some(answer) => return answer,
                None => progress.await,
            }
        }
    }

    /// Writes queued texts until writing fails.
    fn write_all(&self, mut writer: impl Write) -> io::Result<()> {
        loop {
            let text = self.next();
            for piece in text.chunks(PIECE) {
                write(&mut writer, piece)?;
                let mut state = self.lock();
                state.bytes -= piece.len();
                drop(state);
                self.notify();
            }
        }
    }

    /// Waits for the next text.
    fn next(&self) -> Vec<u8> {
        let mut state = self.lock();
        loop {
            if let Some(text) = state.waiting.pop_front() {
                return text;
            }
            // No text was queued after the dropped ones, so the notice has not been added yet.
            if state.add_notice(self.notice) {
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl QueueState {
    fn check(&self) -> io::Result<()> {
        match &self.error {
            Some(why) => Err(io::Error::new(why.kind(), why.to_string())),
            None => Ok(()),
        }
    }

    fn has_room(&self, length: usize, room: usize) -> bool {
        self.bytes == 0 || self.bytes + length <= room
    }

    fn is_done(&self) -> bool {
        self.error.is_some() || (self.bytes == 0 && self.dropped == 0)
    }

    fn add(&mut self, text: Vec<u8>) {
        self.bytes += text.len();
        self.waiting.push_back(text);
    }

    /// Queues the line about dropped texts. Returns false if no text was dropped.
    fn add_notice(&mut self, notice: fn(u64) -> String) -> bool {
        let dropped = core::mem::take(&mut self.dropped);
        if dropped > 0 {
            self.add((notice(dropped) + "\n").into_bytes());
        }
        dropped > 0
    }
}

/// Writes all bytes and flushes. The stream may be non-blocking, as the parent process decides.
fn write(writer: &mut impl Write, mut piece: &[u8]) -> io::Result<()> {
    while !piece.is_empty() {
        match writer.write(piece) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => piece = piece.get(count..).unwrap_or_default(),
            Err(why) => wait_to_retry(why)?,
        }
    }
    loop {
        match writer.flush() {
            Ok(()) => return Ok(()),
            Err(why) => wait_to_retry(why)?,
        }
    }
}

/// Waits before a retry. Returns the error if a retry is useless.
fn wait_to_retry(why: io::Error) -> io::Result<()> {
    match why.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock => {
            thread::sleep(PAUSE);
            Ok(())
        }
        _ => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, SyncSender};

    use super::*;

    /// Stream that accepts one piece per read of the other end.
    struct Pipe(SyncSender<String>);

    impl Write for Pipe {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8_lossy(piece).into_owned();
            let sent = self.0.send(text);
            sent.map(|()| piece.len()).map_err(|_| ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn notice(dropped: u64) -> String {
        format!("{dropped} dropped")
    }

    fn queue(room: usize) -> (Queue, Receiver<String>) {
        // The channel has no capacity: a write blocks until it is read.
        let (sender, reader) = mpsc::sync_channel(0);
        (Queue::with_room(Pipe(sender), notice, room), reader)
    }

    fn offer(queue: &Queue, text: &str) -> Offered {
        queue.offer(text.into()).expect("somebody who may read")
    }

    #[test]
    fn lines_over_the_queue_limit_are_dropped_and_counted() {
        let (queue, reader) = queue(6);
        assert_eq!(offer(&queue, "one\n"), Offered::Queued);
        for _ in 0..3 {
            assert_eq!(offer(&queue, "more\n"), Offered::Dropped);
        }
        assert_eq!(reader.recv().as_deref(), Ok("one\n"));
        assert_eq!(reader.recv().as_deref(), Ok("3 dropped\n"));
        while queue.0.lock().bytes > 0 {
            thread::yield_now();
        }
        assert_eq!(offer(&queue, "a text that is longer than the room\n"), Offered::Queued);
        assert_eq!(offer(&queue, "five\n"), Offered::Dropped);
        let mut read = String::new();
        while !read.ends_with("1 dropped\n") {
            read += &reader.recv().expect("more");
        }
        assert_eq!(read, "a text that is longer than the room\n1 dropped\n");
    }

    #[tokio::test]
    async fn room_waits_until_the_output_is_read() {
        let (queue, reader) = queue(6);
        queue.push("one\n".into()).expect("open");
        queue.push("two\n".into()).expect("open");
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let read = thread::spawn(move || [reader.recv(), reader.recv()]);
        waiting.await.expect("no panic").expect("room");
        queue.finished().await;
        assert_eq!(queue.unwritten(), None);
        assert_eq!(
            read.join().expect("no panic"),
            [Ok("one\n".to_owned()), Ok("two\n".to_owned())]
        );
    }

    #[tokio::test]
    async fn closed_reader_is_reported_as_broken_pipe() {
        let (queue, reader) = queue(6);
        queue.push("one\n".into()).expect("open");
        queue.push("two\n".into()).expect("open");
        drop(reader);
        assert_eq!(queue.failed().await.kind(), ErrorKind::BrokenPipe);
        assert_eq!(queue.room().await.map_err(|why| why.kind()), Err(ErrorKind::BrokenPipe));
        let offered = queue.offer("three\n".into()).map_err(|why| why.kind());
        assert_eq!(offered, Err(ErrorKind::BrokenPipe));
        queue.finished().await;
        assert_eq!(queue.unwritten(), None, "nobody is there to read it");
    }

    #[test]
    fn flush_times_out_if_the_output_is_not_read() {
        let (queue, reader) = queue(6);
        offer(&queue, "one\n");
        offer(&queue, "more\n");
        queue.flush(Some(Duration::from_millis(1))).expect("open");
        assert_eq!(queue.unwritten(), Some(Unwritten { bytes: 4, dropped: 1 }));
        drop(reader);
    }
}
