//! Single-threaded executor whose order of tasks is drawn from a seed.
//!
//! It is itself a future, which a current-thread tokio runtime with a paused clock polls. So
//! `tokio::spawn` and `tokio::time` work in its tasks, and the clock jumps to the next timer
//! whenever all tasks are idle.

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    mem::take,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Wake,
    thread::{self, ThreadId},
};

use rand_pcg::{Pcg32, rand_core::Rng as _};

use super::memory::Memory;
use crate::world::actor::{self, Actor, Caught};

/// Future of a task.
pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Index of a host.
pub(crate) type HostId = usize;

/// Maximum number of tasks polled before tokio's own tasks get a turn.
const POLLS_PER_TURN: usize = 32;

/// Tasks of all hosts.
#[derive(Clone, Default)]
pub(crate) struct Executor {
    state: Arc<Mutex<ExecutorState>>,
    check: Arc<ThreadCheck>,
    memory: Memory,
}

/// Whether tasks are woken on the thread of the run only.
struct ThreadCheck {
    own: ThreadId,
    was_woken_elsewhere: AtomicBool,
}

impl Default for ThreadCheck {
    fn default() -> Self {
        Self { own: thread::current().id(), was_woken_elsewhere: AtomicBool::new(false) }
    }
}

#[derive(Default)]
struct ExecutorState {
    tasks: BTreeMap<u64, Task>,
    next_task: u64,
    /// Tasks to poll, sorted.
    ready: Vec<Ready>,
    /// Waker of the future that polls the tasks.
    waker: Option<Waker>,
    /// Task that is being polled.
    current: Option<u64>,
    /// Order of ready tasks; `None` polls them in the order of the polls that woke them.
    order: Option<Pcg32>,
    polls: u64,
    /// Panics of tasks with their hosts, in order.
    panics: Vec<(HostId, String)>,
}

/// Task to poll. Those that one poll has woken are ordered by their ids, because a library may wake
/// several in an order that no seed determines, as `tokio::sync::watch` does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    /// Number of polls before it was woken.
    woken_at: u64,
    id: u64,
}

struct Task {
    host: HostId,
    /// `None` while it is being polled.
    future: Option<TaskFuture>,
    is_ready: bool,
}

thread_local! {
    /// Host of the task that is being polled on this thread.
    static CURRENT_HOST: Cell<Option<HostId>> = const { Cell::new(None) };
}

/// Host of the task that is being polled on this thread.
pub(crate) fn current_host() -> Option<HostId> {
    CURRENT_HOST.get()
}

/// Stream number of the generator, so that other users of a seed draw different values.
const STREAM: u64 = 0x7374_6167_655f_6f72;

impl Executor {
    /// Memory of the hosts whose tasks it polls.
    pub(crate) const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Draws the order of ready tasks from a seed. Seed 0 keeps the order of the polls that woke
    /// them.
    pub(crate) fn set_order(&self, seed: u32) {
        self.lock().order = (seed != 0).then(|| Pcg32::new(u64::from(seed), STREAM));
    }

    pub(crate) fn spawn(&self, host: HostId, future: TaskFuture) {
        self.memory.of_simulation(|| {
            let mut state = self.lock();
            let id = state.next_task;
            state.next_task += 1;
            state.tasks.insert(id, Task { host, future: Some(future), is_ready: false });
            let waker = state.wake(id);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        });
    }

    /// Wakes every task.
    pub(crate) fn kick(&self) {
        let mut state = self.lock();
        let mut waker = None;
        for id in 0..state.next_task {
            waker = state.wake(id).or(waker);
        }
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Drops the tasks of a host, as if its process were killed.
    ///
    /// # Panics
    ///
    /// Panics if it is called by a task of this host.
    pub(crate) fn kill(&self, host: HostId) {
        let mut state = self.lock();
        let is_own = |id| state.tasks.get(&id).is_some_and(|task: &Task| task.host == host);
        assert!(!state.current.is_some_and(is_own), "a task cannot kill its own host");
        let (killed, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
            take(&mut state.tasks).into_iter().partition(|(_, task)| task.host == host);
        state.tasks = kept;
        drop(state);
        // Futures may wake tasks when they are dropped, so the state is not locked.
        self.memory.of_host(host, || drop(killed));
    }

    /// Number of tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.lock().tasks.len()
    }

    /// Number of times that a task was polled.
    pub(crate) fn polls(&self) -> u64 {
        self.lock().polls
    }

    /// Whether another thread has woken a task.
    pub(crate) fn was_woken_elsewhere(&self) -> bool {
        self.check.was_woken_elsewhere.load(Ordering::Relaxed)
    }

    /// Returns the hosts and messages of the panics since the last call.
    pub(crate) fn take_panics(&self) -> Vec<(HostId, String)> {
        take(&mut self.lock().panics)
    }

    /// Polls ready tasks. Never completes.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        for _ in 0..POLLS_PER_TURN {
            let Some((id, host, mut future)) = self.begin(cx) else { return Poll::Pending };
            let (state, check) = (Arc::downgrade(&self.state), Arc::clone(&self.check));
            let waker = Waker::from(Arc::new(TaskWaker { id, state, check }));
            CURRENT_HOST.set(Some(host));
            let polled = self.memory.of_host(host, || {
                actor::catch(Actor::Task, || future.as_mut().poll(&mut Context::from_waker(&waker)))
            });
            CURRENT_HOST.set(None);
            let unused = self.finish((id, host), future, polled);
            // A future may wake tasks when it is dropped, so the state is not locked.
            self.memory.of_host(host, || drop(unused));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes the next task.
    fn begin(&self, cx: &Context<'_>) -> Option<(u64, HostId, TaskFuture)> {
        let mut state = self.lock();
        loop {
            if state.ready.is_empty() {
                state.waker = Some(cx.waker().clone());
                return None;
            }
            let count = u64::try_from(state.ready.len()).unwrap_or(u64::MAX);
            let drawn =
                state.order.as_mut().map(|order| (u64::from(order.next_u32()) * count) >> 32);
            let at = usize::try_from(drawn.unwrap_or_default()).unwrap_or_default();
            let Ready { id, .. } = state.ready.remove(at);
            // A killed task may still be listed.
            let Some(task) = state.tasks.get_mut(&id) else { continue };
            task.is_ready = false;
            let Some(future) = task.future.take() else { continue };
            let host = task.host;
            state.current = Some(id);
            state.polls += 1;
            return Some((id, host, future));
        }
    }

    /// Returns a polled task, or its future if the task has ended.
    fn finish(
        &self,
        (id, host): (u64, HostId),
        future: TaskFuture,
        polled: Caught<Poll<()>>,
    ) -> Option<TaskFuture> {
        let mut state = self.lock();
        state.current = None;
        match polled {
            Caught::Finished(Poll::Pending) => {
                // A killed task is not listed any more.
                let Some(task) = state.tasks.get_mut(&id) else { return Some(future) };
                task.future = Some(future);
                return None;
            }
            Caught::Finished(Poll::Ready(())) | Caught::Stopped => {}
            Caught::Panicked(_, what) => state.panics.push((host, what)),
        }
        state.tasks.remove(&id);
        Some(future)
    }

    fn lock(&self) -> MutexGuard<'_, ExecutorState> {
        // Tasks are not polled under the lock, so a panic leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExecutorState {
    /// Lists a task as ready. Returns the waker of the executor if it has to be woken.
    fn wake(&mut self, id: u64) -> Option<Waker> {
        let task = self.tasks.get_mut(&id)?;
        if core::mem::replace(&mut task.is_ready, true) {
            return None;
        }
        let ready = Ready { woken_at: self.polls, id };
        let at = self.ready.partition_point(|other| *other < ready);
        self.ready.insert(at, ready);
        self.waker.take()
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("tasks", &self.tasks()).finish_non_exhaustive()
    }
}

struct TaskWaker {
    id: u64,
    state: Weak<Mutex<ExecutorState>>,
    check: Arc<ThreadCheck>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let Some(state) = self.state.upgrade() else { return };
        if thread::current().id() != self.check.own {
            self.check.was_woken_elsewhere.store(true, Ordering::Relaxed);
        }
        let waker = state.lock().unwrap_or_else(PoisonError::into_inner).wake(self.id);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
