//! Observations of the clients of a server, for the rollout under way.

use alloc::format;

use prost::Message as _;

use super::{clients::Side, events::NodeDetail, server::ServerRollouts};
use crate::{
    id::StreamId,
    proto::Node,
    selector::NodeFacts,
    server::{LagReason, Observation, RejectionStatus, Server},
    text::{Nonce, TypeUrl},
    time::Time,
};

impl ServerRollouts {
    /// Passes an observation on to the rollout.
    pub(super) fn observe(&mut self, server: &mut Server, observation: &Observation, now: Time) {
        match observation {
            Observation::Identified { stream, node, .. } => {
                self.identified(server, *stream, node, now);
            }
            Observation::Disconnected { stream } => self.left(server, *stream, now),
            _ if self.active.is_none() => {}
            Observation::Acked { stream, .. } | Observation::Subscribed { stream, .. } => {
                self.note_progress(server, *stream, now);
            }
            Observation::Nacked { stream, type_url, message, nonce, .. }
                if !self.is_of_earlier(*stream, type_url, nonce) =>
            {
                self.note_rejection(server, *stream, type_url, message, now);
            }
            Observation::AnswerOverdue { stream, type_url, after, .. } => {
                let text = format!("{type_url}: no answer within {after:?}");
                self.update(server, now, |rollout| rollout.warned(*stream, text, now));
            }
            Observation::Blocked { stream, type_url, waits_for, after, .. } => {
                let text = format!("{type_url} waits for {waits_for} longer than {after:?}");
                self.update(server, now, |rollout| rollout.warned(*stream, text, now));
            }
            _ => {}
        }
    }

    /// Notes the node of a client, and moves the client to the candidate if it is in the cohort.
    fn identified(&mut self, server: &mut Server, stream: StreamId, node: &[u8], now: Time) {
        if self.detail == NodeDetail::Id && self.active.is_none() {
            return;
        }
        let facts = NodeFacts::from(Node::decode(node).unwrap_or_default());
        if let Some(active) = &mut self.active {
            let side = active.rollout.joined(stream, &facts, now);
            // A client without a view gets one from `assign`.
            if side == Side::Candidate
                && let Some(view) = server.view_of(stream).cloned()
            {
                self.assign(server, stream, &view, now);
            }
            self.carry_out(server, now);
        }
        if self.detail == NodeDetail::Full {
            self.nodes.insert(stream, facts);
        }
    }

    /// Notes the end of a stream.
    pub(super) fn left(&mut self, server: &mut Server, stream: StreamId, now: Time) {
        self.nodes.remove(&stream);
        if let Some(active) = &mut self.active {
            active.before.remove(&stream);
        }
        self.update(server, now, |rollout| rollout.left(stream, now));
    }

    /// Reports to the rollout whether a client has accepted what it is sent.
    pub(super) fn note_progress(&mut self, server: &mut Server, stream: StreamId, now: Time) {
        let lag = server.lag_of(stream);
        self.update(server, now, |rollout| match lag {
            _ if rollout.side(stream) != Some(Side::Candidate) => {}
            None => rollout.acknowledged(stream, now),
            Some(LagReason::Pending) => rollout.pending(stream, now),
            // It was reported when it happened.
            Some(LagReason::Rejected) => {}
        });
    }

    /// Reports a rejection to the rollout, unless the client sees the stable views.
    fn note_rejection(
        &mut self,
        server: &mut Server,
        stream: StreamId,
        type_url: &TypeUrl,
        message: &str,
        now: Time,
    ) {
        if self.rollout().and_then(|it| it.side(stream)) != Some(Side::Candidate) {
            return;
        }
        let is_this =
            |it: &RejectionStatus<'_>| it.stream == Some(stream) && it.type_url == type_url;
        let names = server.rejections().find(is_this).map(|it| it.names.to_vec());
        let names = names.unwrap_or_default();
        self.update(server, now, |rollout| {
            rollout.rejected(stream, type_url.clone(), names, message, now);
        });
    }

    fn is_of_earlier(&self, stream: StreamId, type_url: &TypeUrl, nonce: &Nonce) -> bool {
        self.active.as_ref().is_some_and(|it| it.is_of_earlier(stream, type_url, nonce))
    }
}
