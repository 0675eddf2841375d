//! Generated steps of a walk.

use proptest::prelude::*;
use prost::Message as _;
use xds_core::{proto, service::Variant};

use super::{super::TYPES, setup::name_of, store::Held};

#[derive(Clone, Debug)]
pub enum Step {
    Watch {
        kind: usize,
        name: Option<u8>,
    },
    Unwatch(usize),
    TakeOutput,
    TakeChange(usize),
    Handled(usize),
    Open(usize),
    Transmit(usize),
    Push {
        nth: usize,
        kind: usize,
    },
    Close(usize),
    Put {
        server: usize,
        kind: usize,
        name: u8,
        text: u8,
        /// TTL in seconds.
        ttl: Option<u8>,
    },
    /// The server gets an error instead of the resource.
    Report {
        server: usize,
        kind: usize,
        name: u8,
        code: i32,
    },
    /// The server sends heartbeats for resources with a TTL.
    Beat {
        nth: usize,
        kind: usize,
    },
    Delete {
        server: usize,
        kind: usize,
        name: u8,
    },
    /// The server sends an invalid message.
    Forge {
        nth: usize,
        bytes: Vec<u8>,
    },
    Sleep {
        millis: u64,
    },
    Rest,
}

impl Step {
    /// Returns the step without removals, errors and TTLs.
    pub fn without_endings(self) -> Option<Self> {
        match self {
            Self::Delete { .. } | Self::Report { .. } => None,
            Self::Put { server, kind, name, text, .. } => {
                Some(Self::Put { server, kind, name, text, ttl: None })
            }
            step => Some(step),
        }
    }

    /// Returns the step for the type whose responses are never complete.
    pub fn of_endpoints(mut self) -> Self {
        if let Self::Watch { kind, .. }
        | Self::Push { kind, .. }
        | Self::Put { kind, .. }
        | Self::Report { kind, .. }
        | Self::Beat { kind, .. } = &mut self
        {
            *kind = 1;
        }
        self
    }
}

fn kind() -> impl Strategy<Value = usize> {
    proptest::bool::weighted(0.3).prop_map(usize::from)
}

/// Steps of conforming applications, transports and servers.
pub fn legal() -> impl Strategy<Value = Step> {
    let (name, watch, nth, server) = (|| 0..4u8, || 0..4usize, || 0..4usize, || 0..3usize);
    let ttl = proptest::option::weighted(0.25, 3..20u8);
    prop_oneof![
        5 => (kind(), proptest::option::weighted(0.75, name()))
            .prop_map(|(kind, name)| Step::Watch { kind, name }),
        3 => watch().prop_map(Step::Unwatch),
        5 => Just(Step::TakeOutput),
        2 => watch().prop_map(Step::TakeChange),
        2 => watch().prop_map(Step::Handled),
        4 => nth().prop_map(Step::Open),
        5 => nth().prop_map(Step::Transmit),
        8 => (nth(), kind()).prop_map(|(nth, kind)| Step::Push { nth, kind }),
        2 => nth().prop_map(Step::Close),
        5 => (server(), kind(), name(), 0..4u8, ttl)
            .prop_map(|(server, kind, name, text, ttl)| Step::Put { server, kind, name, text, ttl }),
        1 => (server(), kind(), name(), proptest::sample::select(&[5, 7, 13][..]))
            .prop_map(|(server, kind, name, code)| Step::Report { server, kind, name, code }),
        3 => (nth(), kind()).prop_map(|(nth, kind)| Step::Beat { nth, kind }),
        2 => (server(), kind(), name())
            .prop_map(|(server, kind, name)| Step::Delete { server, kind, name }),
        2 => (0..20_000u64).prop_map(|millis| Step::Sleep { millis }),
        7 => Just(Step::Rest),
    ]
}

/// Conforming steps mixed with invalid messages.
pub fn hostile() -> impl Strategy<Value = Step> {
    let response = (
        any::<bool>(),
        kind(),
        proptest::collection::vec((0..4u8, 0..4u8), 0..4),
        proptest::collection::vec(0..4u8, 0..3),
        0..4u8,
        any::<prop::sample::Index>(),
        any::<u8>(),
    );
    let forged = response.prop_map(|(is_delta, kind, resources, removed, harm, at, flip)| {
        let variant = if is_delta { Variant::Incremental } else { Variant::StateOfTheWorld };
        let type_url = if harm == 3 { UNKNOWN_TYPE } else { TYPES[kind] };
        let mut bytes = lie(variant, (kind, type_url), &resources, &removed);
        let at = at.index(bytes.len());
        match harm {
            0 | 3 => {}
            1 => bytes.truncate(at),
            _ => bytes[at] ^= flip,
        }
        bytes
    });
    prop_oneof![
        4 => legal(),
        1 => (0..4usize, forged).prop_map(|(nth, bytes)| Step::Forge { nth, bytes }),
    ]
}

/// An unregistered type.
const UNKNOWN_TYPE: &str = "type.googleapis.com/made.up.Type";

/// Returns a well-formed response with arbitrary content.
fn lie(
    variant: Variant,
    (kind, type_url): (usize, &str),
    resources: &[(u8, u8)],
    removed: &[u8],
) -> Vec<u8> {
    let held = |text: u8| Held { version: u64::from(text), text, ttl: None };
    let any = |&(name, text): &(u8, u8)| held(text).to_any(kind, &name_of(kind, name));
    let errors = removed.iter().rev().map(|&name| proto::ResourceError {
        resource_name: Some(proto::ResourceName {
            name: name_of(kind, name),
            ..Default::default()
        }),
        error_detail: Some(proto::Status { code: i32::from(name), ..Default::default() }),
    });
    match variant {
        Variant::StateOfTheWorld => proto::DiscoveryResponse {
            version_info: "lie".into(),
            nonce: "lie".into(),
            type_url: type_url.into(),
            resources: resources.iter().map(any).collect(),
            resource_errors: errors.collect(),
            ..Default::default()
        }
        .encode_to_vec(),
        Variant::Incremental => proto::DeltaDiscoveryResponse {
            system_version_info: "lie".into(),
            nonce: "lie".into(),
            type_url: type_url.into(),
            resources: resources
                .iter()
                .map(|one| proto::Resource {
                    name: name_of(kind, one.0),
                    version: format!("v{}", one.1),
                    resource: (one.1 != 2).then(|| any(one)),
                    ttl: (one.1 == 1).then_some(proto::Duration { seconds: 7, nanos: 1 }),
                    ..Default::default()
                })
                .collect(),
            removed_resources: removed.iter().map(|&name| name_of(kind, name)).collect(),
            resource_errors: errors.collect(),
            ..Default::default()
        }
        .encode_to_vec(),
    }
}
