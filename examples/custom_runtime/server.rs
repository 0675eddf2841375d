//! Loop of the server.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{error::Error, sync::mpsc::channel, thread};

use bytes::Bytes;
use xds_core::server::{Server, ServerConfig, ServerOutput, StreamEvent, StreamKind, Transaction};
use xds_core::{Frame, Time, server::Variant, types::CLUSTER};

use crate::connection::Connection;

/// Events of the server's loop.
enum Incoming {
    Connection(TcpStream),
    Event(StreamEvent),
}

/// Serves one cluster to any number of clients.
pub(crate) fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
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
