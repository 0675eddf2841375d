//! Watch of the state and of the other servers.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use futures_core::Stream;
use futures_util::{StreamExt as _, stream};
use tokio::time::{Duration, Instant, timeout_at};
use xds_core::rollout::PeerNews;
use xds_source::{SourceError, StoreNews};

use super::{
    objects::{REPORT, RolloutObjects, parse_state},
    replica::{DURATION, LeaseEnd, delete_ended},
};
use crate::{
    api::{KubeClient, KubeErrorKind, ObjectWatch, WatchItem},
    objects::KubeLease,
};

/// Delay before another attempt to end a lease, if the cluster could not be reached.
const RETRY: Duration = Duration::from_secs(3);

struct LeaseWatch {
    client: KubeClient,
    objects: RolloutObjects,
    /// Name of this server, whose own Lease is not reported.
    own: Arc<str>,
    /// Servers that were reported to exist, also by an earlier watch.
    known: Arc<Mutex<BTreeSet<Arc<str>>>>,
    /// Leases of other servers, each with the local time at which it ends unless it is renewed. The
    /// times in the Leases are from other clocks.
    leases: BTreeMap<Arc<str>, (KubeLease, Instant)>,
    watch: Option<ObjectWatch<KubeLease>>,
    news: VecDeque<Result<StoreNews, SourceError>>,
    has_ended: bool,
}

/// Watches the state and the replicas, after reading both.
pub(super) fn watch(
    client: KubeClient,
    objects: RolloutObjects,
    own: Arc<str>,
    known: Arc<Mutex<BTreeSet<Arc<str>>>>,
) -> impl Stream<Item = Result<StoreNews, SourceError>> + Send + 'static {
    let watch = LeaseWatch {
        client,
        objects,
        own,
        known,
        leases: BTreeMap::new(),
        watch: None,
        news: VecDeque::new(),
        has_ended: false,
    };
    stream::unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        watch.has_ended = next.is_err();
        Some((next, watch))
    })
}

impl LeaseWatch {
    async fn next(&mut self) -> Option<Result<StoreNews, SourceError>> {
        if self.has_ended {
            return None;
        }
        loop {
            if let Some(news) = self.news.pop_front() {
                return Some(news);
            }
            let Some(watch) = &mut self.watch else {
                match self.read().await {
                    Ok(()) => continue,
                    Err(why) => return Some(Err(why)),
                }
            };
            let first_end = self.leases.values().map(|(_, end)| *end).min();
            let event = match first_end {
                Some(end) => timeout_at(end, watch.next()).await.ok(),
                None => Some(watch.next().await),
            };
            match event {
                Some(Some(Ok((WatchItem::Set(lease), _)))) => self.set(lease),
                Some(Some(Ok((WatchItem::Delete(lease), _)))) => {
                    if let Some(server) = self.objects.server_of(&lease.metadata.name) {
                        let server: Arc<str> = server.into();
                        self.left(server);
                    }
                }
                Some(Some(Ok((WatchItem::Bookmark, _)))) => {}
                // The state is read again, with the changes in between.
                Some(Some(Err(why))) if why.kind() == KubeErrorKind::Expired => self.watch = None,
                Some(Some(Err(why))) => return Some(Err(why.into())),
                Some(None) => return None,
                None => self.end_leases().await,
            }
        }
    }

    /// Reads all, and begins to watch.
    async fn read(&mut self) -> Result<(), SourceError> {
        let place = self.objects.place(self.objects.leases());
        let said = self.objects.said("list", "leases", "");
        let (leases, revision) = self.client.list_all::<KubeLease>(&place, &said).await?;
        let servers = leases.iter().filter_map(|it| self.objects.server_of(&it.metadata.name));
        let existing: BTreeSet<Arc<str>> = servers.map(Arc::from).collect();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.difference(&existing).for_each(|server| self.left(Arc::clone(server)));
        leases.into_iter().for_each(|lease| self.set(lease));
        let said = self.objects.said("watch", "leases", "");
        let watch = self.client.watch_all(place, said, revision, |it| it, KubeLease::metadata);
        self.watch = Some(watch);
        Ok(())
    }

    fn set(&mut self, lease: KubeLease) {
        let Some(server) = self.objects.server_of(&lease.metadata.name) else {
            let state = parse_state(&lease);
            self.news.extend(state.map(|it| it.map(StoreNews::State)));
            return;
        };
        if server == &*self.own {
            return;
        }
        let server: Arc<str> = server.into();
        let report = lease.annotation(REPORT).and_then(|it| it.parse().ok());
        let news = report.map_or(PeerNews::Joined, PeerNews::Reported);
        let before = self.leases.insert(Arc::clone(&server), (lease, Instant::now() + DURATION));
        let said = |it: &KubeLease| it.annotation(REPORT).map(str::to_owned);
        let is_renewal = before.is_some_and(|(before, _)| {
            self.leases.get(&server).is_some_and(|(now, _)| said(&before) == said(now))
        });
        if !is_renewal {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(Arc::clone(&server));
            drop(known);
            self.news.push_back(Ok(StoreNews::Replica(server, news)));
        }
    }

    fn left(&mut self, server: Arc<str>) {
        self.leases.remove(&server);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&server);
        self.news.push_back(Ok(StoreNews::Replica(server, PeerNews::Left)));
    }

    /// Deletes the Leases that were not renewed. The API server rejects the deletion of a Lease
    /// that was renewed, because the watch may be interrupted without an error while the server
    /// still renews its Lease.
    async fn end_leases(&mut self) {
        let now = Instant::now();
        let ended: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, (_, end))| *end <= now)
            .map(|(server, (lease, _))| (Arc::clone(server), lease.clone()))
            .collect();
        for (server, lease) in ended {
            match delete_ended(&self.client, &self.objects, &lease).await {
                LeaseEnd::Ended => self.left(server),
                LeaseEnd::Renewed => {
                    self.watch = None;
                    return;
                }
                LeaseEnd::Unknown => {
                    self.leases.insert(server, (lease, Instant::now() + RETRY));
                }
            }
        }
    }
}
