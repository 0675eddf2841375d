//! Recorder of the events of a run.

use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher as _, Hasher as _},
};

use foldhash::quality::{FixedState, FoldHasher};
use xds_core::Time;

use super::event::{
    Description, Extent, Header, MessageId, Participant, ParticipantId, ParticipantKind, Phase,
    Trace, TraceEvent, TraceKind, Violation,
};

/// Amount of data that a [`Recorder`] keeps. It always counts events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// No events and no hash, for maximum speed.
    Nothing,
    /// Only the hash.
    Hash,
    /// The hash and this number of newest events.
    Newest(usize),
    /// The hash and every event.
    All,
}

/// Records the events of a run.
///
/// The text of an event is made by a closure, which is called only if the event is kept. The hash
/// covers the time and place of each event and the bytes passed by the caller, which must contain
/// everything that may differ. Hashes are comparable only within one build.
///
/// ```
/// use xds_core::Time;
/// use xds_sim::trace::{Header, Keep, ParticipantKind, Recorder, EventKind, Description};
///
/// let mut recorder = Recorder::new(Keep::All);
/// let client = recorder.lane(ParticipantKind::Client, "client-0", None);
/// let server = recorder.lane(ParticipantKind::Server, "server-0", None);
/// let sent = recorder.send(Time::ZERO, client, server, b"..", || {
///     Description::new(EventKind::Request, "cds subscribes to a").about(["a"])
/// });
/// recorder.deliver(Time::from_nanos(5_000_000), sent);
/// let trace = recorder.finish(Header::new(Some(7), Vec::new()), None);
/// assert_eq!(trace.events.len(), 2);
/// ```
pub struct Recorder {
    keep: Keep,
    lanes: Vec<Participant>,
    events: VecDeque<TraceEvent>,
    /// Number of the next event.
    next: u64,
    next_message: u64,
    hasher: FoldHasher<'static>,
}

impl Recorder {
    /// Creates a recorder without events.
    #[must_use]
    pub fn new(keep: Keep) -> Self {
        Self {
            keep,
            lanes: Vec::new(),
            events: VecDeque::new(),
            next: 0,
            next_message: 0,
            hasher: FixedState::with_seed(0).build_hasher(),
        }
    }

    /// Adds a participant.
    pub fn lane(
        &mut self,
        kind: ParticipantKind,
        name: &str,
        owner: Option<ParticipantId>,
    ) -> ParticipantId {
        // A run has fewer participants than this.
        let id = ParticipantId(u32::try_from(self.lanes.len()).unwrap_or(u32::MAX));
        self.lanes.push(Participant { kind, name: name.into(), owner });
        id
    }

    /// Records that a message with the contents `bytes` is sent.
    pub fn send(
        &mut self,
        at: Time,
        from: ParticipantId,
        to: ParticipantId,
        bytes: &[u8],
        what: impl FnOnce() -> Description,
    ) -> MessageId {
        let message = MessageId(self.next_message);
        self.next_message += 1;
        self.take(at, 1, [u64::from(from.0), u64::from(to.0)], bytes, || TraceKind::Send {
            message,
            from,
            to,
            what: what(),
        });
        message
    }

    /// Records that a message arrives.
    pub fn deliver(&mut self, at: Time, message: MessageId) {
        self.take(at, 2, [message.0, 0], &[], || TraceKind::Deliver { message });
    }

    /// Records that a message is lost.
    pub fn lost(&mut self, at: Time, message: MessageId, why: &'static str) {
        let bytes = why.as_bytes();
        self.take(at, 3, [message.0, 0], bytes, || TraceKind::Lost { message, why });
    }

    /// Records an event at one participant. `bytes` distinguish it from other possible events.
    pub fn local(
        &mut self,
        at: Time,
        lane: ParticipantId,
        bytes: &[u8],
        what: impl FnOnce() -> Description,
    ) {
        let place = [u64::from(lane.0), 0];
        self.take(at, 4, place, bytes, || TraceKind::Local { lane, what: what() });
    }

    /// Records a fault that affects these participants.
    pub fn fault(&mut self, at: Time, lanes: &[ParticipantId], extent: Extent, what: &str) {
        let first = lanes.first().map_or(u64::MAX, |lane| u64::from(lane.0));
        self.take(at, 5 + extent as u64, [first, lanes.len() as u64], what.as_bytes(), || {
            TraceKind::Fault { lanes: lanes.to_vec(), what: what.into(), extent }
        });
    }

    /// Records that the next phase begins.
    pub fn phase(&mut self, at: Time, phase: Phase) {
        self.take(at, 8, [phase as u64, 0], &[], || TraceKind::Phase(phase));
    }

    /// Number of recorded events, which is the number of the next one.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.next
    }

    /// Hash of all recorded events. It is constant with [`Keep::Nothing`].
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Ends the recording and returns the trace. Sets the hash of the header.
    #[must_use]
    pub fn finish(self, header: Header, violation: Option<Violation>) -> Trace {
        let header = Header { hash: self.hash(), ..header };
        Trace { header, lanes: self.lanes, events: self.events.into(), violation }
    }

    fn take(
        &mut self,
        at: Time,
        kind: u64,
        place: [u64; 2],
        bytes: &[u8],
        event: impl FnOnce() -> TraceKind,
    ) {
        let number = self.next;
        self.next += 1;
        if self.keep == Keep::Nothing {
            return;
        }
        self.hasher.write_u64(at.as_nanos());
        self.hasher.write_u64(kind);
        self.hasher.write_u64(place[0]);
        self.hasher.write_u64(place[1]);
        self.hasher.write_u64(bytes.len() as u64);
        self.hasher.write(bytes);
        let room = match self.keep {
            Keep::Nothing | Keep::Hash | Keep::Newest(0) => return,
            Keep::Newest(room) => room,
            Keep::All => usize::MAX,
        };
        if self.events.len() >= room {
            self.events.pop_front();
        }
        self.events.push_back(TraceEvent { at, number, kind: event() });
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("keep", &self.keep)
            .field("lanes", &self.lanes)
            .field("events", &self.events)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::EventKind;

    fn record(keep: Keep, name: &str) -> Trace {
        let mut recorder = Recorder::new(keep);
        let client = recorder.lane(ParticipantKind::Client, "client-0", None);
        let server = recorder.lane(ParticipantKind::Server, "server-0", None);
        recorder.phase(Time::ZERO, Phase::WarmUp);
        let what = || Description::new(EventKind::Request, format!("wants {name}")).about([name]);
        let sent = recorder.send(Time::ZERO, client, server, name.as_bytes(), what);
        recorder.fault(Time::ZERO, &[client, server], Extent::Instant, "reset");
        recorder.lost(Time::ZERO, sent, "the stream was reset");
        assert_eq!(recorder.count(), 4);
        recorder.finish(Header::new(None, Vec::new()), None)
    }

    #[test]
    fn trace_hash_does_not_depend_on_what_is_kept() {
        let all = record(Keep::All, "a");
        assert_eq!(all.events.len(), 4);
        for keep in [Keep::Hash, Keep::Newest(0), Keep::Newest(2)] {
            assert_eq!(record(keep, "a").header.hash, all.header.hash);
        }
        assert_ne!(record(Keep::Hash, "b").header.hash, all.header.hash);
    }

    #[test]
    fn newest_events_keep_their_numbers() {
        let newest = record(Keep::Newest(2), "a");
        let numbers: Vec<u64> = newest.events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, [2, 3]);
        assert!(record(Keep::Hash, "a").events.is_empty());
    }

    #[test]
    fn text_of_dropped_events_is_not_computed() {
        let mut recorder = Recorder::new(Keep::Hash);
        let lane = recorder.lane(ParticipantKind::Client, "client-0", None);
        recorder.local(Time::ZERO, lane, b"..", || unreachable!("nobody reads it"));
        assert_eq!(recorder.count(), 1);
    }
}
