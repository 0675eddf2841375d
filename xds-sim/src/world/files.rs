//! Servers whose resources are in files, one for each type, and the readers of these files.
//!
//! A reader reads a file when its client requests it, shortly after a change of the file is
//! reported, and periodically.

use std::{
    hash::{BuildHasher as _, Hasher as _},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{client::ChannelEvent, proto};

use super::{
    FileState, LinkId, Party, World,
    message::Message,
    parts::{FileEvents, ScheduledEvent, StoreState, Undo},
    texts,
};
use crate::{
    options::Fault,
    situations::Situation,
    trace::{Description, EventKind},
    world::actor::{Actor, act_as},
    world::events::Event,
};

/// Time without file events after which a changed file is read.
const QUIET: Duration = Duration::from_millis(100);

/// Interval of the periodic reads.
const PERIOD: Duration = Duration::from_secs(30);

/// Reason for a read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileRead {
    /// The client requested it, or a change was reported.
    OnEvent,
    Periodic,
}

impl World {
    /// Reads a file for a client, and starts to watch it for changes.
    pub(super) fn read_file(&mut self, link: LinkId) {
        let now = self.now;
        if !std::mem::replace(&mut self.links[link.at()].is_watching, true) {
            self.schedule(now.after(PERIOD), ScheduledEvent::ReadPeriodically(link));
        }
        self.schedule(now, ScheduledEvent::FileRead(link));
    }

    /// Reports a change of a server's files to their readers.
    pub(super) fn touch_files(&mut self, server: usize, kind: Option<usize>) {
        let file_events = std::mem::take(&mut self.servers[server].file_events);
        if file_events == FileEvents::Never {
            return self.takes_effect(Fault::LostEvent);
        }
        let is_told = |link: &super::Link| {
            link.is_watching && link.server == server && (kind.is_none() || link.only == kind)
        };
        let links = self.clients.iter().flat_map(|client| &client.links);
        let links: Vec<LinkId> =
            links.map(|(_, link)| *link).filter(|link| is_told(&self.links[link.at()])).collect();
        let at = self.now.after(QUIET);
        for link in links {
            self.schedule(at, ScheduledEvent::FileRead(link));
            if file_events == FileEvents::Twice {
                self.takes_effect(Fault::DoubleEvent);
                self.schedule(at.after(QUIET), ScheduledEvent::FileRead(link));
            }
        }
    }

    /// Puts the files of a server into this state for a while.
    pub fn spoil_files(&mut self, server: usize, state: FileState, lasting: Duration) {
        self.servers[server].file = state;
        let lane = self.servers[server].lane;
        self.begin(&[lane], texts::file_state(state));
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::File(server)));
        self.touch_files(server, None);
    }

    /// Suppresses the report of the next change of a server's files.
    pub fn lose_event(&mut self, server: usize) {
        self.servers[server].file_events = FileEvents::Never;
        let lane = self.servers[server].lane;
        self.fault_occurs(&[lane], "the next event is lost");
    }

    /// Duplicates the report of the next change of a server's files.
    pub fn double_event(&mut self, server: usize) {
        self.servers[server].file_events = FileEvents::Twice;
        let lane = self.servers[server].lane;
        self.fault_occurs(&[lane], "the next event is duplicated");
    }

    /// Makes readers of a server's files see the current contents for a while, although each change
    /// is reported.
    pub fn hold_files(&mut self, server: usize, lasting: Duration) {
        let node = &mut self.servers[server];
        let seen = node.state[0].clone();
        node.still_seen.get_or_insert(seen);
        let lane = node.lane;
        self.begin(&[lane], "file changes are not noticed");
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::StillSeen(server)));
    }

    /// Makes the current contents of a server's files visible, without a report.
    pub(super) fn show_files(&mut self, server: usize) {
        let node = &mut self.servers[server];
        let lane = node.lane;
        if node.still_seen.take().is_some() {
            self.finish(&[lane], "file changes are not noticed");
        }
    }

    pub(super) fn restore_files(&mut self, server: usize) {
        let lane = self.servers[server].lane;
        let state = std::mem::take(&mut self.servers[server].file);
        if state != FileState::Whole {
            self.finish(&[lane], texts::file_state(state));
        }
        self.servers[server].file_events = FileEvents::Once;
        self.touch_files(server, None);
    }

    /// Returns the bytes of the response that a reader finds, or an error.
    fn content(&self, link: LinkId) -> Result<Bytes, &'static str> {
        let it = &self.links[link.at()];
        let (node, Some(kind)) = (&self.servers[it.server], it.only) else {
            return Err("a file contains a single type");
        };
        match node.file {
            FileState::Whole => {}
            FileState::Gone => return Err("no such file"),
            FileState::Cut => return Err("the end of the file is missing"),
            FileState::Forbidden => return Err("permission denied"),
        }
        let state = node.still_seen.as_ref().unwrap_or(&node.state[0]);
        let type_url = self.types[kind].as_str();
        let any = |value: &Bytes| proto::Any { type_url: type_url.into(), value: value.clone() };
        let mut response = proto::DiscoveryResponse {
            type_url: type_url.into(),
            resources: state.has[kind].values().map(any).collect(),
            ..Default::default()
        };
        let mut hasher = foldhash::fast::FixedState::with_seed(0).build_hasher();
        hasher.write(&response.encode_to_vec());
        response.version_info = format!("{:016x}", hasher.finish());
        Ok(response.encode_to_vec().into())
    }

    pub(super) fn read_file_now(&mut self, link: LinkId, why: FileRead) {
        if !self.links[link.at()].is_known_to_client {
            return;
        }
        if why == FileRead::Periodic {
            let next = self.now.after(PERIOD);
            self.schedule(next, ScheduledEvent::ReadPeriodically(link));
        }
        let found = self.content(link);
        let it = &mut self.links[link.at()];
        let is_known = it.last_seen.as_ref() == Some(&found);
        if why == FileRead::Periodic && is_known {
            return;
        }
        let (client, channel) = (it.client, it.channel);
        let node = &self.servers[it.server];
        let is_old =
            |seen: &StoreState| it.only.is_some_and(|it| seen.has[it] != node.state[0].has[it]);
        if node.still_seen.as_ref().is_some_and(is_old) {
            self.takes_effect(Fault::StaleFile);
        }
        self.count_event();
        if why == FileRead::Periodic {
            self.note(Situation::FileReadLate);
        }
        match found.clone() {
            Ok(bytes) => {
                let lanes = self.lanes_of(link);
                let variant = self.links[link.at()].variant;
                let id = self.recorder.send(self.now, lanes[1], lanes[0], &bytes, || {
                    texts::response(&bytes, variant, &self.types)
                });
                self.recorder.deliver(self.now, id);
                let body = self.body_of_response(link, &bytes);
                let inbox = &mut self.links[link.at()].to_client.inbox;
                // A reader needs only the newest contents of a file.
                inbox.clear();
                inbox.push_back(Rc::new(Message { id, bytes, body, lie: None }));
            }
            Err(_) if !self.clients[client].core.wants_read(channel) => {
                let later = self.now.after(QUIET);
                return self.schedule(later, ScheduledEvent::FileRead(link));
            }
            Err(why) => {
                self.note(Situation::FileUnreadable);
                self.takes_effect(Fault::BadFile);
                let lane = self.clients[client].lane;
                self.recorder.local(self.now, lane, why.as_bytes(), || {
                    Description::new(EventKind::Transport, format!("{channel}: {why}"))
                });
                self.links[link.at()].to_client.inbox.clear();
                self.emit(&Event::FindsUnreadable { link });
                let _guard = act_as(Actor::Core(
                    Party::Client(client),
                    "receives the error of an unreadable file",
                ));
                let event = ChannelEvent::Undeliverable(channel, why.into());
                self.clients[client].core.handle_event(event, self.now);
                self.emit(&Event::Unreadable { link });
            }
        }
        self.links[link.at()].last_seen = Some(found);
        self.drain_client(client);
    }
}
