//! Channels and servers from a bootstrap.

use core::net::SocketAddr;

use thiserror::Error;
use xds_bootstrap::{Bootstrap, BootstrapError, FeatureSwitch};
use xds_grpc::load_reports::LoadReports;
use xds_handle::ClientHandle;
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations, Rules, rules::Routing,
};
use xds_tokio::{ClientOptions, Tokio, client};

use crate::{
    channel::XdsChannel,
    options::ChannelOptions,
    target::{InvalidTarget, Target},
};

/// Reason why a server was not created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidServer {
    /// The bootstrap does not say how the listeners of servers are named.
    #[error(
        "the bootstrap has no `server_listener_resource_name_template`, which gRPC servers need"
    )]
    NoTemplate,
    /// The port is 0. The management server has to know it.
    #[error("the address {0} has no port: a server that is configured by xDS needs a fixed one")]
    NoPort(SocketAddr),
}

/// Channels and servers of a process that share one xDS client, configured by a gRPC bootstrap.
///
/// ```no_run
/// use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
/// use xds_bootstrap::Bootstrap;
/// use xds_channel::XdsChannels;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let channels = XdsChannels::connect(&Bootstrap::from_env()?)?;
/// let mut health = HealthClient::new(channels.channel("xds:///shop.example.com")?);
/// let answer = health.check(HealthCheckRequest::default()).await?;
/// println!("{:?}", answer.into_inner().status());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct XdsChannels {
    client: ClientHandle,
    pub(crate) bootstrap: Bootstrap,
    options: ChannelOptions,
}

impl XdsChannels {
    /// Starts the xDS client of a bootstrap in the current tokio runtime. The bootstrap defines the
    /// node, servers, authorities, credentials, certificate providers, and routing features.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration of a certificate provider is invalid.
    // S2.065
    pub fn connect(bootstrap: &Bootstrap) -> Result<Self, BootstrapError> {
        let mut options = ChannelOptions::from_bootstrap(bootstrap)?;
        let mut rules = Rules::default().with_routing(match bootstrap.feature_switches.routing {
            FeatureSwitch::On => Routing::Full,
            FeatureSwitch::Off => Routing::LastRoute,
        });
        rules.certificate_providers = Some(options.certificate_providers.keys().cloned().collect());
        let config = bootstrap
            .client_config()
            .with_type(Listeners::new(rules.clone()))
            .with_type(RouteConfigurations::new(rules.clone()))
            .with_type(Clusters::new(rules.clone()))
            .with_type(ClusterLoadAssignments::new(rules));
        let client_options = ClientOptions::default().with_bootstrap(bootstrap);
        let loads = LoadReports::new(Tokio, config.node.clone(), client_options.clone());
        options = options.with_load_reports(loads);
        let client = client::connect(config, client_options);
        Ok(Self { client, bootstrap: bootstrap.clone(), options })
    }

    /// Creates a channel for `xds:///name` or `xds://authority/name`. The bootstrap's template for
    /// the authority determines the name of the listener.
    ///
    /// # Errors
    ///
    /// Returns an error if the target has another form, or the bootstrap does not contain its
    /// authority.
    // FE-20
    pub fn channel(&self, target: &str) -> Result<XdsChannel, InvalidTarget> {
        self.channel_with(target, self.options.clone())
    }

    /// Creates a channel with options. Start with [`options`](Self::options), which contains the
    /// settings of the bootstrap. A listener name in the options replaces the one from the
    /// template.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`channel`](Self::channel).
    pub fn channel_with(
        &self,
        target: &str,
        mut options: ChannelOptions,
    ) -> Result<XdsChannel, InvalidTarget> {
        if options.listener.is_none() {
            let parts = Target::read(target)?;
            let listener = self.bootstrap.client_listener_name(parts.authority, parts.name);
            options.listener = Some(listener.map_err(|why| InvalidTarget::Authority {
                target: target.into(),
                authority: why.0,
            })?);
        }
        XdsChannel::new(&self.client, target, options)
    }

    /// Returns the channel options from the bootstrap.
    #[must_use]
    pub const fn options(&self) -> &ChannelOptions {
        &self.options
    }

    /// Returns the xDS client of the channels.
    #[must_use]
    pub const fn client(&self) -> &ClientHandle {
        &self.client
    }
}
