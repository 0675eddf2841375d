//! Client and server without async and gRPC: `cargo run -p xds-examples --bin custom_runtime`.
//! Each is a thread. On their TCP connection a message is its length followed by its bytes.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};
use std::{error::Error, io, io::Read, io::Write, iter::from_fn, thread};

use bytes::Bytes;
use xds_core::client::{ChannelError, ChannelEvent, ClientConfig, Interest, ServerAddress};
use xds_core::client::{Node, Notice, OpaqueType, Output};
use xds_core::server::{Server, ServerConfig, StreamEvent, StreamKind, Transaction, Variant};
use xds_core::{ChannelId, Client, Frame, Time, TypeUrl, types::CLUSTER};

fn write(mut socket: &TcpStream, frame: &Frame) -> io::Result<()> {
    socket.write_all(&[&(frame.len() as u32).to_be_bytes(), &frame.to_bytes()[..]].concat())
}

fn read(mut socket: &TcpStream) -> io::Result<Bytes> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length).min(4 << 20) as usize];
    socket.read_exact(&mut message).map(|()| message.into())
}

/// Serves one client until it disconnects.
fn serve(listener: &TcpListener) -> Result<(), Box<dyn Error>> {
    // Others also sleep until `poll_timeout`, obey `ServerOutput::Close`, check `wants_read`.
    let now = Time::ZERO;
    let mut server = Server::new(ServerConfig::default(), 1, now);
    let mut change = Transaction::new();
    change.set(CLUSTER, "web", Bytes::from_static(b"\x0a\x03web"));
    server.apply(change, now)?;
    let (mut frame, (socket, _)) = (Frame::default(), listener.accept()?);
    let stream = server.accept(StreamKind::Aggregated(Variant::StateOfTheWorld), now)?;
    loop {
        server.handle_event(StreamEvent::Message(stream, read(&socket)?), now);
        while server.poll_output().is_some() {}
        while server.poll_transmit(stream, now, &mut frame).is_some() {
            write(&socket, &frame)?;
        }
    }
}

/// Connects, and reads on its own thread, which blocks while its messages are not received.
fn connect(to: SocketAddr, id: ChannelId, news: SyncSender<ChannelEvent>) -> io::Result<TcpStream> {
    let (socket, reads) = TcpStream::connect(to).and_then(|it| Ok((it.try_clone()?, it)))?;
    let message = move || read(&reads).ok().map(|bytes| ChannelEvent::Message(id, bytes));
    let end = ChannelEvent::Closed(id, ChannelError::Status { code: 14, message: "lost".into() });
    thread::spawn(move || from_fn(message).chain([end]).try_for_each(|event| news.send(event)));
    Ok(socket)
}

/// Watches a cluster until it arrives, over as many connections as needed.
fn follow(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let now = || Time::ZERO.after(start.elapsed());
    let config = ClientConfig::new(Node::new("custom"), ServerAddress::new("the server"));
    let mut client = Client::new(config.with_type(OpaqueType::new(CLUSTER)), 2, now());
    client.watch(&TypeUrl::from(CLUSTER), Interest::Name("web"), now())?;
    let (news, inbox) = sync_channel(1);
    let (mut socket, mut frame) = (None, Frame::default());
    loop {
        while let Some(output) = client.poll_output() {
            match (output, &socket) {
                (Output::Open(id, _), _) => {
                    let opened = connect(address, id, news.clone());
                    let failed = ChannelEvent::Closed(id, ChannelError::Unreachable("down".into()));
                    let event = opened.as_ref().map_or(failed, |_| ChannelEvent::Opened(id));
                    client.handle_event(event, now());
                    socket = opened.ok();
                }
                (Output::Writable(id), Some(socket)) => {
                    while client.poll_transmit(id, now(), &mut frame).is_some() {
                        write(socket, &frame)?;
                    }
                }
                (Output::Close(..), Some(socket)) => drop(socket.shutdown(Shutdown::Both)),
                (Output::Notify(_, Notice::Changed(Ok(it))), _) => {
                    println!("received {} version {}", it.name, it.version);
                    return Ok(());
                }
                (Output::Notify(watch, _), _) => client.handled(watch, now()),
                _ => {}
            }
        }
        // Everything is written and handled, so reading can continue (`Client::wants_read`).
        let wait = client.poll_timeout().map_or(Duration::MAX, |it| it.at.since(now()));
        inbox.recv_timeout(wait).into_iter().for_each(|event| client.handle_event(event, now()));
        client.handle_timeout(now()); // timers run even while events keep coming
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || serve(&listener).map_err(|error| println!("the server failed: {error}")));
    follow(address)
}
