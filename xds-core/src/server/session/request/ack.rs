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

use alloc::format;
use core::num::NonZeroU64;

use crate::{
    server::{
        config::{NackDetection, ServerConfig},
        event::{Asked, Cause, Observation, stats::ServerStats},
        queue::{outbox::Outbox, timer_queue::Alarms, token_bucket::Bucket},
        session::{
            Purpose, Stamp,
            context::Turn,
            extras::{Beside, Suspects, Telling},
            nack::{Rejected, rejection::Rejection},
            window::{Answer, Sent},
        },
    },
    service::Variant,
    text::{Nonce, Version},
    time::Time,
    wire::request::Request,
    zoo::{self, Bug},
};

/// gRPC status code `UNKNOWN`, used for a rejection without a status.
const UNKNOWN: i32 = 2;

/// Maximum length of a client's error message, in bytes. Longer messages are truncated.
// M241
const MESSAGE_LIMIT: usize = 4_096;

/// State outside the session that a request may read or change.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) now: Time,
    /// Highest nonce issued on the stream.
    pub(crate) issued: u64,
    /// Wildcard cursor before and after the response that the request ACKs.
    pub(crate) accepted: Option<(Stamp, Stamp)>,
    pub(crate) out: &'a mut Outbox,
    pub(crate) alarms: &'a mut Alarms,
    pub(crate) stats: &'a mut ServerStats,
    /// Rate limit for the observation of NACKs.
    pub(crate) nacks: &'a mut Bucket,
    /// Details of the rejection, if the request is a NACK.
    pub(crate) rejected: Option<Rejected>,
}

/// Meaning of a request for the responses already sent.
pub(crate) enum Reading {
    /// The request only lists names.
    Names,
    Ack(Sent),
    Nack(Sent, Rejection),
    Stale,
    Bogus,
}

impl Reading {
    /// Whether the request is an ACK or a NACK.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Ack(_) | Self::Nack(..))
    }
}

impl Turn<'_> {
    /// Handles one request of the session's type. `rejection` is its `error_detail`, if it has
    /// one.
    pub(crate) fn handle_request(
        &mut self,
        request: &Request<'_>,
        rejection: Option<Rejection>,
        around: &mut Surroundings<'_>,
    ) -> Asked {
        match self.session.variant {
            Variant::StateOfTheWorld => self.handle_list(request, rejection, around),
            Variant::Incremental => self.handle_changes(request, rejection, around),
        }
    }

    /// Classifies the request and applies the ACK or NACK in it.
    pub(crate) fn take_answer(
        &mut self,
        request: &Request<'_>,
        rejection: Option<Rejection>,
        around: &mut Surroundings<'_>,
    ) -> Reading {
        let reading = self.read(request, rejection, around.issued);
        if let Reading::Ack(sent) | Reading::Nack(sent, _) = &reading {
            self.stop_awaiting(sent.nonce, around.alarms);
        }
        let stream = self.session.stream;
        match &reading {
            Reading::Names => {}
            Reading::Ack(sent) => self.on_ack(*sent, request, around),
            Reading::Nack(sent, rejection) => {
                self.on_nack(*sent, request, rejection.clone(), around);
            }
            Reading::Stale => {
                around.stats.stale_requests += 1;
                let type_url = self.arena.type_url.clone();
                around.out.observe(Observation::StaleNonce { stream, type_url });
            }
            Reading::Bogus => {
                around.stats.bogus_requests += 1;
                let type_url = self.arena.type_url.clone();
                around.out.observe(Observation::BogusNonce { stream, type_url });
            }
        }
        reading
    }

    pub(crate) fn observe_interest(&self, around: &mut Surroundings<'_>) {
        around.out.observe(Observation::Subscribed {
            stream: self.session.stream,
            type_url: self.arena.type_url.clone(),
            interest: self.session.interest(),
        });
    }

    fn read(&self, request: &Request<'_>, rejection: Option<Rejection>, issued: u64) -> Reading {
        if self.session.newest.is_none() || request.nonce.is_empty() {
            return Reading::Names;
        }
        let Some(nonce) = number_of(request.nonce).filter(|&nonce| nonce <= issued) else {
            return Reading::Bogus;
        };
        let Some(sent) = self.session.sent_as(nonce) else { return Reading::Stale };
        let rejection = rejection.or_else(|| self.rejection_by_version(sent, request.version));
        match (rejection, sent.answer) {
            (Some(rejection), Answer::Pending | Answer::Overdue | Answer::Ack) => {
                Reading::Nack(sent, rejection)
            }
            (None, Answer::Pending | Answer::Overdue) => Reading::Ack(sent),
            (Some(_), Answer::Nack) | (None, Answer::Ack | Answer::Nack) => Reading::Names,
        }
    }

    /// Returns the rejection that an old client without `error_detail` expresses by stating a
    /// version other than the sent one.
    // S0.078
    fn rejection_by_version(&self, sent: Sent, stated: &str) -> Option<Rejection> {
        let is_old = self.arena.config.nack_detection == NackDetection::ErrorDetailOrVersion
            && self.session.variant == Variant::StateOfTheWorld;
        let is_rejected = is_old
            && matches!(sent.answer, Answer::Pending | Answer::Overdue)
            && !self.is_stated_as(sent.version, stated);
        is_rejected.then(|| Rejection {
            code: UNKNOWN,
            message: format!("stays at version {:?}", cut(stated)).into(),
        })
    }

    fn on_ack(&mut self, sent: Sent, request: &Request<'_>, around: &mut Surroundings<'_>) {
        let verdict = self.session.settle(sent, Answer::Ack, around.now);
        self.note_answer_for_brought(sent.nonce.get(), Answer::Ack);
        self.note_answer_to_what_it_had(sent.nonce.get(), Answer::Ack);
        if sent.purpose == Purpose::Content {
            around.accepted = Some((sent.from, sent.to));
            self.settle_suspects(sent);
        }
        self.session.with_rare(|rare| {
            rare.rejected_state = None;
            let is_told = |it: &mut Telling| it.partly.is_none() && it.last <= sent.nonce.get();
            rare.telling.take_if(is_told);
            rare.entered.take_if(|it| it.after < sent.nonce.get());
            // A client that rejected earlier removals may go back to its state from then.
            let goes_back = rare.suspects.is_some_and(|suspects| suspects.told < rare.began);
            if rare.began <= sent.at && !goes_back {
                rare.began = Stamp::START;
            }
        });
        let culprits = self.clear_suspects(sent, around.config.limits.suspects);
        let version = sent.version;
        self.session.accepted = Some(version);
        if verdict == Answer::Ack {
            self.session.forget_error();
        }
        self.session.counts.acks.add_one();
        around.stats.acks += 1;
        let stream = self.session.stream;
        around.out.observe(Observation::Acked {
            stream,
            type_url: self.arena.type_url.clone(),
            version: self.print(version),
            nonce: request.nonce.into(),
        });
        for name in culprits {
            let type_url = self.arena.type_url.clone();
            around.out.observe(Observation::Isolated { stream, type_url, name });
        }
        let states_version = self.session.variant == Variant::StateOfTheWorld;
        if states_version && !self.is_stated_as(version, request.version) {
            let (type_url, version) = (self.arena.type_url.clone(), self.print(version));
            around.out.observe(Observation::VersionMismatch { stream, type_url, version });
        }
    }

    fn on_nack(
        &mut self,
        sent: Sent,
        request: &Request<'_>,
        rejection: Rejection,
        around: &mut Surroundings<'_>,
    ) {
        self.session.settle(sent, Answer::Nack, around.now);
        self.note_answer_for_brought(sent.nonce.get(), Answer::Nack);
        self.note_answer_to_what_it_had(sent.nonce.get(), Answer::Nack);
        self.note_refused(sent);
        self.session.counts.nacks.add_one();
        self.session.keep_error(rejection.message.clone());
        around.stats.nacks += 1;
        if self.resends_batches() && sent.purpose == Purpose::Content && !self.sends_full_state() {
            let rode = self.session.wildcard.map_or(Stamp::START, |wildcard| wildcard.rode);
            let beside = self.rejected_beside();
            let accepted = self.session.accepted_response(self.arena, Stamp::START);
            let accepted = accepted.filter(|_| beside == Beside::Deletions);
            let telling = self.session.rare.as_deref().and_then(|rare| rare.telling);
            let since = telling.map_or(Stamp::MAX, |telling| telling.since);
            let new = Suspects {
                first: sent.nonce,
                last: sent.nonce,
                from: sent.from.max(rode),
                to: sent.to,
                until: sent.at,
                told: accepted.map_or(Stamp::MAX, |accepted| accepted.at.min(since)),
                beside,
            };
            let suspects = self.session.suspects().map_or(new, |earlier| earlier.and(new));
            self.session.rare_mut().suspects = Some(suspects);
        }
        self.note_rejected_state(sent);
        if zoo::is(Bug::RejectedSentAgain) {
            self.owe_everything(Cause::Changed);
        }
        let version = self.print(sent.version);
        around.rejected = Some(self.rejected(sent, version, &rejection, around.config));
        let culprits = self.take_suspects(sent, around.config.limits.suspects);
        let version = self.print(sent.version);
        if !self.observe_nack(request, version, &rejection, around) {
            return;
        }
        for name in culprits {
            let (stream, type_url) = (self.session.stream, self.arena.type_url.clone());
            around.out.observe(Observation::Isolated { stream, type_url, name });
        }
    }
}

impl Turn<'_> {
    /// Reports the NACK of a polling client, which states the rejected nonce as its version.
    // M189
    pub(crate) fn observe_refusal(
        &self,
        request: &Request<'_>,
        rejection: &Rejection,
        around: &mut Surroundings<'_>,
    ) {
        around.stats.nacks += 1;
        let _ = self.observe_nack(request, request.nonce.into(), rejection, around);
    }

    /// Reports a NACK to the operator unless the rate limit is exceeded. Returns whether it was
    /// reported.
    fn observe_nack(
        &self,
        request: &Request<'_>,
        version: Version,
        rejection: &Rejection,
        around: &mut Surroundings<'_>,
    ) -> bool {
        if let Some(rate) = around.config.limits.observed_nacks {
            if !around.nacks.has_one(rate, around.now) {
                around.stats.unobserved_nacks += 1;
                return false;
            }
            around.nacks.take(rate, around.now);
        }
        around.out.observe(Observation::Nacked {
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
    Nonce::of_number(number.get())
}

/// Parses a nonce, if it is written exactly as [`nonce_of`] writes it.
fn number_of(nonce: &str) -> Option<u64> {
    nonce.starts_with(|first: char| matches!(first, '1'..='9')).then(|| nonce.parse().ok())?
}

pub(crate) fn cut(message: &str) -> &str {
    if message.len() <= MESSAGE_LIMIT {
        return message;
    }
    let end = (0..=MESSAGE_LIMIT).rev().find(|&end| message.is_char_boundary(end));
    end.and_then(|end| message.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_read_only_as_written() {
        for number in [NonZeroU64::MIN, NonZeroU64::MAX] {
            assert_eq!(number_of(nonce_of(number).as_str()), Some(number.get()));
        }
        for foreign in ["", "0", "01", "+1", " 1", "1 ", "-1", "1a", "18446744073709551616", "x"] {
            assert_eq!(number_of(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = "é".repeat(4_000);
        assert_eq!(cut(&long).len(), 4_096);
        let odd = alloc::format!("x{long}");
        assert_eq!(cut(&odd).len(), 4_095);
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn an_empty_status_is_a_rejection_without_words() {
        let rejection = Rejection::parse(&[]).unwrap();
        assert_eq!((rejection.code, &*rejection.message), (0, ""));
        let negative = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Rejection::parse(&negative).unwrap().code, -1);
        assert!(Rejection::parse(&[0x12, 1, 0xff]).is_err());
    }
}
