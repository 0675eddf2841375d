//! Tests in the format of Envoy's `router_check_tool`.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{
    checked::{Checked, FieldDifference},
    expect_file::{RowError, TestSource},
    explain::Explainer,
    report::{Action, Explanation},
    request::Request,
};
use crate::args::{ExplainArgs, RouteRules, Scheme};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    test_name: String,
    /// Read later, so that errors have the place of the part.
    #[expect(dead_code, reason = "requires the field")]
    input: Json,
    #[expect(dead_code, reason = "requires the field")]
    validate: Json,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestInput {
    authority: String,
    path: String,
    method: Option<String>,
    random_value: Option<u32>,
    #[serde(default)]
    ssl: bool,
    #[serde(default)]
    internal: bool,
    #[serde(default)]
    additional_request_headers: Vec<Header>,
}

#[derive(Debug, Deserialize)]
struct Header {
    key: String,
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Validate {
    cluster_name: Option<String>,
    virtual_host_name: Option<String>,
    path_rewrite: Option<String>,
    host_rewrite: Option<String>,
    path_redirect: Option<String>,
    code_redirect: Option<u64>,
}

/// Test of one request.
#[derive(Debug)]
pub(super) struct RouterTest {
    name: String,
    request: Request,
    drawn: u32,
    validate: Validate,
}

/// Reads a test. Fields that are not supported are errors.
pub(super) fn row(source: &TestSource<'_>, args: &ExplainArgs) -> Result<RouterTest, RowError> {
    let test: Test = source.read("")?;
    let input = source.read("input")?;
    let validate = source.read("validate")?;
    let TestInput {
        authority,
        path,
        method,
        random_value,
        ssl,
        internal,
        additional_request_headers,
    } = input;
    let added = additional_request_headers.into_iter();
    let mut headers: Vec<_> = added.map(|it| (it.key.to_ascii_lowercase(), it.value)).collect();
    if internal {
        headers.push(("x-envoy-internal".into(), "true".into()));
    }
    let request = Request {
        host: authority,
        path,
        method: method.unwrap_or_else(|| "GET".into()),
        scheme: if ssl { Scheme::Https } else { Scheme::Http },
        headers,
        listener: args.listener.clone(),
        route_config: args.route_config.clone(),
        rules: Some(RouteRules::Envoy),
        is_grpc: false,
    };
    let request = request.complete().map_err(|why| RowError::new("input", why.to_string()))?;
    Ok(RouterTest {
        name: test.test_name,
        request,
        drawn: random_value.unwrap_or_default(),
        validate,
    })
}

impl RouterTest {
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Compares the route of the request. Absent values are empty, as in the tool.
    pub(super) fn check(&self, explainer: &mut Explainer<'_>) -> Checked {
        let report = explainer.explain_drawn(&self.request, Some(self.drawn)).report;
        let mut differences: Vec<FieldDifference> = Vec::new();
        let mut compare = |what, expected: Option<&String>, found: String| {
            if let Some(expected) = expected.filter(|expected| **expected != found) {
                differences.push((what, json!(expected), json!(found)));
            }
        };
        let validate = &self.validate;
        let host = report.virtual_host.as_ref().map(|it| it.name.clone());
        compare("virtual_host_name", validate.virtual_host_name.as_ref(), host.unwrap_or_default());
        compare("cluster_name", validate.cluster_name.as_ref(), self.cluster(&report));
        let (mut path, mut host, mut redirect, mut code) = Default::default();
        match report.outcomes.first().map(|it| &it.action) {
            Some(Action::Forward { path: seen_path, host: seen_host, .. }) => {
                (path, host) = (seen_path.clone(), seen_host.clone());
            }
            Some(Action::Redirect { status, location }) => {
                (redirect, code) = (location.clone(), Some(*status));
            }
            Some(Action::DirectResponse { .. } | Action::Fail { .. }) | None => {}
        }
        compare("path_rewrite", validate.path_rewrite.as_ref(), path);
        compare("host_rewrite", validate.host_rewrite.as_ref(), host);
        compare("path_redirect", validate.path_redirect.as_ref(), redirect);
        if validate.code_redirect.is_some() && validate.code_redirect != code {
            differences.push(("code_redirect", json!(validate.code_redirect), json!(code)));
        }
        Checked { name: self.name.clone(), differences }
    }

    /// Returns the cluster that the random value selects.
    fn cluster(&self, report: &Explanation) -> String {
        let action = report.outcomes.first().map(|it| &it.action);
        let Some(Action::Forward { clusters, .. }) = action else { return String::new() };
        let total: u64 = clusters.iter().filter_map(|it| it.weight).sum();
        if total == 0 {
            return clusters.first().map(|it| it.name.clone()).unwrap_or_default();
        }
        let mut left = u64::from(self.drawn) % total;
        let chosen = clusters.iter().find(|it| {
            let weight = it.weight.unwrap_or_default();
            let is_chosen = left < weight;
            left = left.saturating_sub(weight);
            is_chosen
        });
        chosen.map(|it| it.name.clone()).unwrap_or_default()
    }
}
