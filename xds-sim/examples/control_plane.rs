//! Tries a management server of one's own out: storms of clients, and every rule about what it says.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{Time, TypeUrl, proto, service::Variant};
use xds_sim::{Config, ControlPlane, Reply, check, options::Action, storm};

/// The newest request of a stream, and what was sent last under which nonce.
type Stream = (proto::DiscoveryRequest, Option<BTreeMap<String, Bytes>>, u64);

/// What is to be tried out: a server of clusters that are asked for by name.
#[derive(Default)]
struct Plane {
    clusters: BTreeMap<String, Bytes>,
    streams: BTreeMap<u64, Stream>,
    replies: VecDeque<Reply>,
}

impl Plane {
    fn push(&mut self) {
        for (id, (request, sent, nonce)) in &mut self.streams {
            let (type_url, names) = (&request.type_url, &request.resource_names);
            let all = self.clusters.clone().into_iter();
            let state: BTreeMap<_, _> = all.filter(|(name, _)| names.contains(name)).collect();
            if names.is_empty() || sent.as_ref() == Some(&state) {
                continue; // Nothing is asked for, or there is no news.
            }
            *nonce += 1;
            let any = |value| proto::Any { type_url: type_url.clone(), value };
            let response = proto::DiscoveryResponse {
                version_info: blake3::hash(format!("{state:?}").as_bytes()).to_string(),
                type_url: type_url.clone(),
                resources: sent.insert(state).clone().into_values().map(any).collect(),
                nonce: nonce.to_string(),
                ..Default::default()
            };
            self.replies.push_back(Reply::Send(*id, response.encode_to_vec().into()));
        }
    }
}

impl ControlPlane for Plane {
    fn request(&mut self, stream: u64, message: &Bytes, _: Time) {
        let Ok(request) = proto::DiscoveryRequest::decode(message.clone()) else { return };
        let (newest, sent, nonce) = self.streams.entry(stream).or_default();
        if *nonce == 0 || request.response_nonce == nonce.to_string() {
            // What is not wanted any more has to be sent again if it is wanted again.
            sent.iter_mut().for_each(|it| it.retain(|it, _| request.resource_names.contains(it)));
            *newest = request;
            self.push();
        }
    }
    fn closed(&mut self, stream: u64, _: Time) {
        self.streams.remove(&stream);
    }
    fn changed(&mut self, _: &TypeUrl, name: &str, bytes: Option<&Bytes>, _: Time) {
        self.clusters.remove(name);
        self.clusters.extend(bytes.map(|bytes| (name.to_owned(), bytes.clone())));
        self.push();
    }
    fn poll(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }
}

/// Makes the runs.
pub(crate) fn main() {
    let config = Config::default().with_runs(300).with_options(|options| {
        (options.types, options.servers, options.variant) = (1, 1, Variant::StateOfTheWorld);
        options.actions = [Action::Unwatch, Action::Delete, Action::SetBad].into_iter().collect();
    });
    let report = check(&config.with_control_plane(|_| Box::new(Plane::default())), storm);
    println!("{} runs, {} events: no rule was broken", report.runs, report.events);
}
