//! The first answer to a subscription.

use core::{future::pending, time::Duration};
use std::collections::BTreeMap;

use tokio::{
    select,
    time::{Instant, sleep_until},
};
use xds_core::{
    StatusCode,
    client::{
        Change, ChannelError, Instrument, InvalidWatch, MetricsExporter, Notice, Resource,
        WatchError, WatchErrorKind,
    },
};
use xds_tokio::{ClientHandle, Watch, WatchAll};

use crate::{
    args::Subscription,
    failure::Shortfall,
    resource_events::{
        EventKind, Problem, ResourceState, UNANSWERED, WatchEvent, is_without_response,
    },
    resource_types::json,
    text::{seconds, type_name},
};

/// Answer to a subscription.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Resources, sorted by name. Each event is [`EventKind::Changed`].
    pub(super) resources: Vec<WatchEvent>,
    /// Reasons why resources are missing. Each event is [`EventKind::Error`].
    pub(super) problems: Vec<WatchEvent>,
    /// Most important kind of the problems.
    pub(super) shortfall: Option<Shortfall>,
}

/// Time limit of a subscription.
#[derive(Debug)]
pub(super) struct Limit {
    /// End of the time; `None` if it exceeds the range of the clock.
    pub(super) end: Option<Instant>,
    pub(super) length: Duration,
    /// First server, for errors.
    pub(super) server: String,
    /// Whether a file is read instead of a server.
    pub(super) is_file: bool,
    /// Whether the server is polled.
    pub(super) is_polled: bool,
    /// Whether a server without resources may leave the request unanswered.
    pub(super) may_be_unanswered: bool,
    /// Whether the answer may consist of several responses.
    pub(super) may_be_split: bool,
}

/// Time without a response after which an answer in several responses counts as complete. It is
/// longer if the first response took longer, for example over a slow connection.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);

/// Waits for the first answer to a subscription.
pub(super) async fn fetch(
    client: &ClientHandle,
    subscription: &Subscription,
    limit: Limit,
) -> Fetched {
    let mut fetching = Fetching {
        subscription,
        held: BTreeMap::new(),
        fetched: Fetched::default(),
        last_error: None,
        may_be_split: limit.may_be_split,
        begin: Instant::now(),
        last_response: None,
    };
    let mut watch = Answers::start(client, subscription);
    let is_complete = select! {
        () = fetching.run(&mut watch) => true,
        () = limit.over() => false,
    };
    if !is_complete {
        fetching.end_late(client, &limit).await;
    }
    // A server that is polled may respond that there is nothing new.
    if fetching.fetched.shortfall == Some(Shortfall::DoesNotExist)
        && !limit.is_polled
        && is_silent(client).await
    {
        fetching.state_silence();
    }
    fetching.finish()
}

impl Limit {
    async fn over(&self) {
        match self.end {
            Some(end) => sleep_until(end).await,
            None => pending().await,
        }
    }
}

/// Watch whose first answer is awaited.
enum Answers {
    One(Watch),
    All(WatchAll),
}

impl Answers {
    fn start(client: &ClientHandle, subscription: &Subscription) -> Self {
        let type_url = subscription.type_url.clone();
        match (subscription.name.clone(), subscription.glob().cloned()) {
            (_, Some(glob)) => Self::All(client.watch_glob_untyped(type_url, glob)),
            (Some(name), None) => Self::One(client.watch_untyped(type_url, name)),
            (None, None) => Self::All(client.watch_all_untyped(type_url)),
        }
    }
}

/// State of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerState {
    Waiting,
    /// A response has arrived, and there may be more.
    Begun,
    Complete,
}

/// State of waiting for an answer.
struct Fetching<'s> {
    subscription: &'s Subscription,
    held: BTreeMap<String, ResourceState>,
    fetched: Fetched,
    /// Last error after which the client tries again.
    last_error: Option<WatchError>,
    may_be_split: bool,
    begin: Instant,
    /// Time of the last change since the first response, and the pause that ends the answer.
    last_response: Option<(Instant, Duration)>,
}

impl Fetching<'_> {
    /// Waits for the answer. Cancel safe.
    async fn run(&mut self, watch: &mut Answers) {
        loop {
            let paused = paused(self.last_response.filter(|_| self.last_error.is_none()));
            let progress = select! {
                biased;
                progress = self.next(watch) => progress,
                () = paused => return,
            };
            let now = Instant::now();
            match (progress, &mut self.last_response) {
                (AnswerState::Complete, _) => return,
                (_, Some((last, _))) => *last = now,
                (AnswerState::Begun, None) => {
                    let pause = SHORTEST_PAUSE.max(now - self.begin);
                    self.last_response = Some((now, pause));
                }
                (AnswerState::Waiting, None) => {}
            }
        }
    }

    /// Waits for the next notice. Cancel safe.
    async fn next(&mut self, watch: &mut Answers) -> AnswerState {
        match watch {
            Answers::One(watch) => match watch.next().await {
                Some(notice) => self.take_notice(notice),
                None => self.end_early(),
            },
            Answers::All(watch) => match watch.next().await {
                Some(change) => self.take_change(change),
                None => self.end_early(),
            },
        }
    }

    fn end_early(&mut self) -> AnswerState {
        self.fail(self.name(), Shortfall::Other, "the client ended".to_owned().into())
    }

    fn take_notice(&mut self, notice: Result<Notice, InvalidWatch>) -> AnswerState {
        match notice {
            Ok(Notice::Changed(Ok(resource))) => {
                let name = self.name().unwrap_or_default();
                self.hold(name, &resource);
                AnswerState::Complete
            }
            Ok(Notice::Changed(Err(error))) => self.take_error(self.name(), error),
            Ok(_) => AnswerState::Waiting,
            Err(why) => self.fail(self.name(), Shortfall::Other, why.to_string().into()),
        }
    }

    fn take_change(&mut self, change: Result<Change, InvalidWatch>) -> AnswerState {
        match change {
            Ok(Change::Resource { name, result: Ok(resource) }) => {
                self.hold(name.as_str().to_owned(), &resource);
                AnswerState::Waiting
            }
            Ok(Change::Resource { name, result: Err(error) }) => {
                let name = name.as_str().to_owned();
                self.held.remove(&name);
                if let Outcome::Final(shortfall) = self.outcome(&error) {
                    self.fail(Some(name), shortfall, error.into());
                }
                AnswerState::Waiting
            }
            Ok(Change::Collection(Ok(()))) => {
                self.last_error = None;
                if self.may_be_split { AnswerState::Begun } else { AnswerState::Complete }
            }
            // The rest of the answer comes after the client has connected again.
            Ok(Change::CollectionAmbient(error)) => {
                self.last_error = error;
                AnswerState::Waiting
            }
            Ok(Change::Collection(Err(error))) => self.take_error(self.name(), error),
            Ok(Change::Resync) => {
                self.held.clear();
                AnswerState::Waiting
            }
            Ok(_) => AnswerState::Waiting,
            Err(why) => self.fail(self.name(), Shortfall::Other, why.to_string().into()),
        }
    }

    fn take_error(&mut self, name: Option<String>, error: WatchError) -> AnswerState {
        match self.outcome(&error) {
            Outcome::Final(shortfall) => self.fail(name, shortfall, error.into()),
            Outcome::Retried => {
                self.last_error = Some(error);
                AnswerState::Waiting
            }
            Outcome::Unanswered => AnswerState::Waiting,
        }
    }

    fn outcome(&self, error: &WatchError) -> Outcome {
        match error.kind() {
            // A collection without an answer may get one later.
            WatchErrorKind::DoesNotExist(_) if !self.is_one() => Outcome::Unanswered,
            WatchErrorKind::DoesNotExist(_)
            | WatchErrorKind::Deleted
            | WatchErrorKind::Absent
            | WatchErrorKind::Expired
            | WatchErrorKind::Reported { code: StatusCode::NotFound, .. } => {
                Outcome::Final(Shortfall::DoesNotExist)
            }
            WatchErrorKind::Unavailable(error) => match error {
                // A server that was reached before may come back.
                ChannelError::Unreachable(_) if self.last_error.is_none() => {
                    Outcome::Final(Shortfall::NotReached)
                }
                ChannelError::Unreadable(_) => Outcome::Final(Shortfall::Other),
                ChannelError::Status { code, .. } if PERMANENT.contains(code) => {
                    Outcome::Final(Shortfall::Other)
                }
                _ => Outcome::Retried,
            },
            WatchErrorKind::Reported { code, .. } if !PERMANENT.contains(code) => Outcome::Retried,
            WatchErrorKind::Timeout(_) => Outcome::Retried,
            _ => Outcome::Final(Shortfall::Other),
        }
    }

    /// Handles the end of the time without a complete answer.
    async fn end_late(&mut self, client: &ClientHandle, limit: &Limit) {
        let Limit { server, may_be_unanswered, .. } = limit;
        let length = &seconds(limit.length);
        let subject = &self.subject();
        if let Some(error) = self.last_error.take() {
            let shortfall = match error.kind() {
                WatchErrorKind::Unavailable(why) if is_without_response(why) => {
                    Shortfall::NotReached
                }
                _ => Shortfall::Other,
            };
            let problem = Problem::from(error);
            let text = format!("no answer within {length}: {}", problem.text);
            self.fail(self.name(), shortfall, Problem { text, ..problem });
        } else if let Some((last, _)) = self.last_response {
            if last.elapsed() < SHORTEST_PAUSE {
                let text = format!(
                    "{subject}: resources may be missing: there were still responses after \
                     {length} (server {server})"
                );
                self.fail(self.name(), Shortfall::Other, text.into());
            }
        } else if limit.is_file {
            let text = format!("{subject}: {server} was not read within {length}");
            self.fail(self.name(), Shortfall::Other, text.into());
        } else if !is_reached(client).await {
            let text = format!("{subject}: {server} was not reached within {length}");
            self.fail(self.name(), Shortfall::NotReached, text.into());
        } else if self.is_one() {
            let text = format!(
                "{subject}: does not exist: not received within {length} (server {server})"
            );
            self.fail(self.name(), Shortfall::DoesNotExist, text.into());
        } else {
            let advice = if *may_be_unanswered { self.advice() } else { String::new() };
            let text = format!("{subject}: no answer within {length} (server {server}){advice}");
            self.fail(self.name(), Shortfall::Other, text.into());
        }
    }

    /// Adds to the problems that the server has sent no response, so that it may be no management
    /// server.
    fn state_silence(&mut self) {
        for event in &mut self.fetched.problems {
            if let EventKind::Error(problem) = &mut event.kind {
                problem.text.push_str(SILENCE);
                problem.reason.push_str(SILENCE);
            }
        }
    }

    fn advice(&self) -> String {
        let type_name = type_name(self.subscription.type_url.as_str());
        format!(
            ": it may have no {type_name}: {UNANSWERED}; name resources ({type_name}:NAME) or use --delta"
        )
    }

    /// Whether one resource is fetched by its name.
    fn is_one(&self) -> bool {
        self.subscription.glob().is_none() && self.subscription.name.is_some()
    }

    /// Name or glob of the subscription; `None` for all resources of a type.
    fn name(&self) -> Option<String> {
        self.subscription.name.as_ref().map(|name| name.as_str().to_owned())
    }

    fn subject(&self) -> String {
        let type_name = type_name(self.subscription.type_url.as_str());
        format!("{type_name} {}", self.name().as_deref().unwrap_or("collection"))
    }

    fn hold(&mut self, name: String, resource: &Resource) {
        let state = ResourceState {
            version: resource.version.as_str().into(),
            bytes: resource.bytes.clone(),
            json: json(resource),
        };
        self.held.insert(name, state);
    }

    fn fail(
        &mut self,
        name: Option<String>,
        shortfall: Shortfall,
        problem: Problem,
    ) -> AnswerState {
        let type_url = self.subscription.type_url.clone();
        let kind = EventKind::Error(problem);
        self.fetched.problems.push(WatchEvent { type_url, name, kind });
        self.fetched.shortfall = self.fetched.shortfall.max(Some(shortfall));
        AnswerState::Complete
    }

    fn finish(mut self) -> Fetched {
        let type_url = &self.subscription.type_url;
        let events = self.held.into_iter().map(|(name, new)| WatchEvent {
            type_url: type_url.clone(),
            name: Some(name),
            kind: EventKind::Changed { old: None, new },
        });
        self.fetched.resources = events.collect();
        self.fetched
    }
}

/// Waits until there was no response for the length of the pause.
async fn paused(last_response: Option<(Instant, Duration)>) {
    match last_response {
        Some((last, pause)) => sleep_until(last + pause).await,
        None => pending().await,
    }
}

/// Meaning of an error.
enum Outcome {
    /// The resource is not fetched.
    Final(Shortfall),
    /// The client tries again until the time is over.
    Retried,
    /// The server has not answered yet.
    Unanswered,
}

/// gRPC status codes that another attempt does not change.
const PERMANENT: [StatusCode; 4] = [
    StatusCode::InvalidArgument,
    StatusCode::PermissionDenied,
    StatusCode::Unimplemented,
    StatusCode::Unauthenticated,
];

/// Addition to the problem of a resource that was not received.
const SILENCE: &str = "; the server has sent no response at all";

/// Whether no response has arrived.
async fn is_silent(client: &ClientHandle) -> bool {
    client.stats().await.is_ok_and(|stats| stats.responses == 0)
}

/// Whether a stream to any server has been opened.
async fn is_reached(client: &ClientHandle) -> bool {
    struct Reached(bool);

    impl MetricsExporter for Reached {
        fn counter(&mut self, _: Instrument, _: &[(&'static str, &str)], _: u64) {}

        fn gauge(&mut self, instrument: Instrument, _: &[(&'static str, &str)], value: u64) {
            self.0 |= instrument == Instrument::Connected && value > 0;
        }
    }

    let mut reached = Reached(false);
    if let Ok(metrics) = client.metrics().await {
        metrics.export("", &mut reached);
    }
    reached.0
}
