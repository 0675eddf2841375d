//! The rules of the contract, as properties of the client under legal and hostile inputs. Rule 3 has a
//! file of its own.

mod client_support;

use std::{env, process::Command};

use proptest::prelude::*;
use xds_core::{
    Client, Time,
    client::{DataErrorPolicy, Output},
    service::Variant,
};

use client_support::{Driver, Input, VARIANTS, inputs, resource, response_in, run};

fn variant() -> impl Strategy<Value = Variant> {
    proptest::sample::select(VARIANTS.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rules 2, 4, 5, 6 and 7: whatever happens, nothing panics, deadlines are honest, ids are
    /// fresh, and a second run says the same, byte for byte.
    #[test]
    fn runs_repeat_themselves(inputs in inputs()) {
        let policies = [DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached];
        for (variant, policy) in VARIANTS.into_iter().flat_map(|it| policies.map(|policy| (it, policy))) {
            let run = || run(&inputs, policy, variant);
            let (first, second) = (run(), run());
            prop_assert_eq!(&first.trace, &second.trace);
            let held = first.client.status().count();
            prop_assert!(held <= 2 * (5 + 6), "rule 6: {} entries", held);
        }
    }

    /// Rule 1: a clock that goes back stands still.
    #[test]
    fn time_does_not_go_back(variant in variant(), inputs in inputs()) {
        let mut honest = Driver::new(DataErrorPolicy::KeepCached, variant);
        let mut jumping = Driver::new(DataErrorPolicy::KeepCached, variant);
        for (turn, input) in inputs.iter().enumerate() {
            honest.apply(input);
            honest.drain();
            let now = jumping.now;
            jumping.client.handle_timeout(now);
            if turn % 2 == 1 && !matches!(input, Input::Sleep { .. }) {
                jumping.now = Time::ZERO;
            }
            jumping.apply(input);
            jumping.now = jumping.now.max(now);
            jumping.drain();
        }
        prop_assert_eq!(honest.trace, jumping.trace);
    }

    /// Rule 6: no bytes whatsoever do harm.
    #[test]
    fn no_frame_does_harm(variant in variant(), frames in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..200), 1..10,
    )) {
        let mut inputs = vec![
            Input::Watch { kind: 0, name: None },
            Input::Watch { kind: 1, name: Some(1) },
        ];
        for frame in frames {
            inputs.extend([Input::Connect, Input::Garbage(frame), Input::Sleep { millis: 9_000 }]);
        }
        // The next good message works.
        inputs.extend([
            Input::Sleep { millis: 150_000 },
            Input::Connect,
            Input::Respond { kind: 1, nonce: 1, resources: vec![(1, 1)] },
        ]);
        let driver = run(&inputs, DataErrorPolicy::KeepCached, variant);
        let got = driver.client.status().find(|status| status.name == "r1").map(|status| status.bytes.cloned());
        prop_assert_eq!(got, Some(Some(resource(1, 1))));
    }

    /// Rule 6: every frame cut short, and every frame with one byte changed.
    #[test]
    fn mutilated_frames_do_no_harm(
        variant in variant(),
        resources in proptest::collection::vec((0..6u8, 0..4u8), 1..6),
        cut in any::<prop::sample::Index>(),
        flip in any::<u8>(),
    ) {
        let frame = response_in(variant, 0, 1, &resources);
        let cut = cut.index(frame.len());
        let mut flipped = frame.to_vec();
        flipped[cut] ^= flip;
        for bytes in [frame[..cut].to_vec(), flipped] {
            run(
                &[Input::Watch { kind: 0, name: None }, Input::Connect, Input::Garbage(bytes)],
                DataErrorPolicy::DropCached,
                variant,
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// A name that comes twice makes the response a bad one, and neither copy is used (IC17).
    #[test]
    fn names_that_come_twice_are_rejected(
        variant in variant(),
        resources in proptest::collection::vec((0..6u8, 0..3u8), 0..5),
    ) {
        let inputs = [
            Input::Watch { kind: 0, name: None },
            Input::Connect,
            Input::Respond { kind: 0, nonce: 1, resources: resources.clone() },
        ];
        let driver = run(&inputs, DataErrorPolicy::KeepCached, variant);
        let comes_twice = |name: u8| resources.iter().filter(|(it, _)| *it == name).count() > 1;
        let is_bad = resources.iter().any(|(name, _)| comes_twice(*name));
        let stats = driver.client.stats();
        prop_assert_eq!((stats.acks, stats.nacks), (u64::from(!is_bad), u64::from(is_bad)));
        for status in driver.client.status() {
            let name = (0..6).find(|name| status.name == &*format!("r{name}"));
            let is_used = name.is_some_and(|name| !comes_twice(name));
            prop_assert_eq!(status.bytes.is_some(), is_used, "{}", status);
        }
    }
}

/// Rule 2 across processes: this test runs itself twice and compares what was printed.
#[test]
fn every_process_says_the_same() {
    const CHILD: &str = "XDS_CORE_CONTRACT_CHILD";
    if env::var_os(CHILD).is_some() {
        let mut inputs = vec![Input::Watch { kind: 0, name: None }];
        inputs.extend((0..6).map(|name| Input::Watch { kind: 1, name: Some(name) }));
        inputs.extend([
            Input::Connect,
            Input::Respond { kind: 0, nonce: 1, resources: (0..5).map(|n| (n, 1)).collect() },
            Input::Respond { kind: 1, nonce: 2, resources: (0..6).map(|n| (n, n % 4)).collect() },
            Input::Close { code: 14 },
            Input::Sleep { millis: 60_000 },
        ]);
        let traces =
            VARIANTS.map(|variant| run(&inputs, DataErrorPolicy::DropCached, variant).trace);
        println!("trace {traces:?}");
        return;
    }
    let print = || {
        let output = Command::new(env::current_exe().expect("a test has an executable"))
            .args(["every_process_says_the_same", "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the test can run itself");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find(|line| line.contains("trace [")).map(str::to_owned)
    };
    let first = print();
    assert!(first.as_ref().is_some_and(|trace| trace.contains("Transmit")), "{first:?}");
    assert_eq!(first, print());
}

/// What the types promise to those who embed them.
#[test]
fn the_client_can_be_sent_and_shared() {
    fn is_send_and_sync<T: Send + Sync + Unpin>() {}
    is_send_and_sync::<Client>();
    assert!(size_of::<Output>() <= 160, "{}", size_of::<Output>());
}
