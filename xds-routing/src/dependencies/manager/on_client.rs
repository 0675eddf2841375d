//! Dependency manager on a client core, for drivers that own the core.

use xds_core::{Client, ResourceName, Time, WatchId, client::Notice};

use super::DependencyManager;
use crate::dependencies::{
    Configuration, ConfigurationError, Dependency, DependencyOutput, Watches,
};

/// [`DependencyManager`] with its watches on a client core. The driver passes every notice; notices
/// of other watches are returned.
///
/// ```
/// use xds_core::{Client, Time, client::*};
/// use xds_routing::dependencies::{ClientDependencies, DependencyManager};
///
/// # fn run(client: &mut Client, now: Time) {
/// let manager = DependencyManager::new("shop.example.com", "shop.example.com", "node-1");
/// let mut dependencies = ClientDependencies::new(manager, client, now);
/// // In the driver's loop:
/// while let Some(output) = client.poll_output() {
///     match output {
///         Output::Notify(watch, notice) => {
///             if let Some(_notice) = dependencies.handle_notice(watch, notice, client, now) {
///                 // The notice belongs to another watch.
///             }
///         }
///         _ => { /* open and close channels, send requests */ }
///     }
/// }
/// if let Some(configuration) = dependencies.poll_configuration() {
///     // Use it from now on.
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct ClientDependencies {
    manager: DependencyManager,
    watches: Watches,
    configuration: Option<Result<Configuration, ConfigurationError>>,
}

impl ClientDependencies {
    /// Starts the watches of a manager.
    pub fn new(manager: DependencyManager, client: &mut Client, now: Time) -> Self {
        let mut this = Self { manager, watches: Watches::default(), configuration: None };
        this.apply_outputs(client, now);
        this
    }

    /// Handles a notice. Returns it if it belongs to another watch.
    ///
    /// The notice is [handled](Client::handled) when this function returns: its dependencies are
    /// watched by then, so the client subscribes to them before it reads the next response.
    // B52
    #[must_use]
    pub fn handle_notice(
        &mut self,
        watch: WatchId,
        notice: Notice,
        client: &mut Client,
        now: Time,
    ) -> Option<Notice> {
        let Some(dependency) = self.watches.resource(watch) else { return Some(notice) };
        self.manager.handle_notice(dependency, notice);
        self.apply_outputs(client, now);
        client.handled(watch, now);
        None
    }

    /// Keeps a cluster ([`DependencyManager::subscribe`]).
    pub fn subscribe(&mut self, cluster: &ResourceName, client: &mut Client, now: Time) {
        self.manager.subscribe(cluster);
        self.apply_outputs(client, now);
    }

    /// Ends a subscription of a cluster ([`DependencyManager::unsubscribe`]).
    pub fn unsubscribe(&mut self, cluster: &ResourceName, client: &mut Client, now: Time) {
        self.manager.unsubscribe(cluster);
        self.apply_outputs(client, now);
    }

    /// Ends all watches.
    pub fn shut_down(&mut self, client: &mut Client, now: Time) {
        self.manager.shut_down();
        self.apply_outputs(client, now);
        self.configuration = None;
    }

    /// Returns the configuration to use from now on, if it changed.
    #[must_use]
    pub fn poll_configuration(&mut self) -> Option<Result<Configuration, ConfigurationError>> {
        self.configuration.take()
    }

    /// Returns the manager, for inspection.
    #[must_use]
    pub const fn manager(&self) -> &DependencyManager {
        &self.manager
    }

    /// Returns the watched resources, sorted.
    pub fn watched(&self) -> impl Iterator<Item = &Dependency> {
        self.watches.resources()
    }

    fn apply_outputs(&mut self, client: &mut Client, now: Time) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                DependencyOutput::Watch(dependency) => {
                    if let Err(why) = self.watches.start(&dependency, client, now) {
                        self.manager.handle_refusal(&dependency, why);
                    }
                }
                DependencyOutput::Unwatch(dependency) => {
                    self.watches.end(&dependency, client, now);
                }
                DependencyOutput::Configuration(configuration) => {
                    self.configuration = Some(configuration);
                }
            }
        }
    }
}
