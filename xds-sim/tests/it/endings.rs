//! Ends of runs: lost updates are detected, and clients' watches end on shutdown.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{Time, TypeUrl, WatchId, client::Notice, proto, types};
use xds_sim::{
    Application, Config, ControlPlane, Options, Reply, Situation, Toy, World, check,
    options::{Action, ProfileName, Verdicts},
    run_seed, storm,
    storm::settle,
};

/// A server of one cluster that loses every second change.
#[derive(Default)]
struct Forgetful {
    stream: Option<u64>,
    cluster: Option<Bytes>,
    changes: u32,
    has_news: bool,
    responses: u32,
}

impl ControlPlane for Forgetful {
    fn request(&mut self, stream: u64, message: &Bytes, _: Time) {
        let Ok(request) = proto::DiscoveryRequest::decode(&**message) else { return };
        self.stream = Some(stream);
        self.has_news |= request.response_nonce.is_empty();
    }

    fn closed(&mut self, _: u64, _: Time) {
        self.stream = None;
    }

    fn changed(&mut self, _: &TypeUrl, _: &str, bytes: Option<&Bytes>, _: Time) {
        self.changes += 1;
        if !self.changes.is_multiple_of(2) {
            self.cluster = bytes.cloned();
            self.has_news = true;
        }
    }

    fn poll(&mut self) -> Option<Reply> {
        let stream = self.stream.filter(|_| std::mem::take(&mut self.has_news))?;
        self.responses += 1;
        let any = |value| proto::Any { type_url: types::CLUSTER.into(), value };
        let response = proto::DiscoveryResponse {
            version_info: format!("{}", self.changes),
            type_url: types::CLUSTER.into(),
            resources: self.cluster.clone().map(any).into_iter().collect(),
            nonce: self.responses.to_string(),
            ..Default::default()
        };
        Some(Reply::Send(stream, response.encode_to_vec().into()))
    }
}

/// No new change at the end of the run hides an update that an Envoy client never received.
#[test]
fn update_that_never_reaches_an_envoy_client_is_found() {
    let scenario = |world: &mut World| {
        world.watch(0, 0, Some("r0"));
        world.set(0, "r0", "arrives");
        world.advance(Duration::from_secs(1));
        world.set(0, "r0", "is lost");
        settle(world);
    };
    for profile in [ProfileName::Grpc, ProfileName::Envoy] {
        let config = Config::new(scenario).with_options(move |options| {
            *options = Options::default();
            (options.types, options.profile) = (1, profile);
        });
        let config = config.with_control_plane(|_| Box::<Forgetful>::default());
        let failure = run_seed(0, &config).violation.expect("an update is lost");
        assert_eq!(failure.violation.invariant, "IS8", "{}", failure.violation.what);
    }
    println!("covers: IS8");
}

/// Records which watches have ended.
struct Listener(Arc<Mutex<Vec<WatchId>>>);

impl Application for Listener {
    fn notified(&mut self, _: WatchId, _: &TypeUrl, _: Option<&str>, _: &Notice) {}

    fn unwatched(&mut self, watch: WatchId) {
        self.0.lock().expect("nobody panics with it").push(watch);
    }
}

/// The client sends no notice: the owner of the watches shut it down.
#[test]
fn every_watch_ends_with_its_client() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&ended);
    let config = Config::new(|world: &mut World| {
        for name in [Some("r0"), Some("r1"), None] {
            assert!(world.watch(0, 0, name).is_some());
        }
        world.set(0, "r0", "good");
        world.advance(Duration::from_secs(1));
        world.set(0, "r0", "on its way");
        world.shut_down(0);
        assert!(world.watch(0, 0, Some("r0")).is_none(), "it was shut down");
        world.advance(Duration::from_secs(60));
    });
    let config = config.with_options(|options| *options = Options::default());
    let config = config.with_application(move |_| Box::new(Listener(Arc::clone(&kept))));
    let outcome = run_seed(0, &config);
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    assert_eq!(ended.lock().expect("nobody panics with it").len(), 3);
    println!("covers: IC39");
}

/// A late verdict rejects a valid new resource; the client sends a NACK and uses the previous one.
#[test]
fn late_verdict_rejects_the_update() {
    for profile in [ProfileName::Grpc, ProfileName::Envoy] {
        let config = Config::new(|world: &mut World| {
            world.watch(0, 0, Some("r0"));
            world.set(0, "r0", "good");
            world.advance(Duration::from_secs(5));
            world.set(0, "r0", "contested");
            world.advance(Duration::from_millis(100));
            assert_eq!(world.client(0).stats().nacks, 0, "nobody knows yet");
            world.advance(Duration::from_secs(5));
            assert_eq!(world.client(0).stats().nacks, 1);
            let in_use = world.client(0).status().next().and_then(|it| it.bytes.cloned());
            assert_eq!(in_use, Some(Toy::bytes("r0", "good")));
            settle(world);
        });
        let config = config.with_options(move |options| {
            *options = Options::default();
            (options.types, options.profile, options.verdicts) = (1, profile, Verdicts::Soon);
        });
        let outcome = run_seed(0, &config);
        assert!(outcome.violation.is_none(), "{}", outcome.violation.unwrap().to_text(None));
        assert_eq!(outcome.situations.hits(Situation::RejectedExternally), 1);
    }
    println!("covers: IC3 IC20");
}

/// Storms with many late rejections break no rule.
#[test]
fn storms_with_late_verdicts_break_no_rule() {
    for verdicts in [Verdicts::Soon, Verdicts::Late] {
        let config = Config::default().with_runs(400).with_options(move |options| {
            options.verdicts = verdicts;
            options.actions = options.actions.with(Action::SetBad);
        });
        let report = check(&config, storm);
        assert!(report.situations.hits(Situation::RejectedExternally) > 100);
    }
}

/// Messages of a user-defined control plane wait for a blocked transport.
#[test]
fn blocked_transport_delays_a_custom_control_plane() {
    let config = Config::new(|world: &mut World| {
        let has = |world: &World| {
            let entry = world.client(0).status().next();
            entry.and_then(|it| it.bytes.map(|bytes| Toy::text_of(bytes)))
        };
        world.watch(0, 0, Some("r0"));
        world.set(0, "r0", "first");
        world.advance(Duration::from_secs(1));
        assert_eq!(has(world).as_deref(), Some("first"));
        let link = world.open_links()[0];
        world.block_responses(link, Duration::from_secs(10));
        world.set(0, "r0", "is lost");
        world.set(0, "r0", "third");
        world.advance(Duration::from_secs(5));
        assert_eq!(has(world).as_deref(), Some("first"));
        world.advance(Duration::from_secs(10));
        assert_eq!(has(world).as_deref(), Some("third"));
    });
    let config = config.with_options(|options| {
        *options = Options::default();
        options.types = 1;
    });
    let config = config.with_control_plane(|_| Box::<Forgetful>::default());
    let failure = run_seed(0, &config).violation;
    assert!(failure.is_none(), "{}", failure.unwrap().to_text(None));
}
