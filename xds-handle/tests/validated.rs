//! A proxy's client rejects what breaks a constraint of the schema; one of gRPC's takes it.

#![cfg(feature = "validation")]

use bytes::Bytes;
use xds_core::{
    client::{Context, ManagementServer, OpaqueType, Profile, Rejection, ResourceType, Value},
    types,
};
use xds_format::{Format, Schema, Validator, encode_message};
use xds_handle::{Deprecations, Validated};

/// `Cluster { name: "c", connect_timeout: TIMEOUT }`.
fn cluster(timeout: &str) -> Bytes {
    let json = format!("{{\"name\": \"c\", \"connect_timeout\": {timeout:?}}}");
    let name = "envoy.config.cluster.v3.Cluster";
    encode_message(Schema::envoy(), "", name, Format::Json, json.as_bytes()).unwrap().into()
}

/// Rejects everything, for its own reason.
#[derive(Debug)]
struct Picky(OpaqueType);

impl ResourceType for Picky {
    fn type_url(&self) -> &xds_core::TypeUrl {
        self.0.type_url()
    }

    fn validate(&self, _: &Bytes, _: &Context<'_>) -> Result<Option<Value>, Rejection> {
        Err(Rejection::new("not today"))
    }
}

fn judge(resource_type: &impl ResourceType, resource: &Bytes) -> Result<(), String> {
    let (server, profile) = (ManagementServer::new("127.0.0.1:1"), Profile::envoy());
    let verdict = resource_type.validate(resource, &Context::new(&server, &profile));
    verdict.map(drop).map_err(|why| why.reason().to_owned())
}

#[test]
fn constraints_are_judged_first_and_only_where_they_are_asked_for() {
    let plain = || OpaqueType::new(types::CLUSTER);
    let validated = Validated::new(plain(), Validator::envoy());
    let (good, bad) = (cluster("1s"), cluster("0s"));
    assert_eq!(judge(&validated, &good), Ok(()));
    let reason = "connect_timeout: must be greater than 0s, is 0s".to_owned();
    assert_eq!(judge(&validated, &bad), Err(reason.clone()));
    assert_eq!(judge(&plain(), &bad), Ok(()), "nobody asked for it");

    let picky = Validated::new(Picky(plain()), Validator::envoy());
    assert_eq!(judge(&picky, &good), Err("not today".to_owned()));
    assert_eq!(judge(&picky, &bad), Err(reason));
    println!("covers: S4.032 X39 B15");
}

#[test]
fn a_type_stays_what_it_is() {
    for url in [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT] {
        let plain = OpaqueType::new(url);
        let validated = Validated::new(plain.clone(), Validator::envoy());
        assert_eq!(validated.type_url(), plain.type_url());
        assert_eq!(validated.full_state_in_sotw(), plain.full_state_in_sotw());
        assert_eq!(validated.verdict(), plain.verdict());
        assert_eq!(validated.name(&cluster("1s")), Ok("c"));
    }
}

/// S4.011: what is deprecated is counted where it is used by what is valid, and by nothing else.
#[test]
fn deprecated_fields_are_counted() {
    let deprecations = Deprecations::default();
    let counting = Validated::new(OpaqueType::new(types::CLUSTER), Validator::envoy())
        .with_deprecations(Schema::envoy(), deprecations.clone());
    let encode = |json: &str| -> Bytes {
        let name = "envoy.config.cluster.v3.Cluster";
        encode_message(Schema::envoy(), "", name, Format::Json, json.as_bytes()).unwrap().into()
    };
    let older = encode(r#"{"name": "c", "http2_protocol_options": {}}"#);
    let rejected =
        encode(r#"{"name": "c", "connect_timeout": "0s", "http2_protocol_options": {}}"#);
    assert_eq!(judge(&counting, &cluster("1s")), Ok(()));
    assert!(deprecations.counts().is_empty());
    assert_eq!(judge(&counting, &older), Ok(()));
    assert_eq!(judge(&counting, &older), Ok(()));
    assert!(judge(&counting, &rejected).is_err());
    let counts: Vec<_> = deprecations.counts().into_iter().collect();
    assert_eq!(counts, [("envoy.config.cluster.v3.Cluster.http2_protocol_options".to_owned(), 2)]);
    println!("covers: S4.011");
}
