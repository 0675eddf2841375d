//! Parts of a world.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, ResourceName, StreamId, Time, TypeUrl, UpdateId, WatchId,
    server::{Server, StatusCode},
};

use super::{
    Application, ControlPlane,
    link::{Direction, LinkId},
    message::{Message, Text},
    reach::CutOff,
    watches::Watches,
};
use crate::{
    Toy,
    options::Fault,
    trace::{Extent, ParticipantId},
};

/// A client or a server, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A client.
    Client(usize),
    /// A server.
    Server(usize),
}

/// Function that creates an object for a participant, by its number.
pub(crate) type Factory<T> = Arc<dyn Fn(usize) -> Box<T> + Send + Sync>;

/// User-defined participants of a world.
#[derive(Clone, Default)]
pub(crate) struct Participants {
    /// Control plane of each server; `None` for this project's server.
    pub(crate) control_plane: Option<Factory<dyn ControlPlane>>,
    /// Application of each client.
    pub(crate) application: Option<Factory<dyn Application>>,
}

/// A client with its state.
pub(super) struct ClientNode {
    pub(super) core: Client,
    pub(super) application: Option<Box<dyn Application>>,
    pub(super) lane: ParticipantId,
    /// Index of the view that servers give it.
    pub(super) view: usize,
    pub(super) deadline: Option<Time>,
    /// Time until which its driver does not drain it.
    pub(super) suspended_until: Option<Time>,
    /// Channels whose end it has not seen, oldest first.
    pub(super) links: Vec<(ChannelId, LinkId)>,
    pub(super) watches: Watches,
    /// Number of restarts.
    pub(super) incarnation: u32,
    pub(super) is_shut_down: bool,
    /// Servers that it cannot reach, by server index.
    pub(super) cut_off: Vec<Option<CutOff>>,
}

/// A watch, with the state that its watcher was notified of.
#[derive(Debug)]
pub struct Watch {
    /// Index of the type.
    pub kind: usize,
    /// Name; `None` is the wildcard.
    pub name: Option<Text>,
    /// Resources in use, by name.
    pub view: BTreeMap<Text, Bytes>,
    /// Whether the watcher of one name was notified that there is no value.
    pub is_missing: bool,
    pub(super) lane: ParticipantId,
    /// Time that the watcher takes for each notice.
    pub(super) delay: Duration,
    /// Number of unfinished notices.
    pub(super) busy: u32,
    pub(super) action: Option<NoticeAction>,
}

/// Action of a watcher inside a notice.
#[derive(Clone, Debug)]
pub(super) enum NoticeAction {
    Watch { kind: usize, name: Option<Text> },
    Unwatch,
}

/// A server with its state.
pub(super) struct ServerNode {
    pub(super) core: Plane,
    pub(super) lane: ParticipantId,
    pub(super) deadline: Option<Time>,
    pub(super) suspended_until: Option<Time>,
    /// Channels whose end it has not seen.
    pub(super) links: Vec<(StreamKey, LinkId)>,
    /// Resources that it has received, by view.
    pub(super) state: Vec<StoreState>,
    /// Earlier states, which its replicas have.
    pub(super) earlier: Vec<Vec<StoreState>>,
    /// Views and types for which an operator waits until all clients have accepted a change.
    pub(super) asked: BTreeSet<(usize, usize)>,
    /// Fault that keeps changes from it, if there is one.
    pub(super) lags_for: Option<Fault>,
    pub(super) reach: Reach,
    /// State of its files, if the transport is files.
    pub(super) file: FileState,
    /// Reports of its next file change.
    pub(super) file_events: FileEvents,
    /// Visible contents of its files, if they differ from the current ones.
    pub(super) still_seen: Option<StoreState>,
    /// Time at which it began to drain, after which it restarts.
    pub(super) draining_since: Option<Time>,
    pub(super) incarnation: u32,
}

/// Resources by type index and name.
pub type Resources = Vec<BTreeMap<Text, Bytes>>;

/// State of a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StoreState {
    pub(super) has: Resources,
    /// TTLs and errors of resources, by type index and name.
    pub(super) extras: Vec<BTreeMap<Text, ResourceExtras>>,
}

impl StoreState {
    pub(super) fn new(types: usize) -> Self {
        Self { has: vec![BTreeMap::new(); types], extras: vec![BTreeMap::new(); types] }
    }

    pub(super) fn extras(&self, kind: usize, name: &str) -> ResourceExtras {
        self.extras.get(kind).and_then(|it| it.get(name)).copied().unwrap_or_default()
    }
}

/// TTL and error of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceExtras {
    /// TTL, if there is one.
    pub ttl: Option<Duration>,
    /// Error that is reported instead of the resource, if there is one.
    pub error: Option<StatusCode>,
}

/// Change of a resource by an operator.
#[derive(Clone, Debug)]
pub(super) enum StoreChange {
    /// Sets the resource, with an optional TTL.
    Set(Bytes, Option<Duration>),
    /// Deletes the resource.
    Gone,
    /// Reports this error to clients that name the resource. Clients keep a resource that they
    /// have.
    Error(StatusCode),
}

impl StoreChange {
    pub(super) fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Set(bytes, _) => Some(bytes),
            Self::Gone | Self::Error(_) => None,
        }
    }

    /// Returns the change in a view: the second view lacks every third resource, and its other
    /// resources have a different text.
    pub(super) fn in_view(&self, view: usize, name: &str) -> Self {
        match self {
            _ if view == 0 => self.clone(),
            Self::Set(bytes, ttl) if !is_hidden(name) => {
                let text = Toy::text_of(bytes);
                Self::Set(Toy::bytes(name, &format!("{text} elsewhere")), *ttl)
            }
            Self::Set(..) | Self::Gone => Self::Gone,
            Self::Error(code) => Self::Error(*code),
        }
    }

    /// Applies the change to a state.
    pub(super) fn take_effect(&self, kind: usize, name: &str, state: &mut StoreState) {
        let (resources, extras) = (&mut state.has[kind], &mut state.extras[kind]);
        match self {
            Self::Set(bytes, ttl) => {
                resources.insert(name.into(), bytes.clone());
                match ttl {
                    Some(_) => {
                        extras.insert(name.into(), ResourceExtras { ttl: *ttl, error: None });
                    }
                    None => drop(extras.remove(name)),
                }
            }
            Self::Gone => {
                resources.remove(name);
                extras.remove(name);
            }
            Self::Error(code) => extras.entry(name.into()).or_default().error = Some(*code),
        }
    }
}

/// Whether the second view lacks a resource.
fn is_hidden(name: &str) -> bool {
    let number = name.rsplit(|letter: char| !letter.is_ascii_digit()).next();
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number % 3 == 1)
}

/// Implementation of a server.
pub(super) enum Plane {
    /// This project's management server.
    Core(Box<Server>),
    /// A user-defined control plane.
    Own(Box<dyn ControlPlane>),
}

/// Identifier of a stream at its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKey {
    Core(StreamId),
    Own(u64),
}

/// Behaviour for new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Accepted.
    #[default]
    Up,
    /// Refused.
    Refused,
    /// Hanging: the attempt gets no answer.
    Hanging,
    /// Accepted, but each stream is ended at once.
    HangingUp,
    /// Accepted, but each stream is ended at once with `UNAUTHENTICATED`.
    Unauthenticated,
}

/// State of the files of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileState {
    /// Complete.
    #[default]
    Whole,
    /// Deleted, to be created again.
    Gone,
    /// Truncated, because they are being written in place.
    Cut,
    /// Unreadable for lack of permission.
    Forbidden,
}

/// Number of reports of a file change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FileEvents {
    /// One report.
    #[default]
    Once,
    /// No report.
    Never,
    /// A second report a moment later.
    Twice,
}

/// Invalid answer of a polled server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAnswer {
    /// An HTTP error status, given as the gRPC status that it maps to.
    Status(i32),
    /// A truncated body.
    Unusable,
    /// A redirect, which is neither an error nor an answer.
    Redirect,
    /// A body of another type, such as an HTML page.
    ForeignBody,
    /// An answer that nothing has changed.
    Unchanged,
    /// An earlier answer of the server.
    Stale,
}

/// Event scheduled for a later time.
#[derive(Debug)]
pub(super) struct Scheduled {
    pub(super) at: Time,
    pub(super) order: u64,
    pub(super) item: ScheduledEvent,
}

#[derive(Debug)]
pub(super) enum ScheduledEvent {
    Connect(LinkId),
    Refuse(LinkId),
    Request(LinkId, Rc<Message>),
    Response(LinkId, Rc<Message>),
    EndAtClient(LinkId, i32, &'static str),
    EndAtServer(LinkId),
    Poll(LinkId, u32, Rc<Message>),
    Answer(LinkId, u32, Answer),
    /// The gateway stops waiting for the server.
    GiveUp(LinkId, u32),
    /// The client stops waiting for an answer.
    PollTimeout(LinkId, u32),
    /// A file is read because of a possible change.
    FileRead(LinkId),
    ReadPeriodically(LinkId),
    Handled {
        client: usize,
        incarnation: u32,
        watch: WatchId,
    },
    Settle {
        client: usize,
        incarnation: u32,
        update: UpdateId,
        refused: Vec<ResourceName>,
    },
    Undo(Undo),
}

/// Answer to a poll.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Response(Rc<Message>),
    Unchanged,
    Unusable(&'static str),
    Failed(StatusCode),
    Refused,
}

/// End of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    Reach(usize),
    CutOff(usize),
    Lag(usize),
    Slow,
    LimitBandwidth,
    LateTimers,
    Wake(Party),
    SlowLink(LinkId),
    Block(LinkId, Direction),
    GiveUp(LinkId),
    File(usize),
    StillSeen(usize),
    Gone(usize),
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A fault to be recorded.
pub(super) struct FaultRecord<'a> {
    pub(super) lanes: &'a [ParticipantId],
    pub(super) extent: Extent,
    pub(super) what: &'a str,
}

/// Returns the message name in a type URL, as used in names of an authority.
pub(super) fn message_name(type_url: &TypeUrl) -> &str {
    type_url.as_str().rsplit('/').next().unwrap_or_default()
}
