//! Load reports while the connection to the management server is lost in every way.

use core::time::Duration;

use tokio::time::sleep;
use xds_core::{
    client::{Node, ServerAddress},
    load_reports::LoadRequest,
    proto::Locality,
    server::ServerConfig,
};
use xds_grpc::{
    ClientOptions, ManagementServer, ServerOptions,
    load_reports::{ClusterRecorder, LoadReports},
    server::LoadCollector,
};
use xds_sim::{
    stack::{
        Conditions, DialOutcome, Host, Stage,
        check::{check, run_seed},
    },
    trace::Keep,
};

use crate::{failure, raw::PORT, two_processes};

/// Interval of the reports.
const INTERVAL: Duration = Duration::from_secs(10);

/// Maximum time until a stream is open again: the longest backoff, with its jitter, and time to notice
/// a lost connection.
const RECOVERY: Duration = Duration::from_secs(120 * 12 / 10 + 70);

struct World<'a> {
    stage: &'a Stage,
    near: Host,
    far: Host,
    collector: LoadCollector,
    server: Option<ManagementServer<Host>>,
    loads: LoadReports,
    recorder: ClusterRecorder,
    /// Number of recorded calls.
    calls: u64,
}

impl<'a> World<'a> {
    fn new(stage: &'a Stage) -> Self {
        let (near, far) = (stage.host("client"), stage.host("server"));
        let mut conditions = Conditions::default();
        conditions.latency = Duration::from_millis(stage.below("latency", 200).into());
        stage.set_conditions(&near, &far, conditions);
        stage.set_conditions(&far, &near, conditions);
        let collector = LoadCollector::new(LoadRequest::all(INTERVAL));
        let server = Some(serve(&far, &collector));
        let loads = LoadReports::new(near.clone(), Node::new("client"), ClientOptions::default());
        let recorder = cluster(&loads);
        Self { stage, near, far, collector, server, loads, recorder, calls: 0 }
    }

    fn record(&mut self, calls: u64) {
        let locality = self.recorder.locality(&Locality::default());
        for _ in 0..calls {
            locality.start().succeed();
        }
        self.calls += calls;
    }

    /// Returns the number of calls that the server knows of.
    fn reported(&self) -> u64 {
        self.collector.totals().localities().map(|(_, calls)| calls.succeeded).sum()
    }

    async fn step(&mut self) {
        self.record(self.stage.below("calls", 4).into());
        let (near, far) = (&self.near, &self.far);
        match self.stage.below("step", 9) {
            0 => self.stage.reset(near, far),
            1 => self.stage.lose_connections(near, far),
            2 => self.stage.close_direction(far, near),
            3 => self.stage.close_direction(near, far),
            4 => self.stage.go_away(far, near),
            5 => self.stage.partition(near, far),
            6 => self.stage.set_reach((far.address(), PORT).into(), DialOutcome::Refused),
            7 => {
                self.server = None;
                self.stage.kill(far);
                sleep(Duration::from_secs(self.stage.below("downtime", 40).into())).await;
                self.server = Some(serve(far, &self.collector));
            }
            _ => self.recorder = cluster(&self.loads),
        }
        let waits = [0, 1, 100, 9_900, 10_100, 60_000];
        let wait = self.stage.choices().pick("wait", &waits);
        sleep(Duration::from_millis(wait)).await;
        self.heal();
    }

    fn heal(&self) {
        self.stage.heal(&self.near, &self.far);
        self.stage.set_reach((self.far.address(), PORT).into(), DialOutcome::Open);
    }
}

fn cluster(loads: &LoadReports) -> ClusterRecorder {
    loads.cluster(&ServerAddress::new(format!("server:{PORT}")), "c", None)
}

fn serve(host: &Host, collector: &LoadCollector) -> ManagementServer<Host> {
    let options = ServerOptions::default().with_load_reports(collector.clone());
    let server = ManagementServer::start_on(host.clone(), ServerConfig::default(), options);
    let serving = server.serve(host.listen((host.address(), PORT).into()).expect("a free port"));
    host.start(async move { drop(serving.await) });
    server
}

/// Records calls while connections are lost. In the end the stream is open again, further calls are
/// reported exactly, and no call was reported twice.
async fn lose_connections(stage: &Stage) {
    let mut world = World::new(stage);
    for _ in 0..stage.below("number of steps", 10) {
        stage.choices().begin_span();
        world.step().await;
        stage.choices().end_span();
    }
    sleep(RECOVERY + INTERVAL).await;
    if stage.kick().await {
        stage.violate("kick", "No wake-up is lost.", "a task had something to do");
    }
    let (before, lost) = (world.reported(), world.calls.checked_sub(world.reported()));
    if lost.is_none() {
        let what = format!("{before} calls reported of {}", world.calls);
        stage.violate("calls-once", "A call is reported at most once.", what);
    }
    world.record(7);
    sleep(2 * INTERVAL).await;
    if world.reported() != before + 7 {
        let what = format!("{} calls reported instead of {}", world.reported(), before + 7);
        stage.violate("reports-resume", "Reports resume after a loss of connections.", what);
    }
    // The last report precedes the end of the stream.
    world.record(3);
    let World { loads, recorder, collector, .. } = world;
    drop((loads, recorder));
    sleep(2 * INTERVAL).await;
    let reported: u64 = collector.totals().localities().map(|(_, calls)| calls.succeeded).sum();
    if reported != before + 10 {
        let what = format!("{reported} calls reported instead of {}", before + 10);
        stage.violate("last-report", "The last counts of a cluster are reported.", what);
    }
    if stage.connections() > 0 {
        stage.violate("stream-ends", "A stream ends with the last cluster.", "it is open");
    }
}

#[test]
fn reports_resume_after_every_way_to_lose_a_connection() {
    assert_eq!(check(0..150, &lose_connections).runs, 150);
}

/// Without faults, each call is reported once.
#[test]
fn every_call_is_reported_on_a_sound_connection() {
    async fn count(stage: &Stage) {
        let mut world = World::new(stage);
        for _ in 0..stage.below("number of rounds", 20) {
            world.record(stage.below("calls", 5).into());
            sleep(Duration::from_millis(stage.below("wait", 20_000).into())).await;
        }
        sleep(2 * INTERVAL).await;
        let (reported, calls) = (world.reported(), world.calls);
        if reported != calls {
            let what = format!("{reported} of {calls}");
            stage.violate("all-calls", "All calls are reported.", what);
        }
    }
    assert_eq!(check(0..60, &count).runs, 60);
}

/// The rule can fail: a server that never comes back.
#[test]
fn missing_reports_are_found() {
    async fn cut(stage: &Stage) {
        let mut world = World::new(stage);
        sleep(INTERVAL).await;
        stage.partition(&world.near, &world.far);
        let before = world.reported();
        world.record(1);
        sleep(RECOVERY).await;
        if world.reported() == before {
            stage.violate("reports-resume", "Reports resume.", "no report");
        }
    }
    let text = failure(|| _ = check(0..3, &cut));
    assert!(text.contains("reports-resume"), "{text}");
}

#[test]
fn runs_of_load_reports_are_equal_in_two_processes() {
    let hashes = || -> Vec<u64> {
        (0..4).map(|seed| run_seed(seed, &lose_connections, Keep::Hash).hash).collect()
    };
    two_processes("load_reports::runs_of_load_reports_are_equal_in_two_processes", hashes);
}
