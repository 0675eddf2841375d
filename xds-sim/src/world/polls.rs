//! Polled channels, and the REST gateway in front of a server.
//!
//! A request waits at the gateway until the server answers it or a timeout expires, which is
//! answered as "nothing has changed". A channel has one request in flight; the next one replaces
//! it.

use std::{rc::Rc, time::Duration};

use xds_core::{
    StatusCode,
    client::{ChannelError, ChannelEvent},
    server::StreamKind,
};

use super::{
    BadAnswer, LinkId, Party, Reach, World,
    message::Message,
    parts::{Answer, ScheduledEvent},
};
use crate::{
    options::Fault,
    situations::Situation,
    trace::{Description, EventKind},
    world::actor::{Actor, act_as},
    world::events::Event,
};

/// Time for which a gateway lets a request wait. It is longer than a server delays an empty first
/// response, so a client that uses parts of a rejected response is notified when all of it is
/// deleted.
const HOLD: Duration = Duration::from_secs(25);

/// Time for which a client waits for an answer.
pub(crate) const POLL_TIMEOUT: Duration = Duration::from_secs(60);

/// Minimum pause between an answer and the next request.
pub(super) const REFRESH: Duration = Duration::from_secs(2);

/// The gRPC status for an HTTP status that is neither an error nor an answer, such as a
/// redirect. Clients do not follow redirects.
const REDIRECTED: StatusCode = StatusCode::Unknown;

impl World {
    /// Sends a request from a client, which replaces the previous one.
    pub(super) fn send_poll(&mut self, link: LinkId, message: Rc<Message>) {
        self.end_at_server(link);
        let it = &mut self.links[link.at()];
        it.to_client.inbox.clear();
        it.poll += 1;
        let (poll, is_silent) = (it.poll, it.to_server.is_silent);
        let late = self.now.after(POLL_TIMEOUT);
        self.schedule(late, ScheduledEvent::PollTimeout(link, poll));
        if is_silent {
            self.recorder.lost(self.now, message.id, "half-open");
            return;
        }
        let at = self.arrival(link);
        self.schedule(at, ScheduledEvent::Poll(link, poll, message));
    }

    /// Whether this request is still the newest one on an open channel.
    fn is_current(&self, link: LinkId, poll: u32) -> bool {
        let it = &self.links[link.at()];
        it.poll == poll && !it.is_cut && it.is_known_to_client
    }

    /// Delivers a request to the gateway.
    pub(super) fn poll_arrives(&mut self, link: LinkId, poll: u32, message: Rc<Message>) {
        if !self.is_current(link, poll) || self.links[link.at()].to_server.is_silent {
            self.recorder.lost(self.now, message.id, "the poll was cancelled");
            return;
        }
        self.count_event();
        self.recorder.deliver(self.now, message.id);
        let it = &mut self.links[link.at()];
        let (client, server) = (it.client, it.server);
        if let Some(bad) = it.bad_answer.take() {
            let answer = self.bad_answer(link, bad);
            return self.answer(link, poll, answer);
        }
        let reach = self.reach(client, server);
        self.meets(client, server, reach);
        match reach {
            Reach::Up => {}
            Reach::Refused => return self.answer(link, poll, Answer::Refused),
            Reach::HangingUp => {
                return self.answer(link, poll, Answer::Failed(StatusCode::Unavailable));
            }
            Reach::Unauthenticated => {
                return self.answer(link, poll, Answer::Failed(StatusCode::Unauthenticated));
            }
            Reach::Hanging => return,
        }
        let Some(kind) = self.links[link.at()].only else { return };
        let via = StreamKind::Fetch { type_url: self.types[kind].clone() };
        let Some(key) = self.accept(server, &via) else {
            return self.answer(link, poll, Answer::Failed(StatusCode::Unavailable));
        };
        self.servers[server].links.push((key, link));
        let it = &mut self.links[link.at()];
        it.stream = Some(key);
        it.to_server.inbox.clear();
        it.to_server.inbox.push_back(message);
        let end = self.now.after(HOLD);
        self.schedule(end, ScheduledEvent::GiveUp(link, poll));
        self.read_requests(link);
        self.drain_server(server);
    }

    fn bad_answer(&mut self, link: LinkId, bad: BadAnswer) -> Answer {
        self.note(Situation::BadAnswer);
        self.takes_effect(match bad {
            BadAnswer::Stale => Fault::StaleAnswer,
            _ => Fault::BadAnswer,
        });
        match bad {
            BadAnswer::Status(code) => Answer::Failed(StatusCode::from_i32(code)),
            BadAnswer::Redirect => {
                self.note(Situation::Redirected);
                Answer::Failed(REDIRECTED)
            }
            BadAnswer::Unusable => Answer::Unusable("the body is truncated"),
            BadAnswer::ForeignBody => {
                self.note(Situation::WrongContentType);
                Answer::Unusable("the body has another content type")
            }
            BadAnswer::Unchanged => Answer::Unchanged,
            BadAnswer::Stale => match self.links[link.at()].last_response.clone() {
                None => Answer::Unchanged,
                Some(old) => {
                    self.note(Situation::StaleAnswer);
                    let lanes = self.lanes_of(link);
                    let what = || Description::new(EventKind::Response, "from a cache, as before");
                    let id = self.recorder.send(self.now, lanes[1], lanes[0], &old.bytes, what);
                    let bytes = old.bytes.clone();
                    let body = self.body_of_response(link, &bytes);
                    Answer::Response(Rc::new(Message { id, bytes, body, lie: None }))
                }
            },
        }
    }

    /// Sends an answer from the gateway.
    pub(super) fn answer(&mut self, link: LinkId, poll: u32, answer: Answer) {
        if self.links[link.at()].to_client.is_silent {
            return;
        }
        let at = self.arrival(link);
        self.schedule(at, ScheduledEvent::Answer(link, poll, answer));
    }

    /// Sends a response of the server as the answer to the current request.
    pub(super) fn answer_with(&mut self, link: LinkId, message: Rc<Message>) {
        let it = &mut self.links[link.at()];
        it.last_response = Some(Rc::clone(&message));
        let poll = it.poll;
        self.answer(link, poll, Answer::Response(message));
    }

    /// Handles the gateway's timeout for a request.
    pub(super) fn gateway_gives_up(&mut self, link: LinkId, poll: u32) {
        let it = &self.links[link.at()];
        if it.poll != poll || it.stream.is_none() {
            return;
        }
        self.count_event();
        self.emit(&Event::GivenUp { link });
        self.end_at_server(link);
        self.answer(link, poll, Answer::Unchanged);
    }

    /// Handles the client's timeout for a request.
    pub(super) fn poll_times_out(&mut self, link: LinkId, poll: u32) {
        if !self.is_current(link, poll) {
            return;
        }
        self.count_event();
        self.end_at_server(link);
        let error = ChannelError::Status {
            code: StatusCode::DeadlineExceeded,
            message: "no answer".into(),
        };
        self.end_at_client(link, error);
    }

    /// Delivers an answer to the client.
    pub(super) fn answer_arrives(&mut self, link: LinkId, poll: u32, answer: Answer) {
        let is_heard = self.is_current(link, poll) && !self.links[link.at()].to_client.is_silent;
        if !is_heard {
            if let Answer::Response(message) = answer {
                self.recorder.lost(self.now, message.id, "no poll is waiting for it");
            }
            return;
        }
        self.count_event();
        let it = &mut self.links[link.at()];
        // Further answers to this request are ignored.
        it.poll += 1;
        let (client, channel) = (it.client, it.channel);
        let lane = self.clients[client].lane;
        match answer {
            Answer::Response(message) => {
                self.recorder.deliver(self.now, message.id);
                self.links[link.at()].to_client.inbox.push_back(message);
            }
            Answer::Unchanged => {
                self.note(Situation::Unchanged);
                self.recorder.local(self.now, lane, b"unchanged", || {
                    Description::new(EventKind::Transport, format!("{channel}: nothing new"))
                });
                let _guard = act_as(Actor::Core(
                    Party::Client(client),
                    "handles a response without changes",
                ));
                let event = ChannelEvent::Unchanged(channel);
                self.clients[client].core.handle_event(event, self.now);
                self.emit(&Event::Unchanged { link });
            }
            Answer::Unusable(why) => {
                let _guard =
                    act_as(Actor::Core(Party::Client(client), "handles an invalid response"));
                let event = ChannelEvent::Undeliverable(channel, why.into());
                self.clients[client].core.handle_event(event, self.now);
            }
            Answer::Failed(code) => {
                let error = ChannelError::Status { code, message: "an HTTP status".into() };
                return self.end_at_client(link, error);
            }
            Answer::Refused => {
                let error = ChannelError::Unreachable("connection refused".into());
                return self.end_at_client(link, error);
            }
        }
        self.drain_client(client);
    }
}
