//! Traits that an async runtime implements for clients and servers: tasks, time and connections.

use core::{
    fmt::Debug,
    future::{Future, pending},
    hash::{BuildHasher as _, Hasher as _},
    net::SocketAddr,
    pin::Pin,
    time::Duration,
};
use std::{
    hash::RandomState,
    io,
    path::PathBuf,
    sync::Arc,
    time::{Instant, SystemTime},
};

use futures_util::future::{AbortHandle, abortable};
use hyper::rt::{Executor, Read, Sleep, Timer, Write};
use tokio::{select, sync::oneshot};

use crate::{keepalive::Keepalive, resolve::Resolving, socket::AddressFamilies};

/// Boxed future, as returned by object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Listener on a Unix domain socket.
#[cfg(unix)]
pub type StdUnixListener = std::os::unix::net::UnixListener;

/// Listener on a Unix domain socket. Not supported on this system, so there are no values.
#[cfg(not(unix))]
pub type StdUnixListener = core::convert::Infallible;

/// Byte stream of a connection, with hyper's I/O traits.
pub trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

/// Runtime functions that clients and servers need.
///
/// All timing uses the clock of [`Timer`], so a runtime that pauses its clock in tests pauses
/// everything. A value of the type is passed to clients and servers, so it can carry state, such as
/// the host of a simulated network.
pub trait Runtime: Timer + Debug + Send + Sync + 'static {
    /// Spawns a task. A panic in it must not affect other tasks.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs work that may block, such as reading a credentials file from a network file system.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>);

    /// Connects over TCP and [sets the socket options](crate::socket::set_up).
    fn connect(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;

    /// Connects to a Unix domain socket.
    ///
    /// # Errors
    ///
    /// Returns [`Unsupported`](io::ErrorKind::Unsupported) on systems without Unix domain sockets.
    fn connect_unix(&self, path: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;

    /// Resolves a host name with the operating system's resolver.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;

    /// Returns the date and time, for the validity of certificates and tokens and for the times in
    /// a client status. Default: the operating system's.
    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Returns a number that differs in every process and every call. It seeds decisions such as
    /// the jitter of retries, and is not suitable for cryptography. Default: random.
    fn entropy(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// Runs the task that watches a file which serves as a management server. Default: on a thread
    /// of its own, so that a disk that hangs blocks nothing else.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    #[cfg(feature = "files")]
    fn watch_files(&self, task: xds_fs::WatchTask) -> io::Result<()> {
        task.start_thread()
    }
}

/// Runtime functions that servers need in addition to [`Runtime`].
pub trait Listen: Runtime + Clone {
    /// TCP listener.
    type Listener: Debug + Send + Sync + 'static;

    /// Listener on a Unix domain socket.
    type UnixListener: Debug + Send + Sync + 'static;

    /// Binds a TCP listener to an address. Runtimes on sockets of the operating system use
    /// [`socket::listen`](crate::socket::listen).
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system, for example if the address is in use.
    fn bind(&self, address: SocketAddr, families: AddressFamilies) -> io::Result<Self::Listener>;

    /// Returns the local address of a listener.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system.
    fn local_address(&self, listener: &Self::Listener) -> io::Result<SocketAddr>;

    /// Waits for a connection and [sets its socket options](crate::socket::set_up_accepted). Cancel
    /// safe.
    fn accept(
        &self,
        listener: &Self::Listener,
        keepalive: Keepalive,
    ) -> impl Future<Output = io::Result<Accepted>> + Send;

    /// Registers a listener on a Unix domain socket with the runtime. The listener is non-blocking.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system, or [`Unsupported`](io::ErrorKind::Unsupported).
    fn unix_listener(&self, listener: StdUnixListener) -> io::Result<Self::UnixListener>;

    /// Waits for a connection over a Unix domain socket. Cancel safe.
    fn accept_unix(
        &self,
        listener: &Self::UnixListener,
    ) -> impl Future<Output = io::Result<Box<dyn Io>>> + Send;
}

/// TCP connection that a listener has accepted.
pub struct Accepted {
    /// Byte stream.
    pub io: Box<dyn Io>,
    /// Address of the client.
    pub peer: Option<SocketAddr>,
    /// Address to which the client connected. A listener on all interfaces has one for each of them.
    pub local: Option<SocketAddr>,
}

impl Debug for Accepted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { peer, local, .. } = self;
        f.debug_struct("Accepted").field("peer", peer).field("local", local).finish_non_exhaustive()
    }
}

/// Reference-counted runtime of any type, with additional functions based on those of [`Runtime`].
#[derive(Clone, Debug)]
pub struct SharedRuntime(Arc<dyn Runtime>);

impl SharedRuntime {
    /// Shares a runtime.
    #[must_use]
    pub fn new(runtime: impl Runtime) -> Self {
        Self(Arc::new(runtime))
    }

    /// Returns the runtime.
    #[must_use]
    pub fn runtime(&self) -> &dyn Runtime {
        &*self.0
    }

    /// Returns the runtime's [date and time](Runtime::system_time).
    #[must_use]
    pub fn system_time(&self) -> SystemTime {
        self.0.system_time()
    }

    /// Spawns a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(Box::pin(task));
    }

    /// Spawns a task that is aborted when the returned [`Task`] is dropped.
    #[must_use = "the task is aborted when the returned value is dropped"]
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        let (task, handle) = abortable(task);
        // Whether the task was aborted does not matter.
        self.spawn(async { task.await.unwrap_or_default() });
        Task(handle)
    }

    /// Runs work that may block, and returns its result. Returns `None` if the work panics or the
    /// runtime ends.
    pub async fn unblock<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        // The caller may be gone.
        self.0.spawn_blocking(Box::new(move || drop(sender.send(work()))));
        receiver.await.ok()
    }

    /// Returns the output of `work`, or `None` if it takes longer than `limit`.
    pub async fn timeout<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        Self::until(self.0.sleep(limit), work).await
    }

    /// Returns the output of `work`, or `None` if it is not available by the deadline.
    pub async fn timeout_at<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        Self::until(self.0.sleep_until(deadline), work).await
    }

    async fn until<T>(late: Pin<Box<dyn Sleep>>, work: impl Future<Output = T>) -> Option<T> {
        select! {
            biased;
            done = work => Some(done),
            () = late => None,
        }
    }
}

impl Timer for SharedRuntime {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.0.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.0.sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        self.0.reset(sleep, deadline);
    }
}

impl Runtime for SharedRuntime {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.spawn_blocking(work);
    }

    fn connect(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        self.0.connect(address, keepalive)
    }

    fn connect_unix(&self, path: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        self.0.connect_unix(path)
    }

    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        self.0.resolve(host, port)
    }

    fn system_time(&self) -> SystemTime {
        self.0.system_time()
    }

    fn entropy(&self) -> u64 {
        self.0.entropy()
    }

    #[cfg(feature = "files")]
    fn watch_files(&self, task: xds_fs::WatchTask) -> io::Result<()> {
        self.0.watch_files(task)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for SharedRuntime {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

/// Handle that aborts its task when dropped.
#[derive(Debug)]
pub struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Resettable timer.
pub(crate) struct Alarm {
    runtime: SharedRuntime,
    set: Option<(Instant, Pin<Box<dyn Sleep>>)>,
}

impl Alarm {
    pub(crate) const fn new(runtime: SharedRuntime) -> Self {
        Self { runtime, set: None }
    }

    /// Sets the time at which the alarm rings; `None` disables it.
    pub(crate) fn set(&mut self, at: Option<Instant>) {
        let Some(at) = at else {
            self.set = None;
            return;
        };
        match &mut self.set {
            Some((was, _)) if *was == at => {}
            Some((was, sleep)) => {
                *was = at;
                self.runtime.reset(sleep, at);
            }
            None => self.set = Some((at, self.runtime.sleep_until(at))),
        }
    }

    /// Waits until the alarm rings. Cancel safe.
    pub(crate) async fn ring(&mut self) {
        match &mut self.set {
            Some((_, sleep)) => sleep.as_mut().await,
            None => pending().await,
        }
        self.set = None;
    }
}

/// Cooperative yielding for a loop that always has work.
#[derive(Debug, Default)]
pub(crate) struct Budget(u8);

impl Budget {
    const ITERATIONS: u8 = 64;

    /// Counts one iteration and yields to other tasks every 64 iterations.
    pub(crate) async fn spend(&mut self) {
        self.0 += 1;
        if self.0 == Self::ITERATIONS {
            self.0 = 0;
            yield_now().await;
        }
    }
}

/// Yields to other tasks once.
pub async fn yield_now() {
    let mut has_yielded = false;
    core::future::poll_fn(|cx| {
        if core::mem::replace(&mut has_yielded, true) {
            return core::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        core::task::Poll::Pending
    })
    .await;
}

#[cfg(test)]
pub(crate) mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Runtime that does nothing and whose sleeps end immediately.
    #[derive(Clone, Debug)]
    pub(crate) struct Still;

    struct Over;

    impl Future for Over {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut core::task::Context<'_>) -> core::task::Poll<()> {
            core::task::Poll::Ready(())
        }
    }

    impl Sleep for Over {}

    impl Timer for Still {
        fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
            Box::pin(Over)
        }

        fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
            Box::pin(Over)
        }
    }

    impl Runtime for Still {
        fn spawn(&self, _: BoxFuture<'static, ()>) {}

        fn spawn_blocking(&self, _: Box<dyn FnOnce() + Send>) {}

        fn connect(
            &self,
            _: SocketAddr,
            _: Keepalive,
        ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
            Box::pin(pending())
        }

        fn connect_unix(&self, _: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
            Box::pin(pending())
        }

        fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> {
            Box::pin(pending())
        }
    }

    #[test]
    fn alarm_fires_once_and_only_if_set() {
        let mut alarm = Alarm::new(SharedRuntime::new(Still));
        assert!(alarm.ring().now_or_never().is_none());
        alarm.set(Some(Instant::now()));
        assert!(alarm.ring().now_or_never().is_some());
        assert!(alarm.ring().now_or_never().is_none());
        alarm.set(Some(Instant::now()));
        alarm.set(None);
        assert!(alarm.ring().now_or_never().is_none());
    }

    /// Runtime that has its own date, entropy and file watches.
    #[derive(Debug)]
    struct Fixed;

    impl Timer for Fixed {
        fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
            Still.sleep(duration)
        }

        fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
            Still.sleep_until(deadline)
        }
    }

    impl Runtime for Fixed {
        fn spawn(&self, task: BoxFuture<'static, ()>) {
            Still.spawn(task);
        }

        fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
            Still.spawn_blocking(work);
        }

        fn connect(
            &self,
            address: SocketAddr,
            keepalive: Keepalive,
        ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
            Still.connect(address, keepalive)
        }

        fn connect_unix(&self, path: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
            Still.connect_unix(path)
        }

        fn resolve<'a>(&'a self, _: &'a str, _: u16) -> Resolving<'a> {
            Box::pin(pending())
        }

        fn system_time(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }

        fn entropy(&self) -> u64 {
            7
        }

        #[cfg(feature = "files")]
        fn watch_files(&self, _: xds_fs::WatchTask) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn shared_runtime_is_the_runtime_in_it() {
        // A shared runtime is a runtime, so it may be shared again.
        let shared = SharedRuntime::new(SharedRuntime::new(Fixed));
        let runtime: &dyn Runtime = &shared;
        assert_eq!((runtime.system_time(), runtime.entropy()), (SystemTime::UNIX_EPOCH, 7));
        #[cfg(feature = "files")]
        {
            let place = xds_fs::Place::File("a".into());
            let (_watch, task) = xds_fs::Watch::with_task(place, &Default::default(), |_| {});
            let started = runtime.watch_files(task).map_err(|why| why.kind());
            assert_eq!(started, Err(io::ErrorKind::Unsupported));
        }
    }

    #[test]
    fn entropy_differs_between_calls() {
        assert_ne!(Still.entropy(), Still.entropy());
    }

    #[test]
    fn busy_loop_yields_after_its_budget() {
        let mut budget = Budget::default();
        let turns = (0..1_000).filter(|_| budget.spend().now_or_never().is_none()).count();
        assert_eq!(turns, 1_000 / usize::from(Budget::ITERATIONS));
    }
}
