//! A client with gRPC's profile that another program controls, for the differential
//! tests of `tests/interop`.
//!
//! It reads JSON commands from standard input, one per line:
//!
//! ```text
//! {"command": "open", "servers": ["127.0.0.1:PORT", ...], "node": ID,
//!  "providers": {NAME: FILES, ...}}
//! {"command": "want", "names": {TYPE_URL: [NAME, ...]}}  watches only these names of these types
//! {"command": "close"}                                   ends all watches, keeps the client
//! {"command": "follow", "authority": NAME}               follows the listener `svc`
//! {"command": "dial", "bootstrap": JSON, "target": TARGET}  opens a channel with this bootstrap
//! {"command": "calls", "calls": [{"path": PATH, "metadata": [[NAME, VALUE], ...]}, ...]}
//!     makes calls -> {"event": "calls", "outcomes": [{"port": N} or {"code": N}, ...]}
//!     with "cookie": TEXT if the response sets one
//! {"command": "metrics"}                                 metrics of these calls
//!     -> {"event": "metrics", "points": [{"name": N, "labels": {...}, "count": N, "sum": N}, ...]}
//! {"command": "decide", "calls": [...]}                  routes calls without making them
//! ```
//!
//! Notices are printed as JSON events, one per line. The program exits at the end of its input.

mod calls;
mod metrics;
mod routing;

use core::{future::poll_fn, pin::pin, task::Poll};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, stdin},
    select,
};
use xds_bootstrap::{Bootstrap, TlsFiles};
use xds_channel::{ChannelOptions, XdsChannel, XdsChannels};
use xds_core::client::{ClientConfig, InvalidWatch, Node, Notice, ServerAddress};
use xds_routing::{ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations, Rules};
use xds_tokio::{ClientHandle, ClientOptions, Tokio, Watch, client, load_reports::LoadReports};

use self::{
    metrics::Measured,
    routing::{CallToMake, Routing},
};

#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Command {
    Open {
        servers: Vec<String>,
        node: String,
        #[serde(default)]
        providers: BTreeMap<String, WatchedFiles>,
    },
    Want {
        names: BTreeMap<String, BTreeSet<String>>,
    },
    Close,
    Metrics,
    Follow {
        authority: String,
    },
    Dial {
        bootstrap: Json,
        target: String,
    },
    Calls {
        calls: Vec<CallToMake>,
    },
    Decide {
        calls: Vec<CallToMake>,
    },
}

/// Files of a certificate provider instance, as in a bootstrap.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchedFiles {
    ca_certificate_file: Option<String>,
    certificate_file: Option<String>,
    private_key_file: Option<String>,
}

impl WatchedFiles {
    fn to_tls(&self) -> TlsFiles {
        let mut files = TlsFiles::default();
        if let Some(roots) = &self.ca_certificate_file {
            files = files.with_ca_certificate(roots);
        }
        if let (Some(certificate), Some(key)) = (&self.certificate_file, &self.private_key_file) {
            files = files.with_identity(certificate, key);
        }
        files
    }
}

// A single thread, so that all changes of one command reach the client before it sends a request.
#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    println!("{}", json!({ "event": "ready", "version": env!("CARGO_PKG_VERSION") }));
    let mut application = Application::default();
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        select! {
            line = lines.next_line() => match line? {
                Some(line) => application.obey(serde_json::from_str(&line)?)?,
                None => return Ok(()),
            },
            event = application.next_event() => println!("{event}"),
        }
    }
}

/// State of the application: its client, and its watches by type and name.
#[derive(Default)]
struct Application {
    client: Option<ClientHandle>,
    watches: BTreeMap<(String, String), Watch>,
    channel: Option<XdsChannel>,
    routing: Option<Routing>,
    providers: BTreeMap<String, WatchedFiles>,
    measured: Measured,
}

impl Application {
    fn obey(&mut self, command: Command) -> io::Result<()> {
        match command {
            Command::Open { servers, node, providers } => self.open(servers, node, providers),
            Command::Want { names } => self.want(&names),
            Command::Close => {
                self.watches.clear();
                Ok(())
            }
            Command::Metrics => {
                println!("{}", json!({ "event": "metrics", "points": self.measured.points() }));
                Ok(())
            }
            Command::Follow { authority } => self.follow(&authority),
            Command::Dial { bootstrap, target } => {
                let bootstrap = Bootstrap::from_json(&bootstrap.to_string());
                let channels = bootstrap.and_then(|it| XdsChannels::connect(&it));
                let channels = channels.map_err(|why| misuse(&why.to_string()))?;
                let channel = channels.channel(&target).map_err(|why| misuse(&why.to_string()))?;
                self.channel = Some(channel);
                Ok(())
            }
            Command::Calls { calls } => {
                let channel = self.channel.clone().ok_or_else(|| misuse("there is no channel"))?;
                // In a separate task, because the channel gets its resources only while the watches
                // are polled.
                tokio::spawn(async move {
                    let outcomes = calls::make(channel, calls).await;
                    println!("{}", json!({ "event": "calls", "outcomes": outcomes }));
                });
                Ok(())
            }
            Command::Decide { calls } => {
                let routing = self.routing.as_mut().ok_or_else(|| misuse("nothing is followed"))?;
                let outcomes = routing.route(&calls);
                println!("{}", json!({ "event": "decide", "outcomes": outcomes }));
                Ok(())
            }
        }
    }

    fn follow(&mut self, authority: &str) -> io::Result<()> {
        let client = self.client.clone().ok_or_else(|| misuse("nothing is open"))?;
        let loads = LoadReports::new(Tokio, Node::new("node-1"), ClientOptions::default());
        let options = ChannelOptions::new("node-1").with_listener("svc").with_load_reports(loads);
        let options = options.with_metrics(self.measured.clone());
        let options = self.providers.iter().fold(options, |options, (name, files)| {
            options.with_certificate_provider(name.as_str(), files.to_tls())
        });
        let channel = XdsChannel::new(&client, &format!("xds:///{authority}"), options);
        let channel = channel.map_err(|why| misuse(&why.to_string()))?;
        self.channel = Some(channel);
        self.routing = Some(Routing::new(client, authority));
        Ok(())
    }

    fn open(
        &mut self,
        servers: Vec<String>,
        node: String,
        providers: BTreeMap<String, WatchedFiles>,
    ) -> io::Result<()> {
        let mut servers = servers.into_iter().map(ServerAddress::new);
        let first = servers.next().ok_or_else(|| misuse("a client needs a server"))?;
        // The test compares the client's resources with those of C-core, not the results of calls.
        let mut rules = Rules::default();
        rules.certificate_providers = Some(match providers.is_empty() {
            true => vec!["certificates".into()],
            false => providers.keys().cloned().collect(),
        });
        self.providers = providers;
        let rules = Arc::new(rules);
        let config = ClientConfig::new(Node::new(node), first)
            .with_type(Listeners::new(Arc::clone(&rules)))
            .with_type(RouteConfigurations::new(Arc::clone(&rules)))
            .with_type(Clusters::new(Arc::clone(&rules)))
            .with_type(ClusterLoadAssignments::new(rules));
        let config = servers.fold(config, ClientConfig::with_server);
        self.client = Some(client::connect(config, ClientOptions::default()));
        Ok(())
    }

    /// Starts new watches before it ends old ones, so that resources watched before and
    /// after are kept.
    fn want(&mut self, names: &BTreeMap<String, BTreeSet<String>>) -> io::Result<()> {
        let client = self.client.as_ref().ok_or_else(|| misuse("nothing is open"))?;
        for (type_url, names) in names {
            for name in names {
                self.watches
                    .entry((type_url.clone(), name.clone()))
                    .or_insert_with(|| client.watch_untyped(type_url.as_str(), name.as_str()));
            }
        }
        self.watches.retain(|(type_url, name), _| {
            names.get(type_url).is_none_or(|wanted| wanted.contains(name))
        });
        Ok(())
    }

    /// Waits for the next notice of any watch, and returns it as an event.
    async fn next_event(&mut self) -> Json {
        poll_fn(|cx| {
            if let Some(routing) = &mut self.routing {
                routing.poll(cx);
            }
            for ((type_url, name), watch) in &mut self.watches {
                if let Poll::Ready(Some(notice)) = pin!(watch.next()).poll(cx) {
                    return Poll::Ready(event(type_url, name, notice));
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn misuse(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn event(type_url: &str, name: &str, notice: Result<Notice, InvalidWatch>) -> Json {
    let (what, text) = match notice {
        Ok(Notice::Changed(Ok(resource))) => ("value", resource.version.to_string()),
        Ok(Notice::Changed(Err(error))) => ("error", error.to_string()),
        Ok(Notice::Ambient(Some(error))) => ("ambient", error.to_string()),
        Ok(Notice::Ambient(None)) => ("cleared", String::new()),
        Ok(other) => ("other", format!("{other:?}")),
        Err(invalid) => ("invalid", invalid.to_string()),
    };
    json!({ "event": what, "type_url": type_url, "name": name, "text": text })
}
