//! The kick oracle: whether a task waits for something that nobody wakes it for.
//!
//! When all is quiet, every task is woken once. A task that returned [`Poll::Pending`] with all wakers in place finds
//! nothing to do. If anything visible happens (a byte is written, a connection is dialled or closed, a task is
//! spawned, a timer is set) though no message came and no timer ran out, a wake-up was lost. The oracle needs
//! no knowledge of the protocol.
//!
//! [`Kicked`] is a runtime whose tasks can be woken that way, and whose connections are pipes in memory, so that on a
//! clock that stands still whole runs are deterministic. Futures inside of one task that have wakers of their own are
//! not reached by waking the task.

use core::{
    cell::RefCell,
    fmt,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use hyper::rt::{Read, ReadBufCursor, Sleep, Timer, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{DuplexStream, duplex};
use xds_grpc::{
    Keepalive,
    client::Resolving,
    runtime::{BoxFuture, Io, Runtime},
};

/// The bytes that a pipe holds in each direction.
const PIPE: usize = 1 << 16;

/// What runs on [`Kicked`] on one thread: its tasks, its connections, and what is seen of it from outside.
#[derive(Clone, Debug, Default)]
pub struct World(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// How much has happened that can be seen from outside.
    seen: AtomicU64,
}

#[derive(Default)]
struct State {
    tasks: Vec<Weak<Mutex<Option<Waker>>>>,
    /// Where connections were dialled to, and their far ends.
    dialled: VecDeque<(SocketAddr, DuplexStream)>,
    accepting: Option<Waker>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("seen", &self.seen).finish_non_exhaustive()
    }
}

thread_local! {
    static CURRENT: RefCell<Option<World>> = const { RefCell::new(None) };
}

impl World {
    /// A world for what is started on this thread from now on.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let world = Self::default();
        CURRENT.set(Some(world.clone()));
        world
    }

    /// Where the next connection is dialled to, and its far end. Cancel safe.
    pub async fn accept(&self) -> (SocketAddr, DuplexStream) {
        poll_fn(|cx| {
            let mut state = self.lock();
            match state.dialled.pop_front() {
                Some(dialled) => Poll::Ready(dialled),
                None => {
                    state.accepting = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// How much has happened so far that can be seen from outside.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.0.seen.load(Ordering::SeqCst)
    }

    /// Wakes every task.
    pub fn kick(&self) {
        let tasks = self.lock().tasks.clone();
        for task in tasks.iter().filter_map(Weak::upgrade) {
            let waker = task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Wakes every task, and fails if that makes a difference. `quiet` waits until nothing happens any more by itself.
    ///
    /// # Panics
    ///
    /// Something happened that had waited for nothing.
    pub async fn assert_no_wake_up_is_lost(&self, mut quiet: impl AsyncFnMut(), when: &str) {
        quiet().await;
        let before = self.seen();
        quiet().await;
        assert_eq!(self.seen(), before, "{when}: it was not quiet");
        self.kick();
        quiet().await;
        assert_eq!(self.seen(), before, "{when}: a wake-up was lost");
    }

    fn note(&self) {
        self.0.seen.fetch_add(1, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A runtime whose tasks can be woken all at once. Tasks and time are those of another one; connections are pipes
/// in memory, to whatever address.
#[derive(Clone, Debug)]
pub struct Kicked<R> {
    inner: R,
    world: World,
}

impl<R: Default> Default for Kicked<R> {
    /// In the world of this thread.
    ///
    /// # Panics
    ///
    /// There is none.
    fn default() -> Self {
        let world = CURRENT.with_borrow(Clone::clone).expect("a world was made on this thread");
        Self { inner: R::default(), world }
    }
}

impl<R: Runtime> Timer for Kicked<R> {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.world.note();
        self.inner.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.world.note();
        self.inner.sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        self.world.note();
        self.inner.reset(sleep, deadline);
    }
}

impl<R: Runtime> Runtime for Kicked<R> {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.world.note();
        let waker = Arc::default();
        let mut state = self.world.lock();
        state.tasks.retain(|task| task.strong_count() > 0);
        state.tasks.push(Arc::downgrade(&waker));
        drop(state);
        self.inner.spawn(Box::pin(Task { task, waker }));
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.inner.spawn_blocking(work);
    }

    fn connect(
        &self,
        address: SocketAddr,
        _: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        self.world.note();
        let (near, far) = duplex(PIPE);
        let mut state = self.world.lock();
        state.dialled.push_back((address, far));
        if let Some(accepting) = state.accepting.take() {
            accepting.wake();
        }
        drop(state);
        let io = Pipe { io: TokioIo::new(near), world: self.world.clone() };
        Box::pin(core::future::ready(Ok(Box::new(io) as _)))
    }

    fn connect_unix(&self, _: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        self.connect(([127, 0, 0, 1], 0).into(), Keepalive::CLIENT)
    }

    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(core::future::ready(Ok(vec![([127, 0, 0, 1], port).into()])))
    }
}

struct Task {
    task: BoxFuture<'static, ()>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        self.task.as_mut().poll(cx)
    }
}

/// The near end of a connection.
struct Pipe {
    io: TokioIo<DuplexStream>,
    world: World,
}

impl Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        if written.is_ready() {
            self.world.note();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        if written.is_ready() {
            self.world.note();
        }
        written
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.world.note();
    }
}
