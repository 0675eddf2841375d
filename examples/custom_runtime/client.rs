//! Loop of the client.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use std::{error::Error, sync::mpsc::channel};

use xds_core::client::{ChannelError, ChannelEvent, ClientConfig, Interest, ServerAddress};
use xds_core::client::{Node, Notice, OpaqueType, Output};
use xds_core::{Client, Frame, StatusCode, Time, TypeUrl, types::CLUSTER};

use crate::connection::Connection;

/// Time limit of an attempt to connect, which the core does not have.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Watches a cluster until it arrives, over as many connections as needed.
pub(crate) fn follow(address: SocketAddr) -> Result<(), Box<dyn Error>> {
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
                    let event = move |message| match message {
                        Some(message) => ChannelEvent::Message(id, message),
                        None => ChannelEvent::Closed(id, lost("the connection was lost")),
                    };
                    let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
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
                            let event = ChannelEvent::Closed(id, lost("cannot write"));
                            client.handle_event(event, now());
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

/// Returns the error of a call whose connection was lost after it was opened.
fn lost(why: &str) -> ChannelError {
    ChannelError::Status { code: StatusCode::Unavailable, message: why.into() }
}
