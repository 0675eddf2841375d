//! A dependency manager on the handle of a running client, for applications.

use alloc::{boxed::Box, collections::BTreeMap};
use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{
    Stream as _,
    future::{AbortHandle, Abortable},
    stream::FuturesUnordered,
};
use xds_core::{
    ResourceName,
    client::{InvalidWatch, Notice},
};
use xds_handle::{ClientHandle, Watch};

use super::{Configuration, ConfigurationError, Dependency, DependencyManager, DependencyOutput};

/// A [`DependencyManager`] and its watches at a running client: configurations to await.
///
/// It belongs to one task, which awaits [`next`](Self::next) as long as it uses what that returned: nothing is
/// followed meanwhile if nobody awaits it, and the client reads no further once a watch has news.
/// Dropping it ends all watches.
///
/// The client has to know the four types ([`Listeners`](crate::Listeners) and its siblings), so that what is not
/// valid is rejected; if it does not, resources are judged here, which the server does not hear of.
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
#[must_use = "nothing is followed unless it is awaited"]
pub struct HandleDependencies {
    manager: DependencyManager,
    client: ClientHandle,
    watches: FuturesUnordered<Abortable<Turn>>,
    ends: BTreeMap<Dependency, AbortHandle>,
    configuration: Option<Result<Configuration, ConfigurationError>>,
    has_ended: bool,
}

/// Waits for the next notice of one watch, and gives both back.
struct Turn(Option<(Dependency, Box<Watch>)>);

/// What comes of a turn; no notice if the client has ended.
type Turned = (Dependency, Box<Watch>, Option<Result<Notice, InvalidWatch>>);

impl core::fmt::Debug for Turn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Turn").field(&self.0.as_ref().map(|(dependency, _)| dependency)).finish()
    }
}

impl Future for Turn {
    type Output = Turned;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turned> {
        let (_, watch) = self.0.as_mut().expect("not polled after it was done");
        match Pin::new(&mut **watch).poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(item) => {
                let (dependency, watch) = self.0.take().expect("just used");
                Poll::Ready((dependency, watch, item))
            }
        }
    }
}

impl HandleDependencies {
    /// Follows through this client.
    pub fn new(manager: DependencyManager, client: ClientHandle) -> Self {
        let mut this = Self {
            manager,
            client,
            watches: FuturesUnordered::new(),
            ends: BTreeMap::new(),
            configuration: None,
            has_ended: false,
        };
        this.obey();
        this
    }

    /// What is to be used from now on, as soon as that changes; steps that were not taken in time are passed
    /// over. `None` once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Configuration, ConfigurationError>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for who polls.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Configuration, ConfigurationError>>> {
        loop {
            match Pin::new(&mut self.watches).poll_next(cx) {
                Poll::Ready(Some(Ok(turned))) => self.take(turned),
                // It was ended meanwhile.
                Poll::Ready(Some(Err(_))) => {}
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        match self.configuration.take() {
            Some(configuration) => Poll::Ready(Some(configuration)),
            None if self.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Keeps a cluster ([`DependencyManager::subscribe`]).
    pub fn subscribe(&mut self, cluster: &ResourceName) {
        self.manager.subscribe(cluster);
        self.obey();
    }

    /// Lets go of a cluster ([`DependencyManager::unsubscribe`]).
    pub fn unsubscribe(&mut self, cluster: &ResourceName) {
        self.manager.unsubscribe(cluster);
        self.obey();
    }

    /// The manager, to look at.
    #[must_use]
    pub const fn manager(&self) -> &DependencyManager {
        &self.manager
    }

    fn take(&mut self, (dependency, mut watch, item): Turned) {
        match item {
            Some(Ok(notice)) => {
                let end = self.ends.get(&dependency).cloned();
                self.manager.handle_notice(&dependency, notice);
                // What it led to is asked for before the client is told that it may read on.
                self.obey();
                watch.handled();
                // Unless it has led to its own end, perhaps with a new watch in its place.
                if end.is_some_and(|end| !end.is_aborted()) {
                    self.await_next(dependency, watch);
                }
            }
            Some(Err(InvalidWatch::ShutDown)) | None => self.has_ended = true,
            Some(Err(why)) => {
                self.manager.handle_refusal(&dependency, why);
                self.obey();
            }
        }
    }

    fn obey(&mut self) {
        while let Some(output) = self.manager.poll_output() {
            match output {
                DependencyOutput::Watch(dependency) => {
                    let type_url = dependency.kind.type_url();
                    let watch = self.client.watch_untyped(type_url, dependency.name.clone());
                    self.await_next(dependency, Box::new(watch));
                }
                DependencyOutput::Unwatch(dependency) => {
                    if let Some(end) = self.ends.remove(&dependency) {
                        end.abort();
                    }
                }
                DependencyOutput::Configuration(configuration) => {
                    self.configuration = Some(configuration);
                }
            }
        }
    }

    fn await_next(&mut self, dependency: Dependency, watch: Box<Watch>) {
        let (end, registration) = AbortHandle::new_pair();
        self.ends.insert(dependency.clone(), end);
        self.watches.push(Abortable::new(Turn(Some((dependency, watch))), registration));
    }
}
