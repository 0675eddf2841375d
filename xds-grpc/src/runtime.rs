//! What a runtime lends to clients and servers: tasks, time, connections. Nothing else of them is tied to
//! one.

use core::{
    fmt::Debug,
    future::{Future, pending},
    net::SocketAddr,
    pin::Pin,
    time::Duration,
};
use std::{io, net::TcpListener, path::PathBuf, sync::Arc, time::Instant};

use futures_util::future::{AbortHandle, abortable};
use hyper::rt::{Executor, Read, Sleep, Timer, Write};
use tokio::select;

use crate::{client::Resolving, keepalive::Keepalive};

/// A future on the heap, as traits that are no generics hand them out.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A listener on a socket of this machine, as the standard library has it.
#[cfg(unix)]
pub type StdUnixListener = std::os::unix::net::UnixListener;

/// A listener on a socket of this machine: there are none on this system.
#[cfg(not(unix))]
pub type StdUnixListener = core::convert::Infallible;

/// What bytes go over: a connection of a runtime in the form that hyper has for it.
pub trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

/// A runtime, as far as clients need one.
///
/// Its clock is that of [`Timer`]: whatever is timed here asks it, so that a runtime whose clock can be
/// stopped in tests stops all.
pub trait Runtime: Timer + Debug + Send + Sync + 'static {
    /// Runs a task until it is done. A panic in it is nobody else's.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs what may block for long, as a file of credentials can that is on a network.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>);

    /// Connects over TCP, and [sets the socket up](crate::socket::set_up).
    fn connect(
        &self,
        address: SocketAddr,
        keepalive: Keepalive,
    ) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;

    /// Connects to a socket of this machine.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](io::ErrorKind::Unsupported) where there are none.
    fn connect_unix(&self, path: PathBuf) -> BoxFuture<'static, io::Result<Box<dyn Io>>>;

    /// The addresses behind a name, as the operating system knows them.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// A runtime, as far as servers need one besides.
pub trait Listen: Runtime + Clone + Default {
    /// Where connections over TCP come from.
    type Listener: Debug + Send + Sync + 'static;

    /// Where connections over a socket of this machine come from.
    type UnixListener: Debug + Send + Sync + 'static;

    /// Makes a TCP listener one of the runtime.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn tcp_listener(listener: TcpListener) -> io::Result<Self::Listener>;

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn local_address(listener: &Self::Listener) -> io::Result<SocketAddr>;

    /// Waits for a connection, and [sets its socket up](crate::socket::set_up_accepted). With it comes
    /// the address of whoever connects. Cancel safe.
    fn accept(
        listener: &Self::Listener,
        keepalive: Keepalive,
    ) -> impl Future<Output = io::Result<(Box<dyn Io>, Option<SocketAddr>)>> + Send;

    /// Makes a listener on a socket of this machine one of the runtime. It never blocks.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn unix_listener(listener: StdUnixListener) -> io::Result<Self::UnixListener>;

    /// Waits for a connection over a socket of this machine. Cancel safe.
    fn accept_unix(
        listener: &Self::UnixListener,
    ) -> impl Future<Output = io::Result<Box<dyn Io>>> + Send;
}

/// A runtime that everything here shares, and what can be done with any.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<dyn Runtime>);

impl Shared {
    pub(crate) fn new(runtime: impl Runtime) -> Self {
        Self(Arc::new(runtime))
    }

    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.0
    }

    /// Runs a task until it is done.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(Box::pin(task));
    }

    /// Runs a task until it is done or what is returned is dropped.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        let (task, handle) = abortable(task);
        // Nobody asks whether it was stopped.
        self.spawn(async { task.await.unwrap_or_default() });
        Task(handle)
    }

    /// What comes of `work`; `None` if it takes longer.
    pub(crate) async fn timeout<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let late = self.0.sleep(limit);
        select! {
            biased;
            done = work => Some(done),
            () = late => None,
        }
    }
}

impl Timer for Shared {
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

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Shared {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

/// A task that ends with this.
#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A time to wait for, which may be put off or brought forward.
pub(crate) struct Alarm {
    runtime: Shared,
    set: Option<(Instant, Pin<Box<dyn Sleep>>)>,
}

impl Alarm {
    pub(crate) const fn new(runtime: Shared) -> Self {
        Self { runtime, set: None }
    }

    /// Sets when it rings; `None` is never.
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

    /// Waits until it rings. Cancel safe.
    pub(crate) async fn ring(&mut self) {
        match &mut self.set {
            Some((_, sleep)) => sleep.as_mut().await,
            None => pending().await,
        }
        self.set = None;
    }
}

/// How often a loop that always finds something to do lets others have their turn.
#[derive(Debug, Default)]
pub(crate) struct Budget(u8);

impl Budget {
    const TURNS: u8 = 64;

    /// Takes a turn, after which others may have to have theirs.
    pub(crate) async fn spend(&mut self) {
        self.0 += 1;
        if self.0 == Self::TURNS {
            self.0 = 0;
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
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// A runtime that does nothing, on which whoever sleeps wakes at once.
    #[derive(Debug)]
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
    fn an_alarm_that_is_not_set_does_not_ring_and_rings_once() {
        let mut alarm = Alarm::new(Shared::new(Still));
        assert!(alarm.ring().now_or_never().is_none());
        alarm.set(Some(Instant::now()));
        assert!(alarm.ring().now_or_never().is_some());
        assert!(alarm.ring().now_or_never().is_none());
        alarm.set(Some(Instant::now()));
        alarm.set(None);
        assert!(alarm.ring().now_or_never().is_none());
    }

    #[test]
    fn a_loop_that_never_waits_lets_others_have_their_turn() {
        let mut budget = Budget::default();
        let turns = (0..1_000).filter(|_| budget.spend().now_or_never().is_none()).count();
        assert_eq!(turns, 1_000 / usize::from(Budget::TURNS));
    }
}
