//! Explanation of the route of a request.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value as Json;
use xds_core::types;
use xds_format::{Format, ParseOptions, encode_message_with};
use xds_routing::{
    Call, Rules,
    route::{ExplainedRoute, ProxyRoutes, RouteConfiguration, Verdict},
};

use super::{
    action::{self, Routed},
    criteria,
    json::{list, text},
    listener::{self, Entry, Routes},
    report::{
        Action, Explanation, HostReport, RequestReport, RouteOutcome, RouteReport, RouteState,
    },
    request::Request,
    resources::{Resource, RouteResources},
};
use crate::{args::RouteRules, schema::schema};

/// Explains requests, and keeps the route tables that it has read.
#[derive(Debug)]
pub(super) struct Explainer<'a> {
    resources: &'a RouteResources,
    tables: BTreeMap<(String, &'static str), Result<RouteTable, String>>,
}

/// Explanation, and the resources that it lacks.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) report: Explanation,
    pub(super) missing: Vec<(&'static str, String)>,
}

/// Route table by the rules of Envoy or of gRPC.
#[derive(Debug)]
enum RouteTable {
    Envoy(ProxyRoutes),
    Grpc(RouteConfiguration),
}

impl RouteTable {
    fn new(rules: RouteRules, resource: &Bytes) -> Result<Self, String> {
        let limits = Rules::default();
        match rules {
            RouteRules::Envoy => ProxyRoutes::from_bytes(resource, &limits).map(Self::Envoy),
            RouteRules::Grpc => RouteConfiguration::from_bytes(resource, &limits).map(Self::Grpc),
        }
        .map_err(|why| why.to_string())
    }

    fn virtual_host(&self, host: &str) -> Option<(usize, String)> {
        let found = match self {
            Self::Envoy(routes) => routes.virtual_host(host),
            Self::Grpc(routes) => routes.matched_domain(host),
        };
        found.map(|(index, domain)| (index, domain.to_string()))
    }

    fn explain(&self, host: usize, path: &str, headers: &[(&str, &str)]) -> Vec<ExplainedRoute> {
        let call = Call::new(path, headers);
        let explained = match self {
            Self::Envoy(routes) => routes.host(host).map(|it| it.explain(&call)),
            Self::Grpc(routes) => routes.virtual_hosts().get(host).map(|it| it.explain(&call)),
        };
        explained.unwrap_or_default()
    }

    /// Returns the route of a request that draws this number.
    fn find(&self, host: usize, path: &str, headers: &[(&str, &str)], drawn: u32) -> Option<usize> {
        match self {
            Self::Envoy(routes) => routes.host(host)?.find(&Call::new(path, headers), drawn),
            Self::Grpc(_) => None,
        }
    }
}

impl<'a> Explainer<'a> {
    pub(super) fn new(resources: &'a RouteResources) -> Self {
        Self { resources, tables: BTreeMap::new() }
    }

    pub(super) fn explain(&mut self, request: &Request) -> Explained {
        self.explain_drawn(request, None)
    }

    /// Explains a request. With a number, its fractions are decided by it.
    pub(super) fn explain_drawn(&mut self, request: &Request, drawn: Option<u32>) -> Explained {
        let mut explained = Explained { report: Explanation::default(), missing: Vec::new() };
        if let Err(problem) = self.fill(request, drawn, &mut explained) {
            explained.report.problems.push(problem);
        }
        explained
    }

    fn fill(
        &mut self,
        request: &Request,
        drawn: Option<u32>,
        explained: &mut Explained,
    ) -> Result<(), String> {
        if let Some(name) = &request.listener
            && self.resources.get(types::LISTENER, name).is_none()
        {
            explained.missing.push((types::LISTENER, name.clone()));
        }
        let Entry { report: listener, manager, rules, routes } =
            listener::choose(self.resources, request)?;
        let Explained { report, missing } = explained;
        report.rules = rules.name();
        report.listener = listener;
        report.notes = listener::notes(&manager);
        let host = listener::host(&manager, &request.host);
        report.request = RequestReport {
            scheme: request.scheme.name(),
            method: request.method.clone(),
            path: request.path.clone(),
            headers: request.visible_headers(rules, &host),
            host,
        };
        let (name, config) = match routes {
            Routes::Named(name) => match self.resources.get(types::ROUTE_CONFIGURATION, &name) {
                Some(found) => (name, found.clone()),
                None => {
                    let problem = self.resources.missing(types::ROUTE_CONFIGURATION, &name);
                    missing.push((types::ROUTE_CONFIGURATION, name));
                    return Err(problem);
                }
            },
            Routes::Inline(json) => inline(json)?,
        };
        // Configurations inside of listeners need no unique names.
        let listener = report.listener.as_ref().map_or("", |it| it.name.as_str());
        let key = format!("{listener}\n{name}");
        report.route_config = Some(name.clone());
        let resources = self.resources;
        let table = self
            .tables
            .entry((key, rules.name()))
            .or_insert_with(|| RouteTable::new(rules, &config.bytes));
        let table = table.as_ref().map_err(|why| {
            format!("{} cannot use the route configuration `{name}`: {why}", rules.name())
        })?;
        Self::fill_routes(resources, table, &config.json, rules, drawn, request, explained)
    }

    fn fill_routes(
        resources: &RouteResources,
        table: &RouteTable,
        config: &Json,
        rules: RouteRules,
        drawn: Option<u32>,
        request: &Request,
        Explained { report, missing }: &mut Explained,
    ) -> Result<(), String> {
        let (index, domain) = table
            .virtual_host(&report.request.host)
            .ok_or_else(|| format!("no virtual host is for `{}`", report.request.host))?;
        let virtual_host = list(config, "/virtual_hosts").get(index).unwrap_or(&Json::Null);
        let name = text(virtual_host, "/name").unwrap_or_default().to_owned();
        report.virtual_host = Some(HostReport { name, index, domain });
        let headers = report.request.headers.iter();
        let headers: Vec<_> =
            headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut routes = table.explain(index, &request.path, &headers);
        if let Some(drawn) = drawn {
            let found = table.find(index, &request.path, &headers, drawn);
            routes
                .iter_mut()
                .for_each(|it| it.share = f64::from(u8::from(found == Some(it.route))));
        }
        if let Some(redirect) = needs_tls(virtual_host, rules, &report.request) {
            report.outcomes.push(redirect);
            return Ok(());
        }
        if virtual_host.get("matcher").is_some() {
            report.notes.push("the virtual host has a matcher tree, which is not evaluated".into());
        }
        let mut left = 1.0;
        for explained in routes {
            let route = list(virtual_host, "/routes").get(explained.route).unwrap_or(&Json::Null);
            report.routes.push(route_report(route, explained, &report.request));
            left -= explained.share;
            if explained.share == 0.0 {
                continue;
            }
            let matches = route.get("match").unwrap_or(&Json::Null);
            if let Some(key) = criteria::runtime_key(matches).filter(|_| rules == RouteRules::Envoy)
            {
                let note = format!(
                    "runtime key {key} may replace the fraction of route {}",
                    explained.route
                );
                report.notes.push(note);
            }
            let request = &report.request;
            let routed = Routed { resources, rules, request, virtual_host, route };
            let (action, settings) = routed.explain(missing);
            if let Action::Fail { reason } = &action {
                report.problems.push(format!("route {}: {reason}", explained.route));
            }
            let route = Some(explained.route);
            report.outcomes.push(RouteOutcome { share: explained.share, route, action, settings });
        }
        // Shares are sums of fractions of a million at most.
        if left > 1e-9 {
            let answer = match rules {
                RouteRules::Envoy => "Envoy answers 404",
                RouteRules::Grpc => "the call fails with UNAVAILABLE",
            };
            let reason = format!("no route matches: {answer}");
            report.problems.push(reason.clone());
            let action = Action::Fail { reason };
            report.outcomes.push(RouteOutcome {
                share: left,
                route: None,
                action,
                settings: BTreeMap::new(),
            });
        }
        let (fatal, endpoints): (Vec<_>, Vec<_>) =
            missing.iter().cloned().partition(|(url, _)| action::is_fatal(url));
        report.problems.extend(action::missing(resources, &fatal));
        // The cluster exists, and its endpoints may come from another source than these resources.
        report.notes.extend(action::missing(resources, &endpoints));
        Ok(())
    }
}

fn route_report(route: &Json, explained: ExplainedRoute, request: &RequestReport) -> RouteReport {
    let matches = route.get("match").unwrap_or(&Json::Null);
    let (state, reason) = match explained.verdict {
        Verdict::Matches(_) if explained.share > 0.0 => (RouteState::Used, None),
        Verdict::Matches(_) if explained.is_reached => {
            (RouteState::NotReached, Some("earlier fractions take its requests".to_owned()))
        }
        Verdict::Matches(_) => (
            RouteState::NotReached,
            Some("matches too, but an earlier route takes all requests".to_owned()),
        ),
        Verdict::Mismatch(why) => {
            (RouteState::NoMatch, Some(criteria::mismatch(matches, why, request)))
        }
        Verdict::Skipped(why) => (RouteState::Skipped, Some(criteria::skipped(why).to_owned())),
        _ => (RouteState::NoMatch, None),
    };
    RouteReport {
        index: explained.route,
        name: text(route, "/name").map(str::to_owned),
        matches: criteria::describe(matches),
        state,
        share: explained.share,
        reason,
    }
}

/// Returns the redirect of a virtual host that requires TLS, if the request does not use it.
fn needs_tls(
    virtual_host: &Json,
    rules: RouteRules,
    request: &RequestReport,
) -> Option<RouteOutcome> {
    let requires = text(virtual_host, "/require_tls")?;
    let is_internal = || {
        let header = request.headers.iter().find(|(name, _)| name == "x-envoy-internal");
        header.is_some_and(|(_, value)| value == "true")
    };
    let is_needed = match requires {
        "ALL" => true,
        "EXTERNAL_ONLY" => !is_internal(),
        _ => false,
    };
    let is_plain = rules == RouteRules::Envoy && request.scheme == "http";
    (is_needed && is_plain).then(|| {
        let host = request.host.strip_suffix(":80").unwrap_or(&request.host);
        let location = format!("https://{host}{}", request.path);
        let action = Action::Redirect { status: 301, location };
        RouteOutcome { share: 1.0, route: None, action, settings: BTreeMap::new() }
    })
}

/// Encodes the route configuration inside of a listener.
fn inline(json: Json) -> Result<(String, Resource), String> {
    let text = json.to_string();
    let name = text_of_name(&json);
    let encoded = encode_message_with(
        schema(),
        "route_config",
        "envoy.config.route.v3.RouteConfiguration",
        Format::Json,
        text.as_bytes(),
        ParseOptions::envoy(),
    );
    let bytes = Bytes::from(encoded.map_err(|why| why.to_string())?);
    Ok((name, Resource { bytes, json }))
}

fn text_of_name(json: &Json) -> String {
    format!("{} (in the listener)", text(json, "/name").unwrap_or("without a name"))
}
