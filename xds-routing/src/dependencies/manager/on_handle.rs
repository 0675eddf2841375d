//! Dependency manager on the handle of a running client, for applications.

use core::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use xds_core::ResourceName;
use xds_handle::ClientHandle;

use super::DependencyManager;
use crate::dependencies::{
    Configuration, ConfigurationError, DependencyOutput, HandleWatches, WatchEvent,
};

/// [`DependencyManager`] with its watches on a running client, as an asynchronous sequence of
/// configurations.
///
/// One task owns it and must keep awaiting [`next`](Self::next) while it uses the configurations:
/// no updates are processed otherwise. With [`FlowControl::On`](xds_core::client::FlowControl) the
/// client even stops reading responses after the next notice. Dropping it ends all watches.
///
/// The client should know the four resource types ([`Listeners`](crate::Listeners) etc.), so that
/// it NACKs invalid resources. Otherwise they are validated here, and the server does not learn of
/// errors.
///
/// ```no_run
/// use xds_handle::ClientHandle;
/// use xds_routing::dependencies::{DependencyManager, HandleDependencies};
///
/// async fn follow(client: ClientHandle) {
///     let manager = DependencyManager::new("shop.example.com", "shop.example.com", "node-1");
///     let mut dependencies = HandleDependencies::new(manager, client);
///     while let Some(configuration) = dependencies.next().await {
///         match configuration {
///             Ok(configuration) => println!("{} clusters", configuration.clusters().len()),
///             Err(error) => println!("every call fails: {error}"),
///         }
///     }
/// }
/// ```
#[derive(Debug)]
#[must_use = "no watches are processed unless it is awaited"]
pub struct HandleDependencies {
    manager: DependencyManager,
    watches: HandleWatches,
    configuration: Option<Result<Configuration, ConfigurationError>>,
    has_ended: bool,
    /// Waiting task, which is woken after a subscription changes the watches.
    waiting: Option<Waker>,
}

impl HandleDependencies {
    /// Starts the watches of a manager.
    pub fn new(manager: DependencyManager, client: ClientHandle) -> Self {
        let watches = HandleWatches::new(client);
        let mut this =
            Self { manager, watches, configuration: None, has_ended: false, waiting: None };
        this.apply_outputs();
        this
    }

    /// Waits for the next configuration. Intermediate configurations are skipped. Returns `None`
    /// once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Configuration, ConfigurationError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next configuration, like [`next`](Self::next).
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Configuration, ConfigurationError>>> {
        while let Poll::Ready(event) = self.watches.poll_next(cx) {
            self.take(event);
            if self.has_ended {
                break;
            }
        }
        match self.configuration.take() {
            Some(configuration) => Poll::Ready(Some(configuration)),
            None if self.has_ended => Poll::Ready(None),
            None => {
                self.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Keeps a cluster ([`DependencyManager::subscribe`]).
    pub fn subscribe(&mut self, cluster: &ResourceName) {
        self.manager.subscribe(cluster);
        self.apply_outputs_and_wake();
    }

    /// Ends a subscription of a cluster ([`DependencyManager::unsubscribe`]).
    pub fn unsubscribe(&mut self, cluster: &ResourceName) {
        self.manager.unsubscribe(cluster);
        self.apply_outputs_and_wake();
    }

    fn apply_outputs_and_wake(&mut self) {
        self.apply_outputs();
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }

    /// Returns the manager, for inspection.
    #[must_use]
    pub const fn manager(&self) -> &DependencyManager {
        &self.manager
    }

    fn take(&mut self, event: WatchEvent) {
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

    fn apply_outputs(&mut self) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                DependencyOutput::Watch(dependency) => self.watches.start(dependency),
                DependencyOutput::Unwatch(dependency) => self.watches.end(&dependency),
                DependencyOutput::Configuration(configuration) => {
                    self.configuration = Some(configuration);
                }
            }
        }
    }
}
