//! Storms on a stage: clients, servers, operators and the network do anything. Then all faults are
//! repaired, and the participants must agree within a computed time, and release everything.

mod application;
mod credentials;
mod options;
mod silent;

use core::{net::SocketAddr, time::Duration};
use std::collections::BTreeMap;

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

pub use self::options::StackOptions;
use self::{application::WatchingApplication, credentials::StormCredentials};
use super::{Conditions, DialOutcome, Host, Stage};
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
    credentials: Option<StormCredentials>,
    /// Host whose connections are silent.
    silent: Option<Host>,
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
    let credentials = options.tls.then(|| match options.replaces_certificates {
        true => StormCredentials::replaceable(),
        false => StormCredentials::permanent(),
    });
    let mut storm = Storm {
        stage,
        credentials,
        silent: None,
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

impl Storm<'_> {
    async fn set_up(&mut self) {
        let stage = self.stage;
        for number in 0..self.options.servers {
            let host = stage.server_host(&format!("server-{number}"));
            if self.options.dead_address {
                let dead = stage.host(&format!("dead-{number}"));
                stage.set_reach(SocketAddr::new(dead.address(), PORT), DialOutcome::Dropped);
                let addresses = Ok(vec![dead.address(), host.address()]);
                stage.set_name(host.name(), addresses, Duration::from_millis(5));
            }
            stage.limit_memory(&host, SERVER_MEMORY);
            self.servers.push(StackServer { host, running: None });
        }
        let hosts: Vec<_> =
            (0..self.options.clients).map(|it| stage.host(&format!("client-{it}"))).collect();
        let servers: Vec<_> = self.servers.iter().map(|server| server.host.clone()).collect();
        if !self.options.tls {
            stage.judge_messages(&hosts, &servers, self.options.variant);
        }
        for at in 0..self.servers.len() {
            self.start_server(at).await;
        }
        if self.options.silent_connections {
            let host = stage.host("silent");
            silent::start(&host, &servers, PORT);
            self.silent = Some(host);
        }
        for (number, host) in (0..).zip(hosts) {
            stage.limit_memory(&host, CLIENT_MEMORY);
            for server in &servers {
                stage.set_conditions(&host, server, self.options.conditions);
                stage.set_conditions(server, &host, self.options.conditions);
            }
            let client =
                connect(host.clone(), self.client_config(&host), self.client_options(number));
            let application = WatchingApplication::new(host.clone(), client);
            self.clients.push(StackClient { host, application });
        }
    }

    fn client_config(&self, host: &Host) -> ClientConfig {
        let scheme = if self.credentials.is_some() { "https://" } else { "" };
        let mut addresses = self.servers.iter().map(|server| {
            let address = format!("{scheme}{}:{PORT}", server.host.name());
            let mut address = ServerAddress::new(address);
            address.variant = self.options.variant;
            if self.credentials.is_some() { address.with_transport(TLS) } else { address }
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
        let Some(StormCredentials { files, .. }) = &self.credentials else { return options };
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
        if self.options.silent_connections {
            options = options.with_max_handshakes(1);
        }
        if let Some(StormCredentials { files, client_authority, .. }) = &self.credentials {
            let identity = IdentityFiles {
                certificate: files.server.clone(),
                private_key: files.server_key.clone(),
            };
            let credentials = ServerCredentials::tls(identity)
                .with_client_authority(client_authority.clone(), ClientCertificates::Required);
            options = options.with_credentials(credentials);
        }
        let running = ManagementServer::start_on(host.clone(), ServerConfig::default(), options);
        let Ok(listener) = host.listen(SocketAddr::new(host.address(), PORT)) else { return };
        let serving = running.serve(listener);
        host.start(async move { drop(serving.await) });
        self.stage.restarted(host);
        let mut content = Transaction::new();
        for (name, text) in &self.resources {
            let bytes = Toy::bytes(name, text);
            self.stage.applied(host, name, Some(&bytes));
            content.set(types::CLUSTER, name.as_str(), bytes);
        }
        host.trace(EventKind::Store, format!("starts with {} resources", self.resources.len()));
        if let Err(error) = running.handle().apply(content).await {
            self.stage.violate("apply", "A server applies a sound change.", error.to_string());
        }
        server.running = Some(running);
    }

    /// Draws and does one operation, then lets some time pass.
    async fn operate(&mut self) {
        const KINDS: u32 = 19;

        let stage = self.stage;
        let kind = stage.below("operation", KINDS);
        let client = stage.below("client", self.options.clients) as usize;
        let server = stage.below("server", self.options.servers) as usize;
        let name = format!("r{}", stage.below("name", self.options.names));
        let (near, far) = (self.clients[client].host.clone(), self.servers[server].host.clone());
        let address = SocketAddr::new(far.address(), PORT);
        match kind {
            0 | 1 => {
                if self.clients[client].application.watch(&name) {
                    stage.watched(&near, &name);
                }
            }
            2 | 3 => self.change(&name, true).await,
            4 => self.change(&name, false).await,
            5 => {
                self.clients[client].application.unwatch(&name);
                stage.unwatched(&near, &name);
            }
            6 => self.clients[client].application.set_polling(false),
            7 => self.clients[client].application.set_polling(true),
            8 => stage.reset(&near, &far),
            9 => stage.lose_connections(&near, &far),
            10 => stage.close_direction(&near, &far),
            11 => stage.close_direction(&far, &near),
            12 => match stage.below("GOAWAY", 3) {
                0 => stage.go_away(&far, &near),
                1 => stage.set_going_away(&far, &near, true),
                _ => stage.set_going_away(&far, &near, false),
            },
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
            17 => {
                self.replace_certificates();
            }
            _ => match self.servers[server].running.take() {
                Some(running) => {
                    match stage.below("end", 3) {
                        0 => drop(running),
                        1 => {
                            drop(running);
                            stage.power_off(&far);
                        }
                        _ => {
                            running.handle().shut_down().await;
                            let wait = stage.choices().pick("grace", &[0, 1, 1_000, 6_000]);
                            sleep(Duration::from_millis(wait)).await;
                        }
                    }
                    stage.kill(&far);
                }
                None => self.start_server(server).await,
            },
        }
        let wait = stage.choices().pick("wait", &[0, 1, 40, 700, 3_000, 20_000, 90_000]);
        sleep(Duration::from_millis(wait)).await;
    }

    /// Takes the next step of a replacement of certificates, if this run has one.
    fn replace_certificates(&mut self) -> bool {
        let step = self.credentials.as_mut().and_then(StormCredentials::replace);
        if let (Some(step), Some(server)) = (step, self.servers.first()) {
            server.host.note(step);
        }
        step.is_some()
    }

    /// Changes or removes a resource on all servers that run.
    async fn change(&mut self, name: &str, exists: bool) {
        let mut change = Transaction::new();
        let mut bytes = None;
        if exists {
            self.changes += 1;
            let text = format!("v{}", self.changes);
            let content = bytes.insert(Toy::bytes(name, &text));
            change.set(types::CLUSTER, name, content.clone());
            self.resources.insert(name.into(), text);
        } else {
            change.remove(types::CLUSTER, name);
            self.resources.remove(name);
        }
        for server in &self.servers {
            let Some(running) = &server.running else { continue };
            let state = self.resources.get(name).map_or("removed", String::as_str);
            server.host.trace(EventKind::Store, format!("{name} is {state}"));
            self.stage.applied(&server.host, name, bytes.as_ref());
            if let Err(error) = running.handle().apply(change.clone()).await {
                self.stage.violate("apply", "A server applies a sound change.", error.to_string());
            }
        }
    }

    /// Repairs all faults.
    async fn heal(&mut self) {
        while self.replace_certificates() {}
        if self.options.replaces_certificates || self.options.silent_connections {
            // New connections use new certificates, and have to be accepted.
            for (client, server) in self.pairs() {
                self.stage.reset(&client, &server);
            }
        }
        for at in 0..self.servers.len() {
            if self.servers[at].running.is_none() {
                self.start_server(at).await;
            }
            let far = self.servers[at].host.clone();
            self.stage.set_reach(SocketAddr::new(far.address(), PORT), DialOutcome::Open);
            for client in &self.clients {
                self.stage.heal(&client.host, &far);
                self.stage.set_going_away(&far, &client.host, false);
                self.stage.set_conditions(&far, &client.host, Conditions::default());
                self.stage.set_conditions(&client.host, &far, Conditions::default());
            }
        }
        for client in &self.clients {
            client.application.set_polling(true);
        }
    }

    fn pairs(&self) -> Vec<(Host, Host)> {
        let servers = |client: &StackClient| {
            let client = client.host.clone();
            self.servers.iter().map(move |server| (client.clone(), server.host.clone()))
        };
        self.clients.iter().flat_map(servers).collect()
    }

    /// Waits until the watchers know what the servers have, and then what changes. Checks that no
    /// wake-up is lost.
    async fn converge(&mut self) {
        self.agree().await;
        // What watchers know already, or an error, does not show that they are connected.
        for name in 0..self.options.names {
            self.change(&format!("r{name}"), true).await;
        }
        self.agree().await;
        if self.stage.is_violated() {
            return;
        }
        // Connections to servers that are no longer used may still be given up.
        sleep(LONGEST_RECOVERY).await;
        if let Some(what) = self.difference() {
            let rule = "What watchers know stays right while nothing changes.";
            self.stage.violate("stability", rule, what);
            return;
        }
        self.stage.judge_at_rest();
        self.stage.kick().await;
    }

    /// Waits until the watchers know what the servers have.
    async fn agree(&self) {
        let agree = self.stage.until(LONGEST_RECOVERY, || self.difference().is_none()).await;
        if !agree && let Some(what) = self.difference() {
            let rule = "After all faults are repaired, watchers know the resources within a limit.";
            self.stage.violate("liveness", rule, format!("{what}, after {LONGEST_RECOVERY:?}"));
        }
    }

    fn difference(&self) -> Option<String> {
        self.clients.iter().find_map(|it| it.application.difference(&self.resources))
    }

    /// Ends everything, and checks that nothing is left.
    async fn tear_down(self) {
        if let Some(silent) = &self.silent {
            self.stage.kill(silent);
        }
        let mut clients = Vec::new();
        for client in self.clients {
            client.application.end();
            clients.push(client.host);
        }
        sleep(LONGEST_RECOVERY).await;
        let connections = self.stage.connections();
        if connections > 0 {
            let rule = "After the end of all clients, no connection is left.";
            self.stage.violate("connections", rule, format!("{connections} connections"));
        }
        let mut hosts = clients;
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
            hosts.push(server.host);
        }
        sleep(LONGEST_RECOVERY).await;
        let (tasks, connections) = (self.stage.tasks(), self.stage.connections());
        if (tasks, connections) != (0, 0) {
            let rule =
                "After the end of all clients and servers, no task and no connection is left.";
            let what = format!("{tasks} tasks and {connections} connections");
            self.stage.violate("release", rule, what);
        }
        for host in hosts {
            let held = self.stage.held_memory(&host);
            if held > LEFT_MEMORY {
                let rule = "What a host held is freed when its clients and servers have ended.";
                let what = format!("{} still holds {held} bytes", host.name());
                self.stage.violate("held-bytes", rule, what);
            }
        }
    }
}

/// Maximum number of bytes that a server of a storm holds: its resources are small, and its peers are
/// at most three clients and silent connections.
const SERVER_MEMORY: u64 = 2 << 20;

/// Maximum number of bytes that a client of a storm holds.
const CLIENT_MEMORY: u64 = 1 << 20;

/// Maximum number of bytes that the parts of a host that have ended leave behind: values that are
/// made once per process or thread, and what others allocated for it.
const LEFT_MEMORY: i64 = 64 << 10;

/// Longest time from the repair of all faults until the watchers know the resources. The sum of: the
/// detection of a connection that was lost without a sign, by TCP keepalive (60 s); the time limit of
/// an attempt that has got no answer (20 s); the longest backoff with jitter (36 s); the
/// does-not-exist timeout (15 s); the same for a second server (20 s and 36 s).
const LONGEST_RECOVERY: Duration = Duration::from_secs(60 + 20 + 36 + 15 + 20 + 36);
