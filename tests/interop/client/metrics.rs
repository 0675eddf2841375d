//! Metrics of the channel, summed up by their labels.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value as Json, json};
use xds_channel::{ChannelInstrument, ChannelMetrics};

type Labels = Vec<(&'static str, String)>;

/// Number and sum of the measurements of each series.
type Series = BTreeMap<(ChannelInstrument, Labels), (u64, f64)>;

/// Measurements of a channel.
#[derive(Clone, Default)]
pub(crate) struct Measured(Arc<Mutex<Series>>);

impl Measured {
    pub(crate) fn points(&self) -> Vec<Json> {
        let series = self.0.lock().expect("no measurement panics");
        let point = |((instrument, labels), (count, sum)): (&(ChannelInstrument, Labels), &_)| {
            let labels: BTreeMap<_, _> = labels.iter().cloned().collect();
            json!({ "name": instrument.name(), "labels": labels, "count": count, "sum": sum })
        };
        series.iter().map(point).collect()
    }

    fn add(&self, instrument: ChannelInstrument, labels: &[(&'static str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let mut series = self.0.lock().expect("no measurement panics");
        let (count, sum) = series.entry((instrument, labels)).or_default();
        *count += 1;
        *sum += value;
    }
}

impl ChannelMetrics for Measured {
    fn count(&self, instrument: ChannelInstrument, labels: &[(&'static str, &str)], number: u64) {
        self.add(instrument, labels, number as f64);
    }

    fn record(&self, instrument: ChannelInstrument, labels: &[(&'static str, &str)], value: f64) {
        self.add(instrument, labels, value);
    }
}
