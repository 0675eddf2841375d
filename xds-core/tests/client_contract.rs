//! The rules of the contract, as properties of the client under legal and hostile inputs. Rule 3 has a
//! file of its own.

mod client_support;

use std::{cell::Cell, env, process::Command};

use proptest::{
    prelude::*,
    test_runner::{TestCaseResult, TestRunner},
};
use prost::Message as _;
use xds_core::{
    Client, Time,
    client::{ClientStats, Output, Profile, RejectionUnit},
    proto,
    service::Variant,
};

use client_support::{Driver, Input, VARIANTS, inputs, profiles, resource, response_in, run};

fn variant() -> impl Strategy<Value = Variant> {
    proptest::sample::select(VARIANTS.to_vec())
}

fn profile() -> impl Strategy<Value = Profile> {
    proptest::sample::select(profiles().to_vec())
}

/// Runs a property of what a strategy makes, so often.
fn holds<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(S::Value) -> TestCaseResult) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if let Err(why) = TestRunner::new(config).run(strategy, property) {
        panic!("{why}");
    }
}

/// Rules 2, 4, 5, 6 and 7: whatever happens, nothing panics, deadlines are honest, ids are fresh, and a
/// second run says the same, byte for byte.
#[test]
fn runs_repeat_themselves() {
    holds(1000, &inputs(), |inputs| {
        let ways = VARIANTS.into_iter().flat_map(|it| profiles().map(|profile| (it, profile)));
        for (variant, profile) in ways {
            let run = || run(&inputs, &profile, variant);
            let (first, second) = (run(), run());
            prop_assert_eq!(&first.trace, &second.trace);
            let held = first.client.status().count();
            prop_assert!(held <= 2 * (5 + 6), "rule 6: {} entries", held);
        }
        Ok(())
    });
    println!("covers: IC37");
}

/// Rule 1: a clock that goes back stands still.
#[test]
fn time_does_not_go_back() {
    holds(1000, &(variant(), profile(), inputs()), |(variant, profile, inputs)| {
        let mut honest = Driver::new(profile.clone(), variant);
        let mut jumping = Driver::new(profile, variant);
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
        Ok(())
    });
}

/// Rule 6: no bytes whatsoever do harm.
#[test]
fn no_frame_does_harm() {
    let frame = proptest::collection::vec(any::<u8>(), 0..200);
    let frames = proptest::collection::vec(frame, 1..10);
    holds(1000, &(variant(), profile(), frames), |(variant, profile, frames)| {
        let mut inputs =
            vec![Input::Watch { kind: 0, name: None }, Input::Watch { kind: 1, name: Some(1) }];
        for frame in frames {
            inputs.extend([Input::Connect, Input::Garbage(frame), Input::Sleep { millis: 9_000 }]);
        }
        // The next good message works.
        inputs.extend([
            Input::Sleep { millis: 150_000 },
            Input::Connect,
            Input::Respond { kind: 1, nonce: 1, resources: vec![(1, 1)] },
        ]);
        let driver = run(&inputs, &profile, variant);
        let mut held = driver.client.status();
        let got = held.find(|status| status.name == "r1").map(|status| status.bytes.cloned());
        prop_assert_eq!(got, Some(Some(resource(1, 1))));
        Ok(())
    });
}

/// Rule 6: every frame cut short, and every frame with one byte changed.
#[test]
fn mutilated_frames_do_no_harm() {
    let resources = proptest::collection::vec((0..6u8, 0..4u8), 1..6);
    let harm = (any::<prop::sample::Index>(), any::<u8>());
    holds(
        1000,
        &(variant(), profile(), resources, harm),
        |(variant, profile, resources, (cut, flip))| {
            let frame = response_in(variant, 0, 1, &resources);
            let cut = cut.index(frame.len());
            let mut flipped = frame.to_vec();
            flipped[cut] ^= flip;
            for bytes in [frame[..cut].to_vec(), flipped] {
                let inputs =
                    [Input::Watch { kind: 0, name: None }, Input::Connect, Input::Garbage(bytes)];
                run(&inputs, &profile, variant);
            }
            Ok(())
        },
    );
}

/// What is held, and in which state.
fn held(driver: &Driver) -> Vec<String> {
    let held = driver.client.status().filter(|status| status.bytes.is_some());
    held.map(|it| {
        format!("{} {} {:?} {:?} {:?}", it.type_url, it.name, it.version, it.state, it.bytes)
    })
    .collect()
}

/// A type that nobody registered is passed over, and its stream goes on. An envelope that cannot be read
/// ends the stream, and nothing else comes of it (IC36).
#[test]
fn what_is_not_understood_changes_nothing() {
    let reached = Cell::new(0);
    let broken = proptest::sample::select(vec![&[0x0a, 0xff][..], &[0x22, 0x01, 0x80], &[0x07]]);
    let strategy = (variant(), profile(), inputs(), broken);
    holds(1000, &strategy, |(variant, profile, inputs, broken)| {
        let mut inputs = inputs;
        inputs.extend([Input::Watch { kind: 1, name: Some(1) }, Input::Sleep { millis: 150_000 }]);
        inputs.extend([
            Input::Connect,
            Input::Respond { kind: 1, nonce: 9, resources: vec![(1, 1)] },
        ]);
        let mut driver = run(&inputs, &profile, variant);
        let before = (held(&driver), driver.client.stats());
        let (channel, said) = (driver.channel, driver.trace.len());
        reached.set(reached.get() + usize::from(channel.is_some() && !before.0.is_empty()));
        driver.apply(&Input::Garbage(of_unknown_type(variant)));
        driver.drain();
        prop_assert_eq!(&before.0, &held(&driver));
        prop_assert_eq!((driver.channel, driver.trace.len()), (channel, said), "nothing is said");
        let answers = |stats: ClientStats| (stats.acks, stats.nacks);
        prop_assert_eq!(answers(before.1), answers(driver.client.stats()));

        driver.apply(&Input::Garbage(broken.to_vec()));
        prop_assert_eq!(&before.0, &held(&driver));
        prop_assert_eq!(answers(before.1), answers(driver.client.stats()));
        driver.drain();
        prop_assert!(channel.is_none() || driver.channel != channel, "the stream ends");
        Ok(())
    });
    assert!(reached.get() > 500, "mostly something is held: {}", reached.get());
    println!("covers: IC36");
}

/// A well-formed response, of a type that was never heard of.
fn of_unknown_type(variant: Variant) -> Vec<u8> {
    let type_url = String::from("type.googleapis.com/made.up.Type");
    let any = proto::Any { type_url: type_url.clone(), value: resource(1, 2) };
    let (version, nonce) = (String::from("7"), String::from("n7"));
    match variant {
        Variant::StateOfTheWorld => proto::DiscoveryResponse {
            version_info: version,
            nonce,
            type_url,
            resources: vec![any],
            ..Default::default()
        }
        .encode_to_vec(),
        Variant::Incremental => {
            let name = String::from("r1");
            let wrapped = proto::Resource { name, resource: Some(any), ..Default::default() };
            proto::DeltaDiscoveryResponse {
                system_version_info: version,
                nonce,
                type_url,
                resources: vec![wrapped],
                removed_resources: vec!["r2".into()],
                ..Default::default()
            }
            .encode_to_vec()
        }
    }
}

/// A name that comes twice makes the response a bad one, and neither copy is used (IC17); nothing of the
/// response is, where it is used whole or not at all.
#[test]
fn names_that_come_twice_are_rejected() {
    let resources = proptest::collection::vec((0..6u8, 0..3u8), 0..5);
    holds(300, &(variant(), profile(), resources), |(variant, profile, resources)| {
        let inputs = [
            Input::Watch { kind: 0, name: None },
            Input::Connect,
            Input::Respond { kind: 0, nonce: 1, resources: resources.clone() },
        ];
        let driver = run(&inputs, &profile, variant);
        let comes_twice = |name: u8| resources.iter().filter(|(it, _)| *it == name).count() > 1;
        let is_bad = resources.iter().any(|(name, _)| comes_twice(*name));
        let is_all_bad = is_bad && profile.rejection_unit == RejectionUnit::Response;
        let stats = driver.client.stats();
        prop_assert_eq!((stats.acks, stats.nacks), (u64::from(!is_bad), u64::from(is_bad)));
        for status in driver.client.status() {
            let name = (0..6).find(|name| status.name == &*format!("r{name}"));
            let is_used = name.is_some_and(|name| !comes_twice(name) && !is_all_bad);
            prop_assert_eq!(status.bytes.is_some(), is_used, "{}", status);
        }
        Ok(())
    });
    println!("covers: IC17 D14");
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
            profiles().map(|profile| VARIANTS.map(|variant| run(&inputs, &profile, variant).trace));
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
    println!("covers: IC37");
}

/// What the types promise to those who embed them.
#[test]
fn the_client_can_be_sent_and_shared() {
    fn is_send_and_sync<T: Send + Sync + Unpin>() {}
    is_send_and_sync::<Client>();
    assert!(size_of::<Output>() <= 160, "{}", size_of::<Output>());
}
