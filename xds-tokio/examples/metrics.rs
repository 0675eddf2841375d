//! Watches one resource and prints the client's metrics every 10 s in Prometheus' text format,
//! until Ctrl-C.
//!
//! `cargo run -p xds-tokio --example metrics -- 127.0.0.1:18000 rtds example`

use std::{collections::BTreeMap, env, error::Error, fmt::Write as _, time::Duration};

use tokio::{select, signal, time::interval};
use xds_core::{
    client::{ClientConfig, Instrument, MetricsExporter, Node, OpaqueType, ServerAddress},
    types,
};
use xds_tokio::{ClientOptions, client};

/// Samples of each instrument, as lines of Prometheus' text format.
#[derive(Default)]
struct Prometheus(BTreeMap<(Instrument, &'static str), String>);

impl MetricsExporter for Prometheus {
    fn counter(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], total: u64) {
        self.add(instrument, "counter", "_total", labels, total);
    }

    fn gauge(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], value: u64) {
        self.add(instrument, "gauge", "", labels, value);
    }
}

impl Prometheus {
    fn add(
        &mut self,
        instrument: Instrument,
        kind: &'static str,
        suffix: &str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        let name = instrument.name().replace('.', "_") + suffix;
        let label = |(name, value): &(&str, &str)| {
            let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
            format!("{}=\"{value}\"", name.replace('.', "_"))
        };
        let labels = labels.iter().map(label).collect::<Vec<_>>().join(",");
        let lines = self.0.entry((instrument, kind)).or_insert_with(|| {
            format!("# HELP {name} {}\n# TYPE {name} {kind}\n", instrument.description())
        });
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{name}{{{labels}}} {value}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".into());
    let short = arguments.next().unwrap_or_else(|| "rtds".into());
    let name = arguments.next().unwrap_or_else(|| "example".into());
    let type_url = types::by_short_name(&short).ok_or("unknown type")?;
    client::check_address(&server)?;

    let config = ClientConfig::new(Node::new("example"), ServerAddress::new(server))
        .with_type(OpaqueType::new(type_url));
    let client = client::connect(config, ClientOptions::default());
    let mut watch = client.watch_untyped(type_url, name.as_str());
    let mut scrapes = interval(Duration::from_secs(10));
    loop {
        select! {
            _ = signal::ctrl_c() => return Ok(()),
            Some(notice) = watch.next() => drop(notice?),
            _ = scrapes.tick() => {
                let mut text = Prometheus::default();
                client.metrics().await?.export("xds:///example", &mut text);
                text.0.values().for_each(|lines| println!("{}", lines.trim_end()));
            }
        }
    }
}
