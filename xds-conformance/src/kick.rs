//! The kick oracle, which finds lost wake-ups: tasks that wait without anything to wake them.
//!
//! When the program is idle, the oracle wakes every task once. A task that returned
//! [`Poll::Pending`] with all its wakers registered finds nothing to do. If anything visible
//! happens (a write, a connection that is opened or closed, a spawned task, a new timer) although
//! no message arrived and no timer expired, a wake-up was lost. The oracle does not need to know
//! the protocol.
//!
//! [`Kicked`] is a runtime whose tasks can be woken this way. Its connections are in-memory pipes,
//! so runs are deterministic with a paused clock. Futures within one task that have their own
//! wakers are not polled by waking the task.

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

/// Capacity of a pipe in each direction, in bytes.
const PIPE: usize = 1 << 16;

/// Tasks and connections that use [`Kicked`] on one thread, with a counter of
/// their visible actions.
#[derive(Clone, Debug, Default)]
pub struct World(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<WorldState>,
    /// Number of visible actions.
    seen: AtomicU64,
}

#[derive(Default)]
struct WorldState {
    tasks: Vec<Weak<Mutex<Option<Waker>>>>,
    /// Addresses of connections not accepted yet, with their remote ends.
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
    /// Creates a world for everything that is started on this thread from now on.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let world = Self::default();
        CURRENT.set(Some(world.clone()));
        world
    }

    /// Waits for the next connection, and returns its address and its remote end. Cancel safe.
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

    /// Returns the number of visible actions so far.
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

    /// Wakes every task and checks that nothing visible happens.
    ///
    /// `quiet` waits until the program is idle.
    ///
    /// # Panics
    ///
    /// Panics if the program is not idle, or if waking the tasks causes a visible action.
    pub async fn assert_no_wake_up_is_lost(&self, mut quiet: impl AsyncFnMut(), when: &str) {
        quiet().await;
        let before = self.seen();
        quiet().await;
        assert_eq!(self.seen(), before, "{when}: unexpected wake-up");
        self.kick();
        quiet().await;
        assert_eq!(self.seen(), before, "{when}: a wake-up was lost");
    }

    fn note(&self) {
        self.0.seen.fetch_add(1, Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runtime whose tasks can all be woken at once.
///
/// Tasks and timers are those of the inner runtime. Connections are in-memory pipes,
/// whatever the address.
#[derive(Clone, Debug)]
pub struct Kicked<R> {
    inner: R,
    world: World,
}

impl<R: Default> Default for Kicked<R> {
    /// Creates a runtime in the world of this thread.
    ///
    /// # Panics
    ///
    /// Panics if [`World::of_this_thread`] was not called on this thread.
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

/// Local end of a connection.
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
