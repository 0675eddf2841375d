//! How runs end: whoever is shut down is told so.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use xds_core::{TypeUrl, WatchId, client::Notice};
use xds_sim::{Application, Config, Options, World, run_seed};

/// Takes down which watches have ended.
struct Listener(Arc<Mutex<Vec<WatchId>>>);

impl Application for Listener {
    fn notified(&mut self, _: WatchId, _: &TypeUrl, _: Option<&str>, _: &Notice) {}

    fn unwatched(&mut self, watch: WatchId) {
        self.0.lock().expect("nobody panics with it").push(watch);
    }
}

/// The client says nothing of it: who holds the watches knows that it was shut down.
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
