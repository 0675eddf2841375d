//! Lies: protocol violations by servers and by rogue clients.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{proto, service::Variant};

use crate::{
    Situation, Toy,
    options::Lie,
    world::{World, numbered},
};

/// A type that neither clients nor servers know.
const UNKNOWN_TYPE: &str = "type.googleapis.com/made.up.Type";

/// Number of names in large removals, which are used rarely because they are slow.
const MANY: u32 = 5_000;

/// Number of names in the largest removals, which are used very rarely.
const TOO_MANY: u32 = 100_000;

/// Number of names in ordinary removals: more than any client requested.
const SEVERAL: u32 = 100;

/// Length of the longest names, 1 MiB, which are used rarely because copying them is slow.
const LONGEST: usize = 1 << 20;

/// Length of overlong names.
const LONG: usize = 5_000;

/// Malformed `xdstp:` names.
const MALFORMED: [&str; 4] =
    ["xdstp:", "xdstp:///", "xdstp://apart/no.Type/a?b=1&b=2", "xdstp://apart/no.Type/a?=&&;%zz#%"];

/// Contents of a forged response.
#[derive(Clone)]
struct ForgedResponse {
    type_url: String,
    /// Type of the resources, normally the same as `type_url`.
    inner: String,
    nonce: &'static str,
    text: String,
    names: Vec<String>,
    removed: Vec<String>,
    errors: Vec<String>,
}

/// Sends a lie to a client with an open stream, or to a server.
pub(super) fn send(lie: Lie, world: &mut World, [kind, name, nth]: [u32; 3]) {
    let at = kind as usize;
    if lie.is_by_rogue_client() {
        let server = nth as usize % world.server_count();
        return world.add_rogue_client(server, lie, at, nth);
    }
    let links = world.open_links();
    let Some(&link) = links.get(nth as usize % links.len().max(1)) else { return };
    let type_url = world.types()[at].as_str().to_owned();
    let own = world.name(at, name);
    let mut forged = ForgedResponse {
        inner: type_url.clone(),
        type_url,
        nonce: "a lie",
        // The version never changes.
        text: format!("a lie {}", nth % 3),
        names: vec![own.clone()],
        removed: Vec::new(),
        errors: Vec::new(),
    };
    let mut variant = world.link(link).variant;
    let plain = forged.clone().in_variant(variant);
    match lie {
        Lie::UnknownType => {
            forged.type_url = UNKNOWN_TYPE.into();
            forged.inner = UNKNOWN_TYPE.into();
        }
        Lie::WrongAny => forged.inner = UNKNOWN_TYPE.into(),
        Lie::OtherEnvelope => forged.type_url = next_type(at, world),
        Lie::OtherAny => forged.inner = next_type(at, world),
        Lie::Twice => forged.names = vec![own; 2],
        Lie::Invent => forged.names.extend(["never asked for".into(), String::new()]),
        Lie::NoNonce => forged.nonce = "",
        Lie::Remove => (forged.removed, forged.names) = (forged.names, Vec::new()),
        Lie::Empty => forged.names.clear(),
        Lie::Contradict => {
            (forged.removed, forged.errors) = (vec![own.clone()], vec![own]);
            world.note(Situation::Contradicted);
        }
        Lie::RemoveMany => {
            let is_rare = nth.is_multiple_of(4);
            let count = match (is_rare, nth.is_multiple_of(32)) {
                (true, true) => TOO_MANY,
                (true, false) => MANY,
                (false, _) => SEVERAL,
            };
            let many = (0..count).map(|at| numbered("gone-", at));
            forged.removed = many.chain([own]).collect();
            if variant == Variant::StateOfTheWorld {
                forged.errors = std::mem::take(&mut forged.removed);
            }
            forged.names.clear();
            if is_rare {
                world.note(Situation::ManyRemoved);
            }
            if count == TOO_MANY {
                world.note(Situation::HundredThousandRemoved);
            }
        }
        Lie::LongName => {
            let length = if nth.is_multiple_of(16) { LONGEST } else { LONG };
            forged.names.extend(["x".repeat(length), String::new()]);
            world.note(Situation::ForgedNames);
        }
        Lie::MalformedName => {
            forged.names.extend(MALFORMED.map(String::from));
            world.note(Situation::ForgedNames);
        }
        Lie::OtherVariant => {
            variant = match variant {
                Variant::StateOfTheWorld => Variant::Incremental,
                Variant::Incremental => Variant::StateOfTheWorld,
            };
            world.note(Situation::ForgedVariant);
        }
        _ => {}
    }
    let bytes = forged.in_variant(variant);
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
    if lie == Lie::Repeat {
        world.forge(link, bytes.clone(), lie.as_str());
        return world.send_lie(link, bytes, lie);
    }
    match bytes == plain {
        // The lie had no effect on the response.
        true => world.forge(link, bytes, lie.as_str()),
        false => world.send_lie(link, bytes, lie),
    }
}

/// Returns another type that clients know, if there is one.
fn next_type(kind: usize, world: &World) -> String {
    let types = world.types();
    types[(kind + 1) % types.len()].as_str().to_owned()
}

impl ForgedResponse {
    fn in_variant(self, variant: Variant) -> Bytes {
        let any = |name: &String| proto::Any {
            type_url: self.inner.clone(),
            value: Toy::bytes(name, &self.text),
        };
        let resource_errors = self.errors.iter().map(|name| proto::ResourceError {
            resource_name: Some(proto::ResourceName { name: name.clone(), ..Default::default() }),
            error_detail: Some(proto::Status { code: 5, ..Default::default() }),
        });
        match variant {
            Variant::StateOfTheWorld => proto::DiscoveryResponse {
                version_info: "a lie".into(),
                nonce: self.nonce.into(),
                resources: self.names.iter().map(any).collect(),
                resource_errors: resource_errors.collect(),
                type_url: self.type_url,
                ..Default::default()
            }
            .encode_to_vec(),
            Variant::Incremental => {
                let resource = |name: &String| proto::Resource {
                    name: name.clone(),
                    version: "a lie".into(),
                    resource: Some(any(name)),
                    ..Default::default()
                };
                proto::DeltaDiscoveryResponse {
                    system_version_info: "a lie".into(),
                    nonce: self.nonce.into(),
                    resources: self.names.iter().map(resource).collect(),
                    removed_resources: self.removed,
                    resource_errors: resource_errors.collect(),
                    type_url: self.type_url,
                    ..Default::default()
                }
                .encode_to_vec()
            }
        }
        .into()
    }
}
