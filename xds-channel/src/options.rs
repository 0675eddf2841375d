//! Options of a channel.

use core::time::Duration;
use std::{collections::BTreeMap, sync::Arc};

use xds_bootstrap::{Bootstrap, BootstrapError, TlsFiles};
use xds_core::ResourceName;
use xds_grpc::{
    load_reports::LoadReports,
    runtime::{Runtime, SharedRuntime},
};
use xds_routing::balancer::BalancerTimes;
use xds_tokio::Tokio;

use crate::metrics::{ChannelMetrics, SharedMetrics};

/// Options of a channel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelOptions {
    /// Node id of the client, for error messages.
    // S3.095
    pub node_id: String,
    /// Name of the listener; `None` uses the name in the target.
    pub listener: Option<ResourceName>,
    /// Maximum time of an attempt to connect to an endpoint; 20 s by default.
    pub connect_timeout: Duration,
    /// Delays of failover, reconnection and removal of priorities.
    pub times: BalancerTimes,
    /// Certificate provider instances with the files that they watch, by name ([gRFC A29][A29]).
    ///
    /// [A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
    pub certificate_providers: BTreeMap<String, TlsFiles>,
    /// Load reports to management servers, for clusters that request them; `None`, the default,
    /// reports no load ([gRFC A27][A27]).
    ///
    /// [A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
    pub load_reports: Option<LoadReports>,
    pub(crate) metrics: Option<SharedMetrics>,
    /// Seed of random decisions; `None` selects a random seed.
    pub seed: Option<u64>,
    /// Runtime of the channel's tasks, timers and connections; the current tokio runtime by default.
    pub runtime: SharedRuntime,
}

impl ChannelOptions {
    /// Creates gRPC's default options for a client with this node id.
    #[must_use]
    pub fn new(node_id: impl Into<String>) -> Self {
        Self {
            node_id: node_id.into(),
            listener: None,
            connect_timeout: Duration::from_secs(20),
            times: BalancerTimes::default(),
            certificate_providers: BTreeMap::new(),
            load_reports: None,
            metrics: None,
            seed: None,
            runtime: SharedRuntime::new(Tokio),
        }
    }

    /// Creates gRPC's default options with the node and the certificate providers of a bootstrap.
    ///
    /// Providers with a plugin other than `file_watcher` are omitted. Calls to clusters that name
    /// such a provider fail.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration of a certificate provider is invalid.
    pub fn from_bootstrap(bootstrap: &Bootstrap) -> Result<Self, BootstrapError> {
        let mut options = Self::new(bootstrap.node.id.as_str());
        for (name, provider) in &bootstrap.certificate_providers {
            if let Some(files) = provider.file_watcher()? {
                options = options.with_certificate_provider(name.as_str(), files);
            }
        }
        Ok(options)
    }

    /// Adds a certificate provider instance with the files that it watches
    /// ([`CertificateProvider::file_watcher`](xds_bootstrap::CertificateProvider::file_watcher)).
    #[must_use]
    pub fn with_certificate_provider(mut self, name: impl Into<String>, files: TlsFiles) -> Self {
        self.certificate_providers.insert(name.into(), files);
        self
    }

    /// Sets the maximum time of an attempt to connect to an endpoint.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the delays of failover, reconnection and removal of priorities.
    #[must_use]
    pub fn with_times(mut self, times: BalancerTimes) -> Self {
        self.times = times;
        self
    }

    /// Sets the seed of random decisions.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the load reports to management servers. Channels of the same xDS client should share them.
    #[must_use]
    pub fn with_load_reports(mut self, load_reports: LoadReports) -> Self {
        self.load_reports = Some(load_reports);
        self
    }

    /// Sets the receiver of the measurements of calls. By default nothing is measured.
    #[must_use]
    pub fn with_metrics(mut self, metrics: impl ChannelMetrics + 'static) -> Self {
        self.metrics = Some(SharedMetrics(Arc::new(metrics)));
        self
    }

    /// Sets the runtime of the channel's tasks, timers and connections.
    #[must_use]
    pub fn with_runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = SharedRuntime::new(runtime);
        self
    }

    /// Sets the name of the listener, for example from a bootstrap's template.
    #[must_use]
    pub fn with_listener(mut self, name: impl Into<ResourceName>) -> Self {
        self.listener = Some(name.into());
        self
    }
}
