//! From a bootstrap to channels.

use xds_bootstrap::{Bootstrap, BootstrapError, Guard};
use xds_handle::ClientHandle;
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations, Rules, rules::Routing,
};
use xds_tokio::{Client, ClientOptions};

use crate::{ChannelOptions, InvalidTarget, XdsChannel, target::Target};

/// The channels of a process, as its bootstrap has them: one client of xDS for all of them, which knows the types
/// that routing needs.
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
    bootstrap: Bootstrap,
    options: ChannelOptions,
}

impl XdsChannels {
    /// Starts the client that a bootstrap describes, in the tokio runtime that one is in: its node, servers,
    /// authorities and credentials, its certificate providers, and what its guards say of routing (S2.065).
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration of a certificate provider.
    pub fn connect(bootstrap: &Bootstrap) -> Result<Self, BootstrapError> {
        let options = ChannelOptions::of_bootstrap(bootstrap)?;
        let mut rules = Rules::default().with_routing(match bootstrap.guards.routing {
            Guard::On => Routing::Full,
            Guard::Off => Routing::LastRoute,
        });
        rules.certificate_providers = Some(options.certificate_providers.keys().cloned().collect());
        let config = bootstrap
            .client_config()
            .with_type(Listeners::new(rules.clone()))
            .with_type(RouteConfigurations::new(rules.clone()))
            .with_type(Clusters::new(rules.clone()))
            .with_type(ClusterLoadAssignments::new(rules));
        let client = Client::connect(config, ClientOptions::default().with_bootstrap(bootstrap));
        Ok(Self { client, bootstrap: bootstrap.clone(), options })
    }

    /// A channel for `xds:///name`, or for `xds://authority/name`, whose listener the bootstrap's template for
    /// that authority names (FE-20).
    ///
    /// # Errors
    ///
    /// The target is of another form, or the bootstrap does not have its authority.
    pub fn channel(&self, target: &str) -> Result<XdsChannel, InvalidTarget> {
        self.channel_with(target, self.options.clone())
    }

    /// The same with options, which [begin](Self::options) with what the bootstrap says. A listener that they name
    /// is asked for in place of that of the template.
    ///
    /// # Errors
    ///
    /// Those of [`channel`](Self::channel).
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

    /// What the bootstrap says of every channel.
    #[must_use]
    pub const fn options(&self) -> &ChannelOptions {
        &self.options
    }

    /// The client behind them.
    #[must_use]
    pub const fn client(&self) -> &ClientHandle {
        &self.client
    }
}

impl ChannelOptions {
    /// As gRPC has them, with the node and the certificate providers of a bootstrap. Providers of another plugin than
    /// `file_watcher` are left out: clusters that name them are invalid.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration of a certificate provider.
    pub fn of_bootstrap(bootstrap: &Bootstrap) -> Result<Self, BootstrapError> {
        let mut options = Self::new(bootstrap.node.id.as_str());
        for (name, provider) in &bootstrap.certificate_providers {
            if let Some(files) = provider.file_watcher()? {
                options = options.with_certificate_provider(name.as_str(), files);
            }
        }
        Ok(options)
    }
}
