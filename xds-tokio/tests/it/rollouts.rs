//! Rollouts with connected clients.

use core::time::Duration;
use std::net::SocketAddr;

use crate::support::{
    CLUSTER, config, give_way, resource,
    server::{Running, set, start, start_with, streams},
    soon, value,
};
use bytes::Bytes;
use xds_core::{
    ViewName,
    client::Node,
    rollout::{
        Cohort, CommandError, HaltCause, MetricVerdict, NodeDetail, OnHalt, OnNewer, RolloutPhase,
        RolloutPolicy, RolloutProgress, RolloutStep, StartError,
    },
    selector::{NodeCondition, NodeField},
    server::{Readiness, ServerConfig, SyncState, Transaction},
};
use xds_tokio::{
    ClientHandle, ClientOptions, ServerHandle, ServerOptions, Watch, client,
    server::{RolloutCommandError, RolloutError, RolloutHandle, SubscriptionSnapshot},
};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60 * 60);

/// Clients `canary-*` first, and then `other-*`, each observed until a command.
fn policy() -> RolloutPolicy {
    let step = |pattern| {
        let condition = NodeCondition::new(NodeField::Id, [pattern]);
        RolloutStep::new(Cohort::selected([condition])).with_soak(LONG)
    };
    RolloutPolicy::new([step("canary-*"), step("other-*")])
}

/// Client that watches the cluster `a`.
struct Watcher {
    _client: ClientHandle,
    watch: Watch,
}

impl Watcher {
    fn new(address: SocketAddr, id: &str) -> Self {
        let mut config = config(address);
        config.node = Node::new(id);
        let client = client::connect(config, ClientOptions::default());
        Self { watch: client.watch_untyped(CLUSTER, "a"), _client: client }
    }

    async fn expect(&mut self, content: &str) {
        assert_eq!(value(&mut self.watch).await.bytes, resource("a", content));
    }
}

/// Starts a server that keeps what selectors need, with the cluster `a` with the content 1, and
/// clients that have it.
async fn world<const N: usize>(ids: [&str; N]) -> (Running, [Watcher; N]) {
    let options = ServerOptions::default().with_node_detail(NodeDetail::Full);
    let running = start_with(ServerConfig::default(), options).await;
    running.handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut watchers = ids.map(|id| Watcher::new(running.address, id));
    for (watcher, id) in watchers.iter_mut().zip(ids) {
        watcher.expect("1").await;
        soon(async {
            while row(&running.handle, id).await.state != SyncState::Acked {
                give_way().await;
            }
        })
        .await;
    }
    (running, watchers)
}

/// Waits for a phase.
async fn until(rollout: &mut RolloutHandle, phase: RolloutPhase) -> RolloutProgress {
    loop {
        let progress = soon(rollout.next()).await.expect("progress before the end");
        if progress.phase == phase {
            return progress;
        }
        assert!(!progress.phase.is_final(), "{progress:?}");
    }
}

async fn content(handle: &ServerHandle) -> Bytes {
    let contents = handle.contents(ViewName::default()).await.unwrap();
    contents.get(&CLUSTER.into(), &"a".into()).unwrap().clone()
}

async fn row(handle: &ServerHandle, id: &str) -> SubscriptionSnapshot {
    let rows = handle.status().await.unwrap();
    rows.into_iter().find(|row| row.node_id == id).expect("a subscription")
}

/// The server admits clients itself when its resources are complete.
#[tokio::test]
async fn client_that_waited_for_the_resources_sees_the_candidate() {
    let options = ServerOptions::default().with_node_detail(NodeDetail::Full);
    let config = ServerConfig::default().with_readiness(Readiness::HoldRequests);
    let Running { handle, address, .. } = start_with(config, options).await;
    let mut canary = Watcher::new(address, "canary-1");
    let mut other = Watcher::new(address, "other-1");
    soon(async {
        while handle.stats().await.unwrap().streams < 2 {
            give_way().await;
        }
    })
    .await;
    handle.apply(set(&[(CLUSTER, "a", "1")])).await.unwrap();
    let mut rollout = handle.rollout(vec![set(&[(CLUSTER, "a", "2")])], policy()).await.unwrap();
    handle.set_ready().await.unwrap();
    canary.expect("2").await;
    other.expect("1").await;
    let progress = until(&mut rollout, RolloutPhase::Soaking).await;
    assert_eq!((progress.members, progress.acknowledged), (1, 1));
}

#[tokio::test]
async fn accepted_change_reaches_the_cohort_first_and_then_everybody_once() {
    let (Running { handle, .. }, [mut canary, mut other]) = world(["canary-1", "other-1"]).await;
    let before = row(&handle, "other-1").await;
    let mut rollout = handle.rollout(vec![set(&[(CLUSTER, "a", "2")])], policy()).await.unwrap();
    canary.expect("2").await;
    let progress = until(&mut rollout, RolloutPhase::Soaking).await;
    assert_eq!((progress.step, progress.members, progress.acknowledged), (0, 1, 1));
    assert_eq!(content(&handle).await, resource("a", "1"));
    assert_eq!(row(&handle, "other-1").await, before, "it was sent nothing");
    assert_ne!(row(&handle, "canary-1").await.view, ViewName::default());

    let under_way = handle.rollout_under_way().await.unwrap().expect("the rollout");
    assert_eq!(under_way.id(), rollout.id());
    let sent = row(&handle, "canary-1").await.responses;
    rollout.promote().await.unwrap();
    other.expect("2").await;
    assert_eq!(soon(rollout.ended()).await.unwrap().phase, RolloutPhase::Completed);
    assert_eq!(until(&mut rollout, RolloutPhase::Completed).await.reason, None);
    assert_eq!(soon(rollout.next()).await, None);
    assert_eq!(content(&handle).await, resource("a", "2"));
    let after = row(&handle, "canary-1").await;
    assert_eq!((after.view, after.responses), (ViewName::default(), sent), "it has it already");
    assert_eq!(handle.views().await.unwrap(), [ViewName::default()]);
    assert!(handle.rollout_under_way().await.unwrap().is_none());
    println!("covers: M273");
}

#[tokio::test]
async fn rejected_change_is_rolled_back_and_the_reason_lists_client_and_resource() {
    let (Running { handle, .. }, [canary, _other]) = world(["canary-1", "other-1"]).await;
    let before = row(&handle, "other-1").await;
    let change = vec![set(&[(CLUSTER, "a", "bad"), (CLUSTER, "b", "2")])];
    let mut rollout = handle.rollout(change, policy()).await.unwrap();
    let reason = until(&mut rollout, RolloutPhase::RolledBack).await.reason.expect("a reason");
    assert_eq!(reason.cause, HaltCause::Rejected);
    let [culprit] = reason.culprits.listed() else { panic!("{reason:?}") };
    assert_eq!((&*culprit.node_id, &culprit.names[..]), ("canary-1", &["a".into()][..]));
    assert!(culprit.reason.contains("it is bad"), "{reason}");
    assert_eq!(soon(rollout.ended()).await.unwrap().phase, RolloutPhase::RolledBack);
    assert_eq!(content(&handle).await, resource("a", "1"));
    assert_eq!(handle.views().await.unwrap(), [ViewName::default()]);
    assert_eq!(row(&handle, "other-1").await, before, "it was sent nothing");
    // The client is back in its view, and accepts what it is sent there.
    soon(async {
        while row(&handle, "canary-1").await.last_error.is_some() {
            give_way().await;
        }
    })
    .await;
    drop(canary);
    println!("covers: M273");
}

#[tokio::test]
async fn client_that_connects_during_a_rollout_sees_the_side_of_its_cohort() {
    let (Running { handle, address, .. }, [mut canary]) = world(["canary-1"]).await;
    let mut policy = policy().with_on_halt(OnHalt::Hold);
    policy.steps[0].min_clients = 0;
    let mut rollout = handle.rollout(vec![set(&[(CLUSTER, "a", "2")])], policy).await.unwrap();
    canary.expect("2").await;
    until(&mut rollout, RolloutPhase::Soaking).await;
    Watcher::new(address, "canary-2").expect("2").await;
    Watcher::new(address, "other-1").expect("1").await;
    drop(canary);
    streams(&handle, 0).await;
    Watcher::new(address, "canary-1").expect("2").await;
    rollout.abort().await.unwrap();
    let end = soon(rollout.ended()).await.unwrap();
    assert_eq!(end.reason.map(|it| it.cause), Some(HaltCause::Aborted));
    Watcher::new(address, "canary-1").expect("1").await;
    println!("covers: M273");
}

/// The application waits for its own view, and does not know the copy that the cohort sees.
#[tokio::test]
async fn change_has_converged_when_clients_of_both_cohorts_have_accepted_it() {
    let (Running { handle, .. }, [mut canary, _other]) = world(["canary-1", "other-1"]).await;
    let _rollout = handle.rollout(vec![set(&[(CLUSTER, "a", "2")])], policy()).await.unwrap();
    soon(handle.converged(ViewName::default(), CLUSTER, u64::MAX)).await.unwrap();
    canary.expect("2").await;
    let applied = handle.apply(set(&[(CLUSTER, "b", "1")])).await.unwrap().sequence;
    soon(handle.converged(ViewName::default(), CLUSTER, applied)).await.unwrap();
    for row in [row(&handle, "canary-1").await, row(&handle, "other-1").await] {
        assert_eq!(row.state, SyncState::Acked, "{row:?}");
    }
    let report = handle.convergence(ViewName::default(), CLUSTER, applied).await.unwrap();
    assert_eq!((report.accepted, report.pending), (2, 0));
}

#[tokio::test]
async fn paused_rollout_waits_for_resume() {
    let (Running { handle, .. }, [mut canary]) = world(["canary-1"]).await;
    let mut rollout = handle.rollout(vec![set(&[(CLUSTER, "a", "2")])], policy()).await.unwrap();
    canary.expect("2").await;
    until(&mut rollout, RolloutPhase::Soaking).await;
    let error = rollout.resume().await.unwrap_err();
    assert!(
        matches!(error, RolloutCommandError::Command(CommandError::NotPossible { .. })),
        "{error}"
    );
    rollout.pause().await.unwrap();
    until(&mut rollout, RolloutPhase::Paused).await;
    rollout.resume().await.unwrap();
    until(&mut rollout, RolloutPhase::Soaking).await;
    println!("covers: M273");
}

#[tokio::test]
async fn bad_metric_rolls_back() {
    let (Running { handle, .. }, [mut canary]) = world(["canary-1"]).await;
    let policy = policy().with_metric("errors");
    let mut rollout = handle.rollout(vec![set(&[(CLUSTER, "a", "2")])], policy).await.unwrap();
    canary.expect("2").await;
    until(&mut rollout, RolloutPhase::Soaking).await;
    rollout.metric("latency", MetricVerdict::Bad("not of the policy".into())).await.unwrap();
    rollout.metric("errors", MetricVerdict::Good).await.unwrap();
    rollout.metric("errors", MetricVerdict::Bad("7 of 100 requests failed".into())).await.unwrap();
    let end = soon(rollout.ended()).await.unwrap();
    let text = end.reason.expect("a reason").to_string();
    assert!(text.contains("errors") && text.contains("7 of 100 requests failed"), "{text}");
    canary.expect("1").await;
    println!("covers: M273");
}

#[tokio::test]
async fn newer_change_supersedes_or_waits() {
    let (Running { handle, .. }, [mut canary]) = world(["canary-1"]).await;
    let change = |content| vec![set(&[(CLUSTER, "a", content)])];
    let mut first = handle.rollout(change("2"), policy()).await.unwrap();
    canary.expect("2").await;
    until(&mut first, RolloutPhase::Soaking).await;
    let second = handle.rollout(change("3"), policy()).await.unwrap();
    assert!(second.id() > first.id());
    let end = soon(first.ended()).await.unwrap();
    assert_eq!(end.reason.map(|it| it.cause), Some(HaltCause::Superseded));
    // Commands of the ended rollout do not reach the newer one.
    let error = first.abort().await.unwrap_err();
    assert!(
        matches!(error, RolloutCommandError::Command(CommandError::NoRollout { .. })),
        "{error}"
    );

    let mut queue = policy();
    queue.on_newer = OnNewer::Queue;
    let merged = handle.rollout(change("4"), queue.clone()).await.unwrap();
    let mut third = handle.rollout(change("5"), queue).await.unwrap();
    assert_eq!(soon(merged.ended()).await, Err(RolloutError::Merged));
    second.promote().await.unwrap();
    assert_eq!(soon(second.ended()).await.unwrap().phase, RolloutPhase::Completed);
    until(&mut third, RolloutPhase::Soaking).await;
    third.promote().await.unwrap();
    assert_eq!(soon(third.ended()).await.unwrap().phase, RolloutPhase::Completed);
    assert_eq!(content(&handle).await, resource("a", "5"));
    println!("covers: M273");
}

#[tokio::test]
async fn change_that_is_applied_during_a_rollout_reaches_all_and_stays() {
    let (Running { handle, .. }, [mut canary, mut other]) = world(["canary-1", "other-1"]).await;
    let mut whole = Transaction::snapshot("");
    whole.set(CLUSTER, "a", resource("a", "2")).set(CLUSTER, "b", resource("b", "1"));
    let mut rollout = handle.rollout(vec![whole], policy()).await.unwrap();
    canary.expect("2").await;
    until(&mut rollout, RolloutPhase::Soaking).await;
    // Another resource of the rollout, and one that the rollout does not change.
    let now = set(&[(CLUSTER, "b", "3"), (CLUSTER, "c", "3")]);
    handle.apply(now).await.unwrap();
    for id in ["canary-1", "other-1"] {
        let view = row(&handle, id).await.view;
        let contents = handle.contents(view).await.unwrap();
        for name in ["b", "c"] {
            assert_eq!(contents.get(&CLUSTER.into(), &name.into()), Some(&resource(name, "3")));
        }
    }
    let mut removal = Transaction::new();
    removal.remove(CLUSTER, "c");
    handle.apply(removal).await.unwrap();
    // The same resource: the newer content is that of all.
    handle.apply(set(&[(CLUSTER, "a", "4")])).await.unwrap();
    canary.expect("4").await;
    other.expect("4").await;
    rollout.promote().await.unwrap();
    assert_eq!(soon(rollout.ended()).await.unwrap().phase, RolloutPhase::Completed);
    let contents = handle.contents(ViewName::default()).await.unwrap();
    let names = ["a", "b", "c"].map(|name| contents.get(&CLUSTER.into(), &name.into()).cloned());
    assert_eq!(names, [Some(resource("a", "4")), Some(resource("b", "3")), None]);
    println!("covers: M273");
}

#[tokio::test]
async fn invalid_policy_is_refused_and_an_ended_server_is_reported() {
    // Without the data of nodes.
    let Running { server, handle, serving, .. } = start().await;
    let mut policy = policy();
    let change = || vec![set(&[(CLUSTER, "a", "2")])];
    let error = handle.rollout(change(), policy.clone()).await.unwrap_err();
    assert!(matches!(error, RolloutError::Start(StartError::Policy(_))), "{error}");
    policy.steps.clear();
    // Without steps, everybody gets the change at once.
    let rollout = handle.rollout(change(), policy).await.unwrap();
    assert_eq!(soon(rollout.ended()).await.unwrap().phase, RolloutPhase::Completed);
    assert_eq!(content(&handle).await, resource("a", "2"));
    handle.shut_down().await;
    drop(server);
    soon(serving).await.unwrap().unwrap();
    let error = handle.rollout(change(), RolloutPolicy::default()).await.unwrap_err();
    assert!(matches!(error, RolloutError::Ended(_)), "{error}");
    println!("covers: M273");
}
