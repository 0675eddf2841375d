//! The client against a model, one step at a time.
//!
//! The steps are those of an application, a transport and a server in any order: one output is
//! taken, one request is rendered, a wildcard watch reads some of its changes. The model applies
//! the requests as a server would and records every watcher's notifications. At rest, the model's
//! two sides and the client's cache must agree.

use std::{collections::BTreeSet, fmt::Debug, mem, time::Duration};

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestCaseError};
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time, Timer, TypeUrl, WatchId,
    client::{
        ChannelError, ChannelEvent, DataErrorPolicy, FlowControl, Interest, Output, ResourceState,
        ResourceStatus,
    },
    proto,
};

use crate::client_support::{
    TYPES, config,
    far_end::FarEnd,
    reported::Reported,
    response,
    watcher::{Watcher, timeouts},
};

/// One step of a walk.
#[derive(Clone, Debug)]
enum Step {
    Watch { kind: usize, name: Option<u8> },
    Unwatch(usize),
    TakeOutput,
    TakeChange(usize),
    Handled(usize),
    Open,
    Transmit,
    Respond { kind: usize, resources: Vec<(u8, u8)> },
    Garbage,
    Close,
    Sleep { millis: u64 },
    Rest,
}

/// The way a walk ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// All pending work is done first.
    InOrder,
    /// Pending work is cut off.
    Abrupt,
}

fn step(texts: &'static [u8]) -> impl Strategy<Value = Step> {
    // Few types, names and texts, so that rare combinations are frequent.
    let kind = || proptest::bool::weighted(0.3).prop_map(usize::from);
    let name = || 0..2u8;
    let watch = || 0..4usize;
    // A name may be duplicated in a response, and text 3 is invalid.
    let resource = (name(), proptest::sample::select(texts));
    let resources = proptest::collection::vec(resource, 0..3);
    prop_oneof![
        4 => (kind(), proptest::option::weighted(0.7, name()))
            .prop_map(|(kind, name)| Step::Watch { kind, name }),
        3 => watch().prop_map(Step::Unwatch),
        5 => Just(Step::TakeOutput),
        3 => watch().prop_map(Step::TakeChange),
        2 => watch().prop_map(Step::Handled),
        2 => Just(Step::Open),
        4 => Just(Step::Transmit),
        9 => (kind(), resources).prop_map(|(kind, resources)| Step::Respond { kind, resources }),
        1 => Just(Step::Garbage),
        1 => Just(Step::Close),
        1 => (0..20_000u64).prop_map(|millis| Step::Sleep { millis }),
        8 => Just(Step::Rest),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let walk = |texts| proptest::collection::vec(step(texts), 0..90);
    // Resources that change; that alternate between valid and invalid; that expire or carry errors.
    prop_oneof![walk(&[0, 1, 2, 3]), walk(&[1, 3]), walk(&[1, 4, 5, 7, 8])]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::InOrder), Just(Ending::Abrupt)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn client_matches_model_with_kept_cache_and_flow_control(steps in steps(), ending in ending()) {
        walk(&steps, ending, DataErrorPolicy::KeepCached, FlowControl::On)?;
    }

    #[test]
    fn client_matches_model_with_kept_cache_and_no_flow_control(steps in steps(), ending in ending()) {
        walk(&steps, ending, DataErrorPolicy::KeepCached, FlowControl::Off)?;
    }

    #[test]
    fn client_matches_model_with_dropped_cache_and_flow_control(steps in steps(), ending in ending()) {
        walk(&steps, ending, DataErrorPolicy::DropCached, FlowControl::On)?;
    }

    #[test]
    fn client_matches_model_with_dropped_cache_and_no_flow_control(steps in steps(), ending in ending()) {
        walk(&steps, ending, DataErrorPolicy::DropCached, FlowControl::Off)?;
    }
}

/// Takes the steps and shuts down. A failure includes the trace.
fn walk(
    steps: &[Step],
    ending: Ending,
    data_errors: DataErrorPolicy,
    flow_control: FlowControl,
) -> Result<(), TestCaseError> {
    let mut model = Model::new(data_errors, flow_control);
    let mut walked = steps.iter().try_for_each(|step| model.take(step));
    if let Ending::InOrder = ending {
        walked = walked.and_then(|()| model.come_to_rest());
    }
    walked
        .and_then(|()| model.shut_down())
        .map_err(|why| TestCaseError::fail(format!("{why}, after {:#?}", model.trace)))
}

/// A server that stays silent on a new stream has recovered, so its next failure is reported like the
/// first one, even if no watcher polled the recovery.
// X16 IC27
#[test]
fn failure_after_unpolled_recovery_is_reported_again() {
    let steps = [
        Step::Watch { kind: 0, name: None },
        Step::Rest,
        Step::Respond { kind: 0, resources: Vec::new() },
        Step::Garbage,
        Step::Sleep { millis: 1_000 },
        Step::Rest,
        Step::Sleep { millis: 15_000 },
        Step::Garbage,
        Step::Rest,
    ];
    let mut model = Model::new(DataErrorPolicy::KeepCached, FlowControl::Off);
    let walked = steps.iter().try_for_each(|step| model.take(step));
    assert!(walked.is_ok(), "{walked:?}");
    let trace = format!("{:?}", model.trace);
    assert_eq!(trace.matches("CollectionAmbient(Some(").count(), 2, "{trace}");
}

/// A client and the recorded state of its application, transport and server.
struct Model {
    client: Client,
    now: Time,
    watchers: Vec<Watcher>,
    far_end: Option<FarEnd>,
    channel_ids: BTreeSet<ChannelId>,
    watch_ids: BTreeSet<WatchId>,
    responses: u8,
    told: Reported,
    /// Steps and outputs, formatted only on failure.
    trace: Vec<Box<dyn Debug>>,
}

impl Model {
    fn new(data_errors: DataErrorPolicy, flow_control: FlowControl) -> Self {
        let mut config = config();
        config.profile.data_errors = data_errors;
        config.profile.flow_control = flow_control;
        config.profile.backoff.jitter_percent = 0;
        config.limits.tombstones_per_type = 2;
        Self {
            client: Client::new(config, 7, Time::ZERO),
            now: Time::ZERO,
            watchers: Vec::new(),
            far_end: None,
            channel_ids: BTreeSet::new(),
            watch_ids: BTreeSet::new(),
            responses: 0,
            told: Reported::default(),
            trace: Vec::new(),
        }
    }

    fn note(&mut self, what: impl Debug + 'static) {
        self.trace.push(Box::new(what));
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.note(step.clone());
        match *step {
            Step::Watch { kind, name } => self.watch(kind, name)?,
            Step::Unwatch(nth) => self.unwatch(nth),
            Step::TakeOutput => drop(self.take_output()?),
            Step::TakeChange(nth) => drop(self.take_change(nth)?),
            Step::Handled(nth) => self.say_handled(nth),
            Step::Open => self.open(),
            Step::Transmit => drop(self.transmit()?),
            Step::Respond { kind, ref resources } => self.respond(kind, resources),
            Step::Garbage => self.send_garbage(),
            Step::Close => self.close(),
            Step::Sleep { millis } => self.sleep(Duration::from_millis(millis)),
            Step::Rest => self.come_to_rest()?,
        }
        self.keeps_what_is_watched()
    }

    fn sleep(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
        let before = timeouts(&self.client);
        self.client.handle_timeout(self.now);
        if timeouts(&self.client) > before {
            let of_many = self.watchers.iter_mut().filter(|watcher| watcher.name.is_none());
            of_many.for_each(Watcher::is_found_missing);
        }
        for status in self.client.status() {
            if status.state == ResourceState::DoesNotExist {
                let named = self.watchers.iter_mut().filter(|watcher| watcher.name.is_some());
                named.filter(|it| it.covers(&status)).for_each(Watcher::is_found_missing);
            }
        }
    }

    /// Checks that unwatched resources are not visible, even before the unsubscription is sent.
    fn keeps_what_is_watched(&mut self) -> Result<(), TestCaseError> {
        for status in self.client.status() {
            let is_watched = self.watchers.iter().any(|watcher| watcher.covers(&status));
            prop_assert!(is_watched, "nobody watches {} (IC13, IC15)", status);
        }
        self.lookups_agree()?;
        self.told.agrees_with(&self.client)
    }

    /// Checks that the status of a type and of a resource are parts of the whole status.
    fn lookups_agree(&self) -> Result<(), TestCaseError> {
        let text = |status: ResourceStatus<'_>| format!("{status:?}");
        let whole: Vec<_> = self.client.status().map(text).collect();
        let by_type = TYPES.iter().flat_map(|kind| self.client.status_of_type(kind)).map(text);
        prop_assert_eq!(by_type.collect::<BTreeSet<_>>(), whole.iter().cloned().collect());
        let found = TYPES.iter().flat_map(|kind| {
            ["r0", "r1", "r2"].iter().filter_map(|name| self.client.status_of(kind, name))
        });
        let found: Vec<String> = found.map(text).collect();
        prop_assert_eq!(found.len(), whole.len());
        prop_assert!(found.iter().all(|status| whole.contains(status)), "{:?}", found);
        Ok(())
    }
}

/// Steps of the application.
impl Model {
    fn watch(&mut self, kind: usize, name: Option<u8>) -> Result<(), TestCaseError> {
        let name = name.map(|name| format!("r{name}"));
        let interest = name.as_deref().map_or(Interest::Wildcard, Interest::Name);
        let id = self.client.watch(&TypeUrl::from(TYPES[kind]), interest, self.now);
        let id = id.expect("a registered type and a good name");
        prop_assert!(self.watch_ids.insert(id), "{} is reused (rule 7)", id);
        self.watchers.push(Watcher::new(id, kind, name));
        Ok(())
    }

    fn unwatch(&mut self, nth: usize) {
        if !self.watchers.is_empty() {
            let watcher = self.watchers.remove(nth % self.watchers.len());
            self.client.unwatch(watcher.id, self.now);
        }
    }

    /// Takes one output. Returns whether there was one.
    fn take_output(&mut self) -> Result<bool, TestCaseError> {
        let Some(output) = self.client.poll_output() else { return Ok(false) };
        self.note(output.clone());
        match output {
            Output::Open(channel, _) => {
                prop_assert!(self.channel_ids.insert(channel), "{} is reused (rule 7)", channel);
                prop_assert!(self.far_end.is_none(), "two channels at a time (IC26)");
                self.far_end = Some(FarEnd::new(channel));
            }
            Output::Close(channel, _) => {
                self.far_end.take_if(|far_end| far_end.channel == channel);
            }
            Output::Writable(channel) => {
                if let Some(far_end) = self.far_end.as_mut().filter(|it| it.channel == channel) {
                    far_end.is_writable = true;
                }
            }
            Output::Notify(id, notice) => {
                match self.watchers.iter_mut().find(|watcher| watcher.id == id) {
                    Some(watcher) => watcher.hear(notice, u64::from(self.responses))?,
                    None => prop_assert!(false, "a notice for {}, which has ended (IC39)", id),
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Takes one change of a watch. Returns whether there was one.
    fn take_change(&mut self, nth: usize) -> Result<bool, TestCaseError> {
        let nth = nth % self.watchers.len().max(1);
        let Some(watcher) = self.watchers.get_mut(nth) else { return Ok(false) };
        let Some(change) = self.client.next_change(watcher.id) else { return Ok(false) };
        self.trace.push(Box::new((watcher.id, change.clone())));
        watcher.step(change, u64::from(self.responses))?;
        Ok(true)
    }

    /// Calls `handled` for a watcher, which may or may not be busy.
    fn say_handled(&mut self, nth: usize) {
        let nth = nth % self.watchers.len().max(1);
        if let Some(watcher) = self.watchers.get_mut(nth) {
            self.client.handled(watcher.id, self.now);
            // For a wildcard watch this is true only after it has taken all changes.
            watcher.is_busy &= watcher.name.is_none();
        }
    }

    /// Lets each watcher with an unhandled notice take all changes and call `handled`.
    fn handle_notices(&mut self) -> Result<(), TestCaseError> {
        for nth in 0..self.watchers.len() {
            if mem::take(&mut self.watchers[nth].is_busy) {
                while self.take_change(nth)? {}
                self.client.handled(self.watchers[nth].id, self.now);
            }
        }
        Ok(())
    }

    /// Names and wildcards that the live watches of a type subscribe to.
    fn wanted(watchers: &[Watcher], kind: usize) -> BTreeSet<String> {
        let watchers = watchers.iter().filter(|watcher| watcher.kind == kind);
        watchers.map(|watcher| watcher.name.clone().unwrap_or_else(|| "*".into())).collect()
    }
}

/// Steps of the transport and the server.
impl Model {
    fn open(&mut self) {
        if let Some(far_end) = self.far_end.as_mut().filter(|far_end| !far_end.is_open) {
            far_end.is_open = true;
            self.client.handle_event(ChannelEvent::Opened(far_end.channel), self.now);
        }
    }

    /// Returns the far end if the client wants to read from it.
    fn readable(&mut self) -> Option<&mut FarEnd> {
        self.far_end.as_mut().filter(|far_end| self.client.wants_read(far_end.channel))
    }

    fn respond(&mut self, kind: usize, resources: &[(u8, u8)]) {
        let number = self.responses + 1;
        let Some(far_end) = self.readable() else { return };
        far_end.note_response(kind, format!("n{number}"), format!("v{number}"));
        let message = ChannelEvent::Message(far_end.channel, response(kind, number, resources));
        self.client.handle_event(message, self.now);
        self.responses = number;
    }

    fn send_garbage(&mut self) {
        let garbage = Bytes::from_static(&[0x0a, 0xff]);
        let Some(far_end) = self.readable() else { return };
        let (channel, first_request) = (far_end.channel, far_end.unanswered_since());
        self.client.handle_event(ChannelEvent::Message(channel, garbage), self.now);
        self.note_failure(first_request);
    }

    fn close(&mut self) {
        let Some(far_end) = self.far_end.take() else { return };
        let error = ChannelError::Status { code: StatusCode::Unavailable, message: "".into() };
        let before = self.client.stats().ignored_events;
        self.client.handle_event(ChannelEvent::Closed(far_end.channel, error), self.now);
        // The client may have closed the channel first.
        if self.client.stats().ignored_events == before {
            self.note_failure(far_end.unanswered_since());
        }
    }

    /// Records the failure of a stream without a response since its first request, which may have
    /// been silent for long enough to end the previous failure.
    fn note_failure(&mut self, first_request: Option<Time>) {
        const SILENCE: Duration = Duration::from_secs(15);
        if first_request.is_some_and(|at| at.after(SILENCE) <= self.now) {
            self.watchers.iter_mut().for_each(|watcher| watcher.server_fails_again("server"));
        }
    }

    /// Sends one request. Returns whether there was one.
    fn transmit(&mut self) -> Result<bool, TestCaseError> {
        let Some(far_end) = self.far_end.as_mut().filter(|far_end| far_end.is_writable) else {
            return Ok(false);
        };
        let mut frame = Frame::default();
        let Some(transmit) = self.client.poll_transmit(far_end.channel, self.now, &mut frame)
        else {
            far_end.is_writable = false;
            return Ok(false);
        };
        let request = proto::DiscoveryRequest::decode(frame.to_bytes()).expect("a sound request");
        self.trace.push(Box::new((transmit.cause.clone(), request.clone())));
        far_end.first_request.get_or_insert(self.now);
        far_end.read(request, &transmit.cause, |kind| Self::wanted(&self.watchers, kind))?;
        Ok(true)
    }
}

/// Checks at rest and after shutdown.
impl Model {
    fn come_to_rest(&mut self) -> Result<(), TestCaseError> {
        for round in 0.. {
            prop_assert!(round < 1_000, "it comes to rest");
            self.handle_notices()?;
            self.open();
            if !self.take_output()? && !self.transmit()? {
                break;
            }
        }
        let due = self.client.poll_timeout();
        let is_queued = due.is_some_and(|due| due.why == Timer::QueuedOutput);
        prop_assert!(!is_queued, "nothing is left to take (rule 4)");

        if let Some(far_end) = &self.far_end {
            far_end.agrees_with(|kind| Self::wanted(&self.watchers, kind))?;
            // No watcher is busy and every response is answered.
            prop_assert!(self.client.wants_read(far_end.channel), "reading goes on (IC34)");
        }
        let is_server_well = self.far_end.as_ref().is_some_and(|far_end| far_end.has_responded);
        for watcher in &self.watchers {
            watcher.agrees_with(self.client.status(), is_server_well)?;
        }
        Ok(())
    }

    /// Checks that nothing follows a shutdown.
    // IC39
    fn shut_down(&mut self) -> Result<(), TestCaseError> {
        self.client.shut_down(self.now);
        self.watchers.clear();
        while self.take_output()? {}
        prop_assert!(self.far_end.is_none(), "the channel is closed (IC39)");
        self.client.handle_timeout(self.now.after(Duration::from_secs(600)));
        prop_assert!(!self.take_output()?, "nothing comes after the end (IC39)");
        prop_assert_eq!(self.client.poll_timeout(), None, "nothing is due after the end (IC39)");
        Ok(())
    }
}
