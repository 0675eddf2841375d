//! Everything that is watched, as one stream of events.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures_core::Stream as _;
use xds_core::client::{Change, InvalidWatch, Notice, Resource, WatchError};
use xds_tokio::{ClientHandle, Watch, WatchAll};

use super::events::{Event, News, Problem, State};
use crate::{args::Subscription, resource_types::json};

#[derive(Debug)]
pub(crate) struct Watches {
    watched: Vec<Watched>,
    /// Which one is asked first, so that a busy one does not starve the others.
    first: usize,
}

/// One subscription, and what came of it.
#[derive(Debug)]
struct Watched {
    subscription: Subscription,
    watch: Kind,
    held: BTreeMap<String, State>,
    waiting: VecDeque<Event>,
}

#[derive(Debug)]
enum Kind {
    One(Watch),
    All(WatchAll),
    /// The client has ended.
    Over,
}

impl Watches {
    pub(crate) fn new(client: &ClientHandle, subscriptions: BTreeSet<Subscription>) -> Self {
        let watched = subscriptions.into_iter().map(|subscription| {
            let type_url = subscription.type_url.clone();
            let watch = match subscription.name.clone() {
                Some(name) => Kind::One(client.watch(type_url, name)),
                None => Kind::All(client.watch_all(type_url)),
            };
            Watched { subscription, watch, held: BTreeMap::new(), waiting: VecDeque::new() }
        });
        Self { watched: watched.collect(), first: 0 }
    }

    /// The next event; `None` once the client has ended. Cancel safe.
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
                    return Poll::Ready(Some(event));
                }
                Poll::Ready(None) => {}
                Poll::Pending => is_over = false,
            }
        }
        if is_over { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl Watched {
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
                    Poll::Pending => return Poll::Pending,
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

    fn take_notice(&mut self, notice: Result<Notice, InvalidWatch>) {
        let name = self.subscription.name.as_ref().map(|name| name.as_str().to_owned());
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
                self.say(None, News::Error(error.into()));
            }
            Ok(Change::CollectionAmbient(error)) => {
                self.say(None, News::Ambient(error.map(Problem::from)));
            }
            Ok(Change::Resync) => {
                let error = "fell too far behind: what is still there follows anew";
                for (name, _) in core::mem::take(&mut self.held) {
                    self.say(Some(name), News::Removed(error.to_owned().into()));
                }
            }
            Err(why) => self.say(None, News::Error(why.to_string().into())),
            _ => {}
        }
    }

    fn take_result(&mut self, name: String, result: Result<Resource, WatchError>) {
        let news = match result {
            Ok(resource) => {
                let new = State {
                    version: resource.version.as_str().to_owned(),
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
