//! Storms on a stage: clients, servers, operators and the network do anything. Then all faults are
//! repaired, and the participants must agree within a computed time, and release everything.

mod application;
mod options;

use core::{net::SocketAddr, time::Duration};
use std::{collections::BTreeMap, env, fs, process, sync::OnceLock};

use tokio::time::sleep;
use xds_bootstrap::{IdentityFiles, TlsFiles};
use xds_core::{
    client::{ClientConfig, Node, ServerAddress},
    server::{ServerConfig, Transaction},
    types,
};
use xds_grpc::{
    ClientOptions, Credentials, ManagementServer, ServerOptions,
    client::connect,
    credentials::{ClientCertificates, ServerCredentials},
};

use self::application::WatchingApplication;
pub use self::options::StackOptions;
use super::{Conditions, DialOutcome, Host, Stage, certificates::CertificateFiles};
use crate::{
    Toy, ToyType,
    trace::{EventKind, Phase},
};

const PORT: u16 = 18_000;

/// Transport of connections with TLS.
const TLS: &str = "tls";

/// Participants of a storm.
struct Storm<'s> {
    stage: &'s Stage,
    options: StackOptions,
    files: Option<CertificateFiles>,
    servers: Vec<StackServer>,
    clients: Vec<StackClient>,
    /// Resources of all servers.
    resources: BTreeMap<String, String>,
    changes: u32,
}

struct StackServer {
    host: Host,
    /// `None` while it is down.
    running: Option<ManagementServer<Host>>,
}

struct StackClient {
    host: Host,
    application: WatchingApplication,
}

/// Runs a storm with options and operations drawn from the stage's choices.
pub async fn storm(stage: &Stage) {
    let options = StackOptions::draw(&mut stage.choices());
    storm_with(stage, options).await;
}

/// Runs a storm with these options.
pub async fn storm_with(stage: &Stage, options: StackOptions) {
    stage.describe(options.to_string());
    let files = options.tls.then(certificates);
    let mut storm = Storm {
        stage,
        files,
        servers: Vec::new(),
        clients: Vec::new(),
        resources: BTreeMap::new(),
        changes: 0,
        options,
    };
    storm.set_up().await;
    stage.phase(Phase::Faults);
    for _ in 0..storm.options.operations {
        stage.choices().begin_span();
        storm.operate().await;
        stage.choices().end_span();
        if stage.is_violated() {
            return;
        }
    }
    stage.phase(Phase::Heal);
    storm.heal().await;
    stage.phase(Phase::Converge);
    storm.converge().await;
    if !stage.is_violated() {
        stage.phase(Phase::Teardown);
        storm.tear_down().await;
    }
}

/// Returns the files from which credentials read the certificates of stages. They are written once
/// per process, because parallel runs must not see half a file.
fn certificates() -> CertificateFiles {
    static FILES: OnceLock<CertificateFiles> = OnceLock::new();

    let write = || {
        let directory = env::temp_dir().join(format!("xds-stack-{}", process::id()));
        let written =
            fs::create_dir_all(&directory).and_then(|()| CertificateFiles::write(&directory));
        written.unwrap_or_else(|error| panic!("cannot write to {}: {error}", directory.display()))
    };
    FILES.get_or_init(write).clone()
}

impl Storm<'_> {
    async fn set_up(&mut self) {
        for number in 0..self.options.servers {
            let host = self.stage.server_host(&format!("server-{number}"));
            if self.options.dead_address {
                let dead = self.stage.host(&format!("dead-{number}"));
                self.stage.set_reach(SocketAddr::new(dead.address(), PORT), DialOutcome::Dropped);
                let addresses = Ok(vec![dead.address(), host.address()]);
                self.stage.set_name(host.name(), addresses, Duration::from_millis(5));
            }
            self.servers.push(StackServer { host, running: None });
            self.start_server(self.servers.len() - 1).await;
        }
        for number in 0..self.options.clients {
            let host = self.stage.host(&format!("client-{number}"));
            for server in &self.servers {
                self.stage.set_conditions(&host, &server.host, self.options.conditions);
                self.stage.set_conditions(&server.host, &host, self.options.conditions);
            }
            let client =
                connect(host.clone(), self.client_config(&host), self.client_options(number));
            let application = WatchingApplication::new(host.clone(), client);
            self.clients.push(StackClient { host, application });
        }
    }

    fn client_config(&self, host: &Host) -> ClientConfig {
        let scheme = if self.files.is_some() { "https://" } else { "" };
        let mut addresses = self.servers.iter().map(|server| {
            let address = format!("{scheme}{}:{PORT}", server.host.name());
            let mut address = ServerAddress::new(address);
            address.variant = self.options.variant;
            if self.files.is_some() { address.with_transport(TLS) } else { address }
        });
        let first = addresses.next().unwrap_or_else(|| ServerAddress::new("nowhere"));
        let mut config = ClientConfig::new(Node::new(host.name()), first)
            .with_type(ToyType::new(types::CLUSTER));
        config.servers.extend(addresses);
        config.profile.flow_control = self.options.flow_control;
        config
    }

    fn client_options(&self, number: u32) -> ClientOptions {
        let options = ClientOptions::default().with_seed(u64::from(number));
        let Some(files) = &self.files else { return options };
        let mut tls = TlsFiles::default();
        tls.ca_certificate = Some(files.authority.clone());
        tls.identity = Some(IdentityFiles {
            certificate: files.client.clone(),
            private_key: files.client_key.clone(),
        });
        options.with_credentials(TLS.into(), Credentials::tls(tls))
    }

    async fn start_server(&mut self, at: usize) {
        let server = &mut self.servers[at];
        let host = &server.host;
        let mut options = ServerOptions::default().with_seed(100 + at as u64);
        if let Some(files) = &self.files {
            let identity = IdentityFiles {
                certificate: files.server.clone(),
                private_key: files.server_key.clone(),
            };
            let credentials = ServerCredentials::tls(identity)
                .with_client_authority(files.authority.clone(), ClientCertificates::Required);
            options = options.with_credentials(credentials);
        }
        let running = ManagementServer::start_on(host.clone(), ServerConfig::default(), options);
        let Ok(listener) = host.listen(SocketAddr::new(host.address(), PORT)) else { return };
        let serving = running.serve(listener);
        host.start(async move { drop(serving.await) });
        let mut content = Transaction::new();
        for (name, text) in &self.resources {
            content.set(types::CLUSTER, name.as_str(), Toy::bytes(name, text));
        }
        host.trace(EventKind::Store, format!("starts with {} resources", self.resources.len()));
        if let Err(error) = running.handle().apply(content).await {
            self.stage.violate("apply", "A server applies a sound change.", error.to_string());
        }
        server.running = Some(running);
    }

    /// Draws and does one operation, then lets some time pass.
    async fn operate(&mut self) {
        const KINDS: u32 = 18;

        let stage = self.stage;
        let kind = stage.below("operation", KINDS);
        let client = stage.below("client", self.options.clients) as usize;
        let server = stage.below("server", self.options.servers) as usize;
        let name = format!("r{}", stage.below("name", self.options.names));
        let (near, far) = (self.clients[client].host.clone(), self.servers[server].host.clone());
        let address = SocketAddr::new(far.address(), PORT);
        match kind {
            0 | 1 => self.clients[client].application.watch(&name),
            2 | 3 => self.change(&name, true).await,
            4 => self.change(&name, false).await,
            5 => self.clients[client].application.unwatch(&name),
            6 => self.clients[client].application.set_polling(false),
            7 => self.clients[client].application.set_polling(true),
            8 => stage.reset(&near, &far),
            9 => stage.lose_connections(&near, &far),
            10 => stage.close_direction(&near, &far),
            11 => stage.close_direction(&far, &near),
            12 => stage.go_away(&far, &near),
            13 => stage.partition(&near, &far),
            14 => stage.heal(&near, &far),
            15 => {
                let reach = stage.choices().pick(
                    "reach",
                    &[
                        DialOutcome::Open,
                        DialOutcome::Refused,
                        DialOutcome::Dropped,
                        DialOutcome::Silent,
                    ],
                );
                stage.set_reach(address, reach);
            }
            16 => {
                let conditions = options::draw_conditions(&mut stage.choices());
                stage.set_conditions(&far, &near, conditions);
            }
            _ => match self.servers[server].running.take() {
                Some(running) => {
                    drop(running);
                    match stage.choices().chance("power", 300) {
                        true => stage.power_off(&far),
                        false => stage.kill(&far),
                    }
                }
                None => self.start_server(server).await,
            },
        }
        let wait = stage.choices().pick("wait", &[0, 1, 40, 700, 3_000, 20_000, 90_000]);
        sleep(Duration::from_millis(wait)).await;
    }

    /// Changes or removes a resource on all servers that run.
    async fn change(&mut self, name: &str, exists: bool) {
        let mut change = Transaction::new();
        if exists {
            self.changes += 1;
            let text = format!("v{}", self.changes);
            change.set(types::CLUSTER, name, Toy::bytes(name, &text));
            self.resources.insert(name.into(), text);
        } else {
            change.remove(types::CLUSTER, name);
            self.resources.remove(name);
        }
        for server in &self.servers {
            let Some(running) = &server.running else { continue };
            server
                .host
                .trace(EventKind::Store, format!("{name} is {:?}", self.resources.get(name)));
            if let Err(error) = running.handle().apply(change.clone()).await {
                self.stage.violate("apply", "A server applies a sound change.", error.to_string());
            }
        }
    }

    /// Repairs all faults.
    async fn heal(&mut self) {
        for at in 0..self.servers.len() {
            if self.servers[at].running.is_none() {
                self.start_server(at).await;
            }
            let far = self.servers[at].host.clone();
            self.stage.set_reach(SocketAddr::new(far.address(), PORT), DialOutcome::Open);
            for client in &self.clients {
                self.stage.heal(&client.host, &far);
                self.stage.set_conditions(&far, &client.host, Conditions::default());
                self.stage.set_conditions(&client.host, &far, Conditions::default());
            }
        }
        for client in &self.clients {
            client.application.set_polling(true);
        }
    }

    /// Waits until the watchers know what the servers have, and checks that no wake-up is lost.
    async fn converge(&self) {
        let difference =
            || self.clients.iter().find_map(|it| it.application.difference(&self.resources));
        let agree = self.stage.until(LONGEST_RECOVERY, || difference().is_none()).await;
        if !agree && let Some(what) = difference() {
            let rule = "After all faults are repaired, watchers know the resources within a limit.";
            self.stage.violate("liveness", rule, format!("{what}, after {LONGEST_RECOVERY:?}"));
            return;
        }
        // Connections to servers that are no longer used may still be given up.
        sleep(LONGEST_RECOVERY).await;
        if let Some(what) = difference() {
            let rule = "What watchers know stays right while nothing changes.";
            self.stage.violate("stability", rule, what);
            return;
        }
        self.stage.kick().await;
    }

    /// Ends everything, and checks that nothing is left.
    async fn tear_down(self) {
        for client in self.clients {
            client.application.end();
        }
        sleep(LONGEST_RECOVERY).await;
        let connections = self.stage.connections();
        if connections > 0 {
            let rule = "After the end of all clients, no connection is left.";
            self.stage.violate("connections", rule, format!("{connections} connections"));
        }
        for server in self.servers {
            if let Some(running) = server.running {
                let streams = running.handle().stats().await.map_or(0, |stats| stats.streams);
                if streams > 0 {
                    let rule = "After the end of all clients, a server has no stream.";
                    let what = format!("{} has {streams}", server.host.name());
                    self.stage.violate("streams", rule, what);
                }
                running.handle().shut_down().await;
            }
        }
        sleep(LONGEST_RECOVERY).await;
        let (tasks, connections) = (self.stage.tasks(), self.stage.connections());
        if (tasks, connections) != (0, 0) {
            let rule =
                "After the end of all clients and servers, no task and no connection is left.";
            let what = format!("{tasks} tasks and {connections} connections");
            self.stage.violate("release", rule, what);
        }
    }
}

/// Longest time from the repair of all faults until the watchers know the resources. The sum of: the
/// detection of a connection that was lost without a sign, by TCP keepalive (60 s); the time limit of
/// an attempt that has got no answer (20 s); the longest backoff with jitter (36 s); the
/// does-not-exist timeout (15 s); the same for a second server (20 s and 36 s).
const LONGEST_RECOVERY: Duration = Duration::from_secs(60 + 20 + 36 + 15 + 20 + 36);
