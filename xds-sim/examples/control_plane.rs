//! Tries a server of one's own out, of clusters that are asked for by name: storms of clients, all rules.

use bytes::Bytes;
use prost::Message as _;
use std::{collections::BTreeMap, mem};
use xds_core::{Time, TypeUrl, proto, service::Variant, types};
use xds_sim::{Config, ControlPlane, Reply, check, options::Action, storm};

/// The names that are wanted on a stream, and what of them was sent last, with its nonce.
type Stream = (Vec<String>, BTreeMap<String, Bytes>, u64);

#[derive(Default)]
struct Plane {
    clusters: BTreeMap<String, Bytes>,
    streams: BTreeMap<u64, Stream>,
}

impl ControlPlane for Plane {
    fn request(&mut self, stream: u64, message: &Bytes, _: Time) {
        let Ok(request) = proto::DiscoveryRequest::decode(&**message) else { return };
        let (names, sent, nonce) = self.streams.entry(stream).or_default();
        if ["", &nonce.to_string()].contains(&&*request.response_nonce) {
            *names = request.resource_names;
            sent.retain(|name, _| names.contains(name)); // It is sent again if it is wanted again.
        }
    }
    fn closed(&mut self, stream: u64, _: Time) {
        self.streams.remove(&stream);
    }
    fn changed(&mut self, _: &TypeUrl, name: &str, bytes: Option<&Bytes>, _: Time) {
        self.clusters.remove(name);
        self.clusters.extend(bytes.map(|bytes| (name.to_owned(), bytes.clone())));
    }
    fn poll(&mut self) -> Option<Reply> {
        self.streams.iter_mut().find_map(|(id, (names, sent, nonce))| {
            let mut state = self.clusters.clone();
            state.retain(|name, _| names.contains(name));
            let news = mem::replace(sent, state.clone()) != state || *nonce == 0;
            *nonce += u64::from(news);
            let any = |value| proto::Any { type_url: types::CLUSTER.into(), value };
            let response = proto::DiscoveryResponse {
                version_info: format!("{state:?}"),
                type_url: types::CLUSTER.into(),
                resources: state.into_values().map(any).collect(),
                nonce: nonce.to_string(),
                ..Default::default()
            };
            news.then(|| Reply::Send(*id, response.encode_to_vec().into()))
        })
    }
}

pub(crate) fn main() {
    let config = Config::default().with_runs(300).with_options(|options| {
        (options.types, options.servers, options.variant) = (1, 1, Variant::StateOfTheWorld);
        options.actions = [Action::Unwatch, Action::Delete].into_iter().collect();
    });
    println!("{} runs", check(&config.with_control_plane(|_| Box::<Plane>::default()), storm).runs);
}
