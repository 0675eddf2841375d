//! A simulated machine, as a runtime of clients and servers.

use core::{
    fmt,
    future::{Future, ready},
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{
    cell::RefCell,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioIo;
use tokio::time::Instant as TokioInstant;
use xds_core::Time;
use xds_fs::WatchTask;
use xds_grpc::{
    Keepalive,
    client::Resolving,
    runtime::{Accepted, BoxFuture, Io, Listen, Runtime, StdUnixListener},
    socket::{AddressFamilies, accepted_dead_after, dead_after},
};

use super::{
    files::FileWatches,
    network::{ListenerId, Network, Socket},
    run::{
        entropy,
        executor::{self, Executor, HostId},
        log::Log,
    },
};
use crate::trace::{EventKind, ParticipantId};

/// Simulated machine of a [`Stage`](super::Stage): the [`Runtime`] of the clients and servers that
/// run on it. Clones are the same machine.
///
/// Blocking work runs at once, on the only thread. Unix domain sockets are not supported. The date
/// advances with the virtual clock ([`set_date`](Self::set_date)).
#[derive(Clone)]
pub struct Host {
    pub(super) shared: Arc<HostShared>,
}

pub(super) struct HostShared {
    pub(super) name: String,
    pub(super) id: HostId,
    pub(super) address: IpAddr,
    pub(super) lane: ParticipantId,
    pub(super) executor: Executor,
    pub(super) network: Network,
    pub(super) log: Log,
    pub(super) file_watches: FileWatches,
    /// Date at the start of the run.
    pub(super) start_date: Mutex<SystemTime>,
}

thread_local! {
    /// Hosts of the run on this thread.
    static HOSTS: RefCell<Vec<Host>> = const { RefCell::new(Vec::new()) };
}

/// Hosts of the run on this thread, until the value is dropped.
#[must_use]
pub(super) struct HostsOfThread(());

impl HostsOfThread {
    pub(super) fn begin() -> Self {
        drop(HOSTS.take());
        Self(())
    }

    pub(super) fn add(host: &Host) {
        HOSTS.with_borrow_mut(|hosts| hosts.push(host.clone()));
    }
}

impl Drop for HostsOfThread {
    fn drop(&mut self) {
        drop(HOSTS.take());
    }
}

impl Host {
    /// Returns the host of the task that is running; `None` outside a run, in the scenario, and in
    /// a task of `tokio::spawn`, which belongs to no host.
    ///
    /// ```
    /// use xds_sim::{app, stack::Host};
    ///
    /// let summary = app(|client| async move {
    ///     if let Some(host) = Host::current() {
    ///         host.note("the application begins"); // A line in the timeline.
    ///         host.start(async move { drop(client) });
    ///     }
    /// })
    /// .check(0..3);
    /// assert_eq!(summary.runs, 3);
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        let id = executor::current_host()?;
        HOSTS.with_borrow(|hosts| hosts.get(id).cloned())
    }

    /// Name of the host, which the name service resolves to its address.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Address of the host.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.shared.address
    }

    /// Date and time on this host ([`Runtime::system_time`]). A run starts at 2030-01-01 00:00 UTC.
    #[must_use]
    pub fn date(&self) -> SystemTime {
        let start = self.shared.start_date.lock();
        *start.unwrap_or_else(PoisonError::into_inner) + self.shared.log.now().since(Time::ZERO)
    }

    /// Sets the date and time on this host. Timers are not affected.
    pub fn set_date(&self, date: SystemTime) {
        let elapsed = self.shared.log.now().since(Time::ZERO);
        let start = date.checked_sub(elapsed).unwrap_or(SystemTime::UNIX_EPOCH);
        *self.shared.start_date.lock().unwrap_or_else(PoisonError::into_inner) = start;
    }

    /// Spawns a task on the host. It is dropped when the host is [killed](super::Stage::kill), unlike
    /// a task of `tokio::spawn`, which belongs to no host and lives until the end of the run.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tokio::time::sleep;
    /// use xds_sim::stack::{Host, Stage};
    ///
    /// let report = Stage::run(1, async |stage| {
    ///     let host = stage.host("server");
    ///     host.start(async {
    ///         let host = Host::current().expect("a task of a host");
    ///         host.clone().start(async move {
    ///             sleep(Duration::from_secs(5)).await;
    ///             host.note("it lives");
    ///         });
    ///         sleep(Duration::from_secs(100)).await;
    ///     });
    ///     sleep(Duration::from_secs(1)).await;
    ///     stage.kill(&host);
    ///     sleep(Duration::from_secs(10)).await;
    /// });
    /// assert!(!report.trace.to_text(10).contains("it lives"));
    /// ```
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shared = &self.shared;
        let task = shared.executor.memory().of_host(shared.id, || Box::pin(task));
        self.spawn(task);
    }

    /// Records a note in the trace of the run.
    pub fn note(&self, text: impl Into<String>) {
        self.trace(EventKind::Note, text);
    }

    pub(super) fn trace(&self, kind: EventKind, text: impl Into<String>) {
        self.shared.log.local(self.shared.lane, kind, text);
    }

    /// Binds a TCP listener for a server of the application, such as one of tonic. Port 0 selects a
    /// free port.
    ///
    /// # Errors
    ///
    /// Returns an error if the address belongs to another host or is in use.
    pub fn listen(&self, address: SocketAddr) -> io::Result<StageListener> {
        let (address, id) = self.shared.network.listen(self.shared.id, address)?;
        Ok(StageListener { network: self.shared.network.clone(), address, id })
    }

    /// Connects to an address, for a client of the application.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is refused or the address belongs to no host.
    pub fn dial(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Socket>> + Send + 'static {
        self.shared.network.clone().connect(self.shared.id, address)
    }
}

impl Timer for Host {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.shared.log.count_action();
        Box::pin(Until(Box::pin(tokio::time::sleep(duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.shared.log.count_action();
        Box::pin(Until(Box::pin(tokio::time::sleep_until(TokioInstant::from_std(deadline)))))
    }

    fn now(&self) -> Instant {
        TokioInstant::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        self.shared.log.count_action();
        if let Some(until) = sleep.as_mut().downcast_mut_pin::<Until>() {
            until.get_mut().0.as_mut().reset(TokioInstant::from_std(deadline));
        }
    }
}

/// Timer as hyper's trait.
struct Until(Pin<Box<tokio::time::Sleep>>);

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Sleep for Until {}

impl Runtime for Host {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.shared.log.count_action();
        self.shared.executor.spawn(self.shared.id, task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        // Another turn, so that the caller sees it done later, as it does with threads.
        self.shared.executor.spawn(self.shared.id, Box::pin(async move { work() }));
    }

    fn connect(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let connecting = self.dial(address);
        Box::pin(async move {
            let mut socket = connecting.await?;
            socket.set_dead_after(dead_after(keepalive));
            Ok(Box::new(TokioIo::new(socket)) as _)
        })
    }

    fn connect_unix(&self, _: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        Box::pin(ready(Err(io::ErrorKind::Unsupported.into())))
    }

    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(self.shared.network.clone().resolve(host.into(), port))
    }

    fn system_time(&self) -> SystemTime {
        self.date()
    }

    fn entropy(&self) -> u64 {
        // Hosts outlive their run, for example in a panic message.
        entropy::next().unwrap_or_default()
    }

    fn watch_files(&self, task: WatchTask) -> io::Result<()> {
        self.run_watch(task);
        Ok(())
    }
}

impl Listen for Host {
    type Listener = StageListener;
    type UnixListener = core::convert::Infallible;

    fn bind(&self, address: SocketAddr, _: AddressFamilies) -> io::Result<StageListener> {
        self.listen(address)
    }

    fn local_address(&self, listener: &StageListener) -> io::Result<SocketAddr> {
        Ok(listener.address)
    }

    async fn accept(&self, listener: &StageListener, keepalive: Keepalive) -> io::Result<Accepted> {
        let (mut socket, peer) = listener.accept().await?;
        socket.set_dead_after(accepted_dead_after(keepalive));
        let io = Box::new(TokioIo::new(socket));
        Ok(Accepted { io, peer: Some(peer), local: Some(listener.address) })
    }

    fn unix_listener(&self, _: StdUnixListener) -> io::Result<core::convert::Infallible> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn accept_unix(&self, listener: &core::convert::Infallible) -> io::Result<Box<dyn Io>> {
        match *listener {}
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.shared.name).finish()
    }
}

/// TCP listener of a [`Host`]. Dropping it closes it and the connections not accepted yet.
#[derive(Debug)]
pub struct StageListener {
    network: Network,
    address: SocketAddr,
    id: ListenerId,
}

impl StageListener {
    /// Address of the listener.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for a connection, and returns it with the address of the peer. Cancel safe.
    ///
    /// # Errors
    ///
    /// Returns an error after the host was [killed](super::Stage::kill).
    pub fn accept(&self) -> impl Future<Output = io::Result<(Socket, SocketAddr)>> + Send + '_ {
        self.network.accept(self.address)
    }
}

impl Drop for StageListener {
    fn drop(&mut self) {
        self.network.unbind(self.address, self.id);
    }
}
