//! Registration of resource types on the client.

use xds_core::{
    Client, Time, TypeUrl,
    client::{ClientConfig, Interest, InvalidWatch, Node, OpaqueType, ServerAddress},
    types,
};

#[test]
fn type_registered_twice_cannot_be_watched() {
    let config = [types::CLUSTER, types::LISTENER, types::CLUSTER]
        .into_iter()
        .fold(ClientConfig::new(Node::new("me"), ServerAddress::new("server")), |config, url| {
            config.with_type(OpaqueType::new(url))
        });
    let mut client = Client::new(config, 1, Time::ZERO);
    let mut watch = |url| client.watch(&TypeUrl::from(url), Interest::Name("foo"), Time::ZERO);
    let twice = InvalidWatch::AmbiguousType(TypeUrl::from(types::CLUSTER));
    assert_eq!(watch(types::CLUSTER), Err(twice.clone()));
    assert_eq!(
        twice.to_string(),
        "two resource types are registered as \
         type.googleapis.com/envoy.config.cluster.v3.Cluster"
    );
    assert!(watch(types::LISTENER).is_ok(), "others are not affected");
    println!("covers: CA-13");
}
