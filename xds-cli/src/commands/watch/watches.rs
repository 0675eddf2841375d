//! All watches as one stream of events.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_core::Stream as _;
use tokio::time::{Sleep, sleep};
use xds_core::client::{Change, InvalidWatch, Notice, Resource, WatchError};
use xds_tokio::{ClientHandle, Watch, WatchAll};

use super::follow::{Change as Followed, Following, Id, Started};
use crate::{
    args::Subscription,
    resource_events::{EventKind, Problem, ResourceState, WatchEvent},
    resource_types::json,
};

#[derive(Debug)]
pub(crate) struct Watches {
    watched: Vec<WatchedSubscription>,
    /// Watch that is polled first, so that a busy one does not starve the others.
    first: usize,
    /// References of resources to watch, with `--follow`.
    following: Option<Following>,
}

/// Subscription with its watch and its resources.
#[derive(Debug)]
struct WatchedSubscription {
    subscription: Subscription,
    watch: WatchStream,
    /// Reference for which the subscription exists. It ends with the reference.
    reference: Option<Id>,
    held: BTreeMap<String, ResourceState>,
    /// State of a resync after the watch fell too far behind.
    catch_up: Option<CatchUp>,
    waiting: VecDeque<WatchEvent>,
}

/// Progress of a resync, which reports existing resources but neither removed ones nor its end.
#[derive(Debug)]
struct CatchUp {
    /// Resources held before the resync and not reported since.
    missing: BTreeSet<String>,
    /// Timer of the time without a change, which may also pass between two batches.
    pause: Option<Pin<Box<Sleep>>>,
}

/// Time without a change after which a resync counts as complete. The client has all resources
/// already. If changes never pause for that long, removals are reported late rather than wrongly.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum WatchStream {
    One(Watch),
    All(WatchAll),
    /// The client has ended.
    Ended,
}

impl Watches {
    pub(crate) fn new(
        client: &ClientHandle,
        subscriptions: BTreeSet<Subscription>,
        following: Option<Following>,
    ) -> Self {
        let watched = subscriptions.into_iter().map(|subscription| {
            let watch = WatchStream::start(client, &subscription);
            WatchedSubscription::new(subscription, watch)
        });
        Self { watched: watched.collect(), first: 0, following }
    }

    /// Waits for the next event; `None` once the client has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<WatchEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let count = self.watched.len();
        let mut is_over = true;
        for at in (0..count).map(|offset| (self.first + offset) % count) {
            match self.watched[at].poll_next(cx) {
                Poll::Ready(Some(event)) => {
                    self.first = at + 1;
                    self.follow(at, &event);
                    return Poll::Ready(Some(event));
                }
                Poll::Ready(None) => {}
                Poll::Pending => is_over = false,
            }
        }
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Watches the resources that a changed resource refers to, and unwatches resources
    /// without a reference.
    fn follow(&mut self, at: usize, event: &WatchEvent) {
        let Some(following) = &mut self.following else { return };
        let value = match &event.kind {
            EventKind::Changed { new, .. } => Some(&*new.json),
            EventKind::Removed(_) => None,
            EventKind::Ambient(_) | EventKind::Error(_) => return,
        };
        let name = event.name.as_deref().filter(|_| Following::follows(&event.type_url));
        let Some(name) = name else { return };
        let via = self.watched[at].reference;
        let change = following.update(via, &event.type_url, name, value);
        let Followed { started, ended, problem } = change;
        if let Some(why) = problem {
            let kind = EventKind::Ambient(Some(Problem::from(why)));
            self.watched[at].push(Some(name.to_owned()), kind);
        }
        self.watched.retain(|it| it.reference.is_none_or(|id| !ended.contains(&id)));
        for Started { id, subscription, client } in started {
            let known = self.watched.iter_mut().find(|it| it.reference == Some(id));
            let watched = match known {
                Some(watched) => watched,
                None => {
                    self.watched
                        .push(WatchedSubscription::new(subscription.clone(), WatchStream::Ended));
                    let Some(watched) = self.watched.last_mut() else { continue };
                    watched.reference = Some(id);
                    watched
                }
            };
            match client {
                Ok(client) => watched.watch = WatchStream::start(&client, &subscription),
                Err(why) => watched.push(watched.name(), EventKind::Error(Problem::from(why))),
            }
        }
    }

    /// Shuts down the clients of further sources.
    pub(crate) fn shut_down(&self) {
        if let Some(following) = &self.following {
            following.shut_down();
        }
    }
}

impl WatchStream {
    fn start(client: &ClientHandle, subscription: &Subscription) -> Self {
        let type_url = subscription.type_url.clone();
        match (subscription.name.clone(), subscription.glob().cloned()) {
            (_, Some(glob)) => Self::All(client.watch_glob_untyped(type_url, glob)),
            (Some(name), None) => Self::One(client.watch_untyped(type_url, name)),
            (None, None) => Self::All(client.watch_all_untyped(type_url)),
        }
    }
}

impl CatchUp {
    fn is_complete(&mut self, cx: &mut Context<'_>) -> bool {
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE)));
        pause.as_mut().poll(cx).is_ready()
    }
}

impl WatchedSubscription {
    fn new(subscription: Subscription, watch: WatchStream) -> Self {
        let (held, waiting) = (BTreeMap::new(), VecDeque::new());
        Self { subscription, watch, reference: None, held, catch_up: None, waiting }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Poll::Ready(Some(event));
            }
            let is_over = match &mut self.watch {
                WatchStream::One(watch) => match Pin::new(watch).poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => true,
                    Poll::Ready(Some(notice)) => {
                        self.take_notice(notice);
                        false
                    }
                },
                WatchStream::All(watch) => match Pin::new(watch).poll_next(cx) {
                    Poll::Pending => {
                        if !self.catch_up.as_mut().is_some_and(|it| it.is_complete(cx)) {
                            return Poll::Pending;
                        }
                        self.end_catch_up();
                        false
                    }
                    Poll::Ready(None) => true,
                    Poll::Ready(Some(change)) => {
                        self.take_change(change);
                        false
                    }
                },
                WatchStream::Ended => return Poll::Ready(None),
            };
            if is_over {
                self.watch = WatchStream::Ended;
            }
        }
    }

    /// Name or glob of the watch; `None` for all resources of a type.
    fn name(&self) -> Option<String> {
        self.subscription.name.as_ref().map(|name| name.as_str().to_owned())
    }

    fn take_notice(&mut self, notice: Result<Notice, InvalidWatch>) {
        let name = self.name();
        match (notice, name) {
            (Ok(Notice::Changed(result)), Some(name)) => self.take_result(name, result),
            (Ok(Notice::Ambient(error)), name) => {
                self.push(name, EventKind::Ambient(error.map(Problem::from)));
            }
            (Err(why), name) => self.push(name, EventKind::Error(why.to_string().into())),
            _ => {}
        }
    }

    fn take_change(&mut self, change: Result<Change, InvalidWatch>) {
        match change {
            Ok(Change::Resource { name, result }) => {
                self.take_result(name.as_str().to_owned(), result);
            }
            Ok(Change::Ambient { name, error }) => {
                let kind = EventKind::Ambient(error.map(Problem::from));
                self.push(Some(name.as_str().to_owned()), kind);
            }
            Ok(Change::Collection(Err(error))) => {
                self.push(self.name(), EventKind::Error(error.into()));
            }
            Ok(Change::CollectionAmbient(error)) => {
                self.push(self.name(), EventKind::Ambient(error.map(Problem::from)));
            }
            Ok(Change::Resync) => {
                let missing = self.held.keys().cloned().collect();
                self.catch_up = Some(CatchUp { missing, pause: None });
            }
            Err(why) => self.push(self.name(), EventKind::Error(why.to_string().into())),
            _ => {}
        }
    }

    /// Reports resources that the resync did not contain as removed.
    fn end_catch_up(&mut self) {
        let missing = self.catch_up.take().map(|it| it.missing).unwrap_or_default();
        for name in missing {
            self.held.remove(&name);
            let error = "removed while the watch was too far behind";
            self.push(Some(name), EventKind::Removed(error.to_owned().into()));
        }
    }

    fn take_result(&mut self, name: String, result: Result<Resource, WatchError>) {
        if let Some(catch_up) = &mut self.catch_up {
            catch_up.pause = None;
            let comes_back = catch_up.missing.remove(&name);
            if let (true, Some(held), Ok(new)) = (comes_back, self.held.get(&name), &result)
                && (&held.version, &held.bytes) == (&new.version.as_str().into(), &new.bytes)
            {
                return;
            }
        }
        let kind = match result {
            Ok(resource) => {
                let new = ResourceState {
                    version: resource.version.as_str().into(),
                    bytes: resource.bytes.clone(),
                    json: json(&resource),
                };
                EventKind::Changed { old: self.held.insert(name.clone(), new.clone()), new }
            }
            Err(error) => match self.held.remove(&name) {
                Some(_) => EventKind::Removed(error.into()),
                None => EventKind::Error(error.into()),
            },
        };
        self.push(Some(name), kind);
    }

    fn push(&mut self, name: Option<String>, kind: EventKind) {
        let type_url = self.subscription.type_url.clone();
        self.waiting.push_back(WatchEvent { type_url, name, kind });
    }
}

#[cfg(test)]
mod tests {
    use xds_core::{ResourceName, types};

    use super::*;

    fn resource(name: &str, version: &str) -> Change {
        let name = ResourceName::from(name);
        let result = Ok(Resource::new(name.clone(), version, version.as_bytes().to_vec()));
        Change::Resource { name, result }
    }

    /// Reported events: `+a` for added, `~a` for changed and `-a` for removed.
    fn printed(watched: &mut WatchedSubscription) -> Vec<String> {
        let mark = |kind: &EventKind| match kind {
            EventKind::Changed { old: None, .. } => '+',
            EventKind::Changed { .. } => '~',
            EventKind::Removed(_) => '-',
            _ => '!',
        };
        let printed = |event: WatchEvent| format!("{}{}", mark(&event.kind), event.name.unwrap());
        watched.waiting.drain(..).map(printed).collect()
    }

    #[tokio::test]
    async fn only_resources_missing_after_a_resync_are_removed() {
        let subscription = Subscription { type_url: types::CLUSTER.into(), name: None };
        let mut watched = WatchedSubscription::new(subscription, WatchStream::Ended);
        for name in ["a", "b", "c"] {
            watched.take_change(Ok(resource(name, "1")));
        }
        assert_eq!(printed(&mut watched), ["+a", "+b", "+c"]);
        for change in [Change::Resync, resource("a", "1"), resource("b", "2"), resource("d", "2")] {
            watched.take_change(Ok(change));
        }
        assert_eq!(printed(&mut watched), ["~b", "+d"]);
        watched.end_catch_up();
        assert_eq!(printed(&mut watched), ["-c"]);
        watched.end_catch_up();
        assert!(printed(&mut watched).is_empty());
    }
}
