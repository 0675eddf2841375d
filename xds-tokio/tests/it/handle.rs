//! Client handle over a real connection: decoded resources and reviews.

use crate::support::{CLUSTER, FakeServer, soon};
use prost::{Message, Name};
use xds_core::{
    TypeUrl,
    client::{ClientConfig, Node, Notice, Rejection, ResourceType, ServerAddress, VerdictSource},
};
use xds_tokio::{ClientOptions, Typed, TypedNotice, client};

#[derive(Clone, PartialEq, Message)]
struct Cluster {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    content: String,
}

impl Name for Cluster {
    const PACKAGE: &'static str = "envoy.config.cluster.v3";
    const NAME: &'static str = "Cluster";
}

#[derive(Debug)]
struct Judged(TypeUrl);

impl ResourceType for Judged {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn verdict_source(&self) -> VerdictSource {
        VerdictSource::External
    }
}

fn of(server: &FakeServer, resource_type: impl ResourceType + 'static) -> ClientConfig {
    let server = ServerAddress::new(server.address.to_string());
    ClientConfig::new(Node::new("node-1"), server).with_type(resource_type)
}

#[tokio::test]
async fn typed_watch_yields_decoded_messages() {
    let mut server = FakeServer::start().await;
    let config = of(&server, Typed::<Cluster>::new());
    let client = client::connect(config, ClientOptions::default());
    let mut watch = client.watch::<Cluster>("a");
    let mut stream = server.stream().await;
    let request = stream.request().await;
    assert_eq!((request.type_url.as_str(), request.resource_names), (CLUSTER, vec!["a".into()]));
    stream.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    let Some(Ok(TypedNotice::Changed(Ok(cluster)))) = soon(watch.next()).await else {
        panic!("no value");
    };
    assert_eq!(cluster.name, "a");
}

#[tokio::test]
async fn review_verdict_acks_or_nacks_the_response() {
    let mut server = FakeServer::start().await;
    let client = client::connect(of(&server, Judged(CLUSTER.into())), ClientOptions::default());
    let mut reviews = client.reviews(CLUSTER);
    let mut good = client.watch_untyped(CLUSTER, "good");
    let mut bad = client.watch_untyped(CLUSTER, "bad");
    let mut stream = server.stream().await;
    stream.request().await;
    stream.respond(CLUSTER, "1", "n1", &[("good", "one"), ("bad", "two")]);
    let mut review = soon(reviews.next()).await.expect("the client lives");
    assert_eq!(review.update().resources.len(), 2);
    review.reject("bad", Rejection::new("somebody says no")).expect("it is part of the update");
    review.settle();
    let nack = stream.request().await;
    assert_eq!(nack.response_nonce, "n1");
    let detail = nack.error_detail.expect("it is a NACK");
    assert!(detail.message.contains("somebody says no"), "{}", detail.message);
    assert!(matches!(soon(good.next()).await, Some(Ok(Notice::Changed(Ok(_))))));
    assert!(matches!(soon(bad.next()).await, Some(Ok(Notice::Changed(Err(_))))));

    good.handled();
    bad.handled();
    stream.respond(CLUSTER, "2", "n2", &[("good", "one"), ("bad", "fine")]);
    let review = soon(reviews.next()).await.expect("the client lives");
    assert_eq!(review.update().resources.len(), 1, "what is in use already needs no verdict");
    review.settle();
    assert_eq!(stream.request().await.version_info, "2");
    client.shut_down();
    assert!(soon(reviews.next()).await.is_none());
}
