//! Decision about clients: which are served, and with which view.

use core::pin::Pin;
use std::sync::Arc;

use xds_tokio::server::{
    Admitted, AllowSans, AuthorizationDecision, AuthorizationRequest, Authorizer, NodeFromSan,
};

use crate::directory::ViewSelection;

/// Requirements for clients, and the views that they see.
pub(super) struct Admission {
    /// Names of client certificates that are allowed; `None` for all.
    pub(super) allowed: Option<AllowSans>,
    /// Whether the node id must be the identity in the certificate.
    pub(super) node: Option<NodeFromSan>,
    /// Views by the client's node; `None` for the default view.
    pub(super) views: Option<Arc<ViewSelection>>,
}

impl Admission {
    /// Whether there are any requirements.
    pub(super) fn is_needed(&self) -> bool {
        self.allowed.is_some() || self.node.is_some() || self.views.is_some()
    }
}

impl Authorizer for Admission {
    fn authorize(
        &self,
        request: AuthorizationRequest,
    ) -> Pin<Box<dyn Future<Output = AuthorizationDecision> + Send + '_>> {
        Box::pin(async move {
            if let Some(allowed) = &self.allowed {
                allowed.authorize(request.clone()).await?;
            }
            if let Some(node) = &self.node {
                node.authorize(request.clone()).await?;
            }
            match &self.views {
                Some(views) => views.admit(&request),
                None => Ok(Admitted::to("")),
            }
        })
    }
}
