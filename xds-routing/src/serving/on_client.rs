//! Manager of a server's resources on a client core, for drivers that own the core.

use xds_core::{Client, Time, WatchId, client::Notice};

use super::{
    ServerConfiguration, ServingError,
    manager::{ServingManager, ServingOutput},
};
use crate::dependencies::{Dependency, Watches};

/// [`ServingManager`] with its watches on a client core. The driver passes every notice; notices of
/// other watches are returned.
#[derive(Debug)]
pub struct ClientServing {
    manager: ServingManager,
    watches: Watches,
    configuration: Option<Result<ServerConfiguration, ServingError>>,
}

impl ClientServing {
    /// Starts the watches of a manager.
    pub fn new(manager: ServingManager, client: &mut Client, now: Time) -> Self {
        let mut this = Self { manager, watches: Watches::default(), configuration: None };
        this.apply_outputs(client, now);
        this
    }

    /// Handles a notice. Returns it if it belongs to another watch.
    ///
    /// The notice is [handled](Client::handled) when this function returns.
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

    /// Ends all watches.
    pub fn shut_down(self, client: &mut Client, now: Time) {
        self.watches.end_all(client, now);
    }

    /// Returns the configuration to use from now on, or the error in its place, if it changed.
    #[must_use]
    pub fn poll_configuration(&mut self) -> Option<Result<ServerConfiguration, ServingError>> {
        self.configuration.take()
    }

    /// Returns the manager, for inspection.
    #[must_use]
    pub const fn manager(&self) -> &ServingManager {
        &self.manager
    }

    /// Returns the watched resources, sorted.
    pub fn watched(&self) -> impl Iterator<Item = &Dependency> {
        self.watches.resources()
    }

    fn apply_outputs(&mut self, client: &mut Client, now: Time) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                ServingOutput::Watch(dependency) => {
                    if let Err(why) = self.watches.start(&dependency, client, now) {
                        self.manager.handle_refusal(&dependency, why);
                    }
                }
                ServingOutput::Unwatch(dependency) => self.watches.end(&dependency, client, now),
                ServingOutput::Configuration(configuration) => {
                    self.configuration = Some(configuration);
                }
            }
        }
    }
}
