//! What a world consists of.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
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
    trace::{Extent, LaneId},
};

/// A client or a server, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A client.
    Client(usize),
    /// A server.
    Server(usize),
}

/// A client with what belongs to it.
pub(super) struct ClientNode {
    pub(super) core: Client,
    pub(super) application: Option<Box<dyn Application>>,
    pub(super) lane: LaneId,
    /// The view that servers let it see.
    pub(super) view: usize,
    pub(super) deadline: Option<Time>,
    /// Its driver does nothing until then.
    pub(super) starved_until: Option<Time>,
    /// Those of its links that it has not seen end, in the order of their beginning.
    pub(super) links: Vec<(ChannelId, LinkId)>,
    pub(super) watches: Watches,
    /// How often it began anew.
    pub(super) incarnation: u32,
    pub(super) is_shut_down: bool,
    /// By the position of the server, which of them it does not reach.
    pub(super) cut_off: Vec<Option<CutOff>>,
}

/// A watch, with what its watcher believes.
#[derive(Debug)]
pub struct Watch {
    /// The position of the type.
    pub kind: usize,
    /// The name; `None` watches everything of the type.
    pub name: Option<Text>,
    /// The resources in use, by name.
    pub view: BTreeMap<Text, Bytes>,
    /// Whether the watcher was told that there is no value, of a watch of one name.
    pub is_missing: bool,
    pub(super) lane: LaneId,
    /// How long the watcher takes with what it is told.
    pub(super) delay: Duration,
    /// How many notices it is not done with.
    pub(super) busy: u32,
    pub(super) act: Option<Act>,
}

/// What a watcher does in the middle of being told something.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Watch { kind: usize, name: Option<Text> },
    Unwatch,
}

/// A server with what belongs to it.
pub(super) struct ServerNode {
    pub(super) core: Plane,
    pub(super) lane: LaneId,
    pub(super) deadline: Option<Time>,
    pub(super) starved_until: Option<Time>,
    /// Those of its links that it has not seen end.
    pub(super) links: Vec<(StreamKey, LinkId)>,
    /// What it was told to have, by view.
    pub(super) state: Vec<State>,
    /// What it was told to have at earlier times: what other replicas of it have.
    pub(super) earlier: Vec<Vec<State>>,
    /// Who waits to be told that all have accepted a change, by view and type.
    pub(super) asked: BTreeSet<(usize, usize)>,
    /// Why it is not told of changes, if it is not.
    pub(super) lags_for: Option<Fault>,
    pub(super) reach: Reach,
    /// What becomes of those who read its files, if it is one that has files.
    pub(super) file: FileState,
    /// What readers of its files hear of the next change.
    pub(super) hearing: Hearing,
    /// What can still be seen of its files instead of what they say.
    pub(super) still_seen: Option<State>,
    /// It ends its streams, and then starts anew.
    pub(super) leaves_since: Option<Time>,
    pub(super) incarnation: u32,
}

/// Resources by the position of their type, and by name.
pub type Resources = Vec<BTreeMap<Text, Bytes>>;

/// What there is in a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) has: Resources,
    /// What there is beside the bytes, by the position of the type, and by name.
    pub(super) beside: Vec<BTreeMap<Text, Beside>>,
}

impl State {
    pub(super) fn new(types: usize) -> Self {
        Self { has: vec![BTreeMap::new(); types], beside: vec![BTreeMap::new(); types] }
    }

    pub(super) fn beside(&self, kind: usize, name: &str) -> Beside {
        self.beside.get(kind).and_then(|it| it.get(name)).copied().unwrap_or_default()
    }
}

/// What there is of a name beside the bytes of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// How long a client may use the resource unless it is told again.
    pub ttl: Option<Duration>,
    /// What those are told who name it, in the resource's stead.
    pub error: Option<StatusCode>,
}

/// What an operator says of a name.
#[derive(Clone, Debug)]
pub(super) enum Word {
    /// It has a resource, which may be used for a time only if there is one.
    Set(Bytes, Option<Duration>),
    /// It has none.
    Gone,
    /// Those who name it are told this error. What there is of it stays with those who have it.
    Error(StatusCode),
}

impl Word {
    pub(super) fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Set(bytes, _) => Some(bytes),
            Self::Gone | Self::Error(_) => None,
        }
    }

    /// What it means in a view: the second one lacks every third resource, and has others than the first.
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

    /// What it makes of what was known of the name before.
    pub(super) fn take_effect(&self, kind: usize, name: &str, state: &mut State) {
        let (resources, beside) = (&mut state.has[kind], &mut state.beside[kind]);
        match self {
            Self::Set(bytes, ttl) => {
                resources.insert(name.into(), bytes.clone());
                match ttl {
                    Some(_) => {
                        beside.insert(name.into(), Beside { ttl: *ttl, error: None });
                    }
                    None => drop(beside.remove(name)),
                }
            }
            Self::Gone => {
                resources.remove(name);
                beside.remove(name);
            }
            Self::Error(code) => beside.entry(name.into()).or_default().error = Some(*code),
        }
    }
}

/// Whether the second view lacks a resource.
fn is_hidden(name: &str) -> bool {
    let number = name.rsplit(|letter: char| !letter.is_ascii_digit()).next();
    number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number % 3 == 1)
}

/// Who serves.
pub(super) enum Plane {
    /// Our management server.
    Core(Box<Server>),
    /// A control plane of the user's.
    Own(Box<dyn ControlPlane>),
}

/// A stream as its server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKey {
    Core(StreamId),
    Own(u64),
}

/// What becomes of new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// They are taken.
    #[default]
    Up,
    /// They are refused.
    Refused,
    /// Nothing comes back.
    Hanging,
    /// They are taken, and the streams on them are ended at once.
    HangingUp,
    /// The same, with `UNAUTHENTICATED`.
    Unauthenticated,
}

/// What state the files of a server are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileState {
    /// They say what there is.
    #[default]
    Whole,
    /// They are not there: deleted, and to be created anew.
    Gone,
    /// They are being written in place: their end is missing.
    Cut,
    /// They may not be read.
    Forbidden,
}

/// What readers hear of a change of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hearing {
    /// That there is one.
    #[default]
    Once,
    /// Nothing.
    Never,
    /// The same again a moment later.
    Twice,
}

/// What a server that is polled says instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAnswer {
    /// An HTTP status that is an error, as the gRPC status that it stands for.
    Status(i32),
    /// A body that breaks off.
    Unusable,
    /// That somebody else is to be asked: a status that is neither an error nor an answer.
    Redirect,
    /// A page, or whatever else is not what was asked for.
    ForeignBody,
    /// That nothing has changed.
    Unchanged,
    /// What the server said the time before.
    Stale,
}

/// Something that happens at a later time.
#[derive(Debug)]
pub(super) struct Scheduled {
    pub(super) at: Time,
    pub(super) order: u64,
    pub(super) item: Item,
}

#[derive(Debug)]
pub(super) enum Item {
    Connect(LinkId),
    Refuse(LinkId),
    Request(LinkId, Rc<Message>),
    Response(LinkId, Rc<Message>),
    EndAtClient(LinkId, i32, &'static str),
    EndAtServer(LinkId),
    Ask(LinkId, u32, Rc<Message>),
    Answer(LinkId, u32, Answer),
    /// A gateway gives a request up.
    GiveUp(LinkId, u32),
    /// A client gives a request up.
    Late(LinkId, u32),
    /// Something may have happened to a file.
    Look(LinkId),
    LookAnyway(LinkId),
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

/// What a client that polls gets for a request.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Response(Rc<Message>),
    Unchanged,
    Unusable(&'static str),
    Failed(i32),
    Refused,
}

/// A fault is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    Reach(usize),
    CutOff(usize),
    Lag(usize),
    Slow,
    Narrow,
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

/// A fault to be taken down.
pub(super) struct Mishap<'a> {
    pub(super) lanes: &'a [LaneId],
    pub(super) extent: Extent,
    pub(super) what: &'a str,
}

/// The type's own part of its URL, as names of an authority state it.
pub(super) fn message_name(type_url: &TypeUrl) -> &str {
    type_url.as_str().rsplit('/').next().unwrap_or_default()
}
