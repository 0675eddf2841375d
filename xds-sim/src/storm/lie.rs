//! What no peer should say.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{proto, service::Variant};

use crate::{Toy, options::Lie, world::World};

/// A type that nobody knows.
const UNKNOWN_TYPE: &str = "type.googleapis.com/made.up.Type";

/// Tells a lie to a client that has an open stream, or to a server.
pub(super) fn tell(lie: Lie, world: &mut World, [kind, name, nth]: [u32; 3]) {
    let at = kind as usize;
    let variant = world.options().variant;
    if lie == Lie::HostileClient {
        let server = nth as usize % world.server_count();
        let garbage = vec![Bytes::from(vec![0xff; 1 + nth as usize]), Bytes::new()];
        let polite = proto::DiscoveryRequest {
            node: Some(proto::Node { id: "stranger".into(), ..Default::default() }),
            type_url: world.types()[at].as_str().into(),
            response_nonce: "never given".into(),
            resource_names: vec![String::new(), "*".into(), "r0".into(), "r0".into()],
            ..Default::default()
        };
        let messages = match nth % 2 {
            0 => garbage,
            _ => vec![polite.encode_to_vec().into(), polite.encode_to_vec().into()],
        };
        return world.strange_client(server, messages);
    }
    let links = world.open_links();
    let Some(&link) = links.get(nth as usize % links.len().max(1)) else { return };
    let type_url = match lie {
        Lie::UnknownType => UNKNOWN_TYPE.to_owned(),
        _ => world.types()[at].as_str().to_owned(),
    };
    let names = match lie {
        Lie::Twice => vec![world.name(at, name); 2],
        Lie::Invent => vec![world.name(at, name), "never asked for".into(), String::new()],
        _ => vec![world.name(at, name)],
    };
    let removed = if lie == Lie::Remove { vec![world.name(at, name)] } else { Vec::new() };
    let resources = if lie == Lie::Remove { Vec::new() } else { names };
    let nonce = if lie == Lie::NoNonce { "" } else { "a lie" };
    let bytes = response(variant, &type_url, nonce, &resources, removed);
    let bytes = match lie {
        Lie::Truncate => bytes.slice(..bytes.len() * (nth as usize % 8) / 8),
        Lie::Flip => {
            let mut bytes = bytes.to_vec();
            let at = (nth as usize * 7) % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (nth % 8);
            }
            bytes.into()
        }
        _ => bytes,
    };
    world.forge(link, bytes.clone(), lie.as_str());
    if lie == Lie::Repeat {
        world.forge(link, bytes, lie.as_str());
    }
}

fn response(
    variant: Variant,
    type_url: &str,
    nonce: &str,
    names: &[String],
    removed: Vec<String>,
) -> Bytes {
    let any =
        |name: &String| proto::Any { type_url: type_url.into(), value: Toy::bytes(name, "a lie") };
    match variant {
        Variant::StateOfTheWorld => proto::DiscoveryResponse {
            version_info: "a lie".into(),
            nonce: nonce.into(),
            type_url: type_url.into(),
            resources: names.iter().map(any).collect(),
            ..Default::default()
        }
        .encode_to_vec(),
        Variant::Incremental => proto::DeltaDiscoveryResponse {
            system_version_info: "a lie".into(),
            nonce: nonce.into(),
            type_url: type_url.into(),
            resources: names
                .iter()
                .map(|name| proto::Resource {
                    name: name.clone(),
                    version: "a lie".into(),
                    resource: Some(any(name)),
                    ..Default::default()
                })
                .collect(),
            removed_resources: removed,
            ..Default::default()
        }
        .encode_to_vec(),
    }
    .into()
}
