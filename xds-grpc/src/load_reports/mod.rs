//! Load reports of a client to its management servers ([gRFC A27], [gRFC A64]).
//!
//! | file | content |
//! |---|---|
//! | `recorders.rs` | recorders of calls, for the application |
//! | `counters.rs` | counters of a cluster |
//! | `server.rs` | the clusters that are reported to one server |
//! | `driver.rs` | the streams to one server |
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A64]: https://github.com/grpc/proposal/blob/master/A64-lrs-custom-metrics.md

mod counters;
mod driver;
mod recorders;
mod server;

use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use xds_core::client::{Node, ServerAddress, TransportKind};

pub use self::{
    counters::MAX_NAMED_METRICS,
    recorders::{CallRecord, ClusterRecorder, LocalityRecorder},
};
use self::{driver::Reporting, server::ServerReports};
use crate::{
    client::ClientOptions,
    clock::Clock,
    guard::locked,
    runtime::{Runtime, SharedRuntime},
};

/// Load reports of a client to its management servers.
///
/// The application records its calls by cluster and locality. As long as a cluster is recorded for
/// a server, a task on the runtime has a stream of load reports to that server, on a connection of
/// its own, with the credentials of discovery. The server chooses the clusters and the interval.
///
/// Clones share the recorders and the streams.
///
/// ```
/// use xds_core::{client::{ClientConfig, Node, ServerAddress}, proto::Locality};
/// use xds_grpc::{ClientOptions, load_reports::LoadReports, runtime::Runtime};
///
/// # fn record(runtime: impl Runtime) {
/// let server = ServerAddress::new("127.0.0.1:18000");
/// let loads = LoadReports::new(runtime, Node::new("node-1"), ClientOptions::default());
/// let cluster = loads.cluster(&server, "backend", None);
/// let zone = Locality { zone: "zone-a".into(), ..Locality::default() };
/// let mut call = cluster.locality(&zone).start();
/// // Send the call and wait for its end, then:
/// call.succeed();
/// drop(call);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LoadReports(Arc<SharedReports>);

#[derive(Debug)]
struct SharedReports {
    clock: Clock,
    servers: Mutex<Vec<Arc<ServerReports>>>,
    /// Servers whose task has to start.
    starts: mpsc::UnboundedSender<Arc<ServerReports>>,
}

impl LoadReports {
    /// Creates load reports for the client with this node and these options. Streams begin with the
    /// first cluster of a server. They run on the runtime of this call, also if recorders are created
    /// elsewhere.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned; with tokio, outside of a runtime.
    #[must_use]
    pub fn new(runtime: impl Runtime, node: Node, options: ClientOptions) -> Self {
        let runtime = SharedRuntime::new(runtime);
        let clock = Clock::start(runtime.clone());
        let (starts, mut started) = mpsc::unbounded_channel();
        let reporting = Reporting {
            runtime: runtime.clone(),
            clock: clock.clone(),
            node: Arc::new(node),
            options,
        };
        runtime.clone().spawn(async move {
            while let Some(server) = started.recv().await {
                runtime.spawn(reporting.clone().run(server));
            }
        });
        Self(Arc::new(SharedReports { clock, servers: Mutex::default(), starts }))
    }

    /// Returns the recorder of a cluster whose load is reported to a server. `service` is the name of
    /// the EDS resource, if it differs from that of the cluster. Recorders of the same cluster share
    /// their counters.
    ///
    /// Load can only be reported to servers with gRPC streams. The recorder of another server has no
    /// effect, and a warning is logged.
    #[must_use = "the load of a cluster is reported while it has a recorder"]
    pub fn cluster(
        &self,
        server: &ServerAddress,
        cluster: &str,
        service: Option<&str>,
    ) -> ClusterRecorder {
        let SharedReports { clock, servers, starts } = &*self.0;
        let now = clock.now();
        let mut servers = locked(servers);
        let known = servers.iter().find(|known| known.address == *server);
        let reports = match known {
            Some(known) => Arc::clone(known),
            None => {
                servers.retain(|known| !known.is_unused());
                let created = Arc::new(ServerReports::new(server.clone()));
                if !takes_reports(server) {
                    tracing::warn!(server = ?server, "load can only be reported over gRPC");
                }
                servers.push(Arc::clone(&created));
                created
            }
        };
        drop(servers);
        let (recorder, needs_task) = reports.cluster(cluster, service.unwrap_or_default(), now);
        if needs_task && takes_reports(server) {
            // The task that receives it has ended if the runtime has.
            let _ = starts.send(reports);
        }
        recorder
    }
}

/// Whether a server can have the service of load reports.
const fn takes_reports(server: &ServerAddress) -> bool {
    !matches!(server.transport_kind, TransportKind::Polling(_) | TransportKind::File(_))
}
