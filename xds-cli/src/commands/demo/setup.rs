//! Server with its files, client, and the state of both.

use core::time::Duration;
use std::{collections::BTreeMap, net::SocketAddr};

use bytes::Bytes;
use serde_json::Value as Json;
use tokio::{
    net::TcpListener,
    select,
    task::JoinHandle,
    time::{Instant, interval, sleep_until, timeout},
};
use xds_core::{
    client::{ClientConfig, Node, ServerAddress as Address},
    server::ServerConfig,
    types,
};
use xds_format::Format;
use xds_fs::File;
use xds_tokio::{
    ClientHandle, ClientOptions, ManagementServer, ServerHandle, ServerOptions, client,
};

use super::follower::{ClientResource, ReferenceWatcher};
use crate::{
    directory::{Key, Sources},
    failure::DemoFailure,
    resource_types::Validation,
    server_table::Row,
};

/// Time limit of each expected result. Even on a busy machine none takes a second.
const LIMIT: Duration = Duration::from_secs(15);
/// Time between two status requests to the server.
const POLL: Duration = Duration::from_millis(20);

pub(crate) struct DemoSetup {
    pub(crate) address: SocketAddr,
    server: ServerHandle,
    serving: JoinHandle<std::io::Result<()>>,
    files: BTreeMap<&'static str, &'static str>,
    sources: Sources,
    client: ClientHandle,
    follower: ReferenceWatcher,
}

/// State of server and client at one moment.
#[derive(Clone, Debug)]
pub(crate) struct DemoState {
    /// Resources that the client watches, with their states.
    pub(crate) resources: BTreeMap<Key, ClientResource>,
    /// Rows of the server's status table.
    pub(crate) rows: Vec<Row>,
}

impl DemoSetup {
    /// Starts a server with these files on a free port of localhost, and a client.
    pub(crate) async fn set(files: &[(&'static str, &'static str)]) -> Result<Self, DemoFailure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(DemoFailure::Listen)?;
        let address = listener.local_addr().map_err(DemoFailure::Listen)?;
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        let types = [
            types::LISTENER,
            types::ROUTE_CONFIGURATION,
            types::CLUSTER,
            types::CLUSTER_LOAD_ASSIGNMENT,
        ];
        let config = types.into_iter().fold(
            ClientConfig::new(Node::new("demo-client"), Address::new(address.to_string())),
            |config, type_url| Validation::On.register(config, type_url.into()),
        );
        let client = client::connect(config, ClientOptions::default());
        let mut setup = Self {
            address,
            server: server.handle(),
            serving: tokio::spawn(server.serve(listener)),
            files: BTreeMap::new(),
            sources: Sources::default(),
            follower: ReferenceWatcher::new(client.clone()),
            client,
        };
        setup.edit(files).await?;
        Ok(setup)
    }

    /// Makes the client follow the configuration from a listener on.
    pub(crate) fn follow(&mut self, listener: &str) {
        self.follower.start(listener);
    }

    /// Replaces the contents of files, all at once.
    pub(crate) async fn edit(
        &mut self,
        edits: &[(&'static str, &'static str)],
    ) -> Result<(), DemoFailure> {
        self.files.extend(edits.iter().copied());
        let files = self.files.iter().map(|(&name, &content)| {
            let content = Bytes::from_static(content.as_bytes());
            File::new(name, Format::Yaml, Ok(content))
        });
        if let Some(error) = self.sources.update(files.collect()).into_iter().next() {
            return Err(DemoFailure::Configuration(error.to_string()));
        }
        for transaction in self.sources.changes().into_transactions(None) {
            let applied = self.server.apply(transaction).await;
            applied.map_err(|error| DemoFailure::Refused(error.to_string()))?;
        }
        self.sources.mark_served();
        Ok(())
    }

    /// Waits until `is_expected` is true for the state of both.
    pub(crate) async fn settle(
        &mut self,
        what: &'static str,
        is_expected: impl Fn(&DemoState) -> bool,
    ) -> Result<DemoState, DemoFailure> {
        let reached = async {
            let mut polls = interval(POLL);
            loop {
                select! {
                    change = self.follower.next() => change?,
                    _ = polls.tick() => {
                        let rows = self.rows().await?;
                        let state = DemoState { resources: self.follower.resources(), rows };
                        if is_expected(&state) {
                            return Ok(state);
                        }
                    }
                }
            }
        };
        timeout(LIMIT, reached).await.unwrap_or(Err(DemoFailure::TooLate { what, limit: LIMIT }))
    }

    /// Returns the number of responses that the server has sent after waiting for `time`.
    pub(crate) async fn responses_after(&mut self, time: Duration) -> Result<u64, DemoFailure> {
        let end = Instant::now() + time;
        // The client keeps reading, so that no response stays in a buffer.
        while Instant::now() < end {
            select! {
                change = self.follower.next() => change?,
                () = sleep_until(end) => {}
            }
        }
        let state = DemoState { resources: self.follower.resources(), rows: self.rows().await? };
        Ok(state.responses())
    }

    /// Shuts down client and server.
    pub(crate) async fn end(self) {
        self.client.shut_down();
        let _ = timeout(LIMIT, async {
            self.client.ended().await;
            self.server.shut_down().await;
            self.serving.await
        })
        .await;
    }

    async fn rows(&self) -> Result<Vec<Row>, DemoFailure> {
        let snapshots = self.server.status().await.map_err(|_| DemoFailure::Ended)?;
        Ok(snapshots.into_iter().map(Row::from).collect())
    }
}

impl DemoState {
    /// Whether every watched resource has arrived without an error, and the status has this number
    /// of types.
    pub(crate) fn is_complete(&self, types: usize) -> bool {
        self.rows.len() == types
            && self
                .resources
                .values()
                .all(|resource| resource.json.is_some() && resource.problem.is_none())
    }

    /// Number of responses that the server has sent.
    pub(crate) fn responses(&self) -> u64 {
        self.rows.iter().map(|row| row.responses).sum()
    }

    pub(crate) fn json(&self, type_url: &str, name: &str) -> Option<&Json> {
        self.resource(type_url, name)?.json.as_deref()
    }

    pub(crate) fn problem(&self, type_url: &str, name: &str) -> Option<&str> {
        self.resource(type_url, name)?.problem.as_deref()
    }

    pub(crate) fn row(&self, type_name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.type_name == type_name)
    }

    fn resource(&self, type_url: &str, name: &str) -> Option<&ClientResource> {
        self.resources.get(&Key { type_url: type_url.into(), name: name.into() })
    }
}
