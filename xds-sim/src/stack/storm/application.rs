//! Applications of a stack storm: watchers that may stop polling.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, watch};
use xds_core::{client::Notice, types};
use xds_handle::{ClientHandle, Watch};

use crate::{Toy, stack::Host, trace::EventKind};

/// State of a resource as its watcher knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Text of the resource in use.
    text: Option<String>,
    /// Reason why there is no resource or why it may be outdated. gRPC keeps a resource that was
    /// deleted in use.
    error: Option<String>,
}

/// Watchers of one client, by name of their resource.
pub(super) struct WatchingApplication {
    host: Host,
    client: ClientHandle,
    watchers: BTreeMap<String, StackWatcher>,
    /// Whether the watchers poll.
    is_polling: watch::Sender<bool>,
}

struct StackWatcher {
    known: Arc<Mutex<Known>>,
    /// Ends the watcher.
    stop: Arc<Notify>,
}

impl WatchingApplication {
    pub(super) fn new(host: Host, client: ClientHandle) -> Self {
        Self { host, client, watchers: BTreeMap::new(), is_polling: watch::Sender::new(true) }
    }

    /// Begins to watch a resource. Returns whether it was not watched before.
    pub(super) fn watch(&mut self, name: &str) -> bool {
        if self.watchers.contains_key(name) {
            return false;
        }
        let watch = self.client.watch_untyped(types::CLUSTER, name);
        let (known, stop) = (Arc::new(Mutex::new(Known::default())), Arc::new(Notify::new()));
        let watcher = StackWatcher { known: Arc::clone(&known), stop: Arc::clone(&stop) };
        self.watchers.insert(name.into(), watcher);
        let polling = self.is_polling.subscribe();
        let (host, name) = (self.host.clone(), name.to_owned());
        host.trace(EventKind::Watch, format!("watches {name}"));
        self.host.start(async move {
            tokio::select! {
                biased;
                () = stop.notified() => host.trace(EventKind::Watch, format!("no longer watches {name}")),
                () = follow(watch, polling, &known, &host, &name) => {}
            }
        });
        true
    }

    pub(super) fn unwatch(&mut self, name: &str) {
        if let Some(watcher) = self.watchers.remove(name) {
            watcher.stop.notify_one();
        }
    }

    /// Stops or resumes polling.
    pub(super) fn set_polling(&self, is_polling: bool) {
        self.is_polling.send_replace(is_polling);
    }

    /// Compares what the watchers know with the resources. Returns the first difference.
    pub(super) fn difference(&self, resources: &BTreeMap<String, String>) -> Option<String> {
        self.watchers.iter().find_map(|(name, watcher)| {
            let known = lock(&watcher.known).clone();
            let expected = resources.get(name);
            let is_equal = match expected {
                Some(text) => known.text.as_ref() == Some(text),
                None => known.error.is_some(),
            };
            (!is_equal).then(|| {
                format!("{} knows {name} as {known:?}, and it is {expected:?}", self.host.name())
            })
        })
    }

    /// Ends all watches and the client.
    pub(super) fn end(self) {
        for watcher in self.watchers.values() {
            watcher.stop.notify_one();
        }
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(
    mut watch: Watch,
    mut polling: watch::Receiver<bool>,
    known: &Mutex<Known>,
    host: &Host,
    name: &str,
) {
    loop {
        if polling.wait_for(|is_polling| *is_polling).await.is_err() {
            return;
        }
        let Some(Ok(notice)) = watch.next().await else { return };
        let mut known = lock(known);
        match notice {
            Notice::Changed(Ok(resource)) => {
                *known = Known { text: Some(Toy::text_of(&resource.bytes)), error: None };
            }
            Notice::Changed(Err(error)) => {
                *known = Known { text: None, error: Some(error.to_string()) };
            }
            Notice::Ambient(error) => known.error = error.map(|error| error.to_string()),
            _ => continue,
        }
        let text = known.text.as_deref().unwrap_or("none");
        let error = known.error.as_deref().map(|error| format!(" ({error})"));
        host.trace(EventKind::Notice, format!("{name}: {text}{}", error.unwrap_or_default()));
    }
}
