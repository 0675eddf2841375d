//! Manager of a server's resources on the handle of a running client.

use core::{
    future::poll_fn,
    task::{Context, Poll},
};

use xds_handle::ClientHandle;

use super::{
    ServerConfiguration, ServingError,
    manager::{ServingManager, ServingOutput},
};
use crate::dependencies::{HandleWatches, WatchEvent};

/// [`ServingManager`] with its watches on a running client, as an asynchronous sequence of
/// configurations.
///
/// One task owns it and must keep awaiting [`next`](Self::next): no updates are processed otherwise.
/// Dropping it ends all watches. The client should know the types
/// [`Listeners`](crate::Listeners) and [`RouteConfigurations`](crate::RouteConfigurations), so that
/// it NACKs invalid resources.
#[derive(Debug)]
#[must_use = "no watches are processed unless it is awaited"]
pub struct HandleServing {
    manager: ServingManager,
    watches: HandleWatches,
    configuration: Option<Result<ServerConfiguration, ServingError>>,
    has_ended: bool,
}

impl HandleServing {
    /// Starts the watches of a manager.
    pub fn new(manager: ServingManager, client: ClientHandle) -> Self {
        let watches = HandleWatches::new(client);
        let mut this = Self { manager, watches, configuration: None, has_ended: false };
        this.apply_outputs();
        this
    }

    /// Waits for the next configuration. Intermediate configurations are skipped. Returns `None`
    /// once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<ServerConfiguration, ServingError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next configuration, like [`next`](Self::next).
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<ServerConfiguration, ServingError>>> {
        while !self.has_ended
            && let Poll::Ready(event) = self.watches.poll_next(cx)
        {
            match event {
                WatchEvent::Notice(dependency, notice, watch) => {
                    self.manager.handle_notice(&dependency, notice);
                    self.apply_outputs();
                    self.watches.handled(dependency, watch);
                }
                WatchEvent::Refused(dependency, why) => {
                    self.manager.handle_refusal(&dependency, why);
                    self.apply_outputs();
                }
                WatchEvent::Ended => self.has_ended = true,
            }
        }
        match self.configuration.take() {
            Some(configuration) => Poll::Ready(Some(configuration)),
            None if self.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Returns the manager, for inspection.
    #[must_use]
    pub const fn manager(&self) -> &ServingManager {
        &self.manager
    }

    fn apply_outputs(&mut self) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                ServingOutput::Watch(dependency) => self.watches.start(dependency),
                ServingOutput::Unwatch(dependency) => self.watches.end(&dependency),
                ServingOutput::Configuration(configuration) => {
                    self.configuration = Some(configuration);
                }
            }
        }
    }
}
