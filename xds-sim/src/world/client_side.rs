//! Drivers of clients, and their watchers.

use std::{borrow::Borrow, collections::BTreeMap, rc::Rc, time::Duration};

use xds_core::{
    ChannelId, Frame, ResourceName, UpdateId, WatchId,
    client::{Call, Change, ChannelEvent, Notice, Output, Rejection, RequestCause, WatchErrorKind},
    service::Variant,
};

use super::{
    LinkId, World,
    link::Link,
    message::{Body, Message, is_message, read_request},
    names,
    parts::{NoticeAction, Party, Reach, ScheduledEvent},
    texts,
};
use crate::{
    Toy,
    options::{Action, Fault, Transport},
    situations::Situation,
    trace::{Description, EventKind},
    world::actor::{Actor, act_as},
    world::events::Event,
};

impl World {
    pub(super) fn fire_client(&mut self, at: usize) {
        if !self.is_suspended(Party::Client(at)) {
            let _guard = act_as(Actor::Core(Party::Client(at), "handles a timeout"));
            self.clients[at].core.handle_timeout(self.now);
            self.emit(&Event::ClientWoken { client: at });
        }
        self.drain_client(at);
    }

    /// Drains the outputs of a client, and delivers responses while it wants to read.
    pub(super) fn drain_client(&mut self, at: usize) {
        if self.is_suspended(Party::Client(at)) {
            self.takes_effect(Fault::Suspend);
            self.clients[at].deadline = None;
            return;
        }
        let _guard = act_as(Actor::Core(Party::Client(at), "is polled for outputs"));
        loop {
            while let Some(output) = self.clients[at].core.poll_output() {
                self.handle_output(at, output);
                if !self.may_take_more(Party::Client(at)) {
                    return;
                }
            }
            if !self.read_responses(at) {
                break;
            }
        }
        self.emit(&Event::ClientDrained { client: at });
        let deadline = self.clients[at].core.poll_timeout();
        self.clients[at].deadline = deadline.map(|due| self.by_clock(due.at));
    }

    fn handle_output(&mut self, at: usize, output: Output) {
        match output {
            Output::Open(channel, call) => self.open(at, channel, &call),
            Output::Close(channel, fault) => {
                if fault.is_some() {
                    self.note(Situation::MalformedResponse);
                }
                self.close_by_client(at, channel, fault.is_some());
            }
            Output::Writable(channel) => {
                if let Some(link) = self.link_of(at, channel) {
                    self.send_requests(link);
                }
            }
            Output::Notify(watch, notice) => self.notify(at, watch, &notice),
            Output::Update(update, new) => {
                let incarnation = self.clients[at].incarnation;
                let done = self.now.after(self.options.verdicts.delay().unwrap_or_default());
                let resources = new.resources.into_iter();
                let refused = resources.filter(|it| Toy::is_rejected_externally(&it.bytes));
                let refused = refused.map(|resource| resource.name).collect();
                self.schedule(
                    done,
                    ScheduledEvent::Settle { client: at, incarnation, update, refused },
                );
            }
            other => {
                let what = format!("a world does not handle {other:?}");
                self.break_rule(&crate::world::events::NO_PANIC, what);
            }
        }
    }

    pub(super) fn link_of(&self, client: usize, channel: ChannelId) -> Option<LinkId> {
        let mut links = self.clients[client].links.iter();
        links.find(|(known, _)| *known == channel).map(|(_, link)| *link)
    }

    fn open(&mut self, at: usize, channel: ChannelId, call: &Call) {
        let Some(server) = names::server_at(&call.server.uri) else { return };
        let only = call.type_url.as_ref();
        let only = only.and_then(|only| self.types.iter().position(|known| known == only));
        let link = LinkId(u32::try_from(self.links.len()).unwrap_or(u32::MAX));
        let is_stream = self.options.transport == Transport::Streams;
        let reach = self.reach(at, server);
        if is_stream {
            self.meets(at, server, reach);
        }
        let mut it = Link::new(at, channel, server, only, call.server.variant);
        it.is_hanging = is_stream && reach == Reach::Hanging;
        self.links.push(it);
        self.clients[at].links.push((channel, link));
        let lane = self.clients[at].lane;
        self.recorder.local(self.now, lane, &link.0.to_le_bytes(), || {
            Description::new(
                EventKind::Transport,
                format!("opens {channel} to {}", call.server.uri),
            )
        });
        self.emit(&Event::Opening { link });
        if !is_stream {
            // The first request is what connects a poll; a file needs no connection.
            return self.schedule(self.now, ScheduledEvent::Connect(link));
        }
        let arrival = self.arrival(link);
        match reach {
            Reach::Up | Reach::HangingUp | Reach::Unauthenticated => {
                self.schedule(arrival, ScheduledEvent::Connect(link));
            }
            Reach::Refused => self.schedule(arrival, ScheduledEvent::Refuse(link)),
            Reach::Hanging => {}
        }
    }

    /// Renders and sends requests while the transport accepts them.
    pub(super) fn send_requests(&mut self, link: LinkId) {
        let it = &mut self.links[link.at()];
        // A restarted client uses the same channel ids again.
        if !it.is_known_to_client {
            return;
        }
        if let Some(fault) = it.to_server.blocked_by {
            it.to_server.is_waiting = true;
            return self.takes_effect(fault);
        }
        let (client, channel, server) = (it.client, it.channel, it.server);
        let (variant, only) = (it.variant, it.only);
        let _guard = act_as(Actor::Core(Party::Client(client), "sends requests"));
        let mut frame = Frame::default();
        while let Some(transmit) =
            self.clients[client].core.poll_transmit(channel, self.now, &mut frame)
        {
            if !self.may_take_more(Party::Client(client)) {
                return;
            }
            if self.options.transport == Transport::Files {
                if transmit.cause == RequestCause::Subscription {
                    self.read_file(link);
                }
                continue; // Requests to files are only logged.
            }
            let bytes = frame.to_bytes();
            let (from, to) = (self.clients[client].lane, self.servers[server].lane);
            let id = self.recorder.send(self.now, from, to, &bytes, || {
                let sort = match transmit.cause {
                    RequestCause::Ack => EventKind::Ack,
                    RequestCause::Nack { .. } => EventKind::Nack,
                    _ => EventKind::Request,
                };
                texts::request(sort, &bytes, variant, &self.types, only)
            });
            let mut message = Message { id, bytes, body: None, lie: None };
            if !self.oracles.is_empty() {
                let request = read_request(&message.bytes, variant, &self.types, only);
                message.body = request.map(Body::Request);
                if let Some(request) = message.request() {
                    if let Some(kind) = request.kind {
                        self.links[link.at()].requested(kind, request);
                    }
                    self.emit(&Event::Requested { link, request });
                }
            }
            let message = Rc::new(message);
            match self.options.transport {
                Transport::Polls => self.send_poll(link, message),
                _ => self.send_to_server(link, message),
            }
        }
    }

    /// Lets a client read as much as it wants. Returns false if it read nothing.
    fn read_responses(&mut self, at: usize) -> bool {
        let mut has_read = false;
        let mut position = 0;
        while let Some(&(channel, link)) = self.clients[at].links.get(position) {
            position += 1;
            while !self.links[link.at()].to_client.inbox.is_empty()
                && self.clients[at].core.wants_read(channel)
            {
                let Some(message) = self.links[link.at()].to_client.inbox.pop_front() else {
                    break;
                };
                has_read = true;
                self.read_response(at, link, channel, &message);
                if self.is_over() || !self.links[link.at()].is_known_to_client {
                    return !self.is_over();
                }
            }
        }
        has_read
    }

    fn read_response(&mut self, at: usize, link: LinkId, channel: ChannelId, message: &Message) {
        match message.response() {
            Some(response) => self.emit(&Event::Reading { link, response }),
            None if !is_message(&message.bytes) => {
                self.emit(&Event::ReadingGarbage { link });
            }
            None => {}
        }
        if let Some(lie) = message.lie {
            self.takes_effect(lie);
        }
        let _guard = act_as(Actor::Core(Party::Client(at), "reads a response"));
        let event = ChannelEvent::Message(channel, message.bytes.clone());
        let strange = self.clients[at].core.stats().unsolicited;
        self.clients[at].core.handle_event(event, self.now);
        if self.clients[at].core.stats().unsolicited > strange {
            self.note(Situation::UnknownTypeIgnored);
        }
        self.emit(&Event::Read { link, response: message.response() });
        while let Some(output) = self.clients[at].core.poll_output() {
            self.handle_output(at, output);
            if !self.may_take_more(Party::Client(at)) {
                return;
            }
        }
    }

    fn notify(&mut self, at: usize, watch: WatchId, notice: &Notice) {
        self.emit(&Event::Notified { client: at, watch, notice });
        let type_url = {
            let Some(known) = self.clients[at].watches.get_mut(watch) else { return };
            known.apply_notice(notice);
            self.types[known.kind].clone()
        };
        let Some(known) = self.clients[at].watches.get(watch) else { return };
        let (lane, delay, is_busy) = (known.lane, known.delay, known.busy > 0);
        let has_value = !known.view.is_empty();
        let is_by_alias = known.name.as_deref().is_some_and(names::is_alias);
        self.recorder.local(self.now, lane, texts::digest(notice).as_slice(), || {
            texts::notice(known.name.as_deref(), notice)
        });
        let node = &mut self.clients[at];
        if let (Some(application), Some(known)) = (&mut node.application, node.watches.get(watch)) {
            let _guard = act_as(Actor::Application);
            application.notified(watch, &type_url, known.name.as_deref(), notice);
        }
        if is_busy {
            self.note(Situation::WatcherBehind);
        }
        match notice {
            Notice::Ambient(Some(error))
                if has_value && matches!(error.kind(), WatchErrorKind::Unavailable(_)) =>
            {
                self.note(Situation::AmbientConnectivityError);
            }
            Notice::Changed(Err(error)) => match error.kind() {
                WatchErrorKind::DoesNotExist(_) => self.note(Situation::NotReceivedInTime),
                WatchErrorKind::Timeout(_) => self.note(Situation::TimeoutIsTransient),
                _ => {}
            },
            Notice::Changed(Ok(_)) if is_by_alias => self.note(Situation::NotifiedByAlias),
            _ => {}
        }
        self.action(at, watch);
        match delay {
            Duration::ZERO => self.finish_notice(at, watch),
            delay => {
                let Some(known) = self.clients[at].watches.get_mut(watch) else { return };
                known.busy += 1;
                self.takes_effect(Action::SlowWatcher);
                let incarnation = self.clients[at].incarnation;
                let done = self.now.after(delay);
                self.schedule(done, ScheduledEvent::Handled { client: at, incarnation, watch });
            }
        }
    }

    /// Performs the action that the watcher planned for its next notice.
    fn action(&mut self, at: usize, watch: WatchId) {
        let known = self.clients[at].watches.get_mut(watch);
        let Some(action) = known.and_then(|known| known.action.take()) else { return };
        self.note(Situation::WatchInsideNotice);
        self.takes_effect(Action::WatchInNotice);
        match action {
            NoticeAction::Watch { kind, name } => {
                let _ = self.begin_watch(at, kind, name);
            }
            NoticeAction::Unwatch => self.end_watch(at, watch),
        }
    }

    /// Delivers an external verdict on an update.
    pub(super) fn settle_update(
        &mut self,
        at: usize,
        incarnation: u32,
        update: UpdateId,
        refused: Vec<ResourceName>,
    ) {
        if self.clients[at].incarnation != incarnation {
            return;
        }
        let now = self.now;
        let lane = self.clients[at].lane;
        let said = if refused.is_empty() { "verdict" } else { "refused" };
        self.recorder.local(now, lane, said.as_bytes(), || {
            let names: Vec<&str> = refused.iter().map(ResourceName::as_str).collect();
            let what = match &*names {
                [] => "external verdict".into(),
                names => format!("rejected by an external verdict: {}", names.join(", ")),
            };
            Description::new(EventKind::Note, what).about(names)
        });
        let is_refused = !refused.is_empty();
        let why = || Rejection::new("rejected by an external verdict".to_owned());
        let refused = refused.into_iter().map(|name| (name, why()));
        let _guard = act_as(Actor::Core(Party::Client(at), "receives a verdict"));
        let nacks = self.clients[at].core.stats().nacks;
        // The update may have been discarded with its stream.
        match self.clients[at].core.submit_verdict(update, refused, now) {
            Ok(()) => self.note(Situation::ExternalVerdict),
            Err(_) => self.note(Situation::LateVerdict),
        }
        if is_refused && self.clients[at].core.stats().nacks > nacks {
            self.note(Situation::RejectedExternally);
        }
        self.drain_client(at);
    }

    pub(super) fn handled(&mut self, at: usize, incarnation: u32, watch: WatchId) {
        if self.clients[at].incarnation != incarnation {
            return;
        }
        if let Some(known) = self.clients[at].watches.get_mut(watch) {
            known.busy = known.busy.saturating_sub(1);
        }
        self.finish_notice(at, watch);
        self.drain_client(at);
    }

    /// Takes the pending changes of a watch and finishes its notices.
    fn finish_notice(&mut self, at: usize, watch: WatchId) {
        let Some(kind) = self.clients[at].watches.get(watch).map(|known| known.kind) else {
            return;
        };
        let type_url = self.types[kind].clone();
        let _guard = act_as(Actor::Core(Party::Client(at), "reports changes"));
        while let Some(change) = self.clients[at].core.next_change(watch) {
            if !self.may_take_more(Party::Client(at)) {
                return;
            }
            self.emit(&Event::Changed { client: at, watch, change: &change });
            let node = &mut self.clients[at];
            let Some(known) = node.watches.get_mut(watch) else { break };
            known.step(&change);
            let is_member = matches!(change, Change::Resource { result: Ok(_), .. });
            if is_member && known.name.is_some() {
                self.situations.note(Situation::GlobMember);
            }
            let lane = known.lane;
            if let Some(application) = &mut node.application {
                let _guard = act_as(Actor::Application);
                application.changed(watch, &type_url, &change);
            }
            self.recorder.local(self.now, lane, &texts::digest_of_change(&change), || {
                texts::change(&change)
            });
        }
        self.clients[at].core.handled(watch, self.now);
        self.emit(&Event::Handled { client: at, watch });
    }
}

impl super::Watch {
    /// Whether the watch covers a resource of this name.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        match &self.name {
            // A wildcard covers only names without an authority.
            None => !names::is_apart(name),
            Some(own) if names::is_alias(own) => *own == names::alias_of(name),
            Some(own) => own == name || names::glob_covers(own, name),
        }
    }

    /// Whether the watcher has unfinished notices.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.busy > 0
    }

    /// Iterates over the entries of `all` that the watch covers. The lookup is fast for watches of
    /// one name, because there may be thousands.
    pub(crate) fn covered<'a, N: Borrow<str> + Ord, T>(
        &'a self,
        all: &'a BTreeMap<N, T>,
    ) -> impl Iterator<Item = (&'a N, &'a T)> {
        let own = self.name.as_deref().filter(|own| self.is_of_one() && !names::is_alias(own));
        let rest = own.is_none().then_some(all).into_iter().flatten();
        let rest = rest.filter(|(name, _)| self.covers((*name).borrow()));
        own.and_then(|own| all.get_key_value(own)).into_iter().chain(rest)
    }

    /// Whether the watch is for one name, not a wildcard or a glob.
    #[must_use]
    pub fn is_of_one(&self) -> bool {
        self.name.as_deref().is_some_and(|name| !names::is_glob(name))
    }

    fn apply_notice(&mut self, notice: &Notice) {
        if !self.is_of_one() {
            return;
        }
        match notice {
            Notice::Changed(Ok(resource)) => {
                self.is_missing = false;
                self.view.insert(resource.name.as_str().into(), resource.bytes.clone());
            }
            Notice::Changed(Err(_)) => {
                self.is_missing = true;
                self.view.clear();
            }
            _ => {}
        }
    }

    fn step(&mut self, change: &Change) {
        match change {
            Change::Resource { name, result: Ok(resource) } => {
                self.view.insert(name.as_str().into(), resource.bytes.clone());
            }
            Change::Resource { name, result: Err(_) } => drop(self.view.remove(name.as_str())),
            Change::Resync => self.view.clear(),
            _ => {}
        }
    }
}

/// Whether a stream of this variant carries incremental messages.
pub(super) const fn is_incremental(variant: Variant) -> bool {
    matches!(variant, Variant::Incremental)
}
