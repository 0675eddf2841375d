//! Whose code is running, so that a panic is told as whose it is, and what users count in their own.
//!
//! All of it is of the thread that makes a run.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt, mem,
    panic::{self, AssertUnwindSafe},
    sync::Once,
    thread,
};

use crate::{
    oracle::{NO_PANIC, Rule},
    world::Party,
};

const SCENARIO: Rule = Rule::new("scenario", "what a scenario asserts holds, and it has an end");
const APPLICATION: Rule =
    Rule::new("application", "an application does not panic, whatever it is told");
const CONTROL_PLANE: Rule =
    Rule::new("control plane", "a control plane does not panic, whatever it is asked");
const ORACLE: Rule = Rule::new("oracle", "an oracle judges whatever happens, and does not panic");
const WORLD: Rule = Rule::new("world", "the simulation itself does not panic");

/// Who has the word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Who {
    /// The scenario, as long as nobody else has it.
    #[default]
    Scenario,
    /// The world, between what it asks of others.
    World,
    /// One of our state machines, which does this.
    Core(Party, &'static str),
    /// An application of the user's.
    Application,
    /// A control plane of the user's.
    ControlPlane,
    /// A judge.
    Oracle,
}

impl Who {
    pub(crate) fn rule(self) -> Rule {
        match self {
            Self::Scenario => SCENARIO,
            Self::World => WORLD,
            Self::Core(..) => NO_PANIC,
            Self::Application => APPLICATION,
            Self::ControlPlane => CONTROL_PLANE,
            Self::Oracle => ORACLE,
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario => f.write_str("the scenario"),
            Self::World => f.write_str("the simulation itself"),
            Self::Core(Party::Client(at), what) => write!(f, "client-{at}, which {what},"),
            Self::Core(Party::Server(at), what) => write!(f, "server-{at}, which {what},"),
            Self::Application => f.write_str("the application"),
            Self::ControlPlane => f.write_str("the control plane"),
            Self::Oracle => f.write_str("an oracle"),
        }
    }
}

thread_local! {
    static WHO: Cell<Who> = const { Cell::new(Who::Scenario) };
    /// Whether a run is made, and where it panicked.
    static RUN: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    static REACHED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Somebody has the word until this is dropped. A panic leaves it as it is, for who catches it.
#[must_use]
pub(crate) struct Turn {
    before: Who,
}

/// Gives the word to somebody.
pub(crate) fn turn_of(who: Who) -> Turn {
    Turn { before: WHO.replace(who) }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !thread::panicking() {
            WHO.set(self.before);
        }
    }
}

/// What came of code that may panic.
#[derive(Debug)]
pub(crate) enum Ended<T> {
    Well(T),
    /// The run was over, and the scenario did not go on.
    Stopped,
    /// Somebody panicked: who, where and with which words.
    Panicked(Who, String),
}

/// What unwinds a scenario whose run is over.
struct Stop;

/// Ends the scenario here: a run in which a rule was broken has no rest.
pub(crate) fn stop() -> ! {
    panic::resume_unwind(Box::new(Stop))
}

/// Makes a part of a run. Of a panic in it nothing is printed: it is told with the run.
pub(crate) fn catch<T>(first: Who, part: impl FnOnce() -> T) -> Ended<T> {
    listen();
    let _turn = turn_of(first);
    let was_run = RUN.replace(true);
    let ended = panic::catch_unwind(AssertUnwindSafe(part));
    RUN.set(was_run);
    match ended {
        Ok(value) => Ended::Well(value),
        Err(panic) if panic.is::<Stop>() => Ended::Stopped,
        Err(panic) => {
            let place = PLACE.take().map(|place| format!(" at {place}")).unwrap_or_default();
            let who = WHO.get();
            Ended::Panicked(who, format!("{who} panics{place}: {}", text_of(panic.as_ref())))
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".into())
}

/// From now on panics within runs are taken down and not printed, of which there would be two thousand when one is made
/// smaller. All others are as before.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // A thread of the user's own that is not this one has its panics printed.
            if RUN.try_with(Cell::get).unwrap_or(false) {
                let place = info.location().map(ToString::to_string);
                let _ = PLACE.try_with(|it| it.replace(place));
            } else {
                before(info);
            }
        }));
    });
}

/// Counts a situation of the user's own, by name: in a scenario, an application, a control plane or an oracle. Outside
/// of a run nothing happens.
///
/// A situation that [`Config::with_situation`](crate::Config::with_situation) names has to be come to in one run of
/// those that [`check`](crate::check()) makes, at least: otherwise what was to be shown about it was shown of
/// nothing.
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
    if RUN.get() {
        REACHED.with_borrow_mut(|reached| *reached.entry(name).or_default() += 1);
    }
}

/// What was counted since the last time.
pub(crate) fn take_reached() -> BTreeMap<&'static str, u64> {
    REACHED.with_borrow_mut(mem::take)
}
