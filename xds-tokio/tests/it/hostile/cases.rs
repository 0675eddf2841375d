//! Invalid messages and their expected results.

use bytes::Bytes;
use prost::Message as _;
use tonic::Code;
use xds_core::proto::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status};

use crate::{
    hostile::{NAMES, TYPES},
    support::{AGGREGATED, CLUSTER, DELTA_AGGREGATED, ENDPOINTS},
};

const STREAM_CLUSTERS: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters";

/// Expected result for the offending client.
pub(crate) enum End {
    /// The stream ends with this code and a message that contains this text.
    Status(Code, &'static str),
    /// The stream stays open, and the next request is answered.
    Served,
}

use End::{Served, Status as Ends};

/// Returns an ACK or NACK, possibly for a response that was not sent.
fn sound_ack(nonce: &str, error: Option<Status>) -> Bytes {
    whole(|it| {
        it.response_nonce = nonce.into();
        it.error_detail = error;
    })
}

fn node(id: &str) -> Option<Node> {
    Some(Node { id: id.into(), ..Node::default() })
}

/// Returns a first request for clusters, modified by `alter`.
pub(crate) fn whole(alter: impl FnOnce(&mut DiscoveryRequest)) -> Bytes {
    let mut request =
        DiscoveryRequest { node: node("bad"), type_url: CLUSTER.into(), ..Default::default() };
    alter(&mut request);
    request.encode_to_vec().into()
}

/// Returns a first incremental request for clusters, modified by `alter`.
pub(crate) fn delta(alter: impl FnOnce(&mut DeltaDiscoveryRequest)) -> Bytes {
    let mut request =
        DeltaDiscoveryRequest { node: node("bad"), type_url: CLUSTER.into(), ..Default::default() };
    alter(&mut request);
    request.encode_to_vec().into()
}

pub(crate) fn rejection(bytes: usize) -> Option<Status> {
    Some(Status { code: 3, message: "no ".repeat(bytes / 3), ..Status::default() })
}

pub(crate) fn many(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n}")).collect()
}

/// Returns the cases: description, method, messages and expected result.
pub(crate) fn cases() -> Vec<(&'static str, &'static str, Vec<Bytes>, End)> {
    let sound = whole(|_| {});
    let cut = sound.slice(..sound.len() - 3);
    let long = "x".repeat(1 << 20);
    let mut no_text = sound.to_vec();
    no_text.extend_from_slice(b"\x1a\x02\xff\xfe");
    let mut odd_number = sound.to_vec();
    odd_number.extend_from_slice(b"\x18\x01");
    let types = (0..=TYPES).map(|n| whole(|it| it.type_url = format!("t/{n}")));
    vec![
        (
            "garbage",
            AGGREGATED,
            vec![Bytes::from_static(&[0xff; 99])],
            Ends(Code::InvalidArgument, "malformed"),
        ),
        (
            "garbage",
            DELTA_AGGREGATED,
            vec![Bytes::from_static(&[0xff; 99])],
            Ends(Code::InvalidArgument, "malformed"),
        ),
        ("an empty message", AGGREGATED, vec![Bytes::new()], Ends(Code::InvalidArgument, "node")),
        ("a message cut short", AGGREGATED, vec![cut], Ends(Code::InvalidArgument, "truncated")),
        (
            "a name that is not UTF-8",
            AGGREGATED,
            vec![no_text.into()],
            Ends(Code::InvalidArgument, "UTF-8"),
        ),
        (
            "a number for a name",
            AGGREGATED,
            vec![odd_number.into()],
            Ends(Code::InvalidArgument, "wrong encoding"),
        ),
        (
            "no node",
            AGGREGATED,
            vec![whole(|it| it.node = None)],
            Ends(Code::InvalidArgument, "node id"),
        ),
        (
            "a node without id",
            DELTA_AGGREGATED,
            vec![delta(|it| it.node = node(""))],
            Ends(Code::InvalidArgument, "node id"),
        ),
        (
            "no type",
            AGGREGATED,
            vec![whole(|it| it.type_url.clear())],
            Ends(Code::InvalidArgument, "type URL"),
        ),
        (
            "another type than the stream's",
            STREAM_CLUSTERS,
            vec![whole(|it| it.type_url = ENDPOINTS.into())],
            Ends(Code::InvalidArgument, "on a stream of"),
        ),
        (
            "a type that nobody knows",
            AGGREGATED,
            vec![whole(|it| it.type_url = "no/such.Type".into())],
            Served,
        ),
        (
            "a type that nobody knows",
            DELTA_AGGREGATED,
            vec![delta(|it| it.type_url = "no/such.Type".into())],
            Served,
        ),
        (
            "a type URL without any form",
            AGGREGATED,
            vec![whole(|it| it.type_url = "\u{0}\u{7f}/../%".into())],
            Served,
        ),
        (
            "a type URL of a MiB",
            AGGREGATED,
            vec![whole(|it| it.type_url = long.clone())],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "a name of a MiB",
            AGGREGATED,
            vec![whole(|it| it.resource_names = vec![long.clone()])],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "a name of a MiB",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = vec![long.clone()])],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "to drop a name of a MiB",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_unsubscribe = vec![long.clone()])],
            Ends(Code::ResourceExhausted, "limit of 2048"),
        ),
        (
            "a version of a MiB",
            AGGREGATED,
            vec![whole(|it| it.version_info = long.clone())],
            Served,
        ),
        (
            "a node of more than a MiB",
            AGGREGATED,
            vec![whole(|it| it.node.as_mut().unwrap().cluster = format!("{long}x"))],
            Ends(Code::ResourceExhausted, "node of"),
        ),
        (
            "empty names",
            AGGREGATED,
            vec![whole(|it| it.resource_names = vec![String::new(); 3])],
            Served,
        ),
        (
            "empty names",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = vec![String::new(); 3])],
            Served,
        ),
        (
            "a name many times",
            AGGREGATED,
            vec![whole(|it| it.resource_names = vec!["c".into(); 1_000])],
            Served,
        ),
        (
            "names of no form",
            AGGREGATED,
            vec![whole(|it| {
                it.resource_names =
                    vec!["xdstp://a/b?x=%zz&=".into(), "xdstp:///".into(), "\u{0}".into()]
            })],
            Served,
        ),
        (
            "all but one of the names that a connection may have",
            AGGREGATED,
            vec![whole(|it| it.resource_names = many(99_999))],
            Served,
        ),
        (
            "all but one of the names that a connection may have",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = many(99_999))],
            Served,
        ),
        (
            "more names than are held",
            AGGREGATED,
            vec![whole(|it| it.resource_names = many(NAMES + 1))],
            Ends(Code::ResourceExhausted, "resource names"),
        ),
        (
            "more names than are held",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_subscribe = many(NAMES + 1))],
            Ends(Code::ResourceExhausted, "resource names"),
        ),
        (
            "more types than are held",
            AGGREGATED,
            types.collect(),
            Ends(Code::ResourceExhausted, "resource types"),
        ),
        (
            "a message over the limit",
            AGGREGATED,
            vec![whole(|it| it.version_info = long.repeat(5))],
            Ends(Code::ResourceExhausted, "limit is: 4194304 bytes"),
        ),
        (
            "a nonce of its own",
            AGGREGATED,
            vec![whole(|it| it.response_nonce = "17".into())],
            Served,
        ),
        (
            "a nonce of a MiB",
            AGGREGATED,
            vec![sound.clone(), whole(|it| it.response_nonce = long.clone())],
            Served,
        ),
        (
            "a nonce of the future",
            AGGREGATED,
            vec![sound.clone(), whole(|it| it.response_nonce = "99999".into())],
            Served,
        ),
        (
            "a nonce of the future",
            DELTA_AGGREGATED,
            vec![delta(|_| {}), delta(|it| it.response_nonce = "99999".into())],
            Served,
        ),
        (
            "the same ACK again and again",
            AGGREGATED,
            core::iter::once(sound.clone())
                .chain((0..50).map(|_| whole(|it| it.response_nonce = "1".into())))
                .collect(),
            Served,
        ),
        (
            "a rejection before there is anything",
            AGGREGATED,
            vec![whole(|it| it.error_detail = rejection(30))],
            Served,
        ),
        (
            "rejections of a MiB",
            AGGREGATED,
            core::iter::once(sound.clone())
                .chain((0..20).map(|_| {
                    whole(|it| {
                        it.response_nonce = "1".into();
                        it.error_detail = rejection(1 << 20);
                    })
                }))
                .collect(),
            Served,
        ),
        (
            "rejections of a MiB",
            DELTA_AGGREGATED,
            core::iter::once(delta(|_| {}))
                .chain((0..20).map(|_| {
                    delta(|it| {
                        it.response_nonce = "1".into();
                        it.error_detail = rejection(1 << 20);
                    })
                }))
                .collect(),
            Served,
        ),
        (
            "another node in every request",
            AGGREGATED,
            (0..50).map(|n| whole(|it| it.node = node(&n.to_string()))).collect(),
            Served,
        ),
        (
            "names come and gone",
            AGGREGATED,
            (0..2_000)
                .map(|n| {
                    whole(|it| {
                        if n % 2 == 0 {
                            it.resource_names = vec![format!("n{n}")]
                        }
                    })
                })
                .collect(),
            Served,
        ),
        (
            "names come and gone",
            DELTA_AGGREGATED,
            (0..2_000)
                .map(|n| {
                    delta(|it| {
                        let name = vec![format!("n{}", n / 2)];
                        if n % 2 == 0 {
                            it.resource_names_subscribe = name
                        } else {
                            it.resource_names_unsubscribe = name
                        }
                    })
                })
                .collect(),
            Served,
        ),
        (
            "incremental requests among others",
            AGGREGATED,
            vec![sound.clone(), delta(|it| it.resource_names_subscribe = vec!["c".into()])],
            Ends(Code::InvalidArgument, "type URL"),
        ),
        ("whole lists among increments", DELTA_AGGREGATED, vec![delta(|_| {}), sound], Served),
        (
            "versions in the midst of a stream",
            DELTA_AGGREGATED,
            vec![
                delta(|_| {}),
                delta(|it| {
                    it.initial_resource_versions =
                        many(100).into_iter().map(|name| (name, "v".into())).collect()
                }),
            ],
            Served,
        ),
        (
            "a name asked for and dropped in one breath",
            DELTA_AGGREGATED,
            vec![delta(|it| {
                it.resource_names_subscribe = vec!["c".into(), "*".into()];
                it.resource_names_unsubscribe = vec!["*".into(), "c".into()];
            })],
            Served,
        ),
        (
            "an ACK and a rejection of one response",
            AGGREGATED,
            vec![
                sound_ack("1", None),
                sound_ack("1", rejection(30)),
                sound_ack("1", None),
                sound_ack("", rejection(30)),
            ],
            Served,
        ),
        (
            "to drop what was never asked for",
            DELTA_AGGREGATED,
            vec![delta(|it| it.resource_names_unsubscribe = many(99_999))],
            Served,
        ),
    ]
}
