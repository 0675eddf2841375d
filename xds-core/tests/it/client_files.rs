//! Resources from a file: watchers see the file's current content while it is readable, and keep
//! the last content while it is not.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use xds_core::{
    ChannelId, Client, Frame, Time, TypeUrl, WatchId,
    client::{
        ChannelEvent, ClientConfig, DataErrorPolicy, FilePolicy, Interest, Node, Notice, Output,
        Profile, RequestCause, ServerAddress, TransportKind,
    },
};

use crate::client_support::{Picky, TYPES, resource, response};

#[derive(Clone, Debug)]
enum Step {
    Watch(u8),
    Unwatch(usize),
    /// The file gets this content and the adapter notices the change.
    Write(BTreeMap<u8, u8>),
    /// The file becomes unreadable.
    Break,
    /// The adapter rereads an unchanged file.
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let content = proptest::collection::btree_map(0..5u8, 0..3u8, 0..5);
    let step = prop_oneof![
        4 => (0..5u8).prop_map(Step::Watch),
        3 => (0..8usize).prop_map(Step::Unwatch),
        4 => content.prop_map(Step::Write),
        1 => Just(Step::Break),
        1 => Just(Step::Look),
    ];
    proptest::collection::vec(step, 0..60)
}

/// A client of one type in one file, with its adapter and its watchers.
struct Story {
    client: Client,
    channel: Option<ChannelId>,
    /// `None` while the file is unreadable.
    file: Option<BTreeMap<u8, u8>>,
    /// Watched name and last reported value of each watch. `None`: no usable value.
    watches: Vec<(WatchId, u8, Option<Bytes>)>,
    /// Number of times the adapter was asked to read.
    reads: u32,
}

impl Story {
    fn new(mut profile: Profile) -> Self {
        profile.data_errors = DataErrorPolicy::DropDeleted;
        let server = ServerAddress::new("/file").with_file(FilePolicy::default());
        assert_eq!(server.transport_kind, TransportKind::File(FilePolicy::default()));
        let config = ClientConfig::new(Node::new("me"), server).with_profile(profile);
        let config = config.with_type(Picky(TypeUrl::from(TYPES[0])));
        let client = Client::new(config, 1, Time::ZERO);
        Self { client, channel: None, file: None, watches: Vec::new(), reads: 0 }
    }

    fn act(&mut self, step: &Step) {
        match step {
            Step::Watch(name) => {
                let (type_url, text) = (TypeUrl::from(TYPES[0]), format!("r{name}"));
                let watch = self.client.watch(&type_url, Interest::Name(&text), Time::ZERO);
                self.watches.push((watch.expect("a good name"), *name, None));
            }
            Step::Unwatch(nth) if !self.watches.is_empty() => {
                let (watch, ..) = self.watches.remove(nth % self.watches.len());
                self.client.unwatch(watch, Time::ZERO);
            }
            Step::Unwatch(_) => {}
            Step::Write(content) => {
                self.file = Some(content.clone());
                self.deliver();
            }
            Step::Break => {
                self.file = None;
                self.deliver();
            }
            Step::Look => self.deliver(),
        }
        self.settle();
    }

    /// Delivers the file's content to the client, as the adapter does after each read.
    fn deliver(&mut self) {
        let Some(channel) = self.channel else { return };
        let event = match &self.file {
            Some(content) => {
                let resources: Vec<_> = content.iter().map(|(&name, &text)| (name, text)).collect();
                ChannelEvent::Message(channel, response(0, 0, &resources))
            }
            None => ChannelEvent::Undeliverable(channel, "/file: it cannot be read".into()),
        };
        self.client.handle_event(event, Time::ZERO);
    }

    fn settle(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open(channel, _) => {
                    self.channel = Some(channel);
                    self.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
                }
                Output::Close(channel, fault) => {
                    assert!(fault.is_none(), "a file is never left for what is in it: {fault:?}");
                    self.channel = self.channel.filter(|&current| current != channel);
                }
                Output::Writable(channel) => self.transmit(channel),
                Output::Notify(watch, notice) => {
                    let told = self.watches.iter_mut().find(|(id, ..)| *id == watch);
                    let (.., told) = told.expect("nobody else is told");
                    match notice {
                        Notice::Changed(Ok(value)) => *told = Some(value.bytes),
                        Notice::Changed(Err(_)) => *told = None,
                        _ => {}
                    }
                    self.client.handled(watch, Time::ZERO);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn transmit(&mut self, channel: ChannelId) {
        let mut frame = Frame::default();
        let mut is_asked = false;
        while let Some(transmit) = self.client.poll_transmit(channel, Time::ZERO, &mut frame) {
            is_asked |= transmit.cause == RequestCause::Subscription;
        }
        if is_asked {
            self.reads += 1;
            self.deliver();
        }
    }
}

#[test]
fn watchers_follow_readable_file_and_keep_values_while_unreadable() {
    proptest!(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() }, |(
        steps in steps(),
        is_proxy in any::<bool>(),
    )| {
        let mut story = Story::new(if is_proxy { Profile::envoy() } else { Profile::grpc() });
        let mut watches = 0;
        for step in &steps {
            let before = story.watches.clone();
            story.act(step);
            watches += u32::from(matches!(step, Step::Watch(_)));
            for (watch, name, told) in &story.watches {
                match &story.file {
                    Some(content) => {
                        let says = content.get(name).map(|&text| resource(*name, text));
                        prop_assert_eq!(told, &says, "r{}", name);
                    }
                    None => {
                        let had = before.iter().find(|(id, ..)| id == watch);
                        let had = had.and_then(|(.., told)| told.as_ref());
                        let keeps = had.is_none_or(|had| told.as_ref() == Some(had));
                        prop_assert!(keeps, "r{}: {:?} and then {:?}", name, had, told);
                    }
                }
            }
            prop_assert_eq!(story.channel.is_some(), !story.watches.is_empty());
            prop_assert!(story.reads <= watches, "nothing else asks for the file");
            let due = story.client.poll_timeout();
            prop_assert!(due.is_none() || story.channel.is_none(), "nothing is waited for: {:?}", due);
        }
    });
    println!("covers: S0.018 FS-10 FS-11 IS32");
}
