//! Cost of a rollout: a change of one of R clusters reaches W incremental clients in five steps.
//!
//! Baselines in the same run: five changes that all clients are sent at once, with the same server, and
//! with one that can roll out changes and does not.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_benches::{ratio::is_test_run, stopwatch::Stopwatch};
use xds_core::{
    Frame, StreamId, Time,
    proto::{DeltaDiscoveryRequest, Node},
    rollout::{
        Cohort, NodeDetail, RolloutId, RolloutPhase, RolloutPolicy, RolloutStep, ServerRollouts,
        Share, Sharing,
    },
    server::{
        Server, ServerConfig, ServerLimits, ServerOutput, StreamEvent, StreamKind, Transaction,
        Variant,
    },
    types,
};

const RESOURCES: usize = 1_000;
const STEPS: u32 = 5;
/// Size of a cluster in bytes.
const SIZE: usize = 400;

/// Time that the server works, and what it sends.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    time: Duration,
    bytes: usize,
    responses: usize,
}

/// Server, its clients, and the rollouts of its changes if there are any.
struct Fleet {
    server: Server,
    rollouts: Option<ServerRollouts>,
    now: Time,
    frame: Frame,
}

fn name(index: usize) -> String {
    format!("cluster-{index:05}")
}

fn change(index: usize, version: u32) -> Transaction {
    let mut change = Transaction::new();
    let mut payload = vec![b'x'; SIZE];
    payload[..4].copy_from_slice(&version.to_be_bytes());
    change.set(types::CLUSTER, name(index), payload);
    change
}

fn encoded(request: &DeltaDiscoveryRequest) -> Bytes {
    request.encode_to_vec().into()
}

impl Fleet {
    fn new(clients: usize, rollouts: Option<ServerRollouts>) -> Self {
        let mut limits = ServerLimits::default();
        limits.streams = clients + 1;
        let config = ServerConfig::default().with_limits(limits);
        let (server, frame) = (Server::new(config, 1, Time::ZERO), Frame::default());
        let mut fleet = Self { server, rollouts, now: Time::ZERO, frame };
        let mut all = Transaction::snapshot("");
        for index in 0..RESOURCES {
            all.set(types::CLUSTER, name(index), vec![b'x'; SIZE]);
        }
        fleet.server.apply(all, fleet.now).expect("a sound transaction");
        for client in 0..clients {
            let kind = StreamKind::Aggregated(Variant::Incremental);
            let stream = fleet.server.accept(kind, fleet.now).expect("room for a stream");
            let request = encoded(&DeltaDiscoveryRequest {
                node: Some(Node { id: format!("bench-{client}"), ..Node::default() }),
                type_url: types::CLUSTER.into(),
                resource_names_subscribe: vec!["*".into()],
                ..DeltaDiscoveryRequest::default()
            });
            fleet.server.handle_event(StreamEvent::Message(stream, request), fleet.now);
            if client % 1_000 == 999 {
                fleet.settle(&mut Cost::default());
            }
        }
        fleet.settle(&mut Cost::default());
        fleet
    }

    /// Passes responses on and answers them until nothing is due. Only the server's work counts.
    fn settle(&mut self, cost: &mut Cost) {
        loop {
            let stopwatch = Stopwatch::start();
            let mut answers: Vec<(StreamId, String)> = Vec::new();
            while let Some(output) = self.server.poll_output() {
                // As the driver does: without a rollout nothing is done for an output.
                if let Some(rollouts) = &mut self.rollouts
                    && rollouts.rollout().is_some()
                {
                    rollouts.handle_output(&mut self.server, &output, self.now);
                }
                let ServerOutput::Writable(stream) = output else { continue };
                while let Some(sent) = self.server.poll_transmit(stream, self.now, &mut self.frame)
                {
                    cost.bytes += self.frame.len();
                    cost.responses += 1;
                    answers.push((stream, sent.nonce.as_str().to_owned()));
                }
            }
            cost.time += stopwatch.elapsed();
            if answers.is_empty() {
                return;
            }
            let answer = |(stream, nonce)| {
                let request = encoded(&DeltaDiscoveryRequest {
                    type_url: types::CLUSTER.into(),
                    response_nonce: nonce,
                    ..DeltaDiscoveryRequest::default()
                });
                (stream, request)
            };
            let requests: Vec<_> = answers.into_iter().map(answer).collect();
            let stopwatch = Stopwatch::start();
            for (stream, request) in requests {
                self.server.handle_event(StreamEvent::Message(stream, request), self.now);
            }
            cost.time += stopwatch.elapsed();
        }
    }

    /// Sends all clients a change at once.
    fn change_all(&mut self, version: u32, cost: &mut Cost) {
        self.now = self.now.after(Duration::from_millis(1));
        let change = change(0, version);
        let stopwatch = Stopwatch::start();
        match &mut self.rollouts {
            Some(rollouts) => rollouts.apply(&mut self.server, change, self.now),
            None => self.server.apply(change, self.now),
        }
        .expect("a sound transaction");
        cost.time += stopwatch.elapsed();
        self.settle(cost);
    }

    /// Rolls out a change in steps.
    fn roll_out(&mut self, id: u64, version: u32, cost: &mut Cost) {
        self.now = self.now.after(Duration::from_millis(1));
        let step = |at: u32| {
            let mut step = RolloutStep::new(Cohort::of(Share::percent(100 * at / STEPS)));
            (step.soak, step.min_clients) = (Duration::ZERO, 0);
            step
        };
        let policy = RolloutPolicy::new((1..=STEPS).map(step).collect::<Vec<_>>());
        let (change, now) = (vec![change(0, version)], self.now);
        let stopwatch = Stopwatch::start();
        let rollouts = self.rollouts.as_mut().expect("rollouts");
        rollouts
            .start(&mut self.server, RolloutId(id), change, policy, None, now)
            .expect("a sound policy");
        cost.time += stopwatch.elapsed();
        loop {
            self.settle(cost);
            let stopwatch = Stopwatch::start();
            let rollouts = self.rollouts.as_mut().expect("rollouts");
            let Some(due) = rollouts.poll_timeout() else { break };
            self.now = self.now.max(due);
            rollouts.handle_timeout(&mut self.server, self.now);
            cost.time += stopwatch.elapsed();
        }
        let mut phases = Vec::new();
        while let Some(event) = self.rollouts.as_mut().and_then(ServerRollouts::poll_event) {
            if let xds_core::rollout::RolloutEvent::Ended { progress, .. } = event {
                phases.push(progress.phase);
            }
        }
        assert_eq!(phases, [RolloutPhase::Completed]);
        self.settle(cost);
    }
}

fn main() {
    let clients = if is_test_run() { 1_000 } else { 10_000 };
    let rounds = if is_test_run() { 1 } else { 5 };
    let mut plain = Fleet::new(clients, None);
    let with = || Some(ServerRollouts::new(NodeDetail::Id, Sharing::Alone));
    let (mut idle, mut rolling) = (Fleet::new(clients, with()), Fleet::new(clients, with()));
    let (mut five, mut five_idle, mut rolled) = <(Cost, Cost, Cost)>::default();
    for round in 1..=rounds {
        for at in 0..STEPS {
            plain.change_all(round * STEPS + at, &mut five);
            idle.change_all(round * STEPS + at, &mut five_idle);
        }
        rolling.roll_out(u64::from(round), round, &mut rolled);
    }
    let per_round = |cost: Cost| {
        let rounds = usize::try_from(rounds).unwrap_or(1);
        (cost.time / rounds as u32, cost.bytes / rounds, cost.responses / rounds)
    };
    for (what, cost) in [
        ("five changes for all", five),
        ("the same, rollouts possible", five_idle),
        ("one rollout in five steps", rolled),
    ] {
        let (time, bytes, responses) = per_round(cost);
        println!("{what:<28} {time:>10.1?}  {bytes:>10} bytes  {responses:>6} responses");
    }
    let ratio = |a: f64, b: f64| a / b;
    let time = ratio(rolled.time.as_secs_f64(), five.time.as_secs_f64());
    let bytes = ratio(rolled.bytes as f64, five.bytes as f64);
    let idle = ratio(five_idle.time.as_secs_f64(), five.time.as_secs_f64());
    let met = |is: f64, aim: f64| if is <= aim { "met" } else { "missed" };
    println!("rollout / five changes, time   {time:.2}  aim 2  {}", met(time, 2.0));
    println!("rollout / five changes, bytes  {bytes:.2}  aim 2  {}", met(bytes, 2.0));
    println!("rollouts possible / not, time  {idle:.2}  aim 1.05  {}", met(idle, 1.05));
}
