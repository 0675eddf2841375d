//! Text form of a client's status and metrics.

use std::fmt::Write as _;

use xds_core::{
    client::{Instrument, Metrics, MetricsExporter},
    proto::{self, ClientResourceStatus, client_config::GenericXdsConfig},
};

use crate::{toy::Toy, wire_text::type_name};

/// Formats a client status (CSDS) response, one line per client and resource.
#[must_use]
pub fn client_config(config: &proto::ClientConfig) -> Vec<String> {
    let node = config.node.as_ref().map_or("nobody", |node| &node.id);
    let mut lines = vec![format!("client {} node={node}", config.client_scope)];
    lines.extend(config.generic_xds_configs.iter().map(generic_config));
    lines
}

/// Formats metrics, one line each: `instrument{label="value"} number`.
#[must_use]
pub fn metrics(metrics: &Metrics) -> Vec<String> {
    let mut lines = Lines(Vec::new());
    metrics.export("sim", &mut lines);
    lines.0
}

fn generic_config(config: &GenericXdsConfig) -> String {
    let state = ClientResourceStatus::try_from(config.client_status)
        .map_or("(unknown)", |state| state.as_str_name());
    let mut line = format!("{} {} {state}", type_name(&config.type_url), config.name);
    // Writing to a string cannot fail.
    if !config.version_info.is_empty() {
        let _ = write!(line, " version={}", config.version_info);
    }
    if let Some(resource) = &config.xds_config {
        let _ = write!(line, " config={}", any(resource, &config.type_url));
    }
    if let Some(updated) = &config.last_updated {
        let _ = write!(line, " updated={}", moment(updated));
    }
    let Some(error) = &config.error_state else { return line };
    line.push_str(" error:");
    if !error.version_info.is_empty() {
        let _ = write!(line, " version={}", error.version_info);
    }
    if let Some(resource) = &error.failed_configuration {
        let _ = write!(line, " config={}", any(resource, &config.type_url));
    }
    if let Some(attempt) = &error.last_update_attempt {
        let _ = write!(line, " at={}", moment(attempt));
    }
    let _ = write!(line, " {:?}", error.details);
    line
}

fn any(resource: &proto::Any, type_url: &str) -> String {
    let text = Toy::text_of(&resource.value);
    match resource.type_url == type_url {
        true => text,
        false => format!("{}/{text}", type_name(&resource.type_url)),
    }
}

fn moment(timestamp: &proto::Timestamp) -> String {
    format!("{}.{:03}s", timestamp.seconds, timestamp.nanos / 1_000_000)
}

struct Lines(Vec<String>);

impl MetricsExporter for Lines {
    fn counter(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], total: u64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        self.0.push(format!("{}{{{}}} {total}", instrument.name(), labels.join(",")));
    }

    fn gauge(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], value: u64) {
        self.counter(instrument, labels, value);
    }
}
