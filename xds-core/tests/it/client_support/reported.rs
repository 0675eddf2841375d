//! Client status and metrics, compared with the cache.
// IC32 S3.057

use std::{collections::BTreeMap, time::Duration};

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    Client,
    client::{Contents, Instrument, Metrics, MetricsExporter, ResourceState, WallClock},
    proto::ClientResourceStatus,
};

/// Last reported counters by instrument and labels.
#[derive(Debug, Default)]
pub struct Reported {
    counters: BTreeMap<String, u64>,
}

impl Reported {
    /// Checks that status and metrics match the cache, and that counters never decrease.
    pub fn agrees_with(&mut self, client: &Client) -> Result<(), TestCaseError> {
        agrees_in_status(client)?;
        let mut told = Measured::default();
        let metrics: Metrics = client.metrics();
        metrics.export("target", &mut told);
        let watched = client.status().count() as u64;
        prop_assert_eq!(told.resources, watched, "every resource is in one state (IC32)");
        for (series, before) in &self.counters {
            let now = told.counters.get(series);
            prop_assert!(now >= Some(before), "{} fell from {} to {:?}", series, before, now);
        }
        self.counters = told.counters;
        let totals: u64 = client.type_stats().map(|stats| stats.resources_valid).sum();
        prop_assert_eq!(totals, client.stats().resources_valid, "each is counted of one type");
        Ok(())
    }
}

fn agrees_in_status(client: &Client) -> Result<(), TestCaseError> {
    let clock = WallClock::new(Duration::ZERO, xds_core::Time::ZERO);
    let told = client.snapshot().into_message("target", Contents::All, clock).generic_xds_configs;
    prop_assert_eq!(told.len(), client.status().count());
    for (told, held) in told.iter().zip(client.status()) {
        prop_assert_eq!(
            (&*told.name, &*told.type_url),
            (held.name.as_str(), held.type_url.as_str())
        );
        prop_assert_eq!(told.xds_config.as_ref().map(|any| &any.value), held.bytes);
        prop_assert_eq!(told.xds_config.is_some(), told.last_updated.is_some(), "{}", held);
        prop_assert!(told.xds_config.is_some() || told.version_info.is_empty(), "{}", held);
        prop_assert_eq!(told.error_state.is_some(), held.error.is_some(), "{}", held);
        prop_assert_eq!(told.client_status(), ClientResourceStatus::from(held.state));
        // An entry has an error exactly if its state implies one (S3.059, S3.062).
        let is_well = matches!(held.state, ResourceState::Requested | ResourceState::Acked);
        prop_assert_eq!(is_well, held.error.is_none(), "{}", held);
        prop_assert!(held.failed.is_none() || held.error.is_some(), "{}", held);
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Measured {
    counters: BTreeMap<String, u64>,
    resources: u64,
}

impl MetricsExporter for Measured {
    fn counter(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], total: u64) {
        self.counters.insert(format!("{} {labels:?}", instrument.name()), total);
    }

    fn gauge(&mut self, instrument: Instrument, _: &[(&'static str, &str)], value: u64) {
        if instrument == Instrument::Resources {
            self.resources += value;
        }
    }
}
