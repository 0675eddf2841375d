//! Attribution of panics to the code that is running, and user-defined situations.
//!
//! All state is local to the thread that makes the run.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt, mem,
    panic::{self, AssertUnwindSafe},
    sync::Once,
    thread,
};

use super::{
    Party,
    events::{NO_PANIC, Rule},
};

const SCENARIO: Rule = Rule::new("scenario", "the assertions of a scenario hold, and it ends");
const APPLICATION: Rule = Rule::new("application", "an application does not panic");
const CONTROL_PLANE: Rule = Rule::new("control plane", "a control plane does not panic");
const ORACLE: Rule = Rule::new("oracle", "an oracle does not panic");
#[cfg(feature = "stack")]
const TASK: Rule = Rule::new("no panic", "no task panics");
const WORLD: Rule = Rule::new("world", "the simulation itself does not panic");

/// Owner of the code that is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The scenario, while it calls no other owner's code.
    #[default]
    Scenario,
    /// The world, between its calls to other owners' code.
    World,
    /// A core of this project, with the operation that it performs.
    Core(Party, &'static str),
    /// A user-defined application.
    Application,
    /// A user-defined control plane.
    ControlPlane,
    /// An oracle.
    Oracle,
    /// A task on a stage.
    #[cfg(feature = "stack")]
    Task,
}

impl Actor {
    pub(crate) fn rule(self) -> Rule {
        match self {
            Self::Scenario => SCENARIO,
            Self::World => WORLD,
            Self::Core(..) => NO_PANIC,
            Self::Application => APPLICATION,
            Self::ControlPlane => CONTROL_PLANE,
            Self::Oracle => ORACLE,
            #[cfg(feature = "stack")]
            Self::Task => TASK,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario => f.write_str("the scenario"),
            Self::World => f.write_str("the simulation itself"),
            Self::Core(Party::Client(at), what) => write!(f, "client-{at}, which {what},"),
            Self::Core(Party::Server(at), what) => write!(f, "server-{at}, which {what},"),
            Self::Application => f.write_str("the application"),
            Self::ControlPlane => f.write_str("the control plane"),
            Self::Oracle => f.write_str("an oracle"),
            #[cfg(feature = "stack")]
            Self::Task => f.write_str("a task"),
        }
    }
}

thread_local! {
    static WHO: Cell<Actor> = const { Cell::new(Actor::Scenario) };
    /// Whether a run is in progress, and where it panicked.
    static RUN: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    static REACHED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Guard that attributes panics to an owner until it is dropped. It does not restore the previous
/// owner while unwinding, so that `catch` can read it.
#[must_use]
pub(crate) struct ActorGuard {
    before: Actor,
}

/// Attributes panics to `actor` until the guard is dropped.
pub(crate) fn act_as(actor: Actor) -> ActorGuard {
    ActorGuard { before: WHO.replace(actor) }
}

impl Drop for ActorGuard {
    fn drop(&mut self) {
        if !thread::panicking() {
            WHO.set(self.before);
        }
    }
}

/// Result of code that may panic.
#[derive(Debug)]
pub(crate) enum Caught<T> {
    Finished(T),
    /// The scenario was unwound because the run was over.
    Stopped,
    /// A panic, with its owner and its location and message.
    Panicked(Actor, String),
}

/// Payload that unwinds a scenario whose run is over.
struct Stop;

/// Unwinds the scenario, because a run that broke a rule does not continue.
pub(crate) fn stop() -> ! {
    panic::resume_unwind(Box::new(Stop))
}

/// Executes a part of a run and catches panics. They are reported with the run, not printed.
pub(crate) fn catch<T>(first: Actor, part: impl FnOnce() -> T) -> Caught<T> {
    listen();
    let _guard = act_as(first);
    let was_run = RUN.replace(true);
    let ended = panic::catch_unwind(AssertUnwindSafe(part));
    RUN.set(was_run);
    match ended {
        Ok(value) => Caught::Finished(value),
        Err(panic) if panic.is::<Stop>() => Caught::Stopped,
        Err(panic) => {
            let place = PLACE.take().map(|place| format!(" at {place}")).unwrap_or_default();
            let actor = WHO.get();
            Caught::Panicked(actor, format!("{actor} panics{place}: {}", text_of(panic.as_ref())))
        }
    }
}

/// Returns the location in the description of a panic, such as `src/main.rs:7:5`.
pub(crate) fn location_of(what: &str) -> Option<&str> {
    let (_, rest) = what.split_once(" panics at ")?;
    rest.split_once(": ").map(|(location, _)| location)
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// Installs a panic hook that records panics within runs instead of printing them, because
/// shrinking causes thousands. Other panics are unaffected.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Panics on other threads of the user are printed.
            if RUN.try_with(Cell::get).unwrap_or(false) {
                let place = info.location().map(ToString::to_string);
                let _ = PLACE.try_with(|it| it.replace(place));
            } else if !is_task_panic(info) {
                before(info);
            }
        }));
    });
}

/// Records the panics of tasks of tokio on this thread until the value is dropped.
#[cfg(feature = "stack")]
#[must_use]
pub(crate) fn watch_tokio_tasks() -> TokioTasks {
    listen();
    TASK_PANICS.set(Some(Vec::new()));
    TokioTasks(())
}

/// Returns the panics of tasks of tokio since the previous call.
#[cfg(feature = "stack")]
pub(crate) fn take_task_panics() -> Vec<String> {
    TASK_PANICS.with_borrow_mut(|panics| panics.as_mut().map(mem::take).unwrap_or_default())
}

/// Recording of the panics of tasks of tokio.
#[cfg(feature = "stack")]
pub(crate) struct TokioTasks(());

#[cfg(feature = "stack")]
impl Drop for TokioTasks {
    fn drop(&mut self) {
        TASK_PANICS.set(None);
    }
}

#[cfg(feature = "stack")]
thread_local! {
    static TASK_PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Records a panic of a task of tokio, which catches it itself. Returns whether it is one.
#[cfg(feature = "stack")]
fn is_task_panic(info: &panic::PanicHookInfo<'_>) -> bool {
    if tokio::task::try_id().is_none() {
        return false;
    }
    let place = info.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let text = text_of(info.payload());
    let recorded = TASK_PANICS.try_with(|panics| {
        let mut panics = panics.borrow_mut();
        panics.as_mut().map(|panics| panics.push(format!("a task panics{place}: {text}")))
    });
    matches!(recorded, Ok(Some(())))
}

/// Whether a run on a stage is in progress on this thread, in which tasks of tokio run.
#[cfg(feature = "stack")]
fn is_stack_run() -> bool {
    TASK_PANICS.with_borrow(Option::is_some)
}

#[cfg(not(feature = "stack"))]
const fn is_stack_run() -> bool {
    false
}

#[cfg(not(feature = "stack"))]
const fn is_task_panic(_: &panic::PanicHookInfo<'_>) -> bool {
    false
}

/// Counts a user-defined situation by name, in a scenario, an application, a control plane or an
/// oracle. Has no effect outside a run.
///
/// [`Config::with_situation`](crate::Config::with_situation) makes [`check`](crate::check()) fail
/// unless at least one run reaches the situation. Otherwise a test of a rare situation would pass
/// without testing it.
///
/// ```
/// use std::time::Duration;
/// use xds_sim::{Config, World, check, sometimes, storm::settle};
///
/// let scenario = |world: &mut World| {
///     world.watch(0, 0, Some("r0"));
///     if world.choices().chance("restart", 500) {
///         world.restart_server(0);
///         sometimes("the server restarts before it was asked");
///     }
///     world.advance(Duration::from_secs(1));
///     settle(world);
/// };
/// let config = Config::default().with_situation("the server restarts before it was asked");
/// let report = check(&config.with_runs(20), scenario);
/// assert!(report.situations.own().all(|(_, hits)| hits > 0));
/// ```
pub fn sometimes(name: &'static str) {
    if RUN.get() || is_stack_run() {
        REACHED.with_borrow_mut(|reached| *reached.entry(name).or_default() += 1);
    }
}

/// Returns the counts since the previous call.
pub(crate) fn take_reached() -> BTreeMap<&'static str, u64> {
    REACHED.with_borrow_mut(mem::take)
}
