//! Decisions of the authorizer about streams.

use xds_core::{StreamId, ViewName, server::StatusCode};

use super::{
    Driver,
    inbox::{Inbox, Input},
};
use crate::server::access::authorize::{
    Admitted, AuthorizationDecision, AuthorizationRequest, Denied, SharedAuthorizer,
};

impl Driver {
    /// Starts the authorizer for a stream.
    pub(crate) fn authorize(&mut self, id: StreamId) {
        let Some(authorizer) = self.authorizer.clone() else { return };
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (Some(authorization_request), Some(inbox)) =
            (stream.authorization_request.take(), self.inbox.upgrade())
        else {
            return;
        };
        let deciding = decide(authorizer, id, *authorization_request, inbox);
        stream.decision = Some(self.runtime.start(deciding));
    }

    /// Carries out the decision of the authorizer.
    pub(crate) fn apply_decision(&mut self, id: StreamId, decision: AuthorizationDecision) {
        if !self.streams.contains_key(&id) {
            return;
        }
        let now = self.clock.now();
        match decision {
            Ok(admitted) => {
                if let Some(limits) = admitted.limits {
                    self.server.limit_client(id, limits, now);
                }
                self.rollouts.assign(&mut self.server, id, &admitted.view, now);
            }
            Err(why) => {
                self.server.refuse(id, why.code, why.message, now);
            }
        }
    }
}

/// Calls the authorizer and sends its decision to the driver.
async fn decide(
    authorizer: SharedAuthorizer,
    stream: StreamId,
    request: AuthorizationRequest,
    inbox: Inbox,
) {
    let panicked = Denied::new(StatusCode::Internal, "the authorizer failed");
    let mut pending = PendingDecision { stream, decision: Err(panicked), inbox };
    pending.decision = authorizer.0.authorize(request).await;
}

/// Decision that is sent when dropped, so that a panic of the authorizer results in a decision too.
struct PendingDecision {
    stream: StreamId,
    decision: AuthorizationDecision,
    inbox: Inbox,
}

impl Drop for PendingDecision {
    fn drop(&mut self) {
        let decision =
            core::mem::replace(&mut self.decision, Ok(Admitted::to(ViewName::default())));
        self.inbox.send(Input::Decided(self.stream, decision));
    }
}
