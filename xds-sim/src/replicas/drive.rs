//! Drivers of replicas and clients, and the delivery of events.

use std::time::Duration;

use xds_core::{
    Frame, Time,
    client::{ChannelError, ChannelEvent, Output},
    server::{CloseReason, Observation, ServerEvent, ServerOutput, StreamEvent, StreamKind},
};
use xds_source::{Change, Object, ObjectChange, Revision, SourceError, Step, WatchError};

use super::{
    bug::ReplicaBug,
    link::{ReplicaLink, read_request},
    replica::{CATCH_UP, Call, Replica, id},
    situations::ReplicaSituation,
    source::TYPES,
    world::{QueuedEvent, ReplicaWorld},
};

/// Time after which a replica gives up on a call to a source that it cannot reach.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which a replica notices that a watch is dead.
const KEEPALIVE: Duration = Duration::from_secs(3);
/// Time between two attempts to confirm.
const CONFIRM_RETRY: Duration = Duration::from_millis(500);
/// Maximum number of rounds at one instant; more are a busy loop.
const ENDLESS: usize = 10_000;

impl Replica {
    /// End of the follower's wait.
    pub(super) fn wait_until(&self) -> Option<Time> {
        match self.follower.step() {
            Step::Wait { until } => Some(until),
            _ => None,
        }
    }
}

impl ReplicaWorld {
    /// Does everything that can be done at this instant.
    pub(super) fn settle(&mut self) {
        for _ in 0..ENDLESS {
            let mut has_worked = false;
            for at in 0..self.replicas.len() {
                has_worked |= self.follow(at) | self.drain_server(at);
            }
            for at in 0..self.clients.len() {
                has_worked |= self.drain_client(at);
            }
            if !has_worked || self.violation.is_some() {
                return;
            }
        }
        panic!("no end of work at {}", self.now);
    }

    /// Begins the call of the follower's step.
    fn follow(&mut self, at: usize) -> bool {
        let replica = &self.replicas[at];
        if !replica.is_running || replica.call != Call::None {
            return false;
        }
        let (step, start) = (replica.follower.step(), replica.start);
        match step {
            Step::List => {
                let behind =
                    match self.options.members_lag && self.choices.chance("old member", 300) {
                        true => u64::from(self.choices.between("behind", 1, 5)),
                        false => 0,
                    };
                self.replicas[at].call = Call::List;
                let latency = self.latency();
                self.schedule(latency, QueuedEvent::Listed { replica: at, start, behind });
            }
            Step::Watch { after } => {
                let replica = &mut self.replicas[at];
                replica.watches += 1;
                let (number, sent) = (replica.watches, after.0);
                replica.call =
                    Call::Watch { number, is_open: false, sent, is_due: false, progress: true };
                let latency = self.latency();
                self.schedule(latency, QueuedEvent::WatchOpened { replica: at, start, number });
            }
            _ => return false,
        }
        true
    }

    /// Schedules the delivery of what a watch lacks.
    pub(super) fn plan_delivery(&mut self, at: usize) {
        let (current, lag) = (self.source.current(), self.lag());
        let replica = &mut self.replicas[at];
        let start = replica.start;
        let Call::Watch { number, is_open: true, sent, is_due, progress } = &mut replica.call
        else {
            return;
        };
        let number = *number;
        if !*is_due && (*sent < current || *progress) {
            *is_due = true;
            self.schedule(lag, QueuedEvent::Delivered { replica: at, start, number });
        }
    }

    /// Asks a watch to report the revision that it has reached.
    fn ask_progress(&mut self, at: usize) {
        if let Call::Watch { progress, .. } = &mut self.replicas[at].call {
            *progress = true;
        }
        self.plan_delivery(at);
    }

    fn is_current_watch(&self, at: usize, start: u64, number: u64) -> bool {
        let replica = &self.replicas[at];
        let is_it = matches!(replica.call, Call::Watch { number: it, .. } if it == number);
        replica.is_running && replica.start == start && is_it
    }

    fn end_watch(&mut self, at: usize, why: &WatchError) {
        let now = self.now;
        self.note(|| format!("replica-{at}: watch ends: {why}"));
        let replica = &mut self.replicas[at];
        replica.call = Call::None;
        replica.follower.watch_ended(Some(why), now);
        replica.note_failure(now);
    }

    pub(super) fn handle(&mut self, event: QueuedEvent) {
        let now = self.now;
        match event {
            QueuedEvent::Listed { replica, start, behind } => {
                self.list_arrives(replica, start, behind)
            }
            QueuedEvent::WatchOpened { replica, start, number } => {
                if !self.is_current_watch(replica, start, number) {
                    return;
                }
                let compacted = self.source.compacted;
                let it = &mut self.replicas[replica];
                if it.is_partitioned {
                    return self
                        .schedule(KEEPALIVE, QueuedEvent::WatchLost { replica, start, number });
                }
                let Call::Watch { is_open, sent, .. } = &mut it.call else { return };
                if *sent < compacted {
                    self.situations.note(ReplicaSituation::Compacted);
                    return self.end_watch(replica, &WatchError::Compacted);
                }
                *is_open = true;
                self.plan_delivery(replica);
            }
            QueuedEvent::Delivered { replica, start, number } => {
                if self.is_current_watch(replica, start, number) {
                    self.deliver(replica);
                }
            }
            QueuedEvent::WatchLost { replica, start, number } => {
                if self.is_current_watch(replica, start, number) {
                    let lost = SourceError::Unavailable("no keepalive".into());
                    self.end_watch(replica, &lost.into());
                }
            }
            QueuedEvent::Confirmed { replica, start } => self.confirmation_arrives(replica, start),
            QueuedEvent::Connected(link) => self.connect(link),
            QueuedEvent::ToServer(link, message) => {
                let ReplicaLink { stream, replica, .. } = self.links[link];
                if let Some(stream) = stream {
                    self.note_request(link, &message);
                    let event = StreamEvent::Message(stream, message);
                    self.replicas[replica].server.handle_event(event, now);
                }
            }
            QueuedEvent::ToClient(link, message) => self.links[link].inbox.push_back(message),
            QueuedEvent::EndAtClient(link, error) => self.end_at_client(link, error),
            QueuedEvent::EndAtServer(link) => {
                let replica = self.links[link].replica;
                if let Some(stream) = self.links[link].stream.take() {
                    let event = StreamEvent::Closed(stream);
                    self.replicas[replica].server.handle_event(event, now);
                }
            }
            QueuedEvent::Restarted(at) => {
                let options = self.options;
                let seed = 10 + at as u64 + 1_000 * (self.replicas[at].start + 1);
                self.replicas[at].restart(&options, seed, now);
                self.note(|| format!("replica-{at} starts"));
            }
        }
    }

    fn list_arrives(&mut self, at: usize, start: u64, behind: u64) {
        let (now, current) = (self.now, self.source.current());
        let replica = &mut self.replicas[at];
        if replica.start != start || !replica.is_running {
            return;
        }
        replica.call = Call::None;
        if replica.is_partitioned {
            replica.follower.list_failed(&SourceError::Unavailable("no answer".into()), now);
            return replica.note_failure(now);
        }
        // A member that lags behind has not been compacted either.
        let revision = current.saturating_sub(behind);
        let is_first = replica.follower.revision().is_none();
        let (is_used, removed) = replica.listed(&self.source, revision, now);
        self.note(|| format!("replica-{at}: list at {revision}, used: {is_used}"));
        if !is_used {
            self.situations.note(ReplicaSituation::OlderListRefused);
            self.replicas[at].note_failure(now);
        } else if !is_first {
            self.situations.note(ReplicaSituation::Relisted);
            if removed > 0 {
                self.situations.note(ReplicaSituation::RelistRemoved);
            }
        }
    }

    /// Delivers the changes that a watch lacks, and its progress if it was asked for.
    fn deliver(&mut self, at: usize) {
        let (now, current) = (self.now, self.source.current());
        let replica = &mut self.replicas[at];
        let (start, is_partitioned) = (replica.start, replica.is_partitioned);
        let Call::Watch { number, sent, is_due, progress, .. } = &mut replica.call else { return };
        if is_partitioned {
            let number = *number;
            return self.schedule(KEEPALIVE, QueuedEvent::WatchLost { replica: at, start, number });
        }
        let (from, reports) = (*sent, std::mem::take(progress));
        (*sent, *is_due) = (current, false);
        for revision in from + 1..=current {
            let objects = self.source.at(revision).cloned().unwrap_or_default().objects;
            if objects.is_empty() {
                continue;
            }
            let objects = objects.into_iter().map(|(key, text)| match text {
                None => ObjectChange::Delete(id(key).into()),
                Some(_) => {
                    let content = xds_source::Content::Resources(Vec::new());
                    ObjectChange::Set(Object::new(id(key), "", Revision(revision), content))
                }
            });
            let change = Change { revision: Revision(revision), objects: objects.collect() };
            self.replicas[at].changed(&self.source, &change, now);
        }
        if reports {
            let change = Change { revision: Revision(current), objects: Vec::new() };
            self.replicas[at].changed(&self.source, &change, now);
        }
        self.note(|| format!("replica-{at}: changes {from} to {current}"));
    }

    fn confirmation_arrives(&mut self, at: usize, start: u64) {
        let (now, current) = (self.now, self.source.current());
        let replica = &mut self.replicas[at];
        if replica.start != start || !replica.is_running {
            return;
        }
        if replica.is_partitioned {
            replica.server.source_confirmation_failed(now);
            return self.schedule(CONFIRM_RETRY, QueuedEvent::Confirmed { replica: at, start });
        }
        let is_stale = replica.has(ReplicaBug::StaleConfirmation);
        let revision = if is_stale { current.saturating_sub(3) } else { current };
        let waiting = replica.server.stats().waiting_for_source;
        replica.server.source_confirmed(Some(revision), now);
        replica.follower.retry();
        let left = replica.server.stats().waiting_for_source;
        if left > 0 {
            self.situations.note(ReplicaSituation::WaitedForConfirmed);
        }
        if waiting > 1 {
            self.situations.note(ReplicaSituation::SharedConfirmation);
        }
        self.note(|| format!("replica-{at}: confirmed {revision}"));
        self.ask_progress(at);
    }

    fn drain_server(&mut self, at: usize) -> bool {
        let mut has_worked = false;
        if !self.replicas[at].is_running {
            return false;
        }
        while let Some(output) = self.replicas[at].server.poll_output() {
            has_worked = true;
            match output {
                ServerOutput::Writable(stream) => {
                    let mut frame = Frame::default();
                    while let Some(link) = self.link_of_stream(at, stream)
                        && self.replicas[at]
                            .server
                            .poll_transmit(stream, self.now, &mut frame)
                            .is_some()
                    {
                        let message = frame.to_bytes();
                        self.judge_response(link, &message);
                        self.send(link, 1, QueuedEvent::ToClient(link, message));
                    }
                }
                ServerOutput::Event(ServerEvent::ConfirmSource) => {
                    let start = self.replicas[at].start;
                    let latency = self.latency();
                    self.schedule(latency, QueuedEvent::Confirmed { replica: at, start });
                }
                ServerOutput::Observed(Observation::ServedUnconfirmed { stream, .. }) => {
                    if let Some(link) = self.link_of_stream(at, stream) {
                        self.judge_unconfirmed(link);
                    }
                }
                ServerOutput::Close(stream, why) => {
                    if let Some(link) = self.link_of_stream(at, stream) {
                        self.links[link].stream = None;
                        self.note(|| format!("replica-{at}: closes stream: {why}"));
                        if matches!(why, CloseReason::BehindSource { .. }) {
                            self.situations.note(ReplicaSituation::ClosedBehind);
                        }
                        let (code, message) = (why.code(), why.to_string().into());
                        let error = ChannelError::Status { code, message };
                        self.send(link, 1, QueuedEvent::EndAtClient(link, error));
                    }
                }
                _ => {}
            }
        }
        has_worked
    }

    fn link_of_stream(&self, replica: usize, stream: xds_core::StreamId) -> Option<usize> {
        self.links.iter().rposition(|it| it.replica == replica && it.stream == Some(stream))
    }

    /// Sends a message on a stream, behind earlier ones in its direction.
    fn send(&mut self, link: usize, direction: usize, event: QueuedEvent) {
        let latency = self.latency();
        let arrival = &mut self.links[link].arrivals[direction];
        *arrival = self.now.after(latency).max(*arrival);
        let at = *arrival;
        self.schedule_at(at, event);
    }

    fn connect(&mut self, link: usize) {
        let ReplicaLink { replica, client, channel, variant, is_open, .. } = self.links[link];
        if !is_open {
            return;
        }
        let now = self.now;
        if !self.replicas[replica].is_running {
            let refused = ChannelError::Unreachable("connection refused".into());
            return self.end_at_client(link, refused);
        }
        match self.replicas[replica].server.accept(StreamKind::Aggregated(variant), now) {
            Ok(stream) => {
                self.links[link].stream = Some(stream);
                self.clients[client].core.handle_event(ChannelEvent::Opened(channel), now);
            }
            Err(refusal) => {
                self.situations.note(ReplicaSituation::RefusedNotReady);
                let (code, message) = (refusal.code(), refusal.to_string().into());
                self.end_at_client(link, ChannelError::Status { code, message });
            }
        }
    }

    fn end_at_client(&mut self, link: usize, error: ChannelError) {
        let ReplicaLink { client, channel, is_open, .. } = self.links[link];
        if is_open {
            self.links[link].is_open = false;
            self.note(|| format!("client-{client}: {channel} ends: {error}"));
            self.clients[client].core.handle_event(ChannelEvent::Closed(channel, error), self.now);
        }
    }

    fn drain_client(&mut self, at: usize) -> bool {
        let mut has_worked = false;
        loop {
            while let Some(output) = self.clients[at].core.poll_output() {
                has_worked = true;
                match output {
                    Output::Open(channel, call) => {
                        let replica = self.choices.below("replica", self.options.replicas) as usize;
                        let moved = self.clients[at].replica.replace(replica);
                        if moved.is_some_and(|before| before != replica) {
                            self.situations.note(ReplicaSituation::Moved);
                        }
                        self.note(|| format!("client-{at}: opens {channel} to replica-{replica}"));
                        self.links.push(ReplicaLink {
                            client: at,
                            channel,
                            variant: call.server.variant,
                            replica,
                            stream: None,
                            is_open: true,
                            inbox: Default::default(),
                            arrivals: [self.now; 2],
                            is_confirmed: self.options.confirms,
                            stated: Default::default(),
                            answered: Default::default(),
                            reached: None,
                        });
                        let link = self.links.len() - 1;
                        self.send(link, 0, QueuedEvent::Connected(link));
                    }
                    Output::Close(channel, _) => {
                        if let Some(link) = self.link_of_channel(at, channel) {
                            self.links[link].is_open = false;
                            self.send(link, 0, QueuedEvent::EndAtServer(link));
                        }
                    }
                    Output::Writable(channel) => self.transmit(at, channel),
                    Output::Notify(watch, notice) => self.observe(at, watch, notice),
                    _ => {}
                }
            }
            if !self.read(at) {
                return has_worked;
            }
            has_worked = true;
        }
    }

    fn link_of_channel(&self, client: usize, channel: xds_core::ChannelId) -> Option<usize> {
        // A restarted client uses the same ids again.
        self.links.iter().rposition(|it| it.client == client && it.channel == channel && it.is_open)
    }

    fn transmit(&mut self, at: usize, channel: xds_core::ChannelId) {
        let Some(link) = self.link_of_channel(at, channel) else { return };
        let mut frame = Frame::default();
        while self.clients[at].core.poll_transmit(channel, self.now, &mut frame).is_some() {
            let message = frame.to_bytes();
            self.send(link, 0, QueuedEvent::ToServer(link, message));
        }
    }

    /// Lets a client read as much as it wants. Returns whether it read anything.
    fn read(&mut self, at: usize) -> bool {
        for link in 0..self.links.len() {
            let ReplicaLink { client, channel, is_open, .. } = self.links[link];
            if client != at || !is_open || !self.clients[at].core.wants_read(channel) {
                continue;
            }
            let Some(message) = self.links[link].inbox.pop_front() else { continue };
            self.judge_read(link, &message);
            self.clients[at].core.handle_event(ChannelEvent::Message(channel, message), self.now);
            return true;
        }
        false
    }

    /// Notes what the first request of a type states, as it arrives at a replica.
    fn note_request(&mut self, link: usize, message: &[u8]) {
        let Some(request) = read_request(self.links[link].variant, message) else { return };
        let Some(kind) = TYPES.iter().position(|it| *it == request.type_url) else { return };
        if self.links[link].stated.contains_key(&kind) {
            // It may subscribe again to what the client has dropped.
            self.links[link].answered.insert(kind);
            return;
        }
        let mut stated = request.stated;
        stated.floor = self.floor_of(self.links[link].client, kind, &stated);
        let reached = self.replicas[self.links[link].replica].server.source_status().revision;
        stated.reached = reached.unwrap_or_default();
        if stated.floor > stated.reached {
            self.situations.note(ReplicaSituation::WaitedForStated);
        }
        self.links[link].stated.insert(kind, stated);
    }

    /// Whether a replica has been able to reach the source for as long as a stream may wait.
    pub(super) fn is_source_reachable(&self, replica: usize) -> bool {
        let it = &self.replicas[replica];
        let grace = CATCH_UP + CALL_TIMEOUT;
        !it.is_partitioned && (it.healed_at == Time::ZERO || it.healed_at.after(grace) < self.now)
    }
}
