//! Failures of requests.

use core::{error::Error as StdError, fmt};

use kube_client::{Error, config::ExecConfig, core::Status};
use xds_source::SourceError;

/// Failure of a request to the API server, with the verb, the resource and the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeError {
    text: String,
    kind: KubeErrorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KubeErrorKind {
    /// The API server no longer has the changes since the requested revision (410 Gone).
    Expired,
    /// The credentials are missing or rejected, which affects all requests.
    Denied,
    /// The account lacks a permission (403), for one kind of object in a namespace or in all
    /// namespaces.
    Forbidden,
    Unavailable,
    NotFound,
    /// The object has changed since it was read, or exists already (409).
    Conflict,
    Failed,
}

impl fmt::Display for KubeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for KubeError {}

/// End of the description of a request for the objects in all namespaces.
pub(super) const ALL_NAMESPACES: &str = "in all namespaces";

/// Advice about a permission that is missing in a namespace.
const GRANT: &str = "grant this verb to the account with a Role, or a ClusterRole, that a RoleBinding in \
                     this namespace binds";
/// Advice about a permission that is missing in all namespaces.
const GRANT_ALL: &str = "grant this verb to the account with a ClusterRole that a ClusterRoleBinding \
                         binds, or select the namespaces that it may read";
/// Advice about a label selector that the API server rejects.
const SELECTOR: &str = "correct the label selector that selects the objects";
/// Advice about rejected credentials.
const RENEW: &str = "the credentials are missing, wrong or expired: renew the token or the \
                     certificate of the kubeconfig, or check the service account";

impl KubeError {
    pub(crate) const fn kind(&self) -> KubeErrorKind {
        self.kind
    }

    /// Returns this error with a consequence of it.
    pub(crate) fn with(self, consequence: &str) -> Self {
        Self { text: format!("{}; {consequence}", self.text), ..self }
    }

    pub(super) fn configuration(why: impl StdError) -> Self {
        Self {
            text: format!("no configuration for Kubernetes: {}", chain(&why)),
            kind: KubeErrorKind::Denied,
        }
    }

    /// Describes the failure of a plugin that prints credentials.
    pub(super) fn of_plugin(plugin: &ExecConfig, why: &Error) -> Self {
        let command = plugin.command.as_deref().unwrap_or_default();
        let hint = plugin.install_hint.iter().map(|hint| format!("; {}", hint.trim()));
        let hint: String = hint.collect();
        let text = format!(
            "no credentials for Kubernetes: the plugin `{command}` of the kubeconfig: {}{hint}",
            chain(why)
        );
        Self { text, kind: KubeErrorKind::Denied }
    }

    /// Describes the failure to read a file with a token.
    pub(super) fn of_token_file(path: &str, why: &dyn StdError) -> Self {
        let text = format!("no credentials for Kubernetes: the token in {path}: {}", chain(why));
        Self { text, kind: KubeErrorKind::Denied }
    }

    pub(super) fn failed(request: &str, why: impl fmt::Display) -> Self {
        Self { text: format!("{request}: {why}"), kind: KubeErrorKind::Failed }
    }

    /// Describes the failure of a request, such as `list services in namespace a`.
    pub(super) fn of(request: &str, error: &Error) -> Self {
        match error {
            Error::Api(status) => Self::of_status(request, status),
            Error::Auth(why) => {
                let text = format!("{request}: {}: {RENEW}", chain(why));
                Self { text, kind: KubeErrorKind::Denied }
            }
            Error::SerdeError(_) | Error::FromUtf8(_) | Error::BuildRequest(_) => {
                Self::failed(request, chain(error))
            }
            _ => {
                let text = format!("{request}: {}", chain(error));
                Self { text, kind: KubeErrorKind::Unavailable }
            }
        }
    }

    pub(crate) fn of_status(request: &str, status: &Status) -> Self {
        let Status { code, message, reason, .. } = status;
        let said = if message.is_empty() { reason } else { message };
        let (kind, advice) = match code {
            401 => (KubeErrorKind::Denied, RENEW),
            400 if is_about_selector(said) => (KubeErrorKind::Failed, SELECTOR),
            // A permission would not help.
            403 if is_terminating(status) => (KubeErrorKind::Failed, ""),
            403 if request.ends_with(ALL_NAMESPACES) => (KubeErrorKind::Forbidden, GRANT_ALL),
            403 => (KubeErrorKind::Forbidden, GRANT),
            404 => (KubeErrorKind::NotFound, ""),
            409 => (KubeErrorKind::Conflict, ""),
            410 => (KubeErrorKind::Expired, ""),
            408 | 429 | 500.. => (KubeErrorKind::Unavailable, ""),
            _ => (KubeErrorKind::Failed, ""),
        };
        let colon = if advice.is_empty() { "" } else { ": " };
        Self { text: format!("{request}: {code} {said}{colon}{advice}"), kind }
    }
}

impl From<KubeError> for SourceError {
    fn from(error: KubeError) -> Self {
        match error.kind {
            KubeErrorKind::Denied | KubeErrorKind::Forbidden => Self::Denied(error.text),
            KubeErrorKind::Unavailable | KubeErrorKind::Expired => Self::Unavailable(error.text),
            KubeErrorKind::NotFound | KubeErrorKind::Conflict | KubeErrorKind::Failed => {
                Self::Failed(error.text)
            }
        }
    }
}

/// Whether an object cannot be created because its namespace is being deleted.
fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|it| &it.causes);
    causes.into_iter().any(|it| it.reason == "NamespaceTerminating")
}

/// Whether the API server rejects the label selector of a request.
fn is_about_selector(said: &str) -> bool {
    said.contains("unable to parse requirement") || said.contains("selector")
}

/// Returns the text of an error and its sources, without repetitions.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    // Name of a variant of `kube_client::Error`, which explains nothing.
    text.replace("ServiceError: ", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, message: &str) -> SourceError {
        let status = Status::failure(message, "Reason").with_code(code);
        KubeError::of_status("list services in namespace a", &status).into()
    }

    #[test]
    fn denied_requests_state_the_verb_the_resource_and_what_to_do() {
        let SourceError::Denied(text) = of(403, "User \"u\" cannot list") else { panic!("403") };
        assert_eq!(
            text,
            format!("list services in namespace a: 403 User \"u\" cannot list: {GRANT}")
        );
        let SourceError::Denied(text) = of(401, "Unauthorized") else { panic!("401") };
        assert!(text.starts_with("list services in namespace a: 401 Unauthorized: "), "{text}");
        assert!(text.contains("renew the token"), "{text}");
    }

    #[test]
    fn rejected_selector_and_missing_plugin_state_what_to_do() {
        let why = of(400, "unable to parse requirement: found '', expected: ','").to_string();
        assert!(why.ends_with(SELECTOR), "{why}");
        assert!(!of(400, "bad").to_string().contains(SELECTOR));

        let plugin: ExecConfig = serde_json::from_value(serde_json::json!({
            "command": "no-such-plugin", "installHint": "Install no-such-plugin.\n",
        }))
        .unwrap();
        let why = Error::Service("unable to run it".into());
        assert_eq!(
            KubeError::of_plugin(&plugin, &why).to_string(),
            "no credentials for Kubernetes: the plugin `no-such-plugin` of the kubeconfig: unable \
             to run it; Install no-such-plugin."
        );
    }

    #[test]
    fn overloaded_server_may_work_later() {
        for code in [408, 429, 500, 503, 504] {
            assert!(matches!(of(code, "busy"), SourceError::Unavailable(_)), "{code}");
        }
        assert!(matches!(of(400, "bad"), SourceError::Failed(_)));
        assert!(matches!(of(404, ""), SourceError::Failed(_)));
    }
}
