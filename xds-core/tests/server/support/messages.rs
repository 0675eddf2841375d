//! Requests and responses of script clients.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame,
    proto::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
        Resource, ResourceLocator, Status,
    },
    server::{ResponseCause, ServerTransmit, StreamEvent, Variant},
};

use super::{
    Rig,
    received::{Received, Response, is_absence, name_of, text_of, unpack},
    url,
};

/// Parses a name with its dynamic parameters.
fn locator(text: &str) -> ResourceLocator {
    let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
    let parameters = parameters.split(';').filter_map(|it| it.split_once('='));
    ResourceLocator {
        name: name.into(),
        dynamic_parameters: parameters.map(|(key, value)| (key.into(), value.into())).collect(),
    }
}

impl Rig {
    /// Sends an incremental request in script notation.
    fn change(&mut self, stream: u32, words: &str) {
        let mut words = words.split_whitespace();
        let type_url = url(words.next().expect("a type"));
        let versions = &self.versions;
        let peer = self.streams.get_mut(&stream).expect("an open stream");
        let node = peer.node(stream);
        let held = peer.types.entry(type_url.clone()).or_default();
        let mut request =
            DeltaDiscoveryRequest { node, type_url, ..DeltaDiscoveryRequest::default() };
        for word in words {
            if word == "ack" || word == "nack" {
                request.response_nonce = held.nonce.clone();
            }
            if word == "nack" {
                request.error_detail =
                    Some(Status { code: 3, message: String::from("bad"), ..Status::default() });
            } else if let Some(nonce) = word.strip_prefix("nonce:") {
                request.response_nonce = nonce.into();
            } else if let Some(text) = word.strip_prefix("loc:") {
                request.resource_locators_subscribe.push(locator(text));
            } else if let Some(text) = word.strip_prefix("-loc:") {
                request.resource_locators_unsubscribe.push(locator(text));
            } else if let Some((name, version)) =
                word.strip_prefix("has:").and_then(|held| held.split_once('@'))
            {
                request.initial_resource_versions.insert(name.into(), version.into());
            } else if let Some(text) = word.strip_prefix("has:") {
                let version = versions.get(&(request.type_url.clone(), text.into()));
                let version = version.unwrap_or_else(|| panic!("{text} was never received"));
                request.initial_resource_versions.insert(name_of(text).into(), version.clone());
                held.resources.insert(name_of(text).into(), version.clone());
            } else if let Some(name) = word.strip_prefix('+') {
                request.resource_names_subscribe.push(name.into());
            } else if let Some(name) = word.strip_prefix('-') {
                request.resource_names_unsubscribe.push(name.into());
            } else {
                assert!(word == "ack", "no such word: {word}");
            }
        }
        let id = peer.id;
        self.event(StreamEvent::Message(id, request.encode_to_vec().into()));
    }

    /// Sends a request in script notation.
    pub(crate) fn request(&mut self, stream: u32, words: &str) {
        let id = self.stream(stream);
        if self.streams[&stream].variant == Variant::Incremental {
            return self.change(stream, words);
        }
        let mut words = words.split_whitespace();
        let type_url = url(words.next().expect("a type"));
        let peer = self.streams.get_mut(&stream).expect("an open stream");
        let node = peer.node(stream);
        let held = peer.types.entry(type_url.clone()).or_default();
        let mut request = DiscoveryRequest {
            version_info: held.version.clone(),
            node,
            type_url,
            response_nonce: held.nonce.clone(),
            ..DiscoveryRequest::default()
        };
        for word in words {
            if word == "nack" {
                request.version_info = held.accepted.clone();
                request.error_detail =
                    Some(Status { code: 3, message: String::from("bad"), ..Status::default() });
            } else if let Some(nonce) = word.strip_prefix("nonce:") {
                request.response_nonce = nonce.into();
            } else if let Some(version) = word.strip_prefix("version:") {
                request.version_info = version.into();
            } else if let Some(text) = word.strip_prefix("loc:") {
                request.resource_locators.push(locator(text));
            } else {
                request.resource_names.push(word.into());
            }
        }
        if request.error_detail.is_none() && request.response_nonce == held.nonce {
            held.accepted = held.version.clone();
        }
        self.message(id, &request);
    }

    /// Takes the next response of a stream, if one is due.
    pub(crate) fn receive(&mut self, stream: u32) -> Option<Received> {
        let id = self.stream(stream);
        let mut frame = Frame::default();
        let transmit = self.server.poll_transmit(id, self.now, &mut frame)?;
        self.drain();
        let bytes = frame.to_bytes();
        let (response, type_url, nonce, version) = match self.streams[&stream].variant {
            Variant::StateOfTheWorld => {
                let response = DiscoveryResponse::decode(bytes).expect("a valid response");
                assert_eq!(response.resources.len(), transmit.resources);
                for any in &response.resources {
                    match unpack(any) {
                        None => assert_eq!(any.type_url, response.type_url, "M82"),
                        Some(it) => self.read_resource(stream, &response.type_url, &it, &transmit),
                    }
                }
                if transmit.cause == ResponseCause::Heartbeat {
                    let held = &self.streams[&stream].types[&response.type_url];
                    assert_eq!(response.version_info, held.accepted, "M161");
                }
                let envelope = (
                    response.type_url.clone(),
                    response.nonce.clone(),
                    response.version_info.clone(),
                );
                (Response::StateOfTheWorld(response), envelope.0, envelope.1, envelope.2)
            }
            Variant::Incremental => self.read_incremental(stream, bytes, &transmit),
        };
        assert_eq!(version, transmit.version.as_str());
        assert_eq!(nonce, transmit.nonce.as_str());
        assert_eq!(type_url, transmit.type_url.as_str());
        assert!(!nonce.is_empty() && !version.is_empty(), "M62, M63");
        let held = self.streams.get_mut(&stream)?.types.entry(type_url);
        let held = held.or_default();
        held.nonce = nonce;
        held.version = version;
        let received = Received { transmit, body: frame.body, response };
        let mut names: Vec<_> = received.resources();
        let count = names.len();
        names.sort_by(|one, other| name_of(one).cmp(name_of(other)));
        names.dedup_by(|one, other| name_of(one) == name_of(other));
        assert_eq!(names.len(), count, "a name occurs twice (M81, M135, S0.116)");
        Some(received)
    }

    /// Decodes an incremental response and records its versions.
    fn read_incremental(
        &mut self,
        stream: u32,
        bytes: Bytes,
        transmit: &ServerTransmit,
    ) -> (Response, String, String, String) {
        let response = DeltaDiscoveryResponse::decode(bytes).expect("a valid response");
        let mut removed = response.removed_resources.len() + response.removed_resource_names.len();
        let absent = response.resources.iter().filter(|resource| is_absence(resource)).count();
        removed += absent;
        let resources = response.resources.len() - absent;
        assert_eq!((resources, removed), (transmit.resources, transmit.removed));
        for resource in response.resources.iter().filter(|resource| !is_absence(resource)) {
            self.read_resource(stream, &response.type_url, resource, transmit);
        }
        let (ty, nonce) = (response.type_url.clone(), response.nonce.clone());
        let version = response.system_version_info.clone();
        (Response::Incremental(response), ty, nonce, version)
    }

    /// Records the version of a resource.
    fn read_resource(
        &mut self,
        stream: u32,
        type_url: &str,
        resource: &Resource,
        transmit: &ServerTransmit,
    ) {
        assert!(!resource.version.is_empty(), "S0.115");
        let held = &mut self.streams.get_mut(&stream).expect("a stream").types;
        let held = &mut held.entry(type_url.into()).or_default().resources;
        let Some(any) = &resource.resource else {
            assert_eq!(transmit.cause, ResponseCause::Heartbeat);
            assert_eq!(held.get(&resource.name), Some(&resource.version), "M162");
            return;
        };
        assert_eq!(any.type_url, type_url, "M82");
        held.insert(resource.name.clone(), resource.version.clone());
        let key = (type_url.into(), text_of(resource));
        let before = self.versions.insert(key, resource.version.clone());
        // A source may write equal content at another revision.
        let hash = |version: &str| version.rsplit('-').next().map(String::from);
        assert!(before.is_none_or(|before| hash(&before) == hash(&resource.version)), "IS15");
    }

    pub(super) fn expect(&mut self, stream: u32, words: &str) {
        let mut words = words.split_whitespace();
        let (ty, cause) = (words.next().expect("a type"), words.next().expect("a cause"));
        let (versions, mut wanted): (Vec<_>, Vec<_>) =
            words.map(String::from).partition(|word| word.starts_with("v:"));
        let Some(received) = self.receive(stream) else {
            panic!("expected {ty} {cause} {wanted:?}, got nothing");
        };
        let mut got = received.resources();
        got.sort();
        wanted.sort();
        assert_eq!(
            (received.transmit.type_url.as_str(), received.transmit.cause.to_string(), got),
            (url(ty).as_str(), String::from(cause), wanted)
        );
        for version in versions {
            assert_eq!(format!("v:{}", received.transmit.version), version);
        }
    }
}
