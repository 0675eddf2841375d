//! Checks the logic of an application: a table of clusters that must be correct in the end,
//! regardless of failures of servers, streams and the client.

use std::collections::BTreeMap;

use bytes::Bytes;
use xds_core::{TypeUrl, WatchId, client::Notice};
use xds_sim::{Application, Config, Options, check, storm};

/// Application under test: the resource of each watch.
#[derive(Default)]
struct Clusters {
    by_watch: BTreeMap<WatchId, (TypeUrl, String, Option<Bytes>)>,
}

impl Application for Clusters {
    fn notified(&mut self, watch: WatchId, url: &TypeUrl, name: Option<&str>, notice: &Notice) {
        let bytes = match notice {
            Notice::Changed(Ok(resource)) => Some(resource.bytes.clone()),
            Notice::Changed(Err(_)) => None,
            _ => return, // An ambient error: the value stays in use.
        };
        let name = name.unwrap_or_default().to_owned();
        self.by_watch.insert(watch, (url.clone(), name, bytes));
    }

    fn unwatched(&mut self, watch: WatchId) {
        self.by_watch.remove(&watch);
    }

    fn restarted(&mut self) {
        self.by_watch.clear();
    }

    fn agrees_with(&self, truth: &dyn Fn(&TypeUrl, &str) -> Option<Bytes>) -> Result<(), String> {
        let wrong = self.by_watch.values().find(|(url, name, bytes)| truth(url, name) != *bytes);
        wrong.map_or(Ok(()), |(_, name, bytes)| Err(format!("{name} is not {bytes:?}")))
    }
}

/// Makes the runs.
pub(crate) fn main() {
    // In plain runs, an application's final view equals the servers' state.
    let config = Config::default().with_runs(300).with_options(Options::plain);
    let config = config.with_application(|_| Box::new(Clusters::default()));
    let report = check(&config, storm);
    println!("{} runs, {} events: the table was always correct", report.runs, report.events);
}
