//! Both ends: the server with its files, the client, and a look at both at once.

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
    Client, ClientHandle, ClientOptions, ManagementServer, ServerHandle, ServerOptions,
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

/// How long anything that must happen may take. On a busy machine nothing here takes a second.
const LIMIT: Duration = Duration::from_secs(15);
/// How often the server is asked how far it is.
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

/// What both ends have at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// What the client watches, and knows of it.
    pub(crate) resources: BTreeMap<Key, Known>,
    /// What the server knows of the client.
    pub(crate) rows: Vec<Row>,
}

impl Stage {
    /// Starts the server on a free port of this machine, with these files, and a client of it.
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
        let client = Client::connect(config, ClientOptions::default());
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

    /// Lets the client follow the configuration from a listener on.
    pub(crate) fn follow(&mut self, listener: &str) {
        self.follower.start(listener);
    }

    /// Puts other contents into files, all at once.
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

    /// Waits until both ends are as they must become.
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

    /// How many responses the server has sent some time later.
    pub(crate) async fn responses_after(&mut self, time: Duration) -> Result<u64, DemoFailure> {
        let end = Instant::now() + time;
        // The client goes on reading, so that nothing can hide in a buffer.
        while Instant::now() < end {
            select! {
                news = self.follower.next() => news?,
                () = sleep_until(end) => {}
            }
        }
        let scene = Scene { resources: self.follower.resources(), rows: self.rows().await? };
        Ok(scene.responses())
    }

    /// Ends both.
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
    /// Whether everything that is watched has arrived, and the server knows of so many types.
    pub(crate) fn is_complete(&self, types: usize) -> bool {
        self.rows.len() == types
            && self.resources.values().all(|known| known.json.is_some() && known.problem.is_none())
    }

    /// How many responses the server has sent.
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
