//! Watches of decoded resources.

use core::{any::Any as _, task::Poll};
use std::sync::Arc;

use crate::rig::{Bell, CLUSTER, ENDPOINTS, Rig};
use prost::{Message, Name, bytes::Bytes};
use xds_core::{
    TypeUrl,
    client::{
        AuthorityConfig, ClientConfig, FlowControl, InvalidStructuredName, InvalidWatch, Node,
        OpaqueType, Profile, Rejection, ServerAddress, ValidationContext, WatchErrorKind,
    },
    service::Variant,
};
use xds_handle::{Decode, InvalidTypedWatch, Typed, TypedChange, TypedNotice, TypedWatchAll};

/// Resource of the rig with a name and a text, as prost would generate it.
#[derive(Clone, PartialEq, Message)]
struct Cluster {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    extra: String,
}

impl Name for Cluster {
    const PACKAGE: &'static str = "envoy.config.cluster.v3";
    const NAME: &'static str = "Cluster";
}

/// Decoded endpoints: the length of their name, which must be odd.
#[derive(Debug, PartialEq)]
struct Length(usize);

impl Decode for Length {
    fn type_url() -> TypeUrl {
        ENDPOINTS.into()
    }

    fn decode(resource: &Bytes, _: &ValidationContext<'_>) -> Result<Self, Rejection> {
        let cluster = <Cluster as Message>::decode(resource.clone());
        let length = cluster.map_err(|why| Rejection::new(why.to_string()))?.name.len();
        if length % 2 == 0 { Err(Rejection::new("it is even")) } else { Ok(Self(length)) }
    }
}

/// Type whose decoder panics for some resources.
#[derive(Debug, PartialEq)]
struct Fragile;

impl Decode for Fragile {
    fn type_url() -> TypeUrl {
        ENDPOINTS.into()
    }

    fn decode(resource: &Bytes, _: &ValidationContext<'_>) -> Result<Self, Rejection> {
        let cluster = <Cluster as Message>::decode(resource.clone()).expect("a message");
        assert!(cluster.extra != "worse", "text {:?} is too much for it", cluster.extra);
        Ok(Self)
    }
}

/// Type that is not registered with the client.
#[derive(Debug)]
struct Other;

impl Decode for Other {
    fn type_url() -> TypeUrl {
        CLUSTER.into()
    }

    fn decode(_: &Bytes, _: &ValidationContext<'_>) -> Result<Self, Rejection> {
        Ok(Self)
    }
}

fn rig() -> Rig {
    let mut profile = Profile::grpc();
    profile.flow_control = FlowControl::Off;
    let config = ClientConfig::new(Node::new("n"), ServerAddress::new("server"))
        .with_type(Typed::<Cluster>::new())
        .with_type(Typed::<Length>::default())
        .with_profile(profile);
    Rig::opened_as(config)
}

#[test]
fn typed_watches_share_one_decoded_value() {
    let mut rig = rig();
    let mut watch = rig.handle.watch::<Cluster>("a");
    let mut again = rig.handle.watch::<Cluster>("a");
    let bell = Bell::default();
    assert!(bell.poll(&mut watch).is_pending());
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let Poll::Ready(Some(Ok(TypedNotice::Changed(Ok(first))))) = bell.poll(&mut watch) else {
        panic!("no value");
    };
    assert_eq!((first.name.as_str(), first.extra.as_str()), ("a", "one"));
    assert_eq!(first.resource().version.as_str(), "1");
    let Poll::Ready(Some(Ok(TypedNotice::Changed(Ok(second))))) = bell.poll(&mut again) else {
        panic!("no value");
    };
    assert!(Arc::ptr_eq(first.value(), second.value()));
    watch.handled();

    rig.respond(CLUSTER, "2", &[]);
    let Poll::Ready(Some(Ok(TypedNotice::Ambient(Some(error))))) = bell.poll(&mut watch) else {
        panic!("no ambient error");
    };
    assert_eq!(error.kind(), &WatchErrorKind::Deleted);
}

#[test]
fn typed_wildcard_watch_yields_decoded_resources() {
    let mut rig = rig();
    let mut all = rig.handle.watch_all::<Cluster>();
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one"), ("b", "two")]);
    let bell = Bell::default();
    let mut names = Vec::new();
    loop {
        let step = bell.poll(&mut all);
        rig.drive();
        match step {
            Poll::Ready(Some(Ok(TypedChange::Resource { name, result: Ok(cluster) }))) => {
                assert_eq!(name.as_str(), cluster.name);
                names.push(cluster.name.clone());
            }
            Poll::Ready(Some(Ok(TypedChange::Collection(Ok(()))))) => {}
            Poll::Pending if names.len() == 2 => break,
            Poll::Pending => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(names, ["a", "b"]);
    assert!(all.is_caught_up());
    all.handled();
}

#[test]
fn typed_glob_watch_yields_its_decoded_members() {
    // FE-22, FE-23: members of a glob are reported like all resources of a type.
    let server = ServerAddress::new("server").with_variant(Variant::Incremental);
    let config = ClientConfig::new(Node::new("n"), server)
        .with_authority(AuthorityConfig::new("a"))
        .with_type(Typed::<Cluster>::new());
    let mut rig = Rig::opened_as(config);
    let of = |path: &str| format!("xdstp://a/envoy.config.cluster.v3.Cluster/{path}");
    let mut glob = rig.handle.watch_glob::<Cluster>(of("web/*"));
    let mut empty = rig.handle.watch_glob::<Cluster>(of("none/*"));
    let mut single = rig.handle.watch_glob::<Cluster>(of("web/one"));
    rig.drive();
    rig.respond_delta(CLUSTER, &[&of("web/one"), &of("mail/one")], &[&of("none/*")]);
    let bell = Bell::default();
    let mut take = |watch: &mut TypedWatchAll<Cluster>| {
        let mut taken = Vec::new();
        for _ in 0..3 {
            if let Poll::Ready(Some(item)) = bell.poll(watch) {
                taken.push(item);
            }
            rig.drive();
        }
        taken
    };
    let taken = take(&mut glob);
    let [
        Ok(TypedChange::Resource { name, result: Ok(cluster) }),
        Ok(TypedChange::Collection(Ok(()))),
    ] = &taken[..]
    else {
        panic!("unexpected {taken:?}");
    };
    assert_eq!((name.as_str(), cluster.name.as_str()), (&*of("web/one"), &*of("web/one")));
    let taken = take(&mut empty);
    assert!(matches!(taken[..], [Ok(TypedChange::Collection(Ok(())))]), "{taken:?}");
    let taken = take(&mut single);
    let [Err(InvalidTypedWatch::Watch(InvalidWatch::Structured { why, .. }))] = &taken[..] else {
        panic!("unexpected {taken:?}");
    };
    assert_eq!(*why, InvalidStructuredName::NotAGlob);
}

#[test]
fn panicking_decoder_rejects_only_its_resource() {
    let config = ClientConfig::new(Node::new("n"), ServerAddress::new("server"))
        .with_type(Typed::<Cluster>::new())
        .with_type(Typed::<Fragile>::new());
    let mut rig = Rig::opened_as(config);
    let mut good = rig.handle.watch::<Fragile>("good");
    let mut bad = rig.handle.watch::<Fragile>("bad");
    rig.drive();
    rig.requests.clear();
    rig.respond(ENDPOINTS, "1", &[("good", ""), ("bad", "worse")]);
    let bell = Bell::default();
    let good = bell.poll(&mut good);
    assert!(matches!(good, Poll::Ready(Some(Ok(TypedNotice::Changed(Ok(_)))))), "{good:?}");
    let Poll::Ready(Some(Ok(TypedNotice::Changed(Err(error))))) = bell.poll(&mut bad) else {
        panic!("no error");
    };
    let why = "the decoder panicked: text \"worse\" is too much for it";
    assert!(error.to_string().contains(why), "{error}");
    let nack = rig.requests[0].error_detail.as_ref().expect("it is a NACK");
    assert!(nack.message.contains(why), "{}", nack.message);
    println!("covers: AN-12");
}

#[test]
fn undecodable_resource_is_rejected() {
    let mut rig = rig();
    let mut odd = rig.handle.watch::<Length>("abc");
    let mut even = rig.handle.watch::<Length>("ab");
    rig.drive();
    rig.requests.clear();
    rig.respond(ENDPOINTS, "1", &[("abc", ""), ("ab", "")]);
    let bell = Bell::default();
    let Poll::Ready(Some(Ok(TypedNotice::Changed(Ok(length))))) = bell.poll(&mut odd) else {
        panic!("no value");
    };
    assert_eq!(**length.value(), Length(3));
    assert!((**length.value()).type_id() == core::any::TypeId::of::<Length>());
    // The value is not `Clone`, but the `TypedResource` is.
    assert_eq!(*length.clone(), *length);
    let Poll::Ready(Some(Ok(TypedNotice::Changed(Err(error))))) = bell.poll(&mut even) else {
        panic!("no error");
    };
    assert!(error.to_string().contains("it is even"), "{error}");
    let nack = rig.requests[0].error_detail.as_ref().expect("it is a NACK");
    assert!(nack.message.contains("it is even"), "{}", nack.message);
}

#[test]
fn typed_watch_with_another_decoded_type_fails_and_ends() {
    let mut rig = rig();
    let mut watch = rig.handle.watch::<Other>("a");
    let mut all = rig.handle.watch_all::<Other>();
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let bell = Bell::default();
    let Poll::Ready(Some(Err(why))) = bell.poll(&mut watch) else { panic!("not refused") };
    let InvalidTypedWatch::NotDecoded { type_url, requested } = &why else { panic!("{why}") };
    assert!(type_url == CLUSTER && requested.ends_with("Other"), "{why}");
    assert!(matches!(bell.poll(&mut watch), Poll::Ready(None)));
    let why = loop {
        match bell.poll(&mut all) {
            Poll::Ready(Some(Err(why))) => break why,
            Poll::Ready(None) => panic!("nothing is said"),
            _ => rig.drive(),
        }
    };
    assert!(matches!(why, InvalidTypedWatch::NotDecoded { .. }), "{why}");
    assert!(matches!(bell.poll(&mut all), Poll::Ready(None)));

    let config = ClientConfig::new(Node::new("n"), ServerAddress::new("server"))
        .with_type(OpaqueType::new(CLUSTER));
    let mut rig = Rig::opened_as(config);
    let mut unknown = rig.handle.watch::<Length>("a");
    let mut opaque = rig.handle.watch::<Cluster>("a");
    rig.drive();
    assert!(matches!(
        bell.poll(&mut unknown),
        Poll::Ready(Some(Err(InvalidTypedWatch::Watch(InvalidWatch::UnknownType(_)))))
    ));
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    assert!(matches!(
        bell.poll(&mut opaque),
        Poll::Ready(Some(Err(InvalidTypedWatch::NotDecoded { .. })))
    ));
}
