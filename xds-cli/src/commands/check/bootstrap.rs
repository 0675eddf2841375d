//! Detection of the kind of a bootstrap.

use std::path::Path;

use serde_json::Value as Json;
use xds_format::{Leniency, YamlFile};

use super::{
    bootstrap_file::{BootstrapFile, read_bounded},
    envoy, grpc,
    report::Report,
};
use crate::{
    diagnostic::{Diagnostic, Rule},
    failure::Failure,
    text::count,
};

/// Fields by which a bootstrap of Envoy is recognised.
const OF_ENVOY: [&str; 7] = [
    "static_resources",
    "dynamic_resources",
    "admin",
    "layered_runtime",
    "config_sources",
    "default_config_source",
    "bootstrap_extensions",
];

/// Checks a bootstrap of either kind.
pub(super) async fn check(path: &Path) -> Result<Report, Failure> {
    let bytes = read(path)?;
    let shown = path.display().to_string();
    let of_envoy = |json: &Json| {
        let has = |name: &&str| json.get(*name).is_some() || json.get(camel_case(name)).is_some();
        json.get("xds_servers").is_none() && OF_ENVOY.iter().any(has)
    };
    // YAML includes JSON, so that the kind of every bootstrap can be detected.
    let parsed = YamlFile::parse(&shown, &bytes, Leniency::Envoy);
    match parsed {
        Ok(yaml) if of_envoy(&yaml.to_json()) => Ok(of_proxy(path, yaml).await),
        _ => match YamlFile::parse_json(&shown, &bytes, Leniency::Strict) {
            Ok(yaml) => {
                let json = yaml.to_json();
                let file = BootstrapFile { path, yaml, json };
                let text = String::from_utf8_lossy(&bytes);
                let mut report = Report::default();
                let named = grpc::check(&file, &text, &mut report.diagnostics).await;
                Ok(finished(report, path, "gRPC bootstrap", named))
            }
            Err(not_json) => {
                // A YAML file may be a broken bootstrap of Envoy.
                let is_json = bytes.trim_ascii_start().starts_with(b"{");
                let error = parsed.err().filter(|_| !is_json).unwrap_or(not_json);
                let mut report = Report::default();
                report.diagnostics.push(Diagnostic::of_format(Rule::Bootstrap, path, &error));
                Ok(finished(report, path, "bootstrap", 0))
            }
        },
    }
}

/// Checks a bootstrap of Envoy.
pub(super) async fn check_of_proxy(path: &Path) -> Result<Report, Failure> {
    let bytes = read(path)?;
    let shown = path.display().to_string();
    match YamlFile::parse(&shown, &bytes, Leniency::Envoy) {
        Ok(yaml) => Ok(of_proxy(path, yaml).await),
        Err(error) => {
            let mut report = Report::default();
            report.diagnostics.push(Diagnostic::of_format(Rule::Bootstrap, path, &error));
            Ok(finished(report, path, "Envoy bootstrap", 0))
        }
    }
}

async fn of_proxy(path: &Path, yaml: YamlFile<'_>) -> Report {
    let json = yaml.to_json();
    let file = BootstrapFile { path, yaml, json };
    let mut report = Report::default();
    let named = envoy::check(&file, &mut report).await;
    finished(report, path, "Envoy bootstrap", named)
}

/// Sorts the findings: those about the bootstrap first, then those about each other file.
fn finished(mut report: Report, path: &Path, kind: &str, named: usize) -> Report {
    report.diagnostics.sort_by(|a, b| {
        let key = |it: &Diagnostic| (it.file != path, it.position.is_none(), it.position);
        let is_other = |it: &Diagnostic| it.file != path;
        is_other(a).cmp(&is_other(b)).then(a.file.cmp(&b.file)).then(key(a).cmp(&key(b)))
    });
    report.subject = format!("{kind} with {}", count(named as u64, "named file"));
    report
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_bounded(path).map_err(|why| Failure::Unreadable { file: path.to_owned(), why })
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        camel += &first.to_ascii_uppercase();
        camel += rest;
    }
    camel
}
