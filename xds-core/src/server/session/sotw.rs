//! Requests of the state-of-the-world variant: what a nonce means, and what follows from it.
//!
//! | nothing sent yet | any nonce | an initial request; a nonce is left over from another stream (M43) |
//! |---|---|---|
//! | sent | the newest nonce | the first such request answers the response: ACK, or NACK if it has `error_detail`, which alone decides (B04, M52-M57); later ones only list names (M45) |
//! | sent | none | lists names; answers nothing (M60) |
//! | sent | any other | dropped with its names, which the client's next request repeats (M58-M61, S0.147) |
//!
//! The session does not know whether its stream is aggregated.

use alloc::{string::ToString as _, sync::Arc};
use core::num::NonZeroU64;

use super::{Answer, First, Stamp, Suspects, Turn, WarmingState, interest::Outcome};
use crate::{
    server::{
        config::{NackRecovery, ReconnectTrust, ServerConfig},
        event::{Cause, Observation},
        outbox::Outbox,
        status::ServerStats,
    },
    text::Nonce,
    wire::{
        Malformed,
        request::Request,
        walk::{Content, Fields},
    },
};

/// What a client's message about an error is cut to, in bytes (M241).
const MESSAGE_LIMIT: usize = 4_096;

/// What a request may touch beside its session.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) config: &'a ServerConfig,
    /// The highest nonce given out on the stream.
    pub(crate) issued: u64,
    pub(crate) out: &'a mut Outbox,
    pub(crate) stats: &'a mut ServerStats,
}

/// A client's `error_detail`, read.
#[derive(Clone, Debug)]
pub(crate) struct Rejection {
    code: i32,
    message: Arc<str>,
}

/// What a request means for the newest response.
enum Reading {
    /// Nothing: it lists names.
    Names,
    Ack,
    Nack(Rejection),
    Stale,
    Bogus,
}

impl Turn<'_> {
    /// Takes one request of the session's type. `rejection` is its `error_detail`, if it has one.
    pub(crate) fn handle_request(
        &mut self,
        request: &Request<'_>,
        rejection: Option<Rejection>,
        around: &mut Surroundings<'_>,
    ) {
        let is_first = self.session.round == 0;
        let is_rejection = rejection.is_some();
        match self.read(request, rejection, around.issued) {
            Reading::Names => {}
            Reading::Ack => self.on_ack(request, around),
            Reading::Nack(rejection) => self.on_nack(request, rejection, around),
            Reading::Stale => {
                around.stats.stale_requests += 1;
                let (stream, type_url) = (self.session.stream, self.arena.type_url.clone());
                return around.out.observe(Observation::StaleNonce { stream, type_url });
            }
            Reading::Bogus => {
                around.stats.bogus_requests += 1;
                let (stream, type_url) = (self.session.stream, self.arena.type_url.clone());
                return around.out.observe(Observation::BogusNonce { stream, type_url });
            }
        }
        if self.replace_names(request.names()) == Outcome::Changed || is_first {
            around.out.observe(Observation::Subscribed {
                stream: self.session.stream,
                type_url: self.arena.type_url.clone(),
                interest: self.session.interest(),
            });
        }
        if is_first && around.config.reconnect_trust == ReconnectTrust::WildcardOnly {
            self.trust(request.version);
        }
        if !is_rejection && self.session.warming == WarmingState::Armed {
            self.session.warming = WarmingState::Off;
            self.owe_everything(Cause::Warming);
        }
    }

    fn read(&self, request: &Request<'_>, rejection: Option<Rejection>, issued: u64) -> Reading {
        let Some(sent) = self.session.newest else { return Reading::Names };
        if request.nonce.is_empty() {
            return Reading::Names;
        }
        let Some(nonce) = number_of(request.nonce).filter(|&nonce| nonce <= issued) else {
            return Reading::Bogus;
        };
        match (rejection, sent.answer) {
            _ if nonce != sent.nonce.get() => Reading::Stale,
            (Some(rejection), Answer::Pending | Answer::Ack) => Reading::Nack(rejection),
            (None, Answer::Pending) => Reading::Ack,
            (Some(_), Answer::Nack) | (None, Answer::Ack | Answer::Nack) => Reading::Names,
        }
    }

    fn on_ack(&mut self, request: &Request<'_>, around: &mut Surroundings<'_>) {
        let Some(sent) = &mut self.session.newest else { return };
        sent.answer = Answer::Ack;
        let version = sent.version;
        self.session.accepted = Some(version);
        self.session.last_error = None;
        self.session.counts.acks += 1;
        around.stats.acks += 1;
        let (stream, type_url) = (self.session.stream, self.arena.type_url.clone());
        around.out.observe(Observation::Acked {
            stream,
            type_url: type_url.clone(),
            version: self.arena.print(version),
            nonce: request.nonce.into(),
        });
        if !version.is_printed_as(request.version) {
            let version = self.arena.print(version);
            around.out.observe(Observation::VersionMismatch { stream, type_url, version });
        }
    }

    fn on_nack(
        &mut self,
        request: &Request<'_>,
        rejection: Rejection,
        around: &mut Surroundings<'_>,
    ) {
        let Some(sent) = &mut self.session.newest else { return };
        sent.answer = Answer::Nack;
        let sent = *sent;
        self.session.counts.nacks += 1;
        self.session.last_error = Some(rejection.message.clone());
        around.stats.nacks += 1;
        if around.config.nack_recovery == NackRecovery::ResendBatch && self.sends_changes() {
            let rode = self.session.wildcard.map_or(Stamp::START, |wildcard| wildcard.rode);
            let earlier = self.session.suspects;
            self.session.suspects = Some(Suspects {
                first: earlier.map_or(sent.nonce, |earlier| earlier.first),
                last: sent.nonce,
                from: earlier.map_or(Stamp::MAX, |earlier| earlier.from).min(sent.from.max(rode)),
                until: sent.at,
            });
        }
        around.out.observe(Observation::Nacked {
            stream: self.session.stream,
            type_url: self.arena.type_url.clone(),
            version: self.arena.print(sent.version),
            nonce: request.nonce.into(),
            code: rejection.code,
            message: rejection.message,
        });
    }

    /// A client that comes back for the wildcard alone and has the current version is not sent it
    /// again (M41, B06). With names it is, since new ones may hide among them (M42); and a response
    /// that is not in full state may be a part of its version only.
    fn trust(&mut self, version: &str) {
        let current = self.arena.version;
        if self.sends_changes()
            || self.session.named > 0
            || !current.stated().is_printed_as(version)
        {
            return;
        }
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.version = current;
            wildcard.owed = None;
            self.session.first = First::Answered;
            self.session.accepted = Some(current.stated());
        }
    }
}

impl Rejection {
    /// Reads an encoded `google.rpc.Status`.
    pub(crate) fn parse(status: &[u8]) -> Result<Self, Malformed> {
        const CODE: u32 = 1;
        const MESSAGE: u32 = 2;

        let (mut code, mut message) = (0, "");
        for field in Fields::of(status) {
            let field = field?;
            match (field.number, field.content) {
                // An int32: what is negative comes sign-extended to 64 bits.
                (CODE, Content::Number(number)) => code = number as i32,
                (CODE, _) => drop(field.number()?),
                (MESSAGE, _) => message = field.string()?,
                _ => {}
            }
        }
        Ok(Self { code, message: cut(message).into() })
    }
}

/// The text of a nonce (M62).
pub(crate) fn nonce_of(number: NonZeroU64) -> Nonce {
    Nonce::new(number.to_string())
}

/// The number of a nonce, if it is written as [`nonce_of`] writes it.
fn number_of(nonce: &str) -> Option<u64> {
    nonce.starts_with(|first: char| matches!(first, '1'..='9')).then(|| nonce.parse().ok())?
}

fn cut(message: &str) -> &str {
    let end = (0..=MESSAGE_LIMIT).rev().find(|&end| message.is_char_boundary(end));
    match end {
        Some(end) if message.len() > MESSAGE_LIMIT => message.get(..end).unwrap_or_default(),
        _ => message,
    }
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
