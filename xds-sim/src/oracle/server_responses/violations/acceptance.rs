//! Tests with servers that report acceptance wrongly.

use super::*;
use crate::oracle::server_responses::acceptance::NEWEST;

impl StreamCase<'_> {
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
fn sent_or_nacked_counted_as_accepted_is_detected() {
    for variant in VARIANTS {
        let answers = |answer: fn(&mut StreamCase<'_>)| {
            broken(of(variant), move |case| {
                case.asks(0, &["r0"]);
                case.is_told();
                answer(case);
                case.is_well();
                case.is_drained();
            })
        };
        assert_eq!(answers(|case| case.accepts()), None);
        assert_eq!(answers(|_| {}), Some(ACCEPTED));
        assert_eq!(answers(|case| case.rejects()), Some(ACCEPTED));
    }
    println!("covers: IS29");
}

#[test]
fn waiting_for_a_client_that_acked_everything_is_detected() {
    for variant in VARIANTS {
        let found = broken(of(variant), |case| {
            case.asks(0, &["r0"]);
            case.is_told();
            case.accepts();
            // The server has not received that ACK.
            case.world.set(0, "r0", "better");
            case.is_told();
            case.is_drained();
            case.is_well();
            case.accepts();
            case.is_drained();
        });
        assert_eq!(found, Some(ACCEPTED));
    }
    println!("covers: IS29");
}

#[test]
fn deleted_nacked_resource_does_not_delay_convergence() {
    let found = broken(of(Variant::StateOfTheWorld), |case| {
        case.asks(0, &["r0"]);
        case.is_told();
        case.rejects();
        case.world.delete(0, "r0");
        case.world.advance(Duration::from_secs(1));
        // The resource was dropped and is subscribed again.
        case.oracle.state(case.link, 0).sent.clear();
        case.is_drained();
    });
    assert_eq!(found, None);
    println!("covers: IS29");
}

#[test]
fn counting_a_client_without_a_subscription_is_detected() {
    let found = broken(of(Variant::StateOfTheWorld), |case| {
        case.asks(0, &["r0"]);
        case.is_told();
        case.accepts();
        case.oracle.state(case.link, 0).subscription.was_requested = false;
        case.is_drained();
    });
    assert_eq!(found, Some(ACCEPTED));
    println!("covers: IS29");
}

#[test]
fn early_or_missing_convergence_result_is_detected() {
    let told = |after: Option<Duration>| {
        broken(of(Variant::StateOfTheWorld), move |case| {
            case.asks(0, &["r0"]);
            case.world.set(0, "r0", "better");
            case.is_asked();
            case.is_well();
            if let Some(after) = after {
                case.world.advance(after);
            }
            case.tells();
        })
    };
    assert_eq!(told(Some(Duration::from_secs(1))), None);
    assert_eq!(told(None), Some(ACCEPTED));
    let found = broken(of(Variant::StateOfTheWorld), |case| {
        case.is_asked();
        case.is_drained();
    });
    assert_eq!(found, Some(ACCEPTED), "all have accepted it, and nobody is told");
    let found = broken(of(Variant::StateOfTheWorld), |case| case.tells());
    assert_eq!(found, Some(ACCEPTED), "nobody asked");
    println!("covers: IS29");
}
