//! Mistakes of the application or of a driver: each is answered with an error.

use xds_core::{
    Client, Frame, Time, TypeUrl,
    client::{ChannelError, ChannelEvent, FlowControl, Interest, InvalidWatch, Output},
};

use crate::client_support::{TYPES, config, resource, response};

const CLUSTER: usize = 0;

// Without a server the watch would wait forever, and without a does-not-exist timer.
#[test]
fn watch_without_a_server_is_refused() {
    let mut config = config();
    config.servers.clear();
    let mut client = Client::new(config, 7, Time::ZERO);
    let clusters = TypeUrl::from(TYPES[CLUSTER]);
    let why = InvalidWatch::NoServer(clusters.clone());
    assert_eq!(client.watch(&clusters, Interest::Name("r1"), Time::ZERO), Err(why.clone()));
    assert_eq!(client.watch(&clusters, Interest::Wildcard, Time::ZERO), Err(why.clone()));
    assert_eq!(why.to_string(), format!("no server is configured for {clusters}"));

    // A static resource can be watched.
    let name = client.add_static_resource(&clusters, resource(1, 1), Time::ZERO).unwrap();
    client.watch(&clusters, Interest::Name(name.as_str()), Time::ZERO).unwrap();
    assert!(matches!(client.poll_output(), Some(Output::Notify(..))));
    println!("covers: FE-05");
}

// A driver that ignores `wants_read` while the server does not read cannot fill the memory with
// ACKs.
#[test]
fn channel_of_driver_that_reads_on_is_closed() {
    let mut config = config();
    config.profile.flow_control = FlowControl::Off;
    let mut client = Client::new(config, 7, Time::ZERO);
    client.watch(&TypeUrl::from(TYPES[CLUSTER]), Interest::Wildcard, Time::ZERO).unwrap();
    let Some(Output::Open(channel, _)) = client.poll_output() else { panic!("no channel") };
    client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
    assert!(client.poll_transmit(channel, Time::ZERO, &mut Frame::default()).is_some());
    let mut read = 0;
    let error = loop {
        let frame = response(CLUSTER, read, &[(1, read)]);
        client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);
        read += 1;
        let outputs: Vec<_> = core::iter::from_fn(|| client.poll_output()).collect();
        let closed = outputs.into_iter().find_map(|output| match output {
            Output::Close(_, error) => error,
            _ => None,
        });
        assert_eq!(client.wants_read(channel), read < 8, "after {read}");
        if let Some(error) = closed {
            break error;
        }
    };
    assert_eq!(read, 65);
    let why = "the driver reads on although `wants_read` is false";
    assert_eq!(error, ChannelError::Undeliverable(why.into()));
    println!("covers: IC36");
}
