//! Responses: rendering of the due response when the transport has room.
//!
//! A response counts as sent when it is rendered. It includes every earlier change and excludes
//! everything unsubscribed earlier.
// M73, M67

mod changes;
mod commit;
pub(crate) mod draft;
pub(crate) mod errors;
mod full_state;
pub(crate) mod heartbeat;
pub(crate) mod on_change;
mod plan;
pub(crate) mod stated_version;

use alloc::vec::Vec;
use core::{mem, num::NonZeroU64};

use self::{draft::Draft, errors::EncodedErrors, stated_version::ResponseScope};
use super::{
    FirstResponse, FullSend, MustReply, Purpose, ResponseMode, Revision, UnsubscribedInFlight,
    Wildcard,
    context::SessionContext,
    deferred_removal::Portion,
    extras::SentClusters,
    request::ack::nonce_of,
    subscription::{ListKind, Subscription},
    window::{Answer, Sent},
};
use crate::{
    frame::Frame,
    server::{
        event::{ResponseCause, ServerTransmit, StreamKind, StreamLifetime},
        store::{encode::body::ResponseBody, version::content::TypeVersion},
    },
    service::Variant,
    slab::Slot,
    text::{Nonce, ResourceName, TypeUrl, Version},
    wire::encode,
    zoo::{self, Bug},
};

/// Response without its envelope.
#[derive(Clone, Debug)]
pub(crate) struct RenderedResponse {
    pub(crate) body: ResponseBody,
    pub(crate) errors: EncodedErrors,
    /// Resources reported as too long, with their lengths in bytes.
    pub(crate) too_long: Vec<(ResourceName, usize)>,
    pub(crate) version: Version,
    pub(crate) cause: ResponseCause,
}

impl SessionContext<'_> {
    /// Renders the due contents. Returns `None` if the client turns out to have everything.
    pub(crate) fn render(&mut self, mut draft: Draft) -> Option<RenderedResponse> {
        if !self.session.is_due(self.arena) {
            return None;
        }
        let draft = &mut draft;
        let content = match draft.portion {
            Portion::Unchanged => None,
            Portion::Everything | Portion::Additions | Portion::Unanswered => {
                self.render_content(draft)
            }
        };
        content.or_else(|| self.render_heartbeats(draft)).or_else(|| self.recover(draft))
    }

    fn render_content(&mut self, draft: &mut Draft) -> Option<RenderedResponse> {
        if !self.session.has_pending_content(self.arena) {
            return None;
        }
        let portion = draft.portion;
        self.release_or_defer_removals(draft);
        if portion != Portion::Everything && !self.session.has_additions(self.arena) {
            // Withheld removals are no reason for a response, whatever heartbeats are sent.
            return None;
        }
        // A response after clusters for another reason also completes warming.
        if mem::take(&mut self.session.warms_next) {
            self.make_everything_due(ResponseCause::Warming);
        }
        if portion == Portion::Unanswered && !self.can_answer_apart() {
            draft.portion = Portion::Additions;
        }
        if draft.portion != Portion::Unanswered {
            self.piggyback_retry_batch();
            self.send_removals_again(draft.portion);
            self.piggyback_alias_targets();
        }
        let before = self.session.wildcard;
        let from = before.map_or(Revision::START, |wildcard| wildcard.cursor);
        let reached = self.session.reached();
        let (body, version, cause) = match self.session.response_mode(self.arena) {
            ResponseMode::FullState => self.render_full_state(draft)?,
            ResponseMode::Changes | ResponseMode::ChangesAndRemovals => {
                let (body, cause) = self.render_changes(draft)?;
                (body, self.arena.version, cause)
            }
        };
        let cause = match self.session.first_response {
            FirstResponse::NotSent | FirstResponse::Pending => ResponseCause::First,
            FirstResponse::Done => cause,
        };
        self.session.first_response = FirstResponse::Done;
        self.session.unsubscribed_in_flight = UnsubscribedInFlight::Nothing;
        self.session.has_urgent &= !self.session.due.is_empty();
        let to = self.session.wildcard.map_or(from, |wildcard| wildcard.cursor);
        let sent = self.new_sent(draft, (from, to), (version, ResponseScope::Complete));
        let rendered = self.send(draft, sent, reached, body, cause);
        self.note_renewed(draft.nonce, before);
        Some(rendered)
    }

    /// Whether a response may answer the unanswered requests and contain nothing else. If the
    /// wildcard has yet to send or remove one of these resources, it would be sent twice.
    fn can_answer_apart(&self) -> bool {
        if self.session.response_mode(self.arena) == ResponseMode::FullState {
            return false;
        }
        let Some(wildcard) = self.session.wildcard else { return true };
        let is_settled = |subscription: &Subscription| {
            self.arena.at(subscription.resource).is_none_or(|resource| {
                let sent = match resource.payload {
                    Some(_) => wildcard.cursor,
                    None => wildcard.removals_to,
                };
                resource.revision <= sent
            })
        };
        let due = self.subscriptions.list(ListKind::Due, self.session.due.first());
        let due = due.map(|(_, it)| it);
        let mut unanswered = due.filter(|it| self.session.is_unanswered(it, self.arena)).peekable();
        wildcard.must_reply() == MustReply::No
            && unanswered.peek().is_some()
            && unanswered.all(is_settled)
    }

    /// Makes the removals due that a response with everything contains, and withholds those that any
    /// other response omits.
    fn release_or_defer_removals(&mut self, draft: &mut Draft) {
        let is_everything = draft.portion == Portion::Everything;
        if !is_everything || self.session.follows_until_accepted() {
            self.defer_wildcard_removals();
        }
        match draft.portion {
            Portion::Everything => {
                self.subscriptions.release_withheld(&mut self.session.due);
                draft.removes_uncovered = self.release_without_subscription();
            }
            Portion::Unanswered if self.session.variant == Variant::Incremental => {
                self.subscriptions.release_requested_removals(&mut self.session.due);
            }
            Portion::Additions | Portion::Unanswered | Portion::Unchanged => {}
        }
    }

    /// Renders one of the resources that the client rejected together.
    fn recover(&mut self, draft: &mut Draft) -> Option<RenderedResponse> {
        if !self.session.has_probe() {
            return None;
        }
        let (body, version, revision) = self.render_probe(draft.nonce)?;
        let part = match self.session.wildcard {
            Some(_) => (revision.before(), revision),
            None => (Revision::START, Revision::START),
        };
        let sent = self.new_sent(draft, part, (version, ResponseScope::Partial));
        Some(self.send(draft, sent, self.session.reached(), body, ResponseCause::Recovery))
    }

    /// Describes a response that advances the wildcard cursor from `from` to `to`.
    pub(crate) fn new_sent(
        &mut self,
        draft: &Draft,
        (from, to): (Revision, Revision),
        (content, coverage): (TypeVersion, ResponseScope),
    ) -> Sent {
        Sent {
            nonce: draft.nonce,
            version: self.stated_version(content, coverage),
            content: content.stated(),
            from,
            to,
            at: self.arena.clock(),
            time: draft.time,
            timer: Slot::NONE,
            answer: Answer::Pending,
            purpose: Purpose::Content,
        }
    }

    /// Records a rendered response as sent. The wildcard cursor had been as far as `reached`.
    pub(crate) fn send(
        &mut self,
        draft: &mut Draft,
        sent: Sent,
        reached: Revision,
        body: ResponseBody,
        cause: ResponseCause,
    ) -> RenderedResponse {
        let (clusters, part) = (draft.clusters.take(), (sent.from, sent.to));
        match clusters.map(|clusters| SentClusters { part, clusters }) {
            None => self.session.update_extras(|extras| extras.sent_clusters = None),
            clusters => self.session.extras_mut().sent_clusters = clusters,
        }
        let removes = sent.purpose == Purpose::Content
            && (draft.implies_removals || body.removed > draft.absences);
        self.session.record_sent(sent, reached, removes, self.arena);
        self.hold_sent();
        self.session.counters.responses.add_one();
        let (errors, too_long) = (mem::take(&mut draft.errors), mem::take(&mut draft.too_long));
        let version = self.version_text(sent.version);
        RenderedResponse { body, errors, too_long, version, cause }
    }
}

impl Wildcard {
    /// Returns the reason for a response that advances the wildcard to `to`.
    pub(crate) fn reason(&self, to: Revision) -> ResponseCause {
        match self.full_send {
            Some(FullSend { cause, at, .. }) if to <= at => cause,
            Some(FullSend { cause, .. }) => cause.min(ResponseCause::Changed),
            None => ResponseCause::Changed,
        }
    }
}

/// Returns the stronger one of two reasons.
fn stronger(one: Option<ResponseCause>, other: Option<ResponseCause>) -> Option<ResponseCause> {
    one.into_iter().chain(other).min()
}

/// Writes a rendered response into `frame` and describes it. The head of the frame has the client's own
/// bytes, the body is shared with other clients.
pub(crate) fn seal(
    frame: &mut Frame,
    via: &StreamKind,
    type_url: TypeUrl,
    nonce: NonZeroU64,
    rendered: RenderedResponse,
) -> ServerTransmit {
    // Both response messages use these field numbers.
    const VERSION_INFO: u32 = 1;
    const TYPE_URL: u32 = 4;
    const NONCE: u32 = 5;

    let RenderedResponse { body, errors, version, cause, .. } = rendered;
    let nonce = match via.lifetime() {
        StreamLifetime::LongLived if !zoo::is(Bug::VersionAsNonce) => nonce_of(nonce),
        // The stream of a fetch ends with the response, so a number would be forgotten. With the
        // version as its nonce, the next request states which response it answers.
        StreamLifetime::LongLived | StreamLifetime::SingleResponse => Nonce::from(version.as_str()),
    };
    frame.head.clear();
    encode::string(&mut frame.head, VERSION_INFO, version.as_str());
    encode::string(&mut frame.head, TYPE_URL, type_url.as_str());
    encode::string(&mut frame.head, NONCE, nonce.as_str());
    frame.head.extend_from_slice(&errors.bytes);
    frame.body = body.bytes;
    ServerTransmit {
        type_url,
        version,
        nonce,
        variant: via.variant(),
        resources: body.resources,
        removed: body.removed,
        errors: errors.count,
        cause,
    }
}
