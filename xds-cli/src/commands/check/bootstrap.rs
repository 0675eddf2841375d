//! Check of a bootstrap of either kind.

use std::path::Path;

use xds_format::{Leniency, YamlFile};

use super::{
    bootstrap_file::{BootstrapFile, read_bounded},
    envoy, grpc, named_files,
    report::Report,
};
use crate::{
    bootstrap_kind::{self, BootstrapKind},
    diagnostic::{Diagnostic, Level, Rule},
    failure::Failure,
    text::count,
};

/// Checks a bootstrap of either kind.
pub(super) async fn check(path: &Path) -> Result<Report, Failure> {
    let bytes = read(path)?;
    let shown = path.display().to_string();
    // YAML includes JSON, so that the kind of every bootstrap can be detected.
    let yaml = YamlFile::parse(&shown, &bytes, Leniency::Envoy);
    let kind = yaml.as_ref().ok().map(|yaml| BootstrapKind::of(&yaml.to_json()));
    match (kind, yaml) {
        (Some(BootstrapKind::Envoy), Ok(yaml)) => Ok(of_proxy(path, yaml).await),
        (Some(BootstrapKind::Neither), Ok(yaml)) => {
            let json = yaml.to_json();
            let (field, text) = bootstrap_kind::neither(&json);
            let place = field.map(bootstrap_path).unwrap_or_default();
            let error = Diagnostic::new(Rule::Bootstrap, Level::Error, path, text);
            Ok(invalid(path, error.at(yaml.position(&place)).in_field(place)))
        }
        (_, yaml) => match YamlFile::parse_json(&shown, &bytes, Leniency::Strict) {
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
                let error = yaml.err().filter(|_| !is_json).unwrap_or(not_json);
                Ok(invalid(path, Diagnostic::of_format(Rule::Bootstrap, path, &error)))
            }
        },
    }
}

/// Returns the report of a file that cannot be read as a bootstrap.
fn invalid(path: &Path, error: Diagnostic) -> Report {
    let mut report = Report::default();
    report.diagnostics.push(error);
    finished(report, path, "bootstrap", 0)
}

/// Returns the path of a top-level field.
fn bootstrap_path(key: &str) -> String {
    named_files::field("", key)
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
