//! `xds load`: many simulated clients, and the time that a change takes to reach them.
//!
//! | file | contents |
//! |---|---|
//! | `client.rs` | simulated client without input and output: references, verdicts |
//! | `connection.rs` | one connection with the streams of many clients |
//! | `rounds.rs` | measurement and its output |
//! | `process.rs` | CPU time and memory of the server |

mod client;
mod connection;
mod process;
mod rounds;

use core::{future::pending, time::Duration};
use std::{
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Instant,
};

use tokio::{
    process::{Child, Command},
    select,
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{interval, sleep, sleep_until},
};
use xds_bootstrap::NodeIdentity;
use xds_core::{
    Time,
    client::{ClientConfig, DataErrorPolicy, FlowControl, Profile, ServerAddress},
    service::{Variant, grpc_path},
    types,
};
use xds_tokio::{ClientOptions, client::Service};

use self::{
    client::{Plan, SimulatedClient},
    connection::{Connection, Dialer, Observation, Observed},
    process::Usage,
    rounds::{Round, Streams},
};
use crate::{
    args::{LoadArgs, LoadOutput, LoadProfile},
    failure::Failure,
    numbers::{grouped, grouped_count},
    output::{self, progress::Progress},
    stop::Stop,
    text::escaped,
    upstream::{
        address::{self, ConfiguredAddress},
        servers::{connecting_within, credentials},
    },
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 128 << 20;
/// Time between two checks of whether a round has ended.
const TICK: Duration = Duration::from_millis(50);
/// Number of observations taken at once.
const BATCH: usize = 4_096;

pub(crate) async fn run(args: LoadArgs) -> Result<(), Failure> {
    let service = service(&args).await?;
    let plan = Arc::new(plan(&args));
    if let Some(pid) = args.server_pid {
        read_usage(pid)?;
    }
    let clients = args.clients.get();
    let mut stop = Stop::after(args.lifetime)?;
    let start = Instant::now();
    let variant = plan.config.servers.first().map(|server| server.variant).unwrap_or_default();
    let path = grpc_path(None, variant, xds_core::service::ApiVersion::V3).unwrap_or_default();
    // Attempts end before the round, so that their failures are reported with it.
    let limit = args.lifetime.unwrap_or(args.round_limit).min(args.round_limit);
    let options = connecting_within(limit, ClientOptions::default());
    let dialer = Arc::new(Dialer { service, options, path, start });
    let (observed, observations) = mpsc::unbounded_channel();
    let mut running = JoinSet::new();
    let mut breakers = Vec::new();
    for connection in 0..args.connections() {
        let own = (connection..clients).step_by(args.connections() as usize);
        let own: Result<Vec<_>, _> =
            own.map(|number| SimulatedClient::new(&plan, number, Time::ZERO)).collect();
        let own = own.map_err(|why| Failure::Usage(format!("cannot subscribe: {why}")))?;
        let break_now = Arc::new(Notify::new());
        let connection = Connection::new(Arc::clone(&dialer), own, observed.clone());
        running.spawn(connection.run(Arc::clone(&break_now)));
        breakers.push(break_now);
    }
    drop(observed);
    let mut measurement = Measurement::new(&args, start, observations)?;
    select! {
        () = stop.requested() => measurement.stopped(),
        result = measurement.run() => result,
        () = break_connections(&args, &breakers) => Ok(()),
    }
}

/// Checks address and credentials.
async fn service(args: &LoadArgs) -> Result<Service, Failure> {
    let address = args.server.as_str();
    address::check(&[ConfiguredAddress { address, place: None }]).await?;
    let credentials = credentials(&args.channel)?.unwrap_or_default();
    let named = |why| Failure::Credentials { field: args.channel.flag_of(&why), why };
    credentials.check_for(address).await.map_err(named)?;
    Ok(Service::new(address, credentials).with_max_response_bytes(MAX_RESPONSE))
}

fn plan(args: &LoadArgs) -> Plan {
    let mut identity = NodeIdentity::default();
    "xds-load".clone_into(&mut identity.id);
    args.node.apply(&mut identity);
    let variant = if args.delta { Variant::Incremental } else { Variant::StateOfTheWorld };
    let mut profile = match args.profile {
        LoadProfile::Envoy => Profile::envoy(),
        LoadProfile::Grpc => Profile::grpc(),
    };
    // References of deleted resources are not followed.
    profile.data_errors = DataErrorPolicy::DropDeleted;
    profile.flow_control = FlowControl::Off;
    profile.idle_timeout = None;
    let server = ServerAddress::new(args.server.as_str()).with_variant(variant);
    let subscribed = args.subscriptions.iter();
    let mut subscriptions: Vec<_> = subscribed
        .map(|it| (it.type_url.clone(), it.name.as_ref().map(|name| name.as_str().to_owned())))
        .collect();
    if subscriptions.is_empty() {
        subscriptions = vec![(types::CLUSTER.into(), None), (types::LISTENER.into(), None)];
    }
    let plan = Plan {
        config: ClientConfig::new(identity.to_node(), server).with_profile(profile),
        subscriptions,
        nack: args.nack.0,
        slow: args.slow.0,
        slow_by: args.slow_by,
        seed: args.seed,
    };
    plan.with_types()
}

fn read_usage(pid: u32) -> Result<Usage, Failure> {
    process::usage(pid).map_err(|why| Failure::Load(format!("--server-pid {pid}: {why}")))
}

/// Breaks a share of the connections again and again, those with the lowest numbers last broken.
async fn break_connections(args: &LoadArgs, breakers: &[Arc<Notify>]) {
    let Some(every) = args.reconnect_every.filter(|every| !every.is_zero()) else {
        return pending().await;
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a number of connections"
    )]
    let share = (breakers.len() as f64 * args.reconnect_share.0).ceil() as usize;
    let mut next = breakers.iter().cycle();
    loop {
        sleep(every).await;
        next.by_ref().take(share).for_each(|connection| connection.notify_one());
    }
}

/// Next step after a round.
#[derive(Debug)]
enum Phase {
    Running(Round),
    /// All clients are at rest, until the next change at this time, or until a response arrives.
    Resting(Option<Instant>),
}

struct Measurement<'a> {
    args: &'a LoadArgs,
    observations: mpsc::UnboundedReceiver<Observed>,
    streams: Streams,
    phase: Phase,
    /// Number of changes so far.
    changes: u32,
    /// Usage of the server at the beginning of the round.
    usage: Option<Usage>,
    /// Last reason for which a stream ended.
    last_error: Option<String>,
    is_header_printed: bool,
    progress: Progress,
}

type ChangeCommand = Option<Child>;

impl<'a> Measurement<'a> {
    fn new(
        args: &'a LoadArgs,
        start: Instant,
        observations: mpsc::UnboundedReceiver<Observed>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            args,
            observations,
            streams: Streams::default(),
            phase: Phase::Running(Round::new("start".to_owned(), start)),
            changes: 0,
            usage: args.server_pid.map(read_usage).transpose()?,
            last_error: None,
            is_header_printed: false,
            progress: Progress::new(),
        })
    }

    /// Measures until the last change, or forever if their number is not limited.
    async fn run(&mut self) -> Result<(), Failure> {
        let mut ticks = interval(TICK);
        let mut batch = Vec::with_capacity(BATCH);
        let mut command: ChangeCommand = None;
        loop {
            let next = match self.phase {
                Phase::Resting(next) => next,
                Phase::Running(_) => None,
            };
            select! {
                biased;
                exit = ended(&mut command) => {
                    command = None;
                    self.check_change(exit)?;
                    if let Phase::Running(round) = &mut self.phase {
                        round.touch(Instant::now());
                    }
                }
                received = self.observations.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return Err(Failure::Load("the clients have ended".to_owned()));
                    }
                    batch.drain(..).for_each(|observed| self.note(observed));
                }
                () = at(next) => match self.change() {
                    Ok(started) => command = started,
                    Err(why) => self.check_change(Err(why))?,
                },
                _ = ticks.tick() => {
                    if command.is_none() && self.end_round()? {
                        return self.stopped();
                    }
                    self.show_progress();
                }
            }
        }
    }

    fn note(&mut self, (at, observation): Observed) {
        self.streams.note(&observation);
        if let Observation::Ended(stream) = &observation {
            self.last_error = Some(escaped(&stream.why));
        }
        if matches!(self.phase, Phase::Resting(_)) {
            self.changes += 1;
            self.phase = Phase::Running(Round::new(self.changes.to_string(), at));
        }
        if let Phase::Running(round) = &mut self.phase {
            round.note(at, observation);
        }
    }

    /// Starts the command of the next change.
    fn change(&mut self) -> io::Result<ChangeCommand> {
        let Some(command) = &self.args.change else { return Ok(None) };
        self.changes += 1;
        let name = self.changes.to_string();
        let command = command.replace("{}", &name);
        self.phase = Phase::Running(Round::new(name, Instant::now()));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).kill_on_drop(true);
        shell.spawn().map(Some)
    }

    fn check_change(&self, exit: io::Result<ExitStatus>) -> Result<(), Failure> {
        let why = match exit {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(why) => why.to_string(),
        };
        Err(Failure::Load(format!("the command of change {} failed: {why}", self.changes)))
    }

    /// Prints the round if it has ended. Returns whether it was the last one.
    fn end_round(&mut self) -> Result<bool, Failure> {
        let now = Instant::now();
        let Phase::Running(round) = &mut self.phase else { return Ok(false) };
        let has_all = self.streams.open >= self.args.clients.get();
        let is_at_rest = has_all && round.is_quiet(now, self.args.settle);
        if !is_at_rest && !round.is_longer_than(now, self.args.round_limit) {
            return Ok(false);
        }
        self.print_round()?;
        // Without any stream, nothing can be measured.
        if self.changes == 0 && self.streams.open == 0 {
            return Err(self.without_streams());
        }
        let is_last = self.args.changes().is_some_and(|changes| self.changes >= changes);
        let next = self.args.change.is_some().then(|| now + self.args.interval);
        self.phase = Phase::Resting(next);
        Ok(is_last)
    }

    fn print_round(&mut self) -> Result<(), Failure> {
        let Phase::Running(round) = &mut self.phase else { return Ok(()) };
        let usage = self.args.server_pid.map(read_usage).transpose()?;
        let since = usage.zip(self.usage).map(|(usage, before)| usage.since(before));
        self.usage = usage;
        match self.args.output {
            LoadOutput::Ndjson => output::print(&format!("{}\n", round.json(self.streams, since))),
            LoadOutput::Table => {
                let header = match core::mem::replace(&mut self.is_header_printed, true) {
                    true => String::new(),
                    false => rounds::header(),
                };
                self.progress.clear();
                output::print(&(header + &round.text(self.streams, since)))
            }
        }
    }

    /// Prints the round that was under way, and fails if clients have no stream.
    fn stopped(&mut self) -> Result<(), Failure> {
        self.print_round()?;
        match self.streams.open >= self.args.clients.get() {
            true => Ok(()),
            false => Err(self.without_streams()),
        }
    }

    /// Returns the error about clients without a stream.
    fn without_streams(&self) -> Failure {
        let clients = self.args.clients.get();
        let missing = clients.saturating_sub(self.streams.open);
        let why = match &self.last_error {
            Some(why) => why.clone(),
            None if self.streams.waiting > 0 => self.streams.waiting_text(),
            None => "no attempt has ended yet".to_owned(),
        };
        Failure::Load(format!("{missing} of {clients} clients have no stream: {why}"))
    }

    fn show_progress(&mut self) {
        let Phase::Running(round) = &self.phase else { return };
        let (streams, clients) = (self.streams, self.args.clients.get());
        self.progress.show(|| {
            let open = grouped(u64::from(streams.open));
            let answers = grouped_count(round.answers(), "answer");
            format!("{open} of {}, {answers}", grouped_count(u64::from(clients), "stream"))
        });
    }
}

/// Waits for the end of a command.
async fn ended(command: &mut ChangeCommand) -> io::Result<ExitStatus> {
    match command {
        Some(command) => command.wait().await,
        None => pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}
