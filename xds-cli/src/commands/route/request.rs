//! Request whose route is explained.

use xds_core::types;

use crate::{
    args::{ExplainArgs, RouteRules, Scheme},
    failure::Failure,
    text::escaped,
};

/// Maximum number of headers of a request.
const MOST_HEADERS: usize = 1_000;
/// Maximum size of a request, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// Request whose route is explained.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) host: String,
    pub(super) path: String,
    pub(super) method: String,
    pub(super) scheme: Scheme,
    /// Names in lower case, and values.
    pub(super) headers: Vec<(String, String)>,
    /// Listener and route configuration that the user names.
    pub(super) listener: Option<String>,
    pub(super) route_config: Option<String>,
    /// Rules that the user chooses.
    pub(super) rules: Option<RouteRules>,
    /// Whether the request is a gRPC call.
    pub(super) is_grpc: bool,
}

impl Request {
    pub(super) fn from_args(args: &ExplainArgs) -> Result<Self, Failure> {
        if args.host.as_deref() == Some("") {
            let text = "--host is empty: name the host of the request, such as shop.example.com";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut request = Self {
            host: args.host.clone().unwrap_or_default(),
            path: args.path.clone().unwrap_or_default(),
            method: args.method.clone().unwrap_or_else(|| "GET".into()),
            scheme: args.scheme,
            headers: args.headers.clone(),
            listener: args.listener.clone(),
            route_config: args.route_config.clone(),
            rules: args.rules,
            is_grpc: false,
        };
        if let Some(target) = &args.target {
            request.set_target(target)?;
        }
        request.complete()
    }

    /// Sets the listener and the host of a gRPC target.
    pub(super) fn set_target(&mut self, target: &str) -> Result<(), Failure> {
        let rest = target.strip_prefix("xds:").unwrap_or(target);
        let (authority, name) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_once('/').unwrap_or(("", rest)),
            None => ("", rest),
        };
        if name.is_empty() {
            return Err(Failure::Usage(format!("--target {target}: expected xds:///NAME")));
        }
        let type_name = types::LISTENER.rsplit('/').next().unwrap_or_default();
        self.listener = Some(match authority {
            "" => name.to_owned(),
            authority => format!("xdstp://{authority}/{type_name}/{name}"),
        });
        self.host = name.to_owned();
        self.rules = self.rules.or(Some(RouteRules::Grpc));
        Ok(())
    }

    /// Applies the default values, and checks the limits.
    pub(super) fn complete(mut self) -> Result<Self, Failure> {
        let error = |why: &str| Err(Failure::Usage(why.to_owned()));
        if self.method.starts_with('/') {
            if !self.path.is_empty() {
                return error("the path is the name of the gRPC method, so --path has no place");
            }
            self.path = core::mem::replace(&mut self.method, "POST".into());
            self.is_grpc = true;
        }
        if self.rules == Some(RouteRules::Grpc) {
            if self.path.is_empty() {
                return error("a call needs a method: --method /pkg.Service/Method");
            }
            self.is_grpc = true;
            self.method = "POST".into();
        }
        if let Some(why) = invalid_host(&self.host).or_else(|| invalid_method(&self.method)) {
            return error(&why);
        }
        // Only CONNECT requests have no path.
        if self.path.is_empty() && self.method != "CONNECT" {
            self.path = "/".into();
        }
        if !(self.path.starts_with('/') || self.path.is_empty() || self.path == "*") {
            return error("the path must begin with a slash");
        }
        if let Some((name, _)) = self.headers.iter().find(|(name, _)| !is_header_name(name)) {
            return error(&format!("`{name}` is not the name of a header"));
        }
        let sizes = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let bytes = sizes.sum::<usize>() + self.host.len() + self.path.len() + self.method.len();
        if self.headers.len() > MOST_HEADERS || bytes > MOST_BYTES {
            return error("the request exceeds 1000 headers or 1 MiB");
        }
        Ok(self)
    }

    /// Returns the headers that route matchers see.
    pub(super) fn visible_headers(&self, rules: RouteRules, host: &str) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        if rules == RouteRules::Grpc {
            return headers;
        }
        let defaults = [
            (":method", self.method.as_str()),
            (":path", &self.path),
            (":scheme", self.scheme.name()),
            (":authority", host),
            ("host", host),
            ("x-forwarded-proto", self.scheme.name()),
        ];
        let of_grpc =
            self.is_grpc.then_some([("content-type", "application/grpc"), ("te", "trailers")]);
        for (name, value) in defaults.into_iter().chain(of_grpc.into_iter().flatten()) {
            if !value.is_empty() && !headers.iter().any(|(known, _)| known == name) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        headers
    }
}

/// Returns why a text is no host of a request, with or without a port. An empty one is missing.
fn invalid_host(host: &str) -> Option<String> {
    let shown = escaped(host);
    if let Some((scheme, _)) = host.split_once("://") {
        let advice = "leave out the scheme and the path";
        return Some(format!(
            "the host `{shown}` is a URL of the scheme {}: {advice}",
            escaped(scheme)
        ));
    }
    // Names of resources, which are the hosts of gRPC targets, may contain a slash.
    match host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        true => Some(format!("the host `{shown}` contains a space or a control character")),
        false => None,
    }
}

/// Methods of requests in upper case, as HTTP defines them.
const METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Returns why a text is no method of a request.
fn invalid_method(method: &str) -> Option<String> {
    let shown = escaped(method);
    if http::Method::from_bytes(method.as_bytes()).is_err() {
        return Some(format!("`{shown}` is not a method: expected one such as GET"));
    }
    let upper = method.to_ascii_uppercase();
    let is_other_case = upper != method && METHODS.contains(&upper.as_str());
    is_other_case.then(|| format!("the method `{shown}`: methods are case-sensitive, use {upper}"))
}

/// Whether a text is the name of a header. The name of a pseudo-header begins with a colon.
fn is_header_name(name: &str) -> bool {
    http::HeaderName::from_bytes(name.strip_prefix(':').unwrap_or(name).as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            host: String::new(),
            path: String::new(),
            method: "GET".into(),
            scheme: Scheme::Http,
            headers: Vec::new(),
            listener: None,
            route_config: None,
            rules: None,
            is_grpc: false,
        }
    }

    #[test]
    fn target_names_the_listener_and_the_host() {
        for (target, listener, host) in [
            ("xds:///greeter", "greeter", "greeter"),
            ("xds:greeter:80", "greeter:80", "greeter:80"),
            ("xds://eu/a/b", "xdstp://eu/envoy.config.listener.v3.Listener/a/b", "a/b"),
        ] {
            let mut request = request();
            request.set_target(target).unwrap();
            assert_eq!(
                (request.listener.as_deref(), request.host.as_str()),
                (Some(listener), host)
            );
            assert_eq!(request.rules, Some(RouteRules::Grpc));
            assert!(request.complete().is_err(), "a call has a method");
        }
        assert!(request().set_target("xds:///").is_err());
    }

    #[test]
    fn limits_of_a_request_are_checked() {
        let many = Request { headers: vec![Default::default(); MOST_HEADERS + 1], ..request() };
        assert!(many.complete().is_err());
        assert!(Request { host: "a".repeat(MOST_BYTES), ..request() }.complete().is_err());
        assert_eq!(request().complete().unwrap().path, "/");
        for (host, method, why) in [
            ("a b", "GET", "the host `a b` contains a space"),
            ("https://a/b", "GET", "is a URL of the scheme https: leave out"),
            ("a", "get", "methods are case-sensitive, use GET"),
            ("a", "", "`` is not a method"),
            ("a", "G T", "`G T` is not a method"),
        ] {
            let request = Request { host: host.into(), method: method.into(), ..request() };
            let failure = request.complete().unwrap_err().to_string();
            assert!(failure.contains(why), "{host} {method}: {failure}");
        }
        let own = Request { host: "[::1]:80".into(), method: "purge".into(), ..request() };
        assert_eq!(own.complete().unwrap().method, "purge");
        let call = Request { method: "/s/m".into(), ..request() }.complete().unwrap();
        assert_eq!(
            (call.path.as_str(), call.method.as_str(), call.is_grpc),
            ("/s/m", "POST", true)
        );
    }
}
