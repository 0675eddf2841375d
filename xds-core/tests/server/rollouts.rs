//! Reports about a view during a rollout: clients that see its candidate are clients of the view.

use core::time::Duration;

use crate::support::{Rig, payload, transaction, transaction_in, url};
use xds_core::{
    ViewName,
    rollout::{
        Cohort, NodeDetail, RolloutCommand, RolloutId, RolloutPhase, RolloutPolicy, RolloutStep,
        ServerRollouts, Sharing,
    },
    selector::{NodeCondition, NodeField},
    server::{Admission, Applied, OnDemand, ServerConfig, ServerEvent, ServerOutput, Transaction},
};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60 * 60);

/// Server with rollouts, whose first cohort is the client 1.
struct World {
    rig: Rig,
    rollouts: ServerRollouts,
    started: u64,
}

impl World {
    fn new(config: ServerConfig) -> Self {
        let rollouts = ServerRollouts::new(NodeDetail::Full, Sharing::Alone);
        Self { rig: Rig::new(config), rollouts, started: 0 }
    }

    /// Runs a script, and passes the outputs of the server on to the rollouts.
    fn run(&mut self, lines: &str) {
        for line in lines.lines() {
            self.rig.run(line);
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        self.rig.drain();
        let outputs = core::mem::take(&mut self.rig.outputs);
        for output in outputs {
            self.rollouts.handle_output(&mut self.rig.server, &output, self.rig.now);
            if matches!(output, ServerOutput::Event(_) | ServerOutput::Converged { .. }) {
                self.rig.outputs.push(output);
            }
        }
        self.rig.drain();
    }

    /// Starts a rollout to client 1, which waits for a command afterwards.
    fn start(&mut self, change: Transaction) {
        let condition = NodeCondition::new(NodeField::Id, ["node-1"]);
        let step = RolloutStep::new(Cohort::selected([condition])).with_soak(LONG);
        let policy = RolloutPolicy::new([step.with_timeout(LONG)]);
        self.started += 1;
        let (id, now) = (RolloutId(self.started), self.rig.now);
        let started =
            self.rollouts.start(&mut self.rig.server, id, vec![change], policy, None, now);
        started.expect("a sound change");
        self.pass_on();
    }

    fn apply(&mut self, change: Transaction) -> Applied {
        let applied = self.rollouts.apply(&mut self.rig.server, change, self.rig.now);
        self.pass_on();
        applied.expect("a sound change")
    }

    fn command(&mut self, command: RolloutCommand) {
        let done = self.rollouts.command(&mut self.rig.server, command, self.rig.now);
        done.expect("a possible command");
        self.pass_on();
    }

    fn phase(&self) -> Option<RolloutPhase> {
        self.rollouts.progress().map(|it| it.phase)
    }

    fn assign(&mut self, stream: u32, view: &str) {
        let (id, now) = (self.rig.stream(stream), self.rig.now);
        self.rollouts.assign(&mut self.rig.server, id, &view.into(), now);
        self.pass_on();
    }

    /// Returns the streams that have not accepted a change of the clusters of a view.
    fn lagging(&mut self, view: &str, sequence: u64) -> Vec<u32> {
        let report = self.rig.server.convergence(&view.into(), &url("cds"), sequence);
        let streams = [1, 2, 3].map(|number| (self.rig.stream(number), number));
        let number = |stream| streams.iter().find(|(it, _)| *it == stream).map(|(_, it)| *it);
        report.lagging.iter().filter_map(|it| number(it.stream)).collect()
    }

    fn wait_for(&mut self, view: &str, sequence: u64) {
        let now = self.rig.now;
        let server = &mut self.rig.server;
        server.notify_when_converged(&view.into(), &url("cds"), sequence, now).expect("room");
        self.pass_on();
    }

    /// Takes the views of the waits that have ended.
    fn converged(&mut self) -> Vec<String> {
        let outputs = core::mem::take(&mut self.rig.outputs);
        let (ended, rest): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|it| matches!(it, ServerOutput::Converged { .. }));
        self.rig.outputs = rest;
        let view = |output| match output {
            ServerOutput::Converged { view, .. } => Some(view.to_string()),
            _ => None,
        };
        ended.into_iter().filter_map(view).collect()
    }

    /// Takes the events: `+v/a` if `a` of the view `v` is wanted, `-v/a` if it is unwanted, and `!v`
    /// if the view was dropped.
    fn events(&mut self) -> Vec<String> {
        texts(core::mem::take(&mut self.rig.outputs).into_iter().filter_map(
            |output| match output {
                ServerOutput::Event(event) => Some(event),
                _ => None,
            },
        ))
    }

    fn unanswered(&self) -> Vec<String> {
        texts(self.rig.server.unanswered_events())
    }
}

fn texts(events: impl Iterator<Item = ServerEvent>) -> Vec<String> {
    let text = |event| match event {
        ServerEvent::Wanted { view, names, .. } => vec![format!("+{view}/{}", names[0])],
        ServerEvent::Unwanted { view, names, .. } => vec![format!("-{view}/{}", names[0])],
        ServerEvent::ViewDropped(view) => vec![format!("!{view}")],
        _ => Vec::new(),
    };
    events.flat_map(text).collect()
}

fn on_demand() -> World {
    let mut config = ServerConfig::default();
    config.on_demand = OnDemand::Notify;
    World::new(config)
}

/// World with the clusters `a=1` of two clients.
fn two_clients() -> World {
    let mut world = World::new(ServerConfig::default());
    world.run("set cds a=1\n> cds\n< cds first a=1\n> cds\n2> cds\n2< cds first a=1\n2> cds");
    world
}

#[test]
fn convergence_includes_the_clients_of_the_candidate() {
    let mut world = two_clients();
    world.start(transaction("cds a=2"));
    assert_eq!(world.lagging("", u64::MAX), [1], "it has not been sent the candidate");
    world.wait_for("", u64::MAX);
    world.run("< cds changed a=2");
    assert_eq!(world.lagging("", u64::MAX), [1], "sent is not accepted");
    assert_eq!(world.converged(), Vec::<String>::new());
    world.run("> cds");
    assert_eq!(world.lagging("", u64::MAX), []);
    assert_eq!(world.converged(), [""]);
    assert_eq!(world.phase(), Some(RolloutPhase::Soaking));
    let stream = world.rig.stream(1);
    let client = world.rig.server.client_status(stream).expect("an open stream");
    assert_eq!(client.stable_view(), Some(&ViewName::default()));
    assert_ne!(client.view(), client.stable_view(), "the status shows the side");

    world.command(RolloutCommand::Abort);
    assert_eq!(world.lagging("", u64::MAX), [1], "it has to go back");
    world.run("< cds changed a=1\n> cds");
    assert_eq!(world.lagging("", u64::MAX), []);
}

#[test]
fn change_applied_during_a_rollout_has_converged_when_both_cohorts_have_accepted_it() {
    let mut world = two_clients();
    world.start(transaction("cds a=2"));
    world.run("< cds changed a=2\n> cds");
    let applied = world.apply(transaction("cds b=1"));
    assert_eq!(world.lagging("", applied.sequence), [1, 2]);
    world.wait_for("", applied.sequence);
    world.run("2< cds changed a=1 b=1\n2> cds");
    assert_eq!(world.lagging("", applied.sequence), [1]);
    assert_eq!(world.converged(), Vec::<String>::new());
    world.run("< cds changed a=2 b=1\n> cds");
    assert_eq!(world.lagging("", applied.sequence), []);
    assert_eq!(world.converged(), [""]);
}

#[test]
fn wait_continues_when_a_client_moves_to_the_candidate_and_back() {
    let mut world = two_clients();
    let applied = world.apply(transaction("cds b=1"));
    world.wait_for("", applied.sequence);
    world.run("2< cds changed a=1 b=1\n2> cds");
    world.start(transaction("cds a=2"));
    assert_eq!(world.converged(), Vec::<String>::new(), "client 1 has moved without an answer");
    world.run("< cds changed a=2 b=1");
    world.command(RolloutCommand::Abort);
    assert_eq!(world.converged(), Vec::<String>::new(), "it has moved back");
    world.run("> cds\n< cds changed a=1 b=1\n> cds");
    assert_eq!(world.converged(), [""]);
    assert_eq!(world.lagging("", u64::MAX), []);
}

/// The stable view has no resource or client of the type, so it keeps no state for the type.
#[test]
fn wait_for_a_type_that_only_the_candidate_has_ends() {
    let mut world = World::new(ServerConfig::default());
    world.start(transaction("cds a=1"));
    world.run("> cds\n< cds first a=1");
    assert_eq!(world.lagging("", u64::MAX), [1]);
    world.wait_for("", u64::MAX);
    assert_eq!(world.converged(), Vec::<String>::new());
    world.run("> cds");
    assert_eq!(world.converged(), [""]);
}

#[test]
fn clients_of_a_layered_candidate_are_clients_of_the_view_and_its_layers() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut world = World::new(config);
    world.run("set @team cds a=1\nset @base cds b=1\nlayers all team base\n> cds\n2> cds");
    world.assign(1, "all");
    world.assign(2, "all");
    world.run("< cds first a=1 b=1\n> cds\n2< cds first a=1 b=1\n2> cds");
    world.start(transaction_in("team", "cds a=2"));
    for view in ["all", "team", "base"] {
        assert_eq!(world.lagging(view, u64::MAX), [1], "{view}");
        world.wait_for(view, u64::MAX);
    }
    assert_eq!(world.converged(), Vec::<String>::new());
    world.run("< cds changed a=2 b=1\n> cds");
    let mut ended = world.converged();
    ended.sort_unstable();
    assert_eq!(ended, ["all", "base", "team"]);
}

#[test]
fn wanted_resource_is_reported_for_the_view_once() {
    let mut world = on_demand();
    world.run("set cds a=1\n> cds\n2> cds");
    world.start(transaction("cds a=2"));
    world.run("> eds x");
    assert_eq!(world.events(), ["+/x"]);
    assert_eq!(world.unanswered(), ["+/x"]);
    world.run("2> eds x");
    assert_eq!(world.events(), Vec::<String>::new(), "it was asked for already");
    assert_eq!(world.unanswered(), ["+/x"]);
    world.apply(transaction("eds x=1"));
    assert_eq!(world.unanswered(), Vec::<String>::new());
    world.run(
        "< cds first a=2\n< eds first x=1\n> eds x\n2< cds first a=1\n2< eds first x=1\n2> eds x",
    );
    // Either cohort keeps it.
    world.run("> eds y");
    assert_eq!(world.events(), ["+/y"]);
    world.run("2> eds y");
    assert_eq!(world.events(), ["-/x"]);
}

#[test]
fn resource_is_unwanted_when_the_last_cohort_has_released_it() {
    let mut world = on_demand();
    world.run("set cds a=1\n> cds\n2> cds\n2> eds x");
    assert_eq!(world.events(), ["+/x"]);
    world.start(transaction("cds a=2"));
    world.apply(transaction("eds x=1"));
    world.run("> eds x\n2close");
    assert_eq!(world.events(), Vec::<String>::new(), "client 1 still wants it");
    world.run("close");
    assert_eq!(world.events(), ["-/x"]);
}

#[test]
fn move_between_the_cohorts_is_no_reason_to_release_a_resource() {
    let mut world = on_demand();
    world.run("set cds a=1\n> cds\n< cds first a=1\n> cds\n> eds x y\n2> cds");
    assert_eq!(world.events(), ["+/x"]);
    world.apply(transaction("eds x=1"));
    world.run("< eds first x=1\n> eds x y");
    world.start(transaction("cds a=2"));
    assert_eq!(world.events(), Vec::<String>::new(), "the client still wants x and y");
    assert_eq!(world.unanswered(), ["+/y"]);
    world.run("< cds changed a=2\n> cds\n<");
    world.apply(transaction("eds y=1"));
    world.run("< eds changed x=1 y=1\n> eds x y");
    world.command(RolloutCommand::Abort);
    assert_eq!(world.events(), Vec::<String>::new());
    world.run("< cds changed a=1\n> cds\n> eds z");
    let mut events = world.events();
    events.sort_unstable();
    assert_eq!(events, ["+/z", "-/x"], "the end of the rollout has changed nothing");
}

/// A snapshot lacks what was set on demand.
#[test]
fn resource_that_only_the_candidate_lacks_is_wanted_again() {
    let mut world = on_demand();
    world.run("set cds a=1\n> cds\n< cds first a=1\n> cds\n> eds x\n2> cds");
    world.apply(transaction("eds x=1"));
    world.run("< eds first x=1\n> eds x");
    assert_eq!(world.events(), ["+/x"]);
    let mut change = Transaction::snapshot("");
    change.set(url("cds"), "a", payload("a", "2"));
    world.start(change);
    assert_eq!(world.events(), ["+/x"]);
    assert_eq!(world.unanswered(), ["+/x"]);
}

#[test]
fn resource_is_removed_in_both_cohorts_unless_one_names_it() {
    let mut world = on_demand();
    world.run("set cds a=1\n> cds\n2> cds");
    world.start(transaction("cds a=2"));
    world.apply(transaction("eds x=1"));
    world.run("> eds x");
    let remove = |world: &mut World| {
        let World { rig, rollouts, .. } = world;
        let (server, now) = (&mut rig.server, rig.now);
        rollouts.remove_unless_named(server, &ViewName::default(), &url("eds"), "x", now)
    };
    assert_eq!(remove(&mut world), Ok(None), "client 1 names it");
    world.run("> eds y");
    assert_eq!(remove(&mut world).map(|it| it.map(|it| it.removed)), Ok(Some(1)));
    world.run("2> eds x");
    assert_eq!(world.events(), ["+/y", "+/x"]);
    world.run("> eds x y");
    assert_eq!(world.events(), Vec::<String>::new(), "the candidate does not have it either");
}

#[test]
fn view_is_not_idle_while_clients_see_its_candidate() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    config.idle_view_timeout = Some(Duration::from_secs(60));
    let mut world = World::new(config);
    world.run("set @v cds a=1\n> cds");
    world.assign(1, "v");
    world.run("< cds first a=1\n> cds");
    world.start(transaction_in("v", "cds a=2"));
    world.run("< cds changed a=2\n> cds\nwait 300s");
    assert_eq!(world.events(), Vec::<String>::new());
    // A candidate without clients is kept too.
    world.run("1close\nwait 300s");
    assert_eq!(world.events(), Vec::<String>::new());
    world.run("1> cds");
    world.assign(1, "v");
    world.run("< cds first a=2\n> cds");
    world.command(RolloutCommand::Abort);
    world.run("< cds changed a=1\n> cds\n1close\nwait 59s");
    assert_eq!(world.events(), Vec::<String>::new());
    world.run("wait 1s");
    assert_eq!(world.events(), ["!v"]);
    assert_eq!(world.rig.server.views(), [ViewName::default()]);
}
