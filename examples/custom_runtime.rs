//! Client and server without async and gRPC: `cargo run -p xds-examples --bin custom_runtime`.
//!
//! Each has a thread with a loop around its state machine: perform the outputs, permit reading where
//! it is wanted, wait for an event or the next deadline, and pass on both. On their TCP connections a
//! message is its length followed by its bytes.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use std::{error::Error, io, io::Read, io::Write, thread};

use bytes::Bytes;
use xds_core::client::{ChannelError, ChannelEvent, ClientConfig, Interest, ServerAddress};
use xds_core::client::{Node, Notice, OpaqueType, Output};
use xds_core::server::{Server, ServerConfig, ServerOutput, StreamEvent, StreamKind, Transaction};
use xds_core::{Client, Frame, Time, TypeUrl, server::Variant, types::CLUSTER};

/// Connection whose messages a thread reads, one for each permit.
struct Connection {
    socket: TcpStream,
    permits: Sender<()>,
    /// Whether the thread has a permit that it has not answered with a message.
    is_reading: bool,
}

impl Connection {
    /// `event` turns a message, or the end of the connection, into an event for the inbox.
    fn new<E: Send + 'static>(
        socket: TcpStream,
        inbox: Sender<E>,
        event: impl Fn(Option<Bytes>) -> E + Send + 'static,
    ) -> io::Result<Self> {
        let (permits, granted) = channel();
        let reads = socket.try_clone()?;
        // A peer that does not read delays the whole loop, but no longer than this.
        socket.set_write_timeout(Some(Duration::from_secs(5)))?;
        thread::spawn(move || {
            for () in granted {
                let message = read(&reads).ok();
                let is_end = message.is_none();
                if inbox.send(event(message)).is_err() || is_end {
                    return;
                }
            }
        });
        Ok(Self { socket, permits, is_reading: false })
    }

    fn permit_reading(&mut self) {
        self.is_reading = self.is_reading || self.permits.send(()).is_ok();
    }

    fn write(&mut self, frame: &Frame) -> io::Result<()> {
        self.socket.write_all(&(frame.len() as u32).to_be_bytes())?;
        self.socket.write_all(&frame.head).and_then(|()| self.socket.write_all(&frame.body))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn read(mut socket: &TcpStream) -> io::Result<Bytes> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length).min(4 << 20) as usize];
    socket.read_exact(&mut message).map(|()| message.into())
}

/// Events of the server's loop.
enum Incoming {
    Connection(TcpStream),
    Event(StreamEvent),
}

/// Serves one cluster to any number of clients.
fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let now = || Time::ZERO.after(start.elapsed());
    let mut server = Server::new(ServerConfig::default(), 1, now());
    let mut change = Transaction::new();
    change.set(CLUSTER, "web", Bytes::from_static(b"\x0a\x03web"));
    server.apply(change, now())?;

    let (inbox, incoming) = channel();
    let accepted = inbox.clone();
    thread::spawn(move || {
        listener.incoming().flatten().try_for_each(|it| accepted.send(Incoming::Connection(it)))
    });
    let (mut connections, mut frame) = (BTreeMap::new(), Frame::default());
    loop {
        while let Some(output) = server.poll_output() {
            match output {
                ServerOutput::Writable(stream) => {
                    while server.poll_transmit(stream, now(), &mut frame).is_some() {
                        let to: Option<&mut Connection> = connections.get_mut(&stream);
                        if to.is_none_or(|to| to.write(&frame).is_err()) {
                            connections.remove(&stream);
                            server.handle_event(StreamEvent::Closed(stream), now());
                        }
                    }
                }
                ServerOutput::Close(stream, _) | ServerOutput::Finished(stream) => {
                    connections.remove(&stream);
                }
                _ => {}
            }
        }
        let wanted = connections.iter_mut().filter(|(stream, _)| server.wants_read(**stream));
        wanted.for_each(|(_, connection)| connection.permit_reading());

        let wait = server.poll_timeout().map_or(Duration::MAX, |due| due.at.since(now()));
        match incoming.recv_timeout(wait) {
            Ok(Incoming::Connection(socket)) => {
                let kind = StreamKind::Aggregated(Variant::StateOfTheWorld);
                match server.accept(kind, now()) {
                    Ok(stream) => {
                        let event = move |message| match message {
                            Some(message) => Incoming::Event(StreamEvent::Message(stream, message)),
                            None => Incoming::Event(StreamEvent::Closed(stream)),
                        };
                        let connection = Connection::new(socket, inbox.clone(), event)?;
                        connections.insert(stream, connection);
                    }
                    Err(refusal) => println!("refused: {refusal}"),
                }
            }
            Ok(Incoming::Event(event)) => {
                match &event {
                    StreamEvent::Closed(stream) => drop(connections.remove(stream)),
                    StreamEvent::Message(stream, _) => {
                        connections
                            .get_mut(stream)
                            .into_iter()
                            .for_each(|it| it.is_reading = false);
                    }
                    _ => {}
                }
                server.handle_event(event, now());
            }
            Err(_) => {}
        }
        server.handle_timeout(now()); // deadlines also pass while events keep coming
    }
}

/// Watches a cluster until it arrives, over as many connections as needed.
fn follow(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let now = || Time::ZERO.after(start.elapsed());
    let config = ClientConfig::new(Node::new("custom"), ServerAddress::new("the server"));
    let mut client = Client::new(config.with_type(OpaqueType::new(CLUSTER)), 2, now());
    client.watch(&TypeUrl::from(CLUSTER), Interest::Name("web"), now())?;
    let (inbox, incoming) = channel();
    let (mut connections, mut frame) = (BTreeMap::new(), Frame::default());
    loop {
        while let Some(output) = client.poll_output() {
            match output {
                Output::Open(id, _) => {
                    let lost = ChannelError::Status { code: 14, message: "lost".into() };
                    let event = move |message| match message {
                        Some(message) => ChannelEvent::Message(id, message),
                        None => ChannelEvent::Closed(id, lost.clone()),
                    };
                    let socket = TcpStream::connect(address);
                    let event =
                        match socket.and_then(|it| Connection::new(it, inbox.clone(), event)) {
                            Ok(connection) => {
                                connections.insert(id, connection);
                                ChannelEvent::Opened(id)
                            }
                            Err(error) => {
                                let why = ChannelError::Unreachable(error.to_string().into());
                                ChannelEvent::Closed(id, why)
                            }
                        };
                    client.handle_event(event, now());
                }
                Output::Writable(id) => {
                    while client.poll_transmit(id, now(), &mut frame).is_some() {
                        let to: Option<&mut Connection> = connections.get_mut(&id);
                        if to.is_none_or(|to| to.write(&frame).is_err()) {
                            connections.remove(&id);
                            let why = ChannelError::Unreachable("cannot write".into());
                            client.handle_event(ChannelEvent::Closed(id, why), now());
                        }
                    }
                }
                Output::Close(id, _) => drop(connections.remove(&id)),
                Output::Notify(_, Notice::Changed(Ok(it))) => {
                    println!("received {} version {}", it.name, it.version);
                    return Ok(());
                }
                Output::Notify(watch, _) => client.handled(watch, now()),
                _ => {}
            }
        }
        let wanted = connections.iter_mut().filter(|(id, _)| client.wants_read(**id));
        wanted.for_each(|(_, connection)| connection.permit_reading());

        let wait = client.poll_timeout().map_or(Duration::MAX, |due| due.at.since(now()));
        if let Ok(event) = incoming.recv_timeout(wait) {
            match &event {
                ChannelEvent::Closed(id, _) => drop(connections.remove(id)),
                ChannelEvent::Message(id, _) => {
                    connections.get_mut(id).into_iter().for_each(|it| it.is_reading = false);
                }
                _ => {}
            }
            client.handle_event(event, now());
        }
        client.handle_timeout(now()); // deadlines also pass while events keep coming
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || serve(listener).map_err(|error| println!("the server failed: {error}")));
    follow(address)
}
