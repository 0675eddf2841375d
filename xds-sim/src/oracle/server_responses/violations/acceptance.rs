//! Tests with servers that report acceptance wrongly.

use super::*;
use crate::oracle::server_responses::acceptance::NEWEST;

impl Scene<'_> {
    fn judge(&mut self, event: &Event<'_>) {
        self.oracle.on_event(event, self.world, self.report);
    }

    fn is_drained(&mut self) {
        self.judge(&Event::ServerDrained { server: 0 });
    }

    /// The server sends the current resource.
    fn is_told(&mut self) {
        let version = Text::from((self.nonces + 1).to_string());
        let bytes = self.world.has(0, 0)[0].get("r0").cloned();
        let resources =
            vec![ResponseItem { name: "r0".into(), version: version.clone(), bytes, ttl: None }];
        self.says(Response { version, resources, ..response(0, &[]) });
    }

    fn accepts(&mut self) {
        self.answers(0, &["r0"], None);
    }

    fn rejects(&mut self) {
        self.answers(0, &["r0"], Some(3));
    }

    /// An operator asks to be notified of the acceptance of the newest change.
    fn is_asked(&mut self) {
        self.judge(&Event::Asked { server: 0, view: 0, kind: 0, sequence: NEWEST });
    }

    fn tells(&mut self) {
        self.judge(&Event::Converged { server: 0, view: 0, kind: 0, sequence: NEWEST });
    }
}

const VARIANTS: [Variant; 2] = [Variant::StateOfTheWorld, Variant::Incremental];

#[test]
fn a_server_that_takes_what_was_sent_or_rejected_to_be_accepted_is_found_out() {
    for variant in VARIANTS {
        let answers = |answer: fn(&mut Scene<'_>)| {
            broken(of(variant), move |scene| {
                scene.asks(0, &["r0"]);
                scene.is_told();
                answer(scene);
                scene.is_well();
                scene.is_drained();
            })
        };
        assert_eq!(answers(|scene| scene.accepts()), None);
        assert_eq!(answers(|_| {}), Some(ACCEPTED));
        assert_eq!(answers(|scene| scene.rejects()), Some(ACCEPTED));
    }
    println!("covers: IS29");
}

#[test]
fn a_server_that_waits_for_who_has_accepted_all_there_is_is_found_out() {
    for variant in VARIANTS {
        let found = broken(of(variant), |scene| {
            scene.asks(0, &["r0"]);
            scene.is_told();
            scene.accepts();
            // The server has not received that ACK.
            scene.world.set(0, "r0", "better");
            scene.is_told();
            scene.is_drained();
            scene.is_well();
            scene.accepts();
            scene.is_drained();
        });
        assert_eq!(found, Some(ACCEPTED));
    }
    println!("covers: IS29");
}

#[test]
fn nobody_waits_for_what_was_rejected_and_is_gone() {
    let found = broken(of(Variant::StateOfTheWorld), |scene| {
        scene.asks(0, &["r0"]);
        scene.is_told();
        scene.rejects();
        scene.world.delete(0, "r0");
        scene.world.advance(Duration::from_secs(1));
        // The resource was dropped and is subscribed again.
        scene.oracle.state(scene.link, 0).sent.clear();
        scene.is_drained();
    });
    assert_eq!(found, None);
    println!("covers: IS29");
}

#[test]
fn a_server_that_counts_who_is_not_there_is_found_out() {
    let found = broken(of(Variant::StateOfTheWorld), |scene| {
        scene.asks(0, &["r0"]);
        scene.is_told();
        scene.accepts();
        scene.oracle.state(scene.link, 0).subscription.was_requested = false;
        scene.is_drained();
    });
    assert_eq!(found, Some(ACCEPTED));
    println!("covers: IS29");
}

#[test]
fn who_is_told_too_early_or_never_is_found_out() {
    let told = |after: Option<Duration>| {
        broken(of(Variant::StateOfTheWorld), move |scene| {
            scene.asks(0, &["r0"]);
            scene.world.set(0, "r0", "better");
            scene.is_asked();
            scene.is_well();
            if let Some(after) = after {
                scene.world.advance(after);
            }
            scene.tells();
        })
    };
    assert_eq!(told(Some(Duration::from_secs(1))), None);
    assert_eq!(told(None), Some(ACCEPTED));
    let found = broken(of(Variant::StateOfTheWorld), |scene| {
        scene.is_asked();
        scene.is_drained();
    });
    assert_eq!(found, Some(ACCEPTED), "all have accepted it, and nobody is told");
    let found = broken(of(Variant::StateOfTheWorld), |scene| scene.tells());
    assert_eq!(found, Some(ACCEPTED), "nobody asked");
    println!("covers: IS29");
}
