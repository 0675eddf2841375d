//! Transmission of messages and the end of streams.

use std::{mem, rc::Rc, time::Duration};

use xds_core::{
    ChannelId, StatusCode, Time,
    client::{ChannelError, ChannelEvent},
    server::StreamKind,
};

use super::{
    LinkId, Party, World,
    files::FileRead,
    link::Direction,
    message::Message,
    parts::{Answer, Reach, ScheduledEvent, StreamKey},
    reach::UNAUTHENTICATED,
};
use crate::{
    options::{Fault, Transport},
    situations::Situation,
    trace::{Description, EventKind},
    world::actor::{Actor, act_as},
    world::events::{Event, StreamEnd},
};

/// Delivery interval of a network with limited bandwidth, in nanoseconds.
const TOGETHER: u64 = 100_000_000;

impl World {
    /// Returns the arrival time on a channel of what is sent now, such as a connection attempt.
    pub(super) fn arrival(&mut self, link: LinkId) -> Time {
        let of_link = self.links[link.at()].slowness;
        if self.slowness > Duration::ZERO {
            self.takes_effect(Fault::Slow);
        }
        if of_link > Duration::ZERO {
            self.takes_effect(Fault::SlowLink);
        }
        let slowness = self.slowness + of_link;
        self.slowest = self.slowest.max(slowness);
        let mut latency = self.options.latency + slowness;
        let jitter = u32::try_from(self.options.jitter.as_micros()).unwrap_or(u32::MAX);
        if jitter > 0 {
            let extra = self.choices.below("jitter", jitter);
            latency += Duration::from_micros(extra.into());
        }
        self.now.after(latency)
    }

    /// Returns the arrival time of a message, which does not overtake earlier messages.
    fn arrival_in(&mut self, link: LinkId, direction: Direction, size: usize) -> Time {
        let arrival = self.arrival(link);
        let (now, rate) = (self.now, self.bandwidth);
        let pipe = self.links[link.at()].pipe(direction);
        if let Some(rate) = rate {
            let nanos =
                u64::try_from(size).unwrap_or(u64::MAX).saturating_mul(1_000_000_000) / rate;
            let sent = pipe.busy_until.max(now).after(Duration::from_nanos(nanos));
            pipe.busy_until = sent;
            let arrival = arrival.after(sent.since(now)).as_nanos();
            let together = arrival.div_ceil(TOGETHER).saturating_mul(TOGETHER);
            let is_together = pipe.under_way > 1 && pipe.last_at.as_nanos() == together;
            pipe.last_at = pipe.last_at.max(Time::from_nanos(together));
            let at = pipe.last_at;
            if sent > now {
                self.takes_effect(Fault::LimitBandwidth);
            }
            if is_together {
                self.note(Situation::ArrivedTogether);
            }
            return at;
        }
        pipe.last_at = pipe.last_at.max(arrival);
        pipe.last_at
    }

    pub(super) fn send_to_server(&mut self, link: LinkId, message: Rc<Message>) {
        if self.links[link.at()].to_server.is_silent {
            return self.lose(link, &message);
        }
        let pipe = &mut self.links[link.at()].to_server;
        pipe.under_way += 1;
        let size = message.bytes.len();
        let at = self.arrival_in(link, Direction::ToServer, size);
        self.schedule(at, ScheduledEvent::Request(link, message));
    }

    pub(super) fn send_to_client(&mut self, link: LinkId, message: Rc<Message>) {
        let it = &mut self.links[link.at()];
        if let Some(fault) = it.to_client.blocked_by
            && matches!(it.stream, Some(StreamKey::Own(_)))
        {
            it.held.push_back(message);
            return self.takes_effect(fault);
        }
        if it.to_client.is_silent {
            return self.lose(link, &message);
        }
        it.to_client.under_way += 1;
        let size = message.bytes.len();
        let at = self.arrival_in(link, Direction::ToClient, size);
        self.schedule(at, ScheduledEvent::Response(link, message));
    }

    /// Records the loss of a message on a silent stream.
    fn lose(&mut self, link: LinkId, message: &Message) {
        self.recorder.lost(self.now, message.id, "half-open");
        self.takes_effect(match self.links[link.at()].silent_until {
            None => Fault::HalfOpen,
            Some(_) => Fault::CutOff,
        });
    }

    /// Sends the waiting messages when a transport is unblocked or its stream ends.
    pub(super) fn send_held(&mut self, link: LinkId) {
        for message in mem::take(&mut self.links[link.at()].held) {
            self.send_to_client(link, message);
        }
    }

    /// Processes a scheduled event.
    pub(super) fn handle_event(&mut self, item: ScheduledEvent) {
        if let ScheduledEvent::EndAtClient(link, ..) | ScheduledEvent::EndAtServer(link) = item
            && let Some(heard_at) = self.silent_until(link)
        {
            return self.schedule(heard_at, item);
        }
        match item {
            ScheduledEvent::Connect(link) => self.connect(link),
            ScheduledEvent::Refuse(link) => {
                self.count_event();
                let error = ChannelError::Unreachable("connection refused".into());
                self.end_at_client(link, error);
            }
            ScheduledEvent::Request(link, message) => {
                let it = &mut self.links[link.at()];
                it.to_server.under_way = it.to_server.under_way.saturating_sub(1);
                if it.is_cut || it.to_server.is_silent || it.stream.is_none() {
                    self.recorder.lost(self.now, message.id, "the stream had ended");
                    return;
                }
                it.to_server.inbox.push_back(Rc::clone(&message));
                self.count_event();
                self.recorder.deliver(self.now, message.id);
                self.read_requests(link);
            }
            ScheduledEvent::Response(link, message) => {
                let it = &mut self.links[link.at()];
                it.to_client.under_way = it.to_client.under_way.saturating_sub(1);
                if it.is_cut || it.to_client.is_silent || !it.is_known_to_client {
                    self.recorder.lost(self.now, message.id, "the stream had ended");
                    return;
                }
                it.to_client.inbox.push_back(Rc::clone(&message));
                let client = it.client;
                self.count_event();
                self.recorder.deliver(self.now, message.id);
                self.drain_client(client);
            }
            ScheduledEvent::EndAtClient(link, code, message) => {
                self.count_event();
                let code = StatusCode::from_i32(code);
                self.end_at_client(link, ChannelError::Status { code, message: message.into() });
            }
            ScheduledEvent::EndAtServer(link) => {
                self.count_event();
                self.end_at_server(link);
            }
            ScheduledEvent::Poll(link, poll, message) => self.poll_arrives(link, poll, message),
            ScheduledEvent::Answer(link, poll, answer) => self.answer_arrives(link, poll, answer),
            ScheduledEvent::GiveUp(link, poll) => self.gateway_gives_up(link, poll),
            ScheduledEvent::PollTimeout(link, poll) => self.poll_times_out(link, poll),
            ScheduledEvent::FileRead(link) => self.read_file_now(link, FileRead::OnEvent),
            ScheduledEvent::ReadPeriodically(link) => self.read_file_now(link, FileRead::Periodic),
            ScheduledEvent::Handled { client, incarnation, watch } => {
                self.count_event();
                self.handled(client, incarnation, watch);
            }
            ScheduledEvent::Settle { client, incarnation, update, refused } => {
                self.count_event();
                self.settle_update(client, incarnation, update, refused);
            }
            ScheduledEvent::Undo(undo) => self.undo(undo),
        }
    }

    fn connect(&mut self, link: LinkId) {
        let it = &self.links[link.at()];
        if !it.is_known_to_client {
            return;
        }
        let (client, server) = (it.client, it.server);
        let (variant, only) = (it.variant, it.only);
        self.count_event();
        if self.options.transport != Transport::Streams {
            return self.open_at_client(link);
        }
        let reach = self.reach(client, server);
        if self.is_cut_off(client, server) {
            // The connection attempt was in flight when the client was cut off.
            match reach {
                Reach::Up | Reach::HangingUp | Reach::Unauthenticated => {}
                Reach::Refused => return self.handle_event(ScheduledEvent::Refuse(link)),
                Reach::Hanging => {
                    self.links[link.at()].is_hanging = true;
                    return;
                }
            }
        }
        let via = match only {
            None => StreamKind::Aggregated(variant),
            Some(kind) => StreamKind::Single { type_url: self.types[kind].clone(), variant },
        };
        let Some(key) = self.accept(server, &via) else {
            let error = ChannelError::Status {
                code: StatusCode::Unavailable,
                message: "not accepted".into(),
            };
            self.end_at_client(link, error);
            return;
        };
        let mut others = self.servers[server].links.iter();
        if others.any(|(_, other)| self.links[other.at()].variant != variant) {
            self.note(Situation::VariantsMixed);
        }
        self.servers[server].links.push((key, link));
        self.links[link.at()].stream = Some(key);
        self.drain_server(server);
        self.open_at_client(link);
        match reach {
            Reach::HangingUp => self.end_stream(link),
            Reach::Unauthenticated => self.end_with(link, UNAUTHENTICATED),
            Reach::Up | Reach::Refused | Reach::Hanging => {}
        }
    }

    fn open_at_client(&mut self, link: LinkId) {
        let it = &mut self.links[link.at()];
        it.is_open = true;
        let (client, server, channel) = (it.client, it.server, it.channel);
        let lane = self.clients[client].lane;
        self.recorder.local(self.now, lane, b"open", || {
            Description::new(EventKind::Transport, format!("{channel} is open"))
        });
        let _guard = act_as(Actor::Core(Party::Client(client), "opens a channel"));
        self.clients[client].core.handle_event(ChannelEvent::Opened(channel), self.now);
        self.note_partition(client, server);
        self.emit(&Event::Opened { link });
        self.drain_client(client);
    }

    /// Notifies a client of the end of a stream. Unread messages are lost.
    pub(super) fn end_at_client(&mut self, link: LinkId, error: ChannelError) {
        let it = &mut self.links[link.at()];
        if !it.is_known_to_client {
            return;
        }
        it.to_client.inbox.clear();
        (it.is_known_to_client, it.is_open) = (false, false);
        let (client, channel) = (it.client, it.channel);
        self.forget_channel(client, channel);
        let lane = self.clients[client].lane;
        self.recorder.local(self.now, lane, b"end", || {
            Description::new(EventKind::Transport, format!("{channel} ends: {error}"))
        });
        let end = match error {
            ChannelError::Unreachable(_) => StreamEnd::Refused,
            _ => StreamEnd::ByServer,
        };
        let _guard = act_as(Actor::Core(Party::Client(client), "handles the end of a channel"));
        let core = &mut self.clients[client].core;
        let ignored = core.stats().ignored_events;
        core.handle_event(ChannelEvent::Closed(channel, error), self.now);
        // A client that was not drained may have ended the stream before.
        let is_news = core.stats().ignored_events == ignored;
        let end = if is_news { end } else { StreamEnd::ByClient };
        self.emit(&Event::EndedAtClient { link, end });
        self.drain_client(client);
    }

    fn forget_channel(&mut self, client: usize, channel: ChannelId) {
        self.clients[client].links.retain(|(known, _)| *known != channel);
    }

    /// Ends a stream at the client.
    pub(super) fn close_by_client(&mut self, client: usize, channel: ChannelId, is_fault: bool) {
        let Some(link) = self.link_of(client, channel) else { return };
        self.forget_channel(client, channel);
        let it = &mut self.links[link.at()];
        (it.is_known_to_client, it.is_open) = (false, false);
        it.to_client.inbox.clear();
        let lane = self.clients[client].lane;
        self.recorder.local(self.now, lane, b"close", || {
            Description::new(EventKind::Transport, format!("closes {channel}"))
        });
        let end = if is_fault { StreamEnd::Fault } else { StreamEnd::ByClient };
        self.emit(&Event::EndedAtClient { link, end });
        let at = self.arrival_in(link, Direction::ToServer, 0);
        self.schedule(at, ScheduledEvent::EndAtServer(link));
    }

    /// Ends a stream at the server; messages already sent arrive before the end.
    pub(super) fn close_by_server(
        &mut self,
        server: usize,
        key: StreamKey,
        code: i32,
        why: &'static str,
    ) {
        self.rogue_clients.retain(|it| it.server != server || StreamKey::Core(it.stream) != key);
        let at = self.servers[server].links.iter().position(|(known, _)| *known == key);
        let Some(at) = at else { return };
        let (_, link) = self.servers[server].links.remove(at);
        let it = &mut self.links[link.at()];
        it.stream = None;
        it.to_server.inbox.clear();
        self.send_held(link);
        self.emit(&Event::EndedAtServer { link });
        if self.options.transport == Transport::Polls {
            let poll = self.links[link.at()].poll;
            return self.answer(link, poll, Answer::Failed(StatusCode::from_i32(code)));
        }
        let at = self.arrival_in(link, Direction::ToClient, 0);
        self.schedule(at, ScheduledEvent::EndAtClient(link, code, why));
    }
}
