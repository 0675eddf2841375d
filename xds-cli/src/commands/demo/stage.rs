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
    client::{ClientConfig, ManagementServer as Address, Node},
    server::ServerConfig,
    types,
};
use xds_format::Format;
use xds_fs::File;
use xds_tokio::{
    ClientHandle, ClientOptions, ManagementServer, ServerHandle, ServerOptions, client,
};

use super::{
    DemoFailure,
    follower::{Follower, Known},
};
use crate::{
    directory::{Key, Sources},
    resource_types::Validation,
    server_table::Row,
};

/// Time limit of each expected result. Even on a busy machine none takes a second.
const LIMIT: Duration = Duration::from_secs(15);
/// Time between two status requests to the server.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    server: ServerHandle,
    serving: JoinHandle<std::io::Result<()>>,
    files: BTreeMap<&'static str, &'static str>,
    sources: Sources,
    client: ClientHandle,
    follower: Follower,
}

/// State of server and client at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// Resources that the client watches, with their states.
    pub(crate) resources: BTreeMap<Key, Known>,
    /// Rows of the server's status table.
    pub(crate) rows: Vec<Row>,
}

impl Stage {
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
        let mut stage = Self {
            address,
            server: server.handle(),
            serving: tokio::spawn(server.serve(listener)),
            files: BTreeMap::new(),
            sources: Sources::default(),
            follower: Follower::new(client.clone()),
            client,
        };
        stage.edit(files).await?;
        Ok(stage)
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
        let files = self.files.iter().map(|(&name, &content)| File {
            path: name.into(),
            format: Format::Yaml,
            content: Ok(Bytes::from_static(content.as_bytes())),
        });
        if let Some(error) = self.sources.update(files.collect()).into_iter().next() {
            return Err(DemoFailure::Configuration(error.error));
        }
        let transaction = self.sources.changes().into_transaction();
        self.server
            .apply(transaction)
            .await
            .map_err(|error| DemoFailure::Refused(error.to_string()))?;
        self.sources.mark_served();
        Ok(())
    }

    /// Waits until `is_so` is true for the state of both.
    pub(crate) async fn settle(
        &mut self,
        what: &'static str,
        is_so: impl Fn(&Scene) -> bool,
    ) -> Result<Scene, DemoFailure> {
        let reached = async {
            let mut looks = interval(LOOK);
            loop {
                select! {
                    news = self.follower.next() => news?,
                    _ = looks.tick() => {
                        let rows = self.rows().await?;
                        let scene = Scene { resources: self.follower.resources(), rows };
                        if is_so(&scene) {
                            return Ok(scene);
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
                news = self.follower.next() => news?,
                () = sleep_until(end) => {}
            }
        }
        let scene = Scene { resources: self.follower.resources(), rows: self.rows().await? };
        Ok(scene.responses())
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

impl Scene {
    /// Whether every watched resource has arrived without an error, and the status has this number
    /// of types.
    pub(crate) fn is_complete(&self, types: usize) -> bool {
        self.rows.len() == types
            && self.resources.values().all(|known| known.json.is_some() && known.problem.is_none())
    }

    /// Number of responses that the server has sent.
    pub(crate) fn responses(&self) -> u64 {
        self.rows.iter().map(|row| row.responses).sum()
    }

    pub(crate) fn json(&self, type_url: &str, name: &str) -> Option<&Json> {
        self.known(type_url, name)?.json.as_deref()
    }

    pub(crate) fn problem(&self, type_url: &str, name: &str) -> Option<&str> {
        self.known(type_url, name)?.problem.as_deref()
    }

    pub(crate) fn row(&self, type_name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.type_name == type_name)
    }

    fn known(&self, type_url: &str, name: &str) -> Option<&Known> {
        self.resources.get(&Key { type_url: type_url.into(), name: name.into() })
    }
}
