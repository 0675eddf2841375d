//! Updates that need an external verdict.

use core::task::Poll;

use crate::rig::{Bell, CLUSTER, ENDPOINTS, Rig};
use xds_core::{
    TypeUrl,
    client::{ClientConfig, Node, Notice, Rejection, ResourceType, ServerAddress, VerdictSource},
};
use xds_handle::{NotInUpdate, Review, Reviews};

/// Type whose resources need an external verdict.
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

fn rig() -> Rig {
    let config = ClientConfig::new(Node::new("n"), ServerAddress::new("server"))
        .with_type(Judged(CLUSTER.into()))
        .with_type(Judged(ENDPOINTS.into()));
    Rig::opened_as(config)
}

fn take(reviews: &mut Reviews) -> Review {
    match Bell::default().poll(reviews) {
        Poll::Ready(Some(review)) => review,
        other => panic!("nothing to review: {other:?}"),
    }
}

fn names(review: &Review) -> Vec<&str> {
    review.update().resources.iter().map(|resource| resource.name.as_str()).collect()
}

#[test]
fn update_is_used_after_its_review_is_settled() {
    let mut rig = rig();
    let (mut a, mut b) =
        (rig.handle.watch_untyped(CLUSTER, "a"), rig.handle.watch_untyped(CLUSTER, "b"));
    let mut reviews = rig.handle.reviews(CLUSTER);
    let bell = Bell::default();
    assert!(bell.poll(&mut reviews).is_pending());
    rig.drive();
    rig.requests.clear();
    rig.respond(CLUSTER, "1", &[("a", "one"), ("b", "two")]);
    assert_eq!(bell.rings(), 1);
    let mut review = take(&mut reviews);
    assert_eq!((review.update().version.as_str(), names(&review)), ("1", vec!["a", "b"]));
    assert!(!rig.wants_read() && rig.requests.is_empty(), "the verdict is awaited");
    assert!(bell.poll(&mut a).is_pending() && bell.poll(&mut b).is_pending());

    let stranger = review.reject("c", Rejection::new("no"));
    assert_eq!(stranger, Err(NotInUpdate("c".into())));
    review.reject("b", Rejection::new("we do not like it")).expect("it is part of the update");
    review.settle();
    rig.drive();
    assert!(matches!(bell.poll(&mut a), Poll::Ready(Some(Ok(Notice::Changed(Ok(_)))))));
    let Poll::Ready(Some(Ok(Notice::Changed(Err(error))))) = bell.poll(&mut b) else {
        panic!("not rejected");
    };
    assert!(error.to_string().contains("we do not like it"), "{error}");
    let nack = rig.requests[0].error_detail.as_ref().expect("it is a NACK");
    assert!(nack.message.contains("we do not like it"), "{}", nack.message);
}

#[test]
fn update_waits_for_a_reviewer() {
    let mut rig = rig();
    let mut a = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.requests.clear();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    assert!(!rig.wants_read());
    let mut others = rig.handle.reviews(ENDPOINTS);
    assert!(Bell::default().poll(&mut others).is_pending(), "that is another type");
    take(&mut rig.handle.reviews(CLUSTER)).settle();
    rig.drive();
    assert!(matches!(Bell::default().poll(&mut a), Poll::Ready(Some(Ok(Notice::Changed(Ok(_)))))));
    assert_eq!(rig.requests[0].version_info, "1");
}

#[test]
fn dropped_review_is_offered_again() {
    let mut rig = rig();
    let _a = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let (mut first, mut second) = (rig.handle.reviews(CLUSTER), rig.handle.reviews(CLUSTER));
    let mut review = take(&mut first);
    let bell = Bell::default();
    assert!(bell.poll(&mut second).is_pending(), "each is given out once");
    review.reject("a", Rejection::new("a verdict that is never given")).expect("it is there");
    drop(review);
    assert!(bell.poll(&mut second).is_pending(), "the driver has its turn first");
    rig.drive();
    assert_eq!(bell.rings(), 1);
    rig.requests.clear();
    take(&mut second).settle();
    rig.drive();
    assert!(rig.requests[0].error_detail.is_none(), "what was half said is forgotten");
}

#[test]
fn settling_a_review_of_an_ended_stream_has_no_effect() {
    let mut rig = rig();
    let mut a = rig.handle.watch_untyped(CLUSTER, "a");
    let mut reviews = rig.handle.reviews(CLUSTER);
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let (late, waiting) = (take(&mut reviews), Bell::default());
    rig.reconnect();
    late.settle();
    rig.drive();
    // An update that was not taken is removed when a newer one arrives.
    for version in ["2", "3"] {
        rig.respond(CLUSTER, version, &[("a", version)]);
        if version == "2" {
            rig.reconnect();
        }
    }
    let review = take(&mut reviews);
    assert_eq!(review.update().version.as_str(), "3");
    assert!(waiting.poll(&mut reviews).is_pending());
    review.settle();
    rig.drive();
    loop {
        match Bell::default().poll(&mut a) {
            Poll::Ready(Some(Ok(Notice::Changed(Ok(resource))))) => {
                assert_eq!(resource.version.as_str(), "3");
                break;
            }
            Poll::Ready(Some(Ok(_))) => {}
            other => panic!("no value: {other:?}"),
        }
    }
}

#[test]
fn dropped_review_of_an_ended_stream_is_not_offered_again() {
    let mut rig = rig();
    let _a = rig.handle.watch_untyped(CLUSTER, "a");
    let mut reviews = rig.handle.reviews(CLUSTER);
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let late = take(&mut reviews);
    rig.reconnect();
    drop(late);
    rig.drive();
    assert!(Bell::default().poll(&mut reviews).is_pending());
}

#[test]
fn reviews_end_with_the_client_and_do_not_keep_it_alive() {
    let mut rig = rig();
    let mut reviews = rig.handle.reviews(CLUSTER);
    let a = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let review = take(&mut reviews);
    drop(a);
    rig.drop_handle();
    rig.drive();
    assert!(rig.closes_channel());
    drop(rig);
    assert!(matches!(Bell::default().poll(&mut reviews), Poll::Ready(None)));
    drop(review);
    assert!(matches!(Bell::default().poll(&mut reviews), Poll::Ready(None)));
}
