//! Checks a user-defined control plane, which serves clusters by name in full state, with storms of
//! clients.
use std::collections::BTreeMap;
use xds_core::{Time, TypeUrl, proto, service::Variant, types};
use xds_sim::{Config, ControlPlane, Reply, check, options::Action, storm};
use {bytes::Bytes, prost::Message as _};

#[derive(Default)]
struct Stream {
    wanted: Vec<String>,
    sent: BTreeMap<String, Bytes>,
    nonce: u64,
}
#[derive(Default)]
struct Plane {
    clusters: BTreeMap<String, Bytes>,
    streams: BTreeMap<u64, Stream>,
}
impl ControlPlane for Plane {
    fn request(&mut self, stream: u64, message: &Bytes, _: Time) {
        let Ok(request) = proto::DiscoveryRequest::decode(&**message) else { return };
        let stream = self.streams.entry(stream).or_default();
        if request.response_nonce.is_empty() || request.response_nonce == stream.nonce.to_string() {
            stream.wanted = request.resource_names;
            stream.sent.retain(|name, _| stream.wanted.contains(name)); // Forget others.
        } // Otherwise the ACK of a newer response repeats it.
    }
    fn closed(&mut self, stream: u64, _: Time) {
        self.streams.remove(&stream);
    }
    fn changed(&mut self, _: &TypeUrl, name: &str, bytes: Option<&Bytes>, _: Time) {
        self.clusters.remove(name);
        self.clusters.extend(bytes.map(|bytes| (name.to_owned(), bytes.clone())));
    }
    fn poll(&mut self) -> Option<Reply> {
        let mut state = BTreeMap::new();
        let (id, stream) = self.streams.iter_mut().find(|(_, stream)| {
            state.clone_from(&self.clusters);
            state.retain(|name, _| stream.wanted.contains(name));
            stream.sent != state || stream.nonce == 0
        })?;
        (stream.sent, stream.nonce) = (state.clone(), stream.nonce + 1);
        let any = |value| proto::Any { type_url: types::CLUSTER.into(), value };
        let response = proto::DiscoveryResponse {
            version_info: format!("{state:?}"), // Equal where the content is, also after a restart.
            type_url: types::CLUSTER.into(),
            resources: state.into_values().map(any).collect(),
            nonce: stream.nonce.to_string(),
            ..Default::default()
        };
        Some(Reply::Send(*id, response.encode_to_vec().into()))
    }
}
pub(crate) fn main() {
    let config = Config::default().with_runs(300).with_options(|options| {
        (options.types, options.servers, options.variant) = (1, 1, Variant::StateOfTheWorld);
        options.actions = [Action::Unwatch, Action::Delete].into_iter().collect();
    });
    println!("{} runs", check(&config.with_control_plane(|_| Box::<Plane>::default()), storm).runs);
}
