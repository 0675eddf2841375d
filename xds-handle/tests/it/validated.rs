//! A proxy's client rejects resources that violate a schema constraint; a gRPC client accepts them.

#![cfg(feature = "validation")]

use std::sync::Arc;

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{
        CachedResource, ClientConfig, Node, OpaqueType, Profile, Rejection, ResourceType,
        ServerAddress, ValidationContext, Value, VerdictSource,
    },
    types,
};
use xds_format::{Format, Schema, Validator, encode_message};
use xds_handle::{Deprecations, Validated, ValidatedTypes as _, guard_types};

/// `Cluster { name: "c", connect_timeout: TIMEOUT }`.
fn cluster(timeout: &str) -> Bytes {
    let json = format!("{{\"name\": \"c\", \"connect_timeout\": {timeout:?}}}");
    let name = "envoy.config.cluster.v3.Cluster";
    encode_message(Schema::envoy(), "", name, Format::Json, json.as_bytes()).unwrap().into()
}

/// Type that rejects every resource.
#[derive(Debug)]
struct Picky(OpaqueType);

impl ResourceType for Picky {
    fn type_url(&self) -> &TypeUrl {
        self.0.type_url()
    }

    fn validate(&self, _: &Bytes, _: &ValidationContext<'_>) -> Result<Option<Value>, Rejection> {
        Err(Rejection::new("not today"))
    }
}

fn judge(resource_type: &impl ResourceType, resource: &Bytes) -> Result<(), String> {
    let (server, profile) = (ServerAddress::new("127.0.0.1:1"), Profile::envoy());
    let verdict = resource_type.validate(resource, &ValidationContext::new(&server, &profile));
    verdict.map(drop).map_err(|why| why.reason().to_owned())
}

#[test]
fn validation_runs_before_the_inner_type_and_only_if_configured() {
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
fn validated_type_keeps_the_properties_of_the_inner_type() {
    for url in [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT] {
        let plain = OpaqueType::new(url);
        let validated = Validated::new(plain.clone(), Validator::envoy());
        assert_eq!(validated.type_url(), plain.type_url());
        assert_eq!(validated.full_state_in_sotw(), plain.full_state_in_sotw());
        assert_eq!(validated.verdict_source(), plain.verdict_source());
        assert_eq!(validated.name(&cluster("1s")), Ok("c"));
    }
}

/// Type that overrides every method of `ResourceType`.
#[derive(Debug)]
struct Peculiar(TypeUrl);

impl ResourceType for Peculiar {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn full_state_in_sotw(&self) -> bool {
        !types::is_full_state_in_sotw(self.0.as_str())
    }

    fn verdict_source(&self) -> VerdictSource {
        VerdictSource::External
    }

    fn name<'a>(&self, _: &'a [u8]) -> Result<&'a str, Rejection> {
        Ok("peculiar")
    }

    fn validate(&self, _: &Bytes, _: &ValidationContext<'_>) -> Result<Option<Value>, Rejection> {
        Ok(Some(Value::new("anew")))
    }

    fn validate_update(
        &self,
        held: CachedResource<'_>,
        _: &Bytes,
        _: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        Ok(Some(held.value.clone()))
    }
}

/// Every wrapper forwards all methods of the inner type, including `validate_update`.
#[test]
fn type_wrappers_forward_all_methods() {
    let peculiar = || Peculiar(types::CLUSTER.into());
    let config = || ClientConfig::new(Node::new("n"), ServerAddress::new("127.0.0.1:1"));
    let validated = config().with_type(peculiar()).with_validated_types(Validator::envoy());
    let guarded = guard_types(config().with_type(peculiar()));
    let shared: Arc<dyn ResourceType> = Arc::new(peculiar());
    for wrapper in
        [&validated.types[0], &guarded.types[0], &Arc::new(shared) as &Arc<dyn ResourceType>]
    {
        assert_eq!(wrapper.type_url(), types::CLUSTER);
        assert_eq!(wrapper.full_state_in_sotw(), peculiar().full_state_in_sotw());
        assert_eq!(wrapper.verdict_source(), VerdictSource::External);
        assert_eq!(wrapper.name(&cluster("1s")), Ok("peculiar"));
        let (server, profile) = (ServerAddress::new("127.0.0.1:1"), Profile::envoy());
        let context = ValidationContext::new(&server, &profile);
        let text = |judged: Result<Option<Value>, Rejection>| {
            *judged.expect("it is valid").expect("a value").downcast::<&str>().expect("a text")
        };
        assert_eq!(text(wrapper.validate(&cluster("1s"), &context)), "anew");
        let (bytes, before) = (cluster("2s"), Value::new("taken over"));
        let after =
            wrapper.validate_update(CachedResource::new(&bytes, &before), &cluster("1s"), &context);
        assert_eq!(text(after), "taken over");
    }
    // A violation is found even if the resource in use is valid.
    let (server, profile) = (ServerAddress::new("127.0.0.1:1"), Profile::envoy());
    let (bytes, before) = (cluster("1s"), Value::new("sound"));
    let held = CachedResource::new(&bytes, &before);
    let context = ValidationContext::new(&server, &profile);
    let judged = validated.types[0].validate_update(held, &cluster("0s"), &context);
    assert!(judged.is_err_and(|why| why.reason().contains("connect_timeout")));
    println!("covers: S4.032");
}

// S4.011: deprecated fields are counted in valid resources only.
#[test]
fn deprecated_fields_of_valid_resources_are_counted() {
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
