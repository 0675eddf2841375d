//! Classification of requests by their nonce, and the effects of ACKs and NACKs.
//!
//! - Nothing sent yet: an initial request. A nonce is left over from another stream.
//! - The newest nonce: the first such request answers the response. It is a NACK if it has
//!   `error_detail`, otherwise an ACK. Later ones only list names.
//! - An earlier nonce in the window: answers that response. Possible only if the window is wider
//!   than one response.
//! - No nonce: lists names and answers nothing.
//! - Any other nonce: stale if the server issued it, otherwise bogus. Answers nothing.
//!
//! A session does not know whether its stream is aggregated.
// Items in order: M43; B04, M52-M57, M45; M113; M60; M58, M61, M111, M112

use alloc::{boxed::Box, format};
use core::num::NonZeroU64;

use super::progress::{RequestProgress, Stage};
use crate::{
    server::{
        config::{NackDetection, ServerConfig},
        event::{
            Observation, ResponseCause, StreamLifetime,
            stats::{ServerStats, TypeStats},
        },
        queue::{outbox::Outbox, timer_queue::Alarms},
        session::{
            PriorState, Purpose, Revision,
            context::SessionContext,
            extras::PartialRemovals,
            nack::{RejectedResponse, error_detail::ErrorDetail},
            window::{Answer, Sent},
        },
    },
    service::Variant,
    text::{Nonce, ResourceName, Version},
    time::Time,
    token_bucket::TokenBucket,
    wire::request::{NameForm, Request},
    zoo::{self, Bug},
};

/// gRPC status code `UNKNOWN`, used for a rejection without a status.
const UNKNOWN: i32 = 2;

/// Maximum length of a client's error message, in bytes. Longer messages are truncated.
// M241
const MESSAGE_LIMIT: usize = 4_096;

/// State outside the session that a request may read or change.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) now: Time,
    /// Highest nonce issued on the stream.
    pub(crate) issued: u64,
    pub(crate) out: &'a mut Outbox,
    pub(crate) alarms: &'a mut Alarms,
    pub(crate) stats: &'a mut ServerStats,
    pub(crate) type_stats: &'a mut TypeStats,
    /// Rate limit for the observation of NACKs.
    pub(crate) nacks: &'a mut TokenBucket,
    /// Details of the rejection, if the request is a NACK.
    pub(crate) rejected: Option<RejectedResponse>,
}

/// Meaning of a request for the responses already sent.
#[derive(Debug)]
pub(crate) enum RequestKind {
    /// The request only lists names.
    Names,
    Ack(Sent),
    Nack(Sent, ErrorDetail),
    /// Rejection of a response on an earlier stream, by a polling client.
    PolledNack(ErrorDetail),
    Stale,
    Bogus,
}

impl RequestKind {
    /// Whether the request is an ACK or a NACK.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Ack(_) | Self::Nack(..))
    }

    /// Whether the request is dropped because of its nonce, if it lists all names.
    pub(crate) fn is_outdated(&self) -> bool {
        matches!(self, Self::Stale | Self::Bogus)
    }

    /// Wildcard cursor before and after the content that the request ACKs.
    pub(crate) fn accepted(&self) -> Option<(Revision, Revision)> {
        match self {
            Self::Ack(sent) if sent.purpose == Purpose::Content => Some((sent.from, sent.to)),
            _ => None,
        }
    }
}

impl RequestContext<'_> {
    fn count(&mut self, kind: &RequestKind) {
        let Self { stats, type_stats, .. } = self;
        let (count, of_type) = match kind {
            RequestKind::Names => return,
            RequestKind::Bogus => return stats.bogus_requests += 1,
            RequestKind::Stale => (&mut stats.stale_requests, &mut type_stats.stale_requests),
            RequestKind::Ack(_) => (&mut stats.acks, &mut type_stats.acks),
            RequestKind::Nack(..) | RequestKind::PolledNack(_) => {
                (&mut stats.nacks, &mut type_stats.nacks)
            }
        };
        *count += 1;
        *of_type += 1;
    }
}

impl SessionContext<'_> {
    /// Begins a request of the session's type: applies the ACK or NACK in it. `rejection` is its
    /// `error_detail`, if it has one.
    pub(crate) fn begin_request(
        &mut self,
        request: &Request<'_>,
        rejection: Option<ErrorDetail>,
        ctx: &mut RequestContext<'_>,
    ) -> RequestProgress {
        let is_first = self.session.round == 0;
        let is_rejection = rejection.is_some();
        let stated = self.client_version(request, is_rejection);
        if is_first && !stated.is_empty() {
            self.session.prior_state = PriorState::up_to(0);
        }
        let kind = self.take_answer(request, rejection, ctx);
        let lists_all = self.session.variant == Variant::StateOfTheWorld;
        let stage = match lists_all && kind.is_outdated() {
            true => Stage::Done,
            false => self.begin_names(request, is_first),
        };
        RequestProgress {
            stage,
            is_first,
            is_rejection,
            kind,
            before: self.session.subscribed_names(),
            cause: self.session.subscribe_cause(),
            stated_version: if is_first { stated.into() } else { Box::default() },
            has_wildcard: false,
            listed: 0,
            changes: 0,
            retained_before_versions: None,
        }
    }

    fn begin_names(&mut self, request: &Request<'_>, is_first: bool) -> Stage {
        let names = request.name_cursor();
        // Versions of another request than the first are ignored.
        let names = if is_first { names } else { names.without_versions() };
        self.session.round = self.session.round.wrapping_add(1);
        if request.name_form == NameForm::Locators {
            self.session.name_form = NameForm::Locators;
        }
        match self.session.variant {
            Variant::Incremental if names.is_empty() => return Stage::Done,
            Variant::StateOfTheWorld if self.ignores_names() => return Stage::Done,
            Variant::StateOfTheWorld if !names.is_empty() => {
                self.session.may_be_legacy_wildcard = false;
            }
            Variant::Incremental | Variant::StateOfTheWorld => {}
        }
        Stage::Names(names)
    }

    /// Applies the next names of a request. `left` is the number of names that may be handled, from
    /// which the handled ones are subtracted. Returns whether all names were applied.
    pub(crate) fn apply_names(
        &mut self,
        message: &[u8],
        progress: &mut RequestProgress,
        left: &mut usize,
        now: Time,
    ) -> bool {
        match (&progress.stage, self.session.variant) {
            (Stage::Done, _) => true,
            (_, Variant::StateOfTheWorld) => self.apply_list(message, progress, left),
            (_, Variant::Incremental) => self.apply_changes(message, progress, left, now),
        }
    }

    /// Finishes a request whose names were all applied. Returns whether it subscribes to something.
    pub(crate) fn finish_request(
        &mut self,
        progress: &mut RequestProgress,
        now: Time,
        out: &mut Outbox,
    ) -> bool {
        match self.session.variant {
            Variant::StateOfTheWorld => self.finish_list(progress, now, out),
            Variant::Incremental => self.finish_changes(progress, out),
        }
    }

    /// Classifies the request and applies the ACK or NACK in it.
    fn take_answer(
        &mut self,
        request: &Request<'_>,
        rejection: Option<ErrorDetail>,
        ctx: &mut RequestContext<'_>,
    ) -> RequestKind {
        let kind = self.classify(request, rejection, ctx.issued);
        if let RequestKind::Ack(sent) | RequestKind::Nack(sent, _) = &kind {
            self.cancel_answer_timers(sent.nonce, ctx.alarms);
        }
        ctx.count(&kind);
        let stream = self.session.stream;
        match &kind {
            RequestKind::Names => {}
            RequestKind::Ack(sent) => self.on_ack(*sent, request, ctx),
            RequestKind::Nack(sent, rejection) => {
                self.on_nack(*sent, request, rejection.clone(), ctx);
            }
            // M189: a polling client states the rejected nonce as its version.
            RequestKind::PolledNack(rejection) => {
                let _ = self.observe_nack(request, request.nonce.into(), rejection, ctx);
            }
            RequestKind::Stale => {
                let type_url = self.arena.type_url.clone();
                ctx.out.observe(Observation::StaleNonce { stream, type_url });
            }
            RequestKind::Bogus => {
                let type_url = self.arena.type_url.clone();
                ctx.out.observe(Observation::BogusNonce { stream, type_url });
            }
        }
        kind
    }

    pub(crate) fn observe_interest(&self, out: &mut Outbox) {
        out.observe(Observation::Subscribed {
            stream: self.session.stream,
            type_url: self.arena.type_url.clone(),
            subscribed: self.session.subscribed_names(),
        });
    }

    fn classify(
        &self,
        request: &Request<'_>,
        rejection: Option<ErrorDetail>,
        issued: u64,
    ) -> RequestKind {
        if self.session.lifetime == StreamLifetime::SingleResponse {
            return rejection.map_or(RequestKind::Names, RequestKind::PolledNack);
        }
        if self.session.newest.is_none() || request.nonce.is_empty() {
            return RequestKind::Names;
        }
        let Some(nonce) = number_of(request.nonce).filter(|&nonce| nonce <= issued) else {
            return RequestKind::Bogus;
        };
        let Some(sent) = self.session.find_sent(nonce) else { return RequestKind::Stale };
        let rejection = rejection.or_else(|| self.rejection_by_version(sent, request.version));
        match (rejection, sent.answer) {
            (Some(rejection), Answer::Pending | Answer::Overdue | Answer::Ack) => {
                RequestKind::Nack(sent, rejection)
            }
            (None, Answer::Pending | Answer::Overdue) => RequestKind::Ack(sent),
            (Some(_), Answer::Nack) | (None, Answer::Ack | Answer::Nack) => RequestKind::Names,
        }
    }

    /// Returns the rejection that an old client without `error_detail` expresses by stating a
    /// version other than the sent one.
    // S0.078
    fn rejection_by_version(&self, sent: Sent, stated: &str) -> Option<ErrorDetail> {
        let is_old = self.arena.config.nack_detection == NackDetection::ErrorDetailOrVersion
            && self.session.variant == Variant::StateOfTheWorld;
        let is_rejected = is_old
            && matches!(sent.answer, Answer::Pending | Answer::Overdue)
            && !self.is_stated_as(sent.version, stated);
        is_rejected.then(|| ErrorDetail {
            code: UNKNOWN,
            message: format!("client still uses version {:?}", truncate_message(stated)).into(),
        })
    }

    fn on_ack(&mut self, sent: Sent, request: &Request<'_>, ctx: &mut RequestContext<'_>) {
        self.session.record_answer(sent, Answer::Ack, ctx.now);
        if self.session.extras.is_some() {
            self.note_ack_in_extras(sent);
        }
        let rejected_resources = self.accept_suspects(sent, ctx.config.limits.isolated_resources);
        let version = sent.version;
        self.session.accepted = Some(version);
        if self.session.has_accepted_newest() {
            self.session.forget_error();
            if sent.nonce.get() == self.session.newest_nonce() {
                self.hold_accepted();
            }
        }
        self.session.counters.acks.add_one();
        let stream = self.session.stream;
        ctx.out.observe(Observation::Acked {
            stream,
            type_url: self.arena.type_url.clone(),
            version: self.version_text(version),
            nonce: request.nonce.into(),
        });
        self.observe_isolated(rejected_resources, ctx.out);
        let states_version = self.session.variant == Variant::StateOfTheWorld;
        if states_version && !self.is_stated_as(version, request.version) {
            let (type_url, version) = (self.arena.type_url.clone(), self.version_text(version));
            ctx.out.observe(Observation::VersionMismatch { stream, type_url, version });
        }
    }

    /// Records an ACK in the rarely needed state.
    fn note_ack_in_extras(&mut self, sent: Sent) {
        self.note_answer_in_acked(sent, Answer::Ack);
        if sent.purpose == Purpose::Content {
            self.note_accepted(sent);
            self.end_followed(sent);
        }
        self.session.update_extras(|extras| {
            let is_complete =
                |it: &mut PartialRemovals| it.partial_to.is_none() && it.last <= sent.nonce.get();
            extras.partial_removals.take_if(is_complete);
            extras.before_wildcard.take_if(|it| it.after < sent.nonce.get());
            // A client that rejected earlier removals may go back to its state from then.
            let goes_back = extras
                .rejections
                .batch()
                .and_then(|retry_batch| retry_batch.removals_from)
                .is_some_and(|removals_from| removals_from < extras.wildcard_since);
            if extras.wildcard_since <= sent.at && !goes_back {
                extras.wildcard_since = Revision::START;
            }
        });
    }

    fn on_nack(
        &mut self,
        sent: Sent,
        request: &Request<'_>,
        rejection: ErrorDetail,
        ctx: &mut RequestContext<'_>,
    ) {
        let oldest = self.session.record_answer(sent, Answer::Nack, ctx.now);
        self.note_answer_in_acked(sent, Answer::Nack);
        self.note_rejected_resources(sent);
        self.session.counters.nacks.add_one();
        self.session.keep_error(rejection.message.clone());
        let range = self.sent_range(sent);
        self.note_rejected_removals(sent);
        self.note_nack(sent, range);
        if zoo::is(Bug::RejectedSentAgain) {
            self.make_everything_due(ResponseCause::Changed);
        }
        let version = self.version_text(sent.version);
        ctx.rejected = Some(self.rejected(range, version.clone(), &rejection, oldest, ctx.config));
        let rejected_resources = self.reject_suspects(sent, ctx.config.limits.isolated_resources);
        if self.observe_nack(request, version, &rejection, ctx) {
            self.observe_isolated(rejected_resources, ctx.out);
        }
    }

    fn observe_isolated(&self, names: impl IntoIterator<Item = ResourceName>, out: &mut Outbox) {
        for name in names {
            let (stream, type_url) = (self.session.stream, self.arena.type_url.clone());
            out.observe(Observation::Isolated { stream, type_url, name });
        }
    }

    /// Reports a NACK to the operator unless the rate limit is exceeded. Returns whether it was
    /// reported.
    fn observe_nack(
        &self,
        request: &Request<'_>,
        version: Version,
        rejection: &ErrorDetail,
        ctx: &mut RequestContext<'_>,
    ) -> bool {
        if let Some(rate) = ctx.config.limits.observed_nacks {
            if !ctx.nacks.has_one(rate, ctx.now) {
                ctx.stats.unobserved_nacks += 1;
                return false;
            }
            ctx.nacks.take(rate, ctx.now);
        }
        ctx.out.observe(Observation::Nacked {
            stream: self.session.stream,
            type_url: self.arena.type_url.clone(),
            version,
            nonce: request.nonce.into(),
            code: rejection.code,
            message: rejection.message.clone(),
        });
        true
    }
}

/// Returns the text of a nonce.
// M62
pub(crate) fn nonce_of(number: NonZeroU64) -> Nonce {
    Nonce::from_number(number.get())
}

/// Parses a nonce, if it is written exactly as [`nonce_of`] writes it.
fn number_of(nonce: &str) -> Option<u64> {
    nonce.starts_with(|first: char| matches!(first, '1'..='9')).then(|| nonce.parse().ok())?
}

pub(crate) fn truncate_message(message: &str) -> &str {
    if message.len() <= MESSAGE_LIMIT {
        return message;
    }
    let end = (0..=MESSAGE_LIMIT).rev().find(|&end| message.is_char_boundary(end));
    end.and_then(|end| message.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::server::session::request::ack::*;

    #[test]
    fn only_canonical_nonces_are_parsed() {
        for number in [NonZeroU64::MIN, NonZeroU64::MAX] {
            assert_eq!(number_of(nonce_of(number).as_str()), Some(number.get()));
        }
        for foreign in ["", "0", "01", "+1", " 1", "1 ", "-1", "1a", "18446744073709551616", "x"] {
            assert_eq!(number_of(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn long_messages_are_truncated_between_characters() {
        let long = "é".repeat(4_000);
        assert_eq!(truncate_message(&long).len(), 4_096);
        let odd = alloc::format!("x{long}");
        assert_eq!(truncate_message(&odd).len(), 4_095);
        assert_eq!(truncate_message("short"), "short");
    }

    #[test]
    fn empty_status_is_parsed_without_message() {
        let rejection = ErrorDetail::parse(&[]).unwrap();
        assert_eq!((rejection.code, &*rejection.message), (0, ""));
        let negative = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(ErrorDetail::parse(&negative).unwrap().code, -1);
        assert!(ErrorDetail::parse(&[0x12, 1, 0xff]).is_err());
    }
}
