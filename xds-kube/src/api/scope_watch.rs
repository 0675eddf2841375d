//! Watch of one scope that continues after a denial.

use std::time::Duration;

use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::time::sleep;

use super::{
    client::{KubeClient, ObjectWatch, Scope, WatchItem},
    error::{KubeError, KubeErrorKind},
};
use crate::objects::Observed;

/// Events of a scope, each with its revision; denials; and `None` at the end.
pub(crate) type ScopeWatch =
    BoxStream<'static, (Scope, Option<Result<(WatchItem<Observed>, u64), KubeError>>)>;

/// Time after which a denied request is repeated. Each further denial doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

struct State {
    client: KubeClient,
    scope: Scope,
    /// Revision of the last event.
    after: u64,
    events: Option<ObjectWatch<Observed>>,
    /// Time to wait before the next request.
    delay: Duration,
}

impl State {
    async fn next(&mut self) -> Option<Result<(WatchItem<Observed>, u64), KubeError>> {
        let events = match &mut self.events {
            Some(events) => events,
            None => {
                sleep(self.delay).await;
                self.events.insert(self.client.watch(self.scope.clone(), self.after))
            }
        };
        let event = events.next().await?;
        match &event {
            Ok((_, version)) => (self.after, self.delay) = (*version, Duration::ZERO),
            Err(why) if why.kind() == KubeErrorKind::Forbidden => {
                self.events = None;
                self.delay = (self.delay * 2).clamp(FIRST_DELAY, MAX_DELAY);
            }
            Err(_) => {}
        }
        Some(event)
    }
}

impl KubeClient {
    /// Watches the changes of a scope after a revision. A request that is denied is an event and is
    /// repeated; any other error ends the watch.
    pub(crate) fn watch_while_denied(&self, scope: Scope, after: u64) -> ScopeWatch {
        let ended = scope.clone();
        let delay = Duration::ZERO;
        let state = State { client: self.clone(), scope, after, events: None, delay };
        let events = stream::unfold(state, |mut state| async move {
            let event = state.next().await?;
            Some(((state.scope.clone(), Some(event)), state))
        });
        events.chain(stream::once(async move { (ended, None) })).boxed()
    }
}
