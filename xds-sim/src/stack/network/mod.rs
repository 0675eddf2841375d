//! Simulated network: hosts, names, listeners, and connections made of byte streams.

mod conditions;
mod faults;
mod frames;
mod pipe;
mod socket;
mod wire;

use core::{
    fmt,
    future::{Future, pending, poll_fn},
    net::{IpAddr, SocketAddr},
    task::{Poll, Waker},
    time::Duration,
};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    mem::take,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::sleep;

pub(super) use self::wire::{StreamUnit, WireAction, WireEvent};
pub use self::{
    conditions::{Conditions, DialOutcome},
    socket::Socket,
};
use self::{
    frames::{FrameReader, Sender, Variants},
    pipe::ByteStream,
};
use super::run::{executor::HostId, log::Log, memory::Memory};
use crate::trace::{EventKind, MessageId, ParticipantId};

/// Number of a connection, in the order of their establishment.
pub(super) type ConnectionId = u64;

/// Number of a listener. An address may have several, one after the other.
pub(super) type ListenerId = u64;

/// Network between the hosts of a stage.
#[derive(Clone)]
pub(super) struct Network {
    state: Arc<Mutex<NetworkState>>,
    log: Log,
    memory: Memory,
}

#[derive(Default)]
struct NetworkState {
    hosts: Vec<HostState>,
    names: BTreeMap<String, Name>,
    listeners: BTreeMap<SocketAddr, Queue>,
    reach: BTreeMap<SocketAddr, DialOutcome>,
    links: BTreeMap<(HostId, HostId), HostLink>,
    connections: BTreeMap<ConnectionId, TcpConnection>,
    next_connection: ConnectionId,
    next_listener: ListenerId,
    next_port: u16,
    /// Sockets of connections that nobody accepts.
    silent: Vec<Socket>,
    /// Events of connections since they were taken; `None` if they are not recorded.
    wire: Option<Vec<WireEvent>>,
}

struct HostState {
    name: String,
    address: IpAddr,
    lane: ParticipantId,
}

/// Answer of the name service.
#[derive(Clone, Debug)]
struct Name {
    answer: Result<Vec<IpAddr>, io::ErrorKind>,
    delay: Duration,
}

/// Listener with its connections that are not accepted yet.
struct Queue {
    id: ListenerId,
    waiting: VecDeque<(Socket, SocketAddr)>,
    acceptor: Option<Waker>,
    backlog: usize,
}

/// Conditions from one host to another.
#[derive(Clone, Copy, Debug, Default)]
struct HostLink {
    conditions: Conditions,
    is_partitioned: bool,
    /// Whether a proxy sends a GOAWAY on each new connection, after the first frame.
    goes_away: bool,
}

/// Connection with one pipe for each direction, from the client first.
struct TcpConnection {
    hosts: [HostId; 2],
    directions: [OneWay; 2],
    variants: Variants,
    /// Number of open sockets.
    sockets: usize,
}

struct OneWay {
    pipe: ByteStream,
    frames: FrameReader,
    written: u64,
    read: u64,
    /// Units on their way.
    units: VecDeque<UnitUnderWay>,
    /// Whether a proxy is about to send a GOAWAY.
    goes_away: bool,
}

/// Unit on its way to the reader.
struct UnitUnderWay {
    /// Number of bytes that were written when it was complete.
    end: u64,
    id: MessageId,
    content: Option<(u32, StreamUnit)>,
}

/// GOAWAY of a proxy: no error, and all streams were processed.
const GO_AWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];

impl OneWay {
    fn new(link: HostLink, sender: Sender) -> Self {
        Self {
            pipe: ByteStream::new(link.conditions),
            frames: FrameReader::new(sender),
            written: 0,
            read: 0,
            units: VecDeque::new(),
            goes_away: link.goes_away,
        }
    }

    /// Sends the GOAWAY of a proxy if the last frame is complete. Returns whether it does.
    fn go_away(&mut self) -> bool {
        let is_possible = self.frames.is_between_frames();
        if is_possible {
            self.written += GO_AWAY.len() as u64;
            self.pipe.inject(&GO_AWAY);
        }
        is_possible
    }
}

/// First port of clients.
const FIRST_CLIENT_PORT: u16 = 32_768;

/// Maximum number of connections that wait to be accepted by default.
const BACKLOG: usize = 1_024;

impl Network {
    pub(super) fn new(log: Log, memory: Memory) -> Self {
        let state = NetworkState { next_port: FIRST_CLIENT_PORT, ..NetworkState::default() };
        Self { state: Arc::new(Mutex::new(state)), log, memory }
    }

    pub(super) fn add_host(&self, name: &str, lane: ParticipantId) -> (HostId, IpAddr) {
        let mut state = self.lock();
        let id = state.hosts.len();
        let number = u32::try_from(id).unwrap_or(u32::MAX).saturating_add(1);
        let [_, high, middle, low] = number.to_be_bytes();
        let address = IpAddr::from([10, high, middle, low]);
        state.hosts.push(HostState { name: name.into(), address, lane });
        (id, address)
    }

    /// Sets the answer of the name service for a name.
    pub(super) fn set_name(
        &self,
        name: &str,
        answer: Result<Vec<IpAddr>, io::ErrorKind>,
        delay: Duration,
    ) {
        self.lock().names.insert(name.into(), Name { answer, delay });
    }

    pub(super) async fn resolve(self, host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let name = self.lock().names.get(&host).cloned();
        let Some(Name { answer, delay }) = name else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such name"));
        };
        if !delay.is_zero() {
            sleep(delay).await;
        }
        Ok(answer?.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    /// Binds a listener.
    pub(super) fn listen(
        &self,
        host: HostId,
        address: SocketAddr,
    ) -> io::Result<(SocketAddr, ListenerId)> {
        let mut state = self.lock();
        let own = state.hosts[host].address;
        let ip = if address.ip().is_unspecified() || address.ip().is_loopback() {
            own
        } else {
            address.ip()
        };
        if ip != own {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let port = if address.port() == 0 { state.free_port(ip) } else { address.port() };
        let address = SocketAddr::new(ip, port);
        if state.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let id = state.next_listener;
        state.next_listener += 1;
        let queue = Queue { id, waiting: VecDeque::new(), acceptor: None, backlog: BACKLOG };
        state.listeners.insert(address, queue);
        Ok((address, id))
    }

    /// Closes a listener, unless its host was killed and the address is in use again.
    pub(super) fn unbind(&self, address: SocketAddr, id: ListenerId) {
        let mut state = self.lock();
        let is_same = state.listeners.get(&address).is_some_and(|queue| queue.id == id);
        let queue = if is_same { state.listeners.remove(&address) } else { None };
        drop(state);
        // Dropping the sockets locks the state.
        drop(queue);
    }

    /// Sets the maximum number of connections that wait to be accepted.
    pub(super) fn set_backlog(&self, address: SocketAddr, backlog: usize) {
        if let Some(queue) = self.lock().listeners.get_mut(&address) {
            queue.backlog = backlog;
        }
    }

    pub(super) fn accept(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<(Socket, SocketAddr)>> + Send {
        poll_fn(move |cx| {
            let mut state = self.lock();
            let Some(queue) = state.listeners.get_mut(&address) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            match queue.waiting.pop_front() {
                Some((socket, peer)) => {
                    self.log.count_action();
                    Poll::Ready(Ok((socket, peer)))
                }
                None => {
                    queue.acceptor = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// Connects a host to an address. Takes one round trip.
    pub(super) async fn connect(self, host: HostId, address: SocketAddr) -> io::Result<Socket> {
        self.log.count_action();
        let (address, round_trip) = {
            let state = self.lock();
            let own = state.hosts[host].address;
            let ip = if address.ip().is_loopback() { own } else { address.ip() };
            let address = SocketAddr::new(ip, address.port());
            let peer = state.host_at(ip);
            let lane = state.hosts[host].lane;
            self.log.local(lane, EventKind::Transport, format!("connects to {address}"));
            let Some(peer) = peer else {
                return Err(io::ErrorKind::HostUnreachable.into());
            };
            let there = state.link(host, peer).conditions.latency;
            (address, there + state.link(peer, host).conditions.latency)
        };
        if !round_trip.is_zero() {
            sleep(round_trip).await;
        }
        match self.memory.of_simulation(|| self.establish(host, address))? {
            Some(socket) => Ok(socket),
            None => pending().await,
        }
    }

    /// Establishes a connection. Returns `None` if the attempt gets no answer.
    fn establish(&self, host: HostId, address: SocketAddr) -> io::Result<Option<Socket>> {
        let mut state = self.lock();
        let Some(peer) = state.host_at(address.ip()) else { return Ok(None) };
        if state.link(host, peer).is_partitioned {
            return Ok(None);
        }
        let reach = state.reach.get(&address).copied().unwrap_or_default();
        let is_silent = match reach {
            DialOutcome::Refused => return Err(io::ErrorKind::ConnectionRefused.into()),
            DialOutcome::Dropped => return Ok(None),
            DialOutcome::Silent => true,
            DialOutcome::Open => match state.listeners.get(&address) {
                None => return Err(io::ErrorKind::ConnectionRefused.into()),
                Some(queue) if queue.waiting.len() >= queue.backlog => return Ok(None),
                Some(_) => false,
            },
        };
        let id = state.next_connection;
        state.next_connection += 1;
        let own = state.hosts[host].address;
        let port = state.next_port;
        state.next_port = state.next_port.checked_add(1).unwrap_or(FIRST_CLIENT_PORT);
        let directions = [
            OneWay::new(state.link(host, peer), Sender::Client),
            OneWay::new(state.link(peer, host), Sender::Server),
        ];
        let hosts = [host, peer];
        let connection = TcpConnection { hosts, directions, variants: Variants::new(), sockets: 2 };
        state.connections.insert(id, connection);
        let (near, far) = (Socket::new(self, id, 0), Socket::new(self, id, 1));
        if is_silent {
            state.silent.push(far);
        } else if let Some(queue) = state.listeners.get_mut(&address) {
            queue.waiting.push_back((far, SocketAddr::new(own, port)));
            if let Some(acceptor) = queue.acceptor.take() {
                acceptor.wake();
            }
        }
        Ok(Some(near))
    }

    /// Begins to record the events of connections.
    pub(super) fn record_wire(&self) {
        self.lock().wire.get_or_insert_default();
    }

    /// Returns the events of connections since the last call.
    pub(super) fn take_wire(&self) -> Vec<WireEvent> {
        self.lock().wire.as_mut().map(take).unwrap_or_default()
    }

    /// Number of connections with an open socket, without the sockets that nobody accepts.
    pub(super) fn connections(&self) -> usize {
        let state = self.lock();
        let is_held = |id: &ConnectionId, connection: &TcpConnection| {
            connection.sockets == 2 || !state.silent.iter().any(|socket| socket.id() == *id)
        };
        state.connections.iter().filter(|(id, connection)| is_held(id, connection)).count()
    }

    /// Whether bytes are on their way.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.lock();
        let mut directions = state.connections.values().flat_map(|it| &it.directions);
        directions.all(|direction| direction.pipe.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        // No code that may panic runs under the lock, except for the caller's wakers.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NetworkState {
    fn note_wire(&mut self, connection: ConnectionId, side: usize, what: WireAction) {
        let Some(hosts) = self.connections.get(&connection).map(|it| it.hosts) else { return };
        if let Some(wire) = &mut self.wire {
            wire.push(WireEvent { connection, hosts, side, what });
        }
    }

    fn host_at(&self, address: IpAddr) -> Option<HostId> {
        self.hosts.iter().position(|host| host.address == address)
    }

    fn link(&self, from: HostId, to: HostId) -> HostLink {
        self.links.get(&(from, to)).copied().unwrap_or_default()
    }

    fn lanes(&self, hosts: [HostId; 2]) -> [ParticipantId; 2] {
        hosts.map(|host| self.hosts[host].lane)
    }

    fn free_port(&self, ip: IpAddr) -> u16 {
        let is_free = |port: &u16| !self.listeners.contains_key(&SocketAddr::new(ip, *port));
        (1_024..FIRST_CLIENT_PORT).find(is_free).unwrap_or_default()
    }

    /// Returns the directions from one host to another.
    fn directions(&mut self, from: HostId, to: HostId) -> impl Iterator<Item = &mut OneWay> {
        self.connections.values_mut().filter_map(move |connection| {
            let side = match connection.hosts {
                hosts if hosts == [from, to] => 0,
                hosts if hosts == [to, from] => 1,
                _ => return None,
            };
            connection.directions.get_mut(side)
        })
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("connections", &self.connections()).finish_non_exhaustive()
    }
}
