//! Watch of the state and of the other servers.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use futures_core::Stream;
use futures_util::stream;
use xds_core::rollout::PeerNews;
use xds_source::{SourceError, StoreNews};

use super::keys::RolloutKeys;
use crate::{
    client::EtcdClient,
    proto::mvccpb::{KeyValue, event::EventType},
    watch::{RangeWatch, WatchEnd},
};

struct NewsWatch {
    client: EtcdClient,
    keys: RolloutKeys,
    /// Name of this server, whose own key is not reported.
    own: Arc<str>,
    known: Arc<Mutex<BTreeSet<Arc<str>>>>,
    watch: Option<RangeWatch>,
    news: VecDeque<Result<StoreNews, SourceError>>,
    has_ended: bool,
}

/// Watches the state and the replicas, after reading both.
pub(super) fn watch(
    client: EtcdClient,
    keys: RolloutKeys,
    own: Arc<str>,
    known: Arc<Mutex<BTreeSet<Arc<str>>>>,
) -> impl Stream<Item = Result<StoreNews, SourceError>> + Send + 'static {
    let news = VecDeque::new();
    let watch = NewsWatch { client, keys, own, known, watch: None, news, has_ended: false };
    stream::unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        watch.has_ended = next.is_err();
        Some((next, watch))
    })
}

impl NewsWatch {
    async fn next(&mut self) -> Option<Result<StoreNews, SourceError>> {
        if self.has_ended {
            return None;
        }
        loop {
            if let Some(news) = self.news.pop_front() {
                return Some(news);
            }
            let read = match &mut self.watch {
                None => self.read().await,
                Some(watch) => match watch.next().await {
                    Ok(transaction) => {
                        for event in transaction.events {
                            let is_deleted = event.r#type() == EventType::Delete;
                            if let Some(kv) = event.kv {
                                self.take(&kv, is_deleted);
                            }
                        }
                        Ok(())
                    }
                    // The state is read again, with the changes in between.
                    Err(WatchEnd::Compacted) => {
                        self.watch = None;
                        Ok(())
                    }
                    Err(WatchEnd::Restored(why)) => Err(why.into()),
                    Err(WatchEnd::Failed(why)) => Err(why.into()),
                },
            };
            if let Err(why) = read {
                return Some(Err(why));
            }
        }
    }

    /// Reads all, and begins to watch.
    async fn read(&mut self) -> Result<(), SourceError> {
        let range = self.keys.news();
        let read = self.client.read(&range, None).await?;
        self.note_gone(&read.keys);
        for kv in &read.keys {
            self.take(kv, false);
        }
        match RangeWatch::open(&self.client, &range, read.revision).await {
            Ok(watch) => self.watch = Some(watch),
            Err(WatchEnd::Compacted) => {}
            Err(WatchEnd::Restored(why)) => return Err(why.into()),
            Err(WatchEnd::Failed(why)) => return Err(why.into()),
        }
        Ok(())
    }

    /// Reports the known replicas that have no key in `keys` as gone.
    fn note_gone(&mut self, keys: &[KeyValue]) {
        let existing = keys.iter().filter_map(|kv| self.keys.replica_of(&kv.key));
        let existing: BTreeSet<&str> = existing.collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name| {
            let exists = existing.contains(&**name);
            if !exists {
                let left = StoreNews::Replica(Arc::clone(name), PeerNews::Left);
                self.news.push_back(Ok(left));
            }
            exists
        });
    }

    fn take(&mut self, kv: &KeyValue, is_deleted: bool) {
        let Some(name) = self.keys.replica_of(&kv.key) else {
            let is_state = kv.key == self.keys.state().as_bytes() && !is_deleted;
            if is_state {
                self.news.push_back(self.keys.parse_state(kv).map(StoreNews::State));
            }
            return;
        };
        if name == &*self.own {
            return;
        }
        let name: Arc<str> = name.into();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let news = match is_deleted {
            true => {
                known.remove(&name);
                PeerNews::Left
            }
            false => {
                known.insert(Arc::clone(&name));
                let report = String::from_utf8_lossy(&kv.value).parse();
                report.map_or(PeerNews::Joined, PeerNews::Reported)
            }
        };
        drop(known);
        self.news.push_back(Ok(StoreNews::Replica(name, news)));
    }
}
