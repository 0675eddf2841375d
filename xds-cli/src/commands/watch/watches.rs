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

use super::{
    events::{Event, News, Problem, State},
    follow::{Change as Followed, Following, Id, Started},
};
use crate::{args::Subscription, resource_types::json};

#[derive(Debug)]
pub(crate) struct Watches {
    watched: Vec<Watched>,
    /// Watch that is polled first, so that a busy one does not starve the others.
    first: usize,
    /// References of resources to watch, with `--follow`.
    following: Option<Following>,
}

/// Subscription with its watch and its resources.
#[derive(Debug)]
struct Watched {
    subscription: Subscription,
    watch: Kind,
    /// Reference for which the subscription exists. It ends with the reference.
    reference: Option<Id>,
    held: BTreeMap<String, State>,
    /// State of a resync after the watch fell too far behind.
    catch_up: Option<CatchUp>,
    waiting: VecDeque<Event>,
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
enum Kind {
    One(Watch),
    All(WatchAll),
    /// The client has ended.
    Over,
}

impl Watches {
    pub(crate) fn new(
        client: &ClientHandle,
        subscriptions: BTreeSet<Subscription>,
        following: Option<Following>,
    ) -> Self {
        let watched = subscriptions.into_iter().map(|subscription| {
            let watch = Kind::start(client, &subscription);
            Watched::new(subscription, watch)
        });
        Self { watched: watched.collect(), first: 0, following }
    }

    /// Waits for the next event; `None` once the client has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
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
    fn follow(&mut self, at: usize, event: &Event) {
        let Some(following) = &mut self.following else { return };
        let value = match &event.news {
            News::Changed { new, .. } => Some(&*new.json),
            News::Removed(_) => None,
            News::Ambient(_) | News::Error(_) => return,
        };
        let name = event.name.as_deref().filter(|_| Following::follows(&event.type_url));
        let Some(name) = name else { return };
        let via = self.watched[at].reference;
        let change = following.update(via, &event.type_url, name, value);
        let Followed { started, ended, problem } = change;
        if let Some(why) = problem {
            let news = News::Ambient(Some(Problem::from(why)));
            self.watched[at].say(Some(name.to_owned()), news);
        }
        self.watched.retain(|it| it.reference.is_none_or(|id| !ended.contains(&id)));
        for Started { id, subscription, client } in started {
            let known = self.watched.iter_mut().find(|it| it.reference == Some(id));
            let watched = match known {
                Some(watched) => watched,
                None => {
                    self.watched.push(Watched::new(subscription.clone(), Kind::Over));
                    let Some(watched) = self.watched.last_mut() else { continue };
                    watched.reference = Some(id);
                    watched
                }
            };
            match client {
                Ok(client) => watched.watch = Kind::start(&client, &subscription),
                Err(why) => watched.say(watched.name(), News::Error(Problem::from(why))),
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

impl Kind {
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

impl Watched {
    fn new(subscription: Subscription, watch: Kind) -> Self {
        let (held, waiting) = (BTreeMap::new(), VecDeque::new());
        Self { subscription, watch, reference: None, held, catch_up: None, waiting }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Poll::Ready(Some(event));
            }
            let is_over = match &mut self.watch {
                Kind::One(watch) => match Pin::new(watch).poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => true,
                    Poll::Ready(Some(notice)) => {
                        self.take_notice(notice);
                        false
                    }
                },
                Kind::All(watch) => match Pin::new(watch).poll_next(cx) {
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
                Kind::Over => return Poll::Ready(None),
            };
            if is_over {
                self.watch = Kind::Over;
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
                self.say(name, News::Ambient(error.map(Problem::from)));
            }
            (Err(why), name) => self.say(name, News::Error(why.to_string().into())),
            _ => {}
        }
    }

    fn take_change(&mut self, change: Result<Change, InvalidWatch>) {
        match change {
            Ok(Change::Resource { name, result }) => {
                self.take_result(name.as_str().to_owned(), result);
            }
            Ok(Change::Ambient { name, error }) => {
                let news = News::Ambient(error.map(Problem::from));
                self.say(Some(name.as_str().to_owned()), news);
            }
            Ok(Change::Collection(Err(error))) => {
                self.say(self.name(), News::Error(error.into()));
            }
            Ok(Change::CollectionAmbient(error)) => {
                self.say(self.name(), News::Ambient(error.map(Problem::from)));
            }
            Ok(Change::Resync) => {
                let missing = self.held.keys().cloned().collect();
                self.catch_up = Some(CatchUp { missing, pause: None });
            }
            Err(why) => self.say(self.name(), News::Error(why.to_string().into())),
            _ => {}
        }
    }

    /// Reports resources that the resync did not contain as removed.
    fn end_catch_up(&mut self) {
        let missing = self.catch_up.take().map(|it| it.missing).unwrap_or_default();
        for name in missing {
            self.held.remove(&name);
            let error = "removed while the watch was too far behind";
            self.say(Some(name), News::Removed(error.to_owned().into()));
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
        let news = match result {
            Ok(resource) => {
                let new = State {
                    version: resource.version.as_str().into(),
                    bytes: resource.bytes.clone(),
                    json: json(&resource),
                };
                News::Changed { old: self.held.insert(name.clone(), new.clone()), new }
            }
            Err(error) => match self.held.remove(&name) {
                Some(_) => News::Removed(error.into()),
                None => News::Error(error.into()),
            },
        };
        self.say(Some(name), news);
    }

    fn say(&mut self, name: Option<String>, news: News) {
        let type_url = self.subscription.type_url.clone();
        self.waiting.push_back(Event { type_url, name, news });
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
    fn said(watched: &mut Watched) -> Vec<String> {
        let mark = |news: &News| match news {
            News::Changed { old: None, .. } => '+',
            News::Changed { .. } => '~',
            News::Removed(_) => '-',
            _ => '!',
        };
        let said = |event: Event| format!("{}{}", mark(&event.news), event.name.unwrap());
        watched.waiting.drain(..).map(said).collect()
    }

    #[tokio::test]
    async fn only_what_does_not_come_back_after_a_resync_is_removed() {
        let subscription = Subscription { type_url: types::CLUSTER.into(), name: None };
        let mut watched = Watched::new(subscription, Kind::Over);
        for name in ["a", "b", "c"] {
            watched.take_change(Ok(resource(name, "1")));
        }
        assert_eq!(said(&mut watched), ["+a", "+b", "+c"]);
        for change in [Change::Resync, resource("a", "1"), resource("b", "2"), resource("d", "2")] {
            watched.take_change(Ok(change));
        }
        assert_eq!(said(&mut watched), ["~b", "+d"]);
        watched.end_catch_up();
        assert_eq!(said(&mut watched), ["-c"]);
        watched.end_catch_up();
        assert!(said(&mut watched).is_empty());
    }
}
