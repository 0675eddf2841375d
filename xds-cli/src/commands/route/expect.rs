//! Expected routes of many requests (`--expect`).

use std::path::Path;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

use super::{
    checked::{Checked, FieldDifference},
    expect_file::{ExpectFile, RowError, TestSource},
    explain::Explainer,
    report::{Action, Explanation, RouteOutcome},
    request::Request,
    router_check,
    text::percent,
};
use crate::{
    args::{ExplainArgs, RouteOutput, RouteRules, Scheme},
    failure::{Failure, judged},
    output,
    style::Style,
    text::{count, escaped},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectTest {
    name: Option<String>,
    /// Read later, so that errors have the place of the part.
    #[expect(dead_code, reason = "requires the field")]
    request: Json,
    #[expect(dead_code, reason = "requires the field")]
    expect: Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowRequest {
    host: Option<String>,
    path: Option<String>,
    method: Option<String>,
    scheme: Option<String>,
    target: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    listener: Option<String>,
    route_config: Option<String>,
    rules: Option<String>,
}

/// One value or several values of a header.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Several(Vec<String>),
}

/// Expected properties. Absent ones are not compared.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    virtual_host: Option<String>,
    /// Index or name of the route, or `none`.
    #[serde(default, deserialize_with = "route")]
    route: Option<Json>,
    cluster: Option<String>,
    /// Shares of the clusters in percent.
    clusters: Option<BTreeMap<String, f64>>,
    /// Path and host that the cluster sees.
    path: Option<String>,
    host: Option<String>,
    redirect: Option<String>,
    /// Status of a redirect or of a direct response.
    status: Option<u64>,
}

/// Reads an index or a name.
fn route<'d, D: Deserializer<'d>>(input: D) -> Result<Option<Json>, D::Error> {
    let route = Option::<Json>::deserialize(input)?;
    match route {
        None => Ok(None),
        Some(it) if it.is_u64() || it.is_string() => Ok(Some(it)),
        Some(it) => Err(D::Error::custom(format!(
            "expected the index or the name of a route, or `none`, not {it}"
        ))),
    }
}

/// Checks all rows of a file, and prints one line for each.
pub(super) fn run(
    explainer: &mut Explainer<'_>,
    rows: &Rows,
    output: RouteOutput,
    style: Style,
) -> Result<(), Failure> {
    let mut different = 0_u32;
    let mut lines = Vec::new();
    for index in 0..rows.len() {
        let checked = rows.check(index, explainer)?;
        let is_equal = checked.differences.is_empty();
        different += u32::from(!is_equal);
        let line = match output {
            RouteOutput::Json => {
                let differences = checked.differences.iter().map(|(what, expected, found)| {
                    json!({ "field": what, "expected": expected, "found": found })
                });
                let differences: Vec<_> = differences.collect();
                json!({ "test": checked.name, "passed": is_equal, "differences": differences })
                    .to_string()
            }
            RouteOutput::Text if is_equal => {
                format!("{} {}", style.good("ok  "), escaped(&checked.name))
            }
            RouteOutput::Text => {
                let listed = checked.differences.iter();
                let listed = listed.map(|(what, expected, found)| {
                    format!("{what} is {}, expected {}", shown(found), shown(expected))
                });
                let listed = listed.collect::<Vec<_>>().join("; ");
                format!("{} {}", style.bad("FAIL"), escaped(&format!("{}: {listed}", checked.name)))
            }
        };
        lines.push(line);
    }
    if output == RouteOutput::Text {
        let requests = count(rows.len() as u64, "request");
        lines.push(format!("{requests}, {}", count(different, "difference")));
    }
    let verdict = match different {
        0 => Ok(()),
        different => Err(Failure::Different(different)),
    };
    judged(lines.iter().try_for_each(|line| output::print(line)), verdict)
}

fn shown(value: &Json) -> String {
    match value {
        Json::Null => "none".to_owned(),
        Json::String(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}

/// Name of a test, its request, and the expected properties of the answer.
type ExpectedRow = (String, Request, Expected);

/// Reads one element of `tests`.
fn expected_row(row: &TestSource<'_>, args: &ExplainArgs) -> Result<ExpectedRow, RowError> {
    let test: ExpectTest = row.read("")?;
    let request: RowRequest = row.read("request")?;
    let expected = row.read("expect")?;
    let name = test.name.unwrap_or_else(|| row.default_name());
    let request = request.request(args).map_err(|why| RowError::new("request", why))?;
    Ok((name, request, expected))
}

/// Rows of a file, in one of its two formats.
#[derive(Debug)]
pub(super) enum Rows {
    Ours(Vec<ExpectedRow>),
    RouterCheck(Vec<router_check::RouterTest>),
}

impl Rows {
    /// Reads a file with expectations, before any resource is fetched.
    pub(super) fn read(file: &Path, args: &ExplainArgs) -> Result<Self, Failure> {
        let content = std::fs::read(file)
            .map_err(|why| Failure::Unreadable { file: file.to_owned(), why })?;
        let shown = file.display().to_string();
        let file = ExpectFile::parse(&shown, &content)?;
        match file.tests()?.iter().any(|row| row.get("input").is_some()) {
            true => file.rows(|row| router_check::row(row, args)).map(Self::RouterCheck),
            false => file.rows(|row| expected_row(row, args)).map(Self::Ours),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Ours(rows) => rows.len(),
            Self::RouterCheck(rows) => rows.len(),
        }
    }

    /// Returns the requests, whose resources are needed.
    pub(super) fn requests(&self) -> Vec<&Request> {
        match self {
            Self::Ours(rows) => rows.iter().map(|(_, request, _)| request).collect(),
            Self::RouterCheck(rows) => rows.iter().map(router_check::RouterTest::request).collect(),
        }
    }

    fn check(&self, index: usize, explainer: &mut Explainer<'_>) -> Result<Checked, Failure> {
        match self {
            Self::Ours(rows) => {
                let (name, request, expected) = &rows[index];
                let report = explainer.explain(request).report;
                Ok(Checked { name: name.clone(), differences: expected.differences(&report) })
            }
            Self::RouterCheck(rows) => Ok(rows[index].check(explainer)),
        }
    }
}

impl RowRequest {
    /// Returns the request, with the listener and the rules of the arguments as defaults.
    fn request(self, args: &ExplainArgs) -> Result<Request, String> {
        let scheme = match self.scheme.as_deref() {
            None => args.scheme,
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(format!("unknown scheme `{other}`")),
        };
        let rules = match self.rules.as_deref() {
            None => args.rules,
            Some("envoy") => Some(RouteRules::Envoy),
            Some("grpc") => Some(RouteRules::Grpc),
            Some(other) => return Err(format!("unknown rules `{other}`")),
        };
        let headers = self.headers.into_iter().flat_map(|(name, values)| {
            let values = match values {
                Values::One(value) => vec![value],
                Values::Several(values) => values,
            };
            let name = name.to_ascii_lowercase();
            values.into_iter().map(move |value| (name.clone(), value))
        });
        let mut request = Request {
            host: self.host.unwrap_or_default(),
            path: self.path.unwrap_or_default(),
            method: self.method.unwrap_or_else(|| "GET".into()),
            scheme,
            headers: headers.collect(),
            listener: self.listener.or_else(|| args.listener.clone()),
            route_config: self.route_config.or_else(|| args.route_config.clone()),
            rules,
            is_grpc: false,
        };
        if let Some(target) = &self.target {
            request.set_target(target).map_err(|why| why.to_string())?;
        }
        if request.host.is_empty() {
            return Err("the request needs a host or a target".to_owned());
        }
        request.complete().map_err(|why| why.to_string())
    }
}

impl Expected {
    fn differences(&self, report: &Explanation) -> Vec<FieldDifference> {
        let mut differences = Vec::new();
        let mut compare = |what, expected: Option<Json>, found: Json| {
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                differences.push((what, expected, found));
            }
        };
        let text = |text: &Option<String>| text.clone().map(Json::from);
        let host = report.virtual_host.as_ref().map(|it| it.name.as_str());
        compare("virtual_host", none(text(&self.virtual_host)), json!(host));
        let first = report.outcomes.iter().find(|it| it.route.is_some());
        let index = first.and_then(|it| it.route);
        let name = index.and_then(|index| report.routes.get(index)?.name.as_deref());
        let route = match &self.route {
            Some(Json::String(wanted)) if wanted != "none" => json!(name),
            _ => json!(index),
        };
        let route = match (route, index) {
            (Json::Null, Some(index)) => json!(format!("index {index}, without a name")),
            (route, _) => route,
        };
        compare("route", none(self.route.clone()), route);
        let shares = shares(&report.outcomes);
        let only = match shares.len() {
            0 => Json::Null,
            1 => json!(shares.keys().next()),
            _ => json!(listed(&shares)),
        };
        compare("cluster", none(text(&self.cluster)), only);
        if let Some(expected) = &self.clusters {
            let is_near = |name: &String, share: &f64| {
                shares.get(name).is_some_and(|found| (found - share).abs() < 0.001)
            };
            let is_equal = expected.len() == shares.len()
                && expected.iter().all(|(name, share)| is_near(name, share));
            let found = if is_equal { json!(expected) } else { json!(shares) };
            compare("clusters", Some(json!(expected)), found);
        }
        let action = report.outcomes.first().map(|it| &it.action);
        let (path, host, redirect, status) = match action {
            Some(Action::Forward { path, host, .. }) => {
                (json!(path), json!(host), Json::Null, Json::Null)
            }
            Some(Action::Redirect { status, location }) => {
                (Json::Null, Json::Null, json!(location), json!(status))
            }
            Some(Action::DirectResponse { status }) => {
                (Json::Null, Json::Null, Json::Null, json!(status))
            }
            Some(Action::Fail { .. }) | None => Default::default(),
        };
        compare("path", text(&self.path), path);
        compare("host", text(&self.host), host);
        compare("redirect", none(text(&self.redirect)), redirect);
        compare("status", self.status.map(Json::from), status);
        differences
    }
}

/// Converts the text `none` to null.
fn none(expected: Option<Json>) -> Option<Json> {
    expected.map(|it| if it == "none" { Json::Null } else { it })
}

/// Returns the share of each cluster in percent, rounded to a millionth of the requests.
fn shares(outcomes: &[RouteOutcome]) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for outcome in outcomes {
        if let Action::Forward { clusters, .. } = &outcome.action {
            for cluster in clusters {
                *shares.entry(cluster.name.clone()).or_default() +=
                    outcome.share * cluster.share * 100.0;
            }
        }
    }
    for share in shares.values_mut() {
        *share = f64::round(*share * 10_000.0) / 10_000.0;
    }
    shares
}

fn listed(shares: &BTreeMap<String, f64>) -> String {
    let listed = shares.iter().map(|(name, share)| format!("{name} {}", percent(share / 100.0)));
    listed.collect::<Vec<_>>().join(", ")
}
