//! State machine of rollouts: conditions, halts, commands, and agreement of replicas.

use std::{sync::Arc, time::Duration};

use xds_core::{
    StreamId, Time,
    rollout::{
        Cohort, CommandError, HaltCause, MetricVerdict, OnHalt, PeerNews, PolicyError, Rollout,
        RolloutCommand, RolloutId, RolloutOutput, RolloutPhase, RolloutPolicy, RolloutState,
        RolloutStep, Share, Sharing, Side, StoreResult, transitions_as_markdown,
    },
    selector::{NodeCondition, NodeFacts, NodeField, NodeSelector},
    server::{Server, ServerConfig, StreamKind, Variant},
    types,
};

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(seconds))
}

/// Ids of streams, which only a server gives out.
fn streams<const N: usize>() -> [StreamId; N] {
    let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
    let kind = || StreamKind::Aggregated(Variant::Incremental);
    [(); N].map(|()| server.accept(kind(), Time::ZERO).expect("there is room"))
}

fn ids(patterns: &[&str]) -> Cohort {
    let condition = NodeCondition::new(NodeField::Id, patterns.iter().copied());
    Cohort::selected([condition])
}

/// Clients `a*` first, then `b*`; 10 seconds for acknowledgements, 100 seconds of soak.
fn policy() -> RolloutPolicy {
    let step = |pattern| {
        RolloutStep::new(ids(&[pattern])).with_timeout(10 * SECOND).with_soak(100 * SECOND)
    };
    RolloutPolicy::new([step("a*"), step("b*")])
}

fn started(policy: RolloutPolicy, nodes: &[(StreamId, &str)]) -> Rollout {
    let mut rollout = Rollout::new(RolloutId(1), policy, Sharing::Alone, None, at(0)).unwrap();
    for &(stream, id) in nodes {
        assert_eq!(rollout.joined(stream, &NodeFacts::with_id(id), at(0)), Side::Stable);
    }
    rollout.begin(at(0));
    rollout
}

fn outputs(rollout: &mut Rollout) -> Vec<RolloutOutput> {
    std::iter::from_fn(|| rollout.poll_output()).collect()
}

fn candidate(stream: StreamId) -> RolloutOutput {
    RolloutOutput::Move(stream, Side::Candidate)
}

fn stable(stream: StreamId) -> RolloutOutput {
    RolloutOutput::Move(stream, Side::Stable)
}

fn timeout(rollout: &mut Rollout) -> Time {
    let at = rollout.poll_timeout().expect("a timer");
    rollout.handle_timeout(at);
    at
}

#[test]
fn accepted_change_reaches_all_cohorts_and_is_applied() {
    let [a, b, c] = streams();
    let mut rollout = started(policy(), &[(a, "a1"), (b, "b1"), (c, "c1")]);
    assert_eq!(outputs(&mut rollout), [candidate(a)]);
    rollout.acknowledged(a, at(1));
    assert_eq!(rollout.phase(), RolloutPhase::Soaking);
    assert_eq!(timeout(&mut rollout), at(101));
    assert_eq!(outputs(&mut rollout), [candidate(b)]);
    rollout.acknowledged(b, at(102));
    assert_eq!(timeout(&mut rollout), at(202));
    let end =
        [RolloutOutput::Apply, stable(a), stable(b), RolloutOutput::Ended(RolloutPhase::Completed)];
    assert_eq!(outputs(&mut rollout), end);
    assert_eq!(rollout.poll_timeout(), None);
}

#[test]
fn rejection_rolls_back_in_the_same_call_and_lists_client_and_resources() {
    let [a, b] = streams();
    let mut rollout = started(policy(), &[(a, "a1"), (b, "b1")]);
    assert_eq!(outputs(&mut rollout), [candidate(a)]);
    // A client that does not see the candidate has no say.
    rollout.rejected(b, types::CLUSTER.into(), vec!["x".into()], "bad", at(1));
    assert_eq!(outputs(&mut rollout), []);
    rollout.rejected(a, types::CLUSTER.into(), vec!["x".into()], "no such\ntype", at(1));
    let end = [stable(a), RolloutOutput::Ended(RolloutPhase::RolledBack)];
    assert_eq!(outputs(&mut rollout), end);
    let text = "step 1: clients rejected the change (node \"a1\", Cluster `x`: no such type)";
    assert_eq!(rollout.state().map(|it| it.why.as_str()), Some(text));
}

#[test]
fn halted_rollout_moves_nobody_until_a_command() {
    let [a, b, late] = streams();
    let policy = policy().with_on_halt(OnHalt::Hold);
    let mut rollout = started(policy, &[(a, "a1"), (b, "b1")]);
    rollout.rejected(a, types::CLUSTER.into(), Vec::new(), "bad", at(1));
    assert_eq!((rollout.phase(), rollout.poll_timeout()), (RolloutPhase::Halted, Some(at(1))));
    assert_eq!(outputs(&mut rollout), [candidate(a)]);
    assert_eq!(rollout.poll_timeout(), None);
    // The side is that of the cohort also for clients that connect now.
    assert_eq!(rollout.joined(late, &NodeFacts::with_id("a2"), at(2)), Side::Candidate);
    rollout.command(RolloutCommand::Resume, at(3)).unwrap();
    assert_eq!((rollout.phase(), rollout.progress().reason), (RolloutPhase::Deploying, None));
    rollout.command(RolloutCommand::Abort, at(4)).unwrap();
    let end = [stable(a), stable(late), RolloutOutput::Ended(RolloutPhase::RolledBack)];
    assert_eq!(outputs(&mut rollout), end);
    let error = rollout.command(RolloutCommand::Pause, at(5)).unwrap_err();
    assert_eq!(error.to_string(), "pause is not possible: the rollout is rolled-back");
}

#[test]
fn step_without_acknowledgement_or_client_halts_at_its_timeout() {
    let [a, b] = streams();
    let mut rollout = started(policy(), &[(a, "a1"), (b, "b1")]);
    let _ = outputs(&mut rollout);
    assert_eq!(timeout(&mut rollout), at(10));
    let reason = rollout.progress().reason.unwrap();
    assert_eq!(reason.cause, HaltCause::TooSlow { acknowledged: 0, members: 1 });
    assert_eq!(reason.culprits.listed()[0].stream, a);

    let mut rollout = started(policy(), &[(b, "b1")]);
    assert_eq!(timeout(&mut rollout), at(10));
    let text = "step 1: 0 connected clients are in the cohort, 1 are required";
    assert_eq!(rollout.progress().reason.unwrap().to_string(), text);

    let mut policy = policy();
    policy.steps[0].min_clients = 0;
    let mut rollout = started(policy, &[(b, "b1")]);
    assert_eq!(rollout.phase(), RolloutPhase::Soaking);
    assert_eq!(timeout(&mut rollout), at(100));
    assert_eq!(outputs(&mut rollout), [candidate(b)]);
}

#[test]
fn client_that_is_behind_after_the_soak_has_the_timeout_to_catch_up() {
    let [a, late] = streams();
    let mut rollout = started(policy(), &[(a, "a1")]);
    rollout.acknowledged(a, at(1));
    assert_eq!(rollout.joined(late, &NodeFacts::with_id("a2"), at(50)), Side::Candidate);
    let _ = outputs(&mut rollout);
    assert_eq!(timeout(&mut rollout), at(101));
    assert_eq!((rollout.phase(), rollout.poll_timeout()), (RolloutPhase::Soaking, Some(at(111))));
    let mut too_slow = rollout.clone();
    rollout.acknowledged(late, at(105));
    // The clients of the first step are in the cohort of the second one too.
    assert_eq!((rollout.phase(), rollout.progress().step), (RolloutPhase::Soaking, 1));
    timeout(&mut too_slow);
    assert_eq!(too_slow.phase(), RolloutPhase::RolledBack);
}

#[test]
fn metric_decides_after_the_soak_and_its_silence_halts() {
    let [a] = streams();
    let policy = policy().with_metric("errors");
    let mut rollout = started(policy, &[(a, "a1")]);
    let _ = outputs(&mut rollout);
    rollout.acknowledged(a, at(1));
    // Too early.
    rollout.metric("errors", MetricVerdict::Good, at(50));
    timeout(&mut rollout);
    assert_eq!((rollout.phase(), rollout.poll_timeout()), (RolloutPhase::Judging, Some(at(401))));
    let (mut silent, mut bad) = (rollout.clone(), rollout.clone());
    rollout.metric("other", MetricVerdict::Bad("no".into()), at(110));
    rollout.metric("errors", MetricVerdict::Good, at(110));
    assert_eq!((rollout.phase(), rollout.progress().step), (RolloutPhase::Soaking, 1));
    timeout(&mut silent);
    let text = "step 1: metrics have not reported in time: errors";
    assert_eq!(silent.progress().reason.unwrap().to_string(), text);
    bad.metric("errors", MetricVerdict::Bad("7% of calls fail".into()), at(110));
    let text = "step 1: metric `errors` is bad: 7% of calls fail";
    assert_eq!(bad.progress().reason.unwrap().to_string(), text);
}

#[test]
fn cohort_that_shrinks_halts_unless_its_clients_return() {
    let [a, b] = streams();
    let mut policy = policy();
    policy.halt.max_lost = Some(Share::percent(10));
    let mut rollout = started(policy, &[(a, "a1"), (b, "a2")]);
    rollout.acknowledged(a, at(1));
    rollout.acknowledged(b, at(1));
    let _ = outputs(&mut rollout);
    rollout.left(a, at(20));
    assert_eq!(rollout.poll_timeout(), Some(at(50)));
    let mut lost = rollout.clone();
    timeout(&mut lost);
    let cause = HaltCause::Lost { left: 1, of: 2 };
    assert_eq!(lost.progress().reason.map(|it| it.cause), Some(cause));
    rollout.joined(a, &NodeFacts::with_id("a1"), at(30));
    assert_eq!(rollout.poll_timeout(), Some(at(101)));
}

#[test]
fn more_warnings_or_rejections_than_tolerated_halt() {
    let [a, b] = streams();
    let mut policy = policy();
    (policy.halt.max_warnings, policy.halt.max_rejections) = (Some(1), 1);
    let mut rollout = started(policy, &[(a, "a1"), (b, "a2")]);
    rollout.warned(a, "slow", at(1));
    rollout.rejected(a, types::CLUSTER.into(), Vec::new(), "bad", at(1));
    rollout.rejected(a, types::CLUSTER.into(), Vec::new(), "bad again", at(1));
    assert_eq!(rollout.phase(), RolloutPhase::Deploying);
    let mut warned = rollout.clone();
    warned.warned(b, "slow", at(2));
    assert_eq!(warned.progress().reason.map(|it| it.cause), Some(HaltCause::Warned));
    rollout.rejected(b, types::CLUSTER.into(), Vec::new(), "bad", at(2));
    assert_eq!(rollout.progress().reason.map(|it| it.cause), Some(HaltCause::Rejected));
}

#[test]
fn policy_without_steps_applies_at_once() {
    let [a] = streams();
    let mut rollout = started(RolloutPolicy::all_at_once(), &[(a, "a1")]);
    let end = [RolloutOutput::Apply, RolloutOutput::Ended(RolloutPhase::Completed)];
    assert_eq!(outputs(&mut rollout), end);
}

#[test]
fn impossible_policies_are_refused() {
    let step = |cohort| RolloutStep::new(cohort);
    let of = |percent| step(Cohort::of(Share::percent(percent)));
    let day = 24 * 3_600 * SECOND;
    let no_time = of(5).with_timeout(Duration::ZERO);
    let empty = NodeSelector::from([NodeCondition::new(NodeField::Id, [""; 0])]);
    let empty = step(Cohort::selected(empty));
    for (steps, expected) in [
        (vec![of(0)], "step 1 selects no client: its share is 0%"),
        (vec![of(5), of(5)], "step 2 adds no client to those of step 1: remove it"),
        (vec![of(100), of(50)], "step 2 adds no client to those of step 1: remove it"),
        (vec![of(100), step(ids(&["a"]))], "step 2 adds no client to those of step 1: remove it"),
        (vec![no_time], "step 1 always halts: its timeout is 0, but it waits for clients"),
        (
            vec![of(5).with_soak(31 * day)],
            "the soak time of step 1 is longer than 30 days: the rollout would not end",
        ),
        (vec![empty], "step 1 selects no client: condition 1 has no pattern"),
    ] {
        let error = RolloutPolicy::new(steps).validate().unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let mut policy = policy().with_metric("m");
    policy.metric_timeout = Duration::ZERO;
    assert_eq!(policy.validate(), Err(PolicyError::MetricTimeout { metric: "m".into() }));
    // All clients in the last step are possible: then nobody is left for the end.
    assert_eq!(RolloutPolicy::new([step(ids(&["a"])), of(5), of(100)]).validate(), Ok(()));
}

/// Rollout of a replica with the states that it wants to store.
fn shared(id: u64, stored: Option<RolloutState>) -> Rollout {
    let replicas = Sharing::Replicas;
    Rollout::new(RolloutId(id), policy(), replicas, stored, at(0)).unwrap()
}

fn proposed(rollout: &mut Rollout) -> RolloutState {
    let stored = outputs(rollout).into_iter().rev().find_map(|it| match it {
        RolloutOutput::Store(state) => Some(state),
        _ => None,
    });
    stored.expect("a state to store")
}

#[test]
fn clients_move_when_the_state_is_stored_and_back_at_once() {
    let [a] = streams();
    let mut rollout = shared(1, None);
    rollout.joined(a, &NodeFacts::with_id("a1"), at(0));
    rollout.begin(at(0));
    assert_eq!(rollout.side(a), Some(Side::Stable));
    let begin = proposed(&mut rollout);
    rollout.stored(&begin, StoreResult::Unavailable, at(0));
    assert_eq!(timeout(&mut rollout), at(1));
    assert_eq!(proposed(&mut rollout), begin);
    rollout.stored(&begin, StoreResult::Stored, at(2));
    assert_eq!(outputs(&mut rollout)[0], candidate(a));
    rollout.rejected(a, types::CLUSTER.into(), Vec::new(), "bad", at(3));
    let rolled_back = outputs(&mut rollout);
    assert_eq!(rolled_back[0], stable(a));
    let [_, RolloutOutput::Store(state)] = &rolled_back[..] else { panic!("{rolled_back:?}") };
    assert_eq!(state.generation, 2);
    rollout.stored(state, StoreResult::Stored, at(4));
    assert_eq!(outputs(&mut rollout), [RolloutOutput::Ended(RolloutPhase::RolledBack)]);
}

#[test]
fn halt_is_stored_on_top_of_a_step_of_another_replica() {
    let [a, b] = streams();
    let mut rollout = shared(1, None);
    rollout.joined(a, &NodeFacts::with_id("a1"), at(0));
    rollout.joined(b, &NodeFacts::with_id("b1"), at(0));
    rollout.begin(at(0));
    let begin = proposed(&mut rollout);
    rollout.stored(&begin, StoreResult::Stored, at(0));
    rollout.rejected(a, types::CLUSTER.into(), Vec::new(), "bad", at(1));
    let rollback = proposed(&mut rollout);
    let mut elsewhere = begin.clone();
    (elsewhere.generation, elsewhere.step) = (2, 1);
    rollout.stored(&rollback, StoreResult::Conflict(elsewhere), at(2));
    let again = proposed(&mut rollout);
    assert_eq!((again.generation, again.step, again.phase), (3, 1, rollback.phase));
    // A completed change cannot be rolled back.
    let mut completed = again.clone();
    completed.phase = xds_core::rollout::StoredPhase::Completed;
    rollout.stored(&again, StoreResult::Conflict(completed), at(3));
    let end = [RolloutOutput::Apply, RolloutOutput::Ended(RolloutPhase::Completed)];
    assert_eq!(outputs(&mut rollout), end);
}

#[test]
fn replica_continues_from_the_stored_state() {
    let [a, b] = streams();
    let line = "xds-rollout/1 id=1 generation=5 phase=running step=2/2 stable=0 why=";
    let stored: RolloutState = line.parse().unwrap();
    let mut rollout = shared(1, Some(stored.clone()));
    rollout.joined(a, &NodeFacts::with_id("a1"), at(0));
    rollout.joined(b, &NodeFacts::with_id("b1"), at(0));
    rollout.begin(at(0));
    assert_eq!(outputs(&mut rollout)[..2], [candidate(a), candidate(b)]);
    assert_eq!(rollout.poll_timeout(), Some(at(10)));

    // A newer rollout replaces an older one, and an older one does not begin.
    let mut newer = shared(2, Some(stored.clone()));
    newer.begin(at(0));
    assert_eq!(proposed(&mut newer).generation, 6);
    let mut older = shared(0, Some(stored));
    older.begin(at(0));
    assert_eq!(outputs(&mut older), [RolloutOutput::Ended(RolloutPhase::RolledBack)]);
    assert_eq!(older.progress().reason.map(|it| it.cause), Some(HaltCause::Superseded));
}

#[test]
fn replica_waits_for_the_clients_of_others() {
    let [a] = streams();
    let other: Arc<str> = "r2".into();
    let mut rollout = shared(1, None);
    rollout.joined(a, &NodeFacts::with_id("a1"), at(0));
    rollout.peer(&other, PeerNews::Joined, at(0));
    rollout.begin(at(0));
    let begin = proposed(&mut rollout);
    rollout.stored(&begin, StoreResult::Stored, at(0));
    rollout.acknowledged(a, at(1));
    assert_eq!(rollout.phase(), RolloutPhase::Deploying);
    let report = |acknowledged| {
        let mut report = xds_core::rollout::CohortReport::default();
        (report.generation, report.members, report.acknowledged) = (1, 1, acknowledged);
        PeerNews::Reported(report)
    };
    rollout.peer(&other, report(0), at(1));
    assert_eq!(rollout.phase(), RolloutPhase::Deploying);
    let mut alone = rollout.clone();
    rollout.peer(&other, report(1), at(2));
    assert_eq!(rollout.phase(), RolloutPhase::Soaking);
    alone.peer(&other, PeerNews::Left, at(2));
    assert_eq!(alone.phase(), RolloutPhase::Soaking);
}

#[test]
fn command_waits_for_a_state_that_is_being_stored() {
    let mut rollout = shared(1, None);
    rollout.begin(at(0));
    let command = RolloutCommand::Promote;
    assert_eq!(rollout.command(command, at(0)), Err(CommandError::Busy { command }));
}

/// The page on rollouts has the table of the code. `UPDATE=1` writes it.
#[test]
fn page_on_rollouts_has_the_transitions() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book/src/rollouts.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let (begin, end) = ("<!-- transitions -->\n", "<!-- end of transitions -->\n");
    let (before, rest) = page.split_once(begin).expect("a place for the table");
    let (table, after) = rest.split_once(end).expect("an end of the table");
    let expected = transitions_as_markdown();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{before}{begin}{expected}{end}{after}")).expect("the page");
        return;
    }
    assert_eq!(table, expected, "UPDATE=1 writes the table");
}
