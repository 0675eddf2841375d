//! Actions of routes: clusters, redirects, rewrites, timeouts and retries.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use xds_core::types;
use xds_routing::pattern::{ExpressionLimits, Rewrite};

use super::{
    clusters,
    json::{is_true, list, number, text},
    report::{Action, ClusterShare, RequestReport},
    resources::RouteResources,
};
use crate::args::RouteRules;

/// Route with the resources and the request that its action applies to.
#[derive(Debug)]
pub(super) struct Routed<'a> {
    pub(super) resources: &'a RouteResources,
    pub(super) rules: RouteRules,
    pub(super) request: &'a RequestReport,
    pub(super) virtual_host: &'a Json,
    pub(super) route: &'a Json,
}

/// Settings by name, as text.
pub(super) type Settings = BTreeMap<&'static str, String>;

impl Routed<'_> {
    /// Explains the action of the route. Missing resources are added to `missing`.
    pub(super) fn explain(&self, missing: &mut Vec<(&'static str, String)>) -> (Action, Settings) {
        if let Some(action) = self.route.get("route") {
            return match self.clusters(action, missing) {
                Ok(clusters) => {
                    let (path, host) = (self.path(action), self.host(action));
                    (Action::Forward { clusters, path, host }, self.settings(action))
                }
                Err(reason) => (Action::Fail { reason }, Settings::new()),
            };
        }
        let other = |field| self.route.get(field);
        let action = match (other("redirect"), other("direct_response"), self.rules) {
            (Some(redirect), _, RouteRules::Envoy) => self.redirect(redirect),
            (_, Some(response), RouteRules::Envoy) => {
                Action::DirectResponse { status: number(response, "/status").unwrap_or(200) }
            }
            (_, _, RouteRules::Grpc) => Action::Fail {
                reason: "gRPC clients only support the action `route`: the call fails with \
                         UNAVAILABLE"
                    .to_owned(),
            },
            _ => Action::Fail { reason: "the route does not forward requests".to_owned() },
        };
        (action, Settings::new())
    }

    fn clusters(
        &self,
        action: &Json,
        missing: &mut Vec<(&'static str, String)>,
    ) -> Result<Vec<ClusterShare>, String> {
        let mut share = |name: &str, share: f64, weight: Option<u64>| ClusterShare {
            name: name.to_owned(),
            share,
            weight,
            cluster: clusters::explain(self.resources, name, missing),
        };
        if let Some(name) = text(action, "/cluster") {
            return Ok(vec![share(name, 1.0, None)]);
        }
        if let Some(header) = text(action, "/cluster_header") {
            let name = self.header(header).ok_or_else(|| {
                format!("the header {header}, which names the cluster, is absent")
            })?;
            return Ok(vec![share(&name, 1.0, None)]);
        }
        let weighted = list(action, "/weighted_clusters/clusters");
        let weight = |cluster: &Json| number(cluster, "/weight").unwrap_or_default();
        let total: u64 = weighted.iter().map(weight).sum();
        if total == 0 {
            return Err("the route names no cluster".to_owned());
        }
        let used = weighted.iter().filter(|cluster| weight(cluster) > 0);
        used.map(|cluster| {
            let named = text(cluster, "/name").map(str::to_owned);
            let by_header = || self.header(text(cluster, "/cluster_header")?);
            let name = named.or_else(by_header).unwrap_or_default();
            #[allow(clippy::cast_precision_loss, reason = "a share is shown with few digits")]
            let part = weight(cluster) as f64 / total as f64;
            Ok(share(&name, part, Some(weight(cluster))))
        })
        .collect()
    }

    fn header(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        let found = self.request.headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }

    /// Returns the path that the cluster sees.
    fn path(&self, action: &Json) -> String {
        let path = &self.request.path;
        if self.rules == RouteRules::Grpc {
            return path.clone();
        }
        self.rewritten(action, "/prefix_rewrite").unwrap_or_else(|| path.clone())
    }

    /// Applies a prefix or regular expression rewrite to the path. `None` if there is none.
    fn rewritten(&self, action: &Json, prefix_field: &str) -> Option<String> {
        let path = &self.request.path;
        let (bare, query) = path.find('?').map_or((path.as_str(), ""), |at| path.split_at(at));
        if let Some(prefix) = text(action, prefix_field) {
            let matched = ["prefix", "path_separated_prefix"].into_iter();
            let matched = matched.filter_map(|it| self.route.pointer("/match")?.get(it)?.as_str());
            // A route by exact path or expression replaces the whole path.
            let length = matched.map(str::len).next().unwrap_or(bare.len()).min(bare.len());
            return Some(format!("{prefix}{}{query}", bare.get(length..).unwrap_or_default()));
        }
        let (pattern, substitution) = (
            text(action, "/regex_rewrite/pattern/regex")?,
            text(action, "/regex_rewrite/substitution").unwrap_or_default(),
        );
        let rewrite = Rewrite::new(pattern, substitution, &ExpressionLimits::default()).ok()?;
        Some(format!("{}{query}", rewrite.apply(bare)))
    }

    /// Returns the host that the cluster sees.
    fn host(&self, action: &Json) -> String {
        let literal = ["/host_rewrite_literal", "/host_rewrite"];
        let host = || self.request.host.clone();
        if self.rules == RouteRules::Grpc {
            return host();
        }
        if let Some(literal) = literal.into_iter().find_map(|field| text(action, field)) {
            return literal.to_owned();
        }
        if let Some(header) = text(action, "/host_rewrite_header") {
            return self.header(header).unwrap_or_else(host);
        }
        let regex = text(action, "/host_rewrite_path_regex/pattern/regex").and_then(|pattern| {
            let substitution = text(action, "/host_rewrite_path_regex/substitution");
            let limits = ExpressionLimits::default();
            let rewrite = Rewrite::new(pattern, substitution.unwrap_or_default(), &limits).ok()?;
            let path = self.request.path.split('?').next().unwrap_or_default();
            Some(rewrite.apply(path).into_owned())
        });
        regex.unwrap_or_else(host)
    }

    fn settings(&self, action: &Json) -> Settings {
        let mut settings = Settings::new();
        let mut set = |name, pointer: &str| {
            if let Some(value) = text(action, pointer) {
                settings.insert(name, value.to_owned());
            }
        };
        set("max_stream_duration", "/max_stream_duration/max_stream_duration");
        if self.rules == RouteRules::Envoy {
            set("timeout", "/timeout");
            set("idle_timeout", "/idle_timeout");
            settings.entry("timeout").or_insert_with(|| "15s (default)".to_owned());
        } else {
            set("grpc_timeout_header_max", "/max_stream_duration/grpc_timeout_header_max");
        }
        if is_true(action, "/auto_host_rewrite") {
            settings.insert("auto_host_rewrite", "the host is the endpoint's host name".to_owned());
        }
        let retries = [action, self.virtual_host].into_iter().find_map(|it| it.get("retry_policy"));
        if let Some(policy) = retries {
            let on = text(policy, "/retry_on").unwrap_or("nothing");
            let times = number(policy, "/num_retries").unwrap_or(1);
            settings.insert("retries", format!("{times} on {on}"));
        }
        settings
    }

    fn redirect(&self, redirect: &Json) -> Action {
        let request = self.request;
        let scheme = match text(redirect, "/scheme_redirect") {
            Some(scheme) => scheme,
            None if is_true(redirect, "/https_redirect") => "https",
            None => request.scheme,
        };
        let (path, query) = request
            .path
            .find('?')
            .map_or((request.path.as_str(), ""), |at| request.path.split_at(at));
        let query = if is_true(redirect, "/strip_query") { "" } else { query };
        let path = match text(redirect, "/path_redirect") {
            // A query in `path_redirect` replaces the query of the request.
            Some(path) if path.contains('?') => path.to_owned(),
            Some(path) => format!("{path}{query}"),
            None => {
                let rewritten = self.rewritten(redirect, "/prefix_rewrite");
                let bare = rewritten.as_deref().unwrap_or(path).split('?').next();
                format!("{}{query}", bare.unwrap_or_default())
            }
        };
        let mut host = text(redirect, "/host_redirect").unwrap_or(&request.host);
        // A default port does not survive the change of the scheme.
        let default_port = if request.scheme == "http" { ":80" } else { ":443" };
        if scheme != request.scheme {
            host = host.strip_suffix(default_port).unwrap_or(host);
        }
        let port = number(redirect, "/port_redirect").filter(|&port| port > 0);
        let location = match port {
            Some(port) => {
                let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
                let name = name.map_or(host, |(name, _)| name);
                format!("{scheme}://{name}:{port}{path}")
            }
            None => format!("{scheme}://{host}{path}"),
        };
        let status = match text(redirect, "/response_code") {
            Some("FOUND") => 302,
            Some("SEE_OTHER") => 303,
            Some("TEMPORARY_REDIRECT") => 307,
            Some("PERMANENT_REDIRECT") => 308,
            _ => 301,
        };
        Action::Redirect { status, location }
    }
}

/// Returns the missing resources of an action in words, without duplicates.
pub(super) fn missing(
    resources: &RouteResources,
    missing: &[(&'static str, String)],
) -> Vec<String> {
    let mut texts: Vec<_> =
        missing.iter().map(|(url, name)| resources.missing(url, name)).collect();
    texts.dedup();
    texts
}

/// Whether a missing resource makes requests fail. Endpoints may arrive later, clusters must exist.
pub(super) fn is_fatal(type_url: &str) -> bool {
    type_url != types::CLUSTER_LOAD_ASSIGNMENT
}
