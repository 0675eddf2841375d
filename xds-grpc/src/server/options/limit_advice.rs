//! Advice for the operator in the errors of exceeded limits.

use std::sync::Arc;

use xds_core::server::CloseReason;

/// Advice for the operator, appended to the errors of exceeded limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitAdvice {
    pub(crate) request_bytes: Option<Arc<str>>,
    pub(crate) names_per_connection: Option<Arc<str>>,
    pub(crate) names: Option<Arc<str>>,
}

impl LimitAdvice {
    /// Returns the status message of a reason, with the advice if there is one.
    pub(crate) fn explain(&self, reason: &CloseReason) -> String {
        let advice = match reason {
            CloseReason::TooManyNamesOnConnection { .. } => &self.names_per_connection,
            CloseReason::TooManyNamesInTotal { .. } => &self.names,
            _ => &None,
        };
        match advice {
            Some(advice) => format!("{reason}; {advice}"),
            None => reason.to_string(),
        }
    }
}
