//! What an incremental response consists of: resources that are new to the client, and names of what is
//! gone or never was.

use alloc::boxed::Box;
use core::mem;

use super::{CatchUp, Turn, Wildcard, render::MinSome as _};
use crate::{
    server::{
        config::WildcardExit,
        event::Cause,
        store::{
            body::{Body, Parts},
            history::Stamp,
        },
    },
    slab::Slot,
    wire::request::Spelling,
};

impl Turn<'_> {
    /// What the client lacks, as much as fits.
    pub(super) fn render_incremental(&mut self, nonce: u64, limit: usize) -> Option<(Body, Cause)> {
        if let Some(wildcard) = self.session.wildcard.filter(|it| self.shares_bytes(it)) {
            let told = self.tells_from(&wildcard);
            let tail = self.arena.tail_body(self.form(), wildcard.cursor, Some(told), limit);
            self.advance(tail.to);
            let is_news = !tail.body.is_empty() || wildcard.must_be_answered();
            return is_news.then(|| (tail.body, wildcard.reason(tail.to)));
        }
        let mut parts = self.parts(limit);
        let (mut cause, mut walked) = (None, None);
        if let Some(wildcard) = self.session.wildcard {
            let to = self.gather(wildcard, &mut parts);
            self.gather_graves(wildcard, &mut parts);
            if !parts.is_empty() || wildcard.must_be_answered() {
                cause = Some(wildcard.reason(to));
            }
            walked = Some((wildcard.cursor, to));
        }
        if self.say_farewell(&mut parts) {
            let why = if self.tells_losses { Cause::Changed } else { Cause::Resubscribed };
            cause = cause.min_some(Some(why));
        }
        let named = self.take_due(&mut parts, nonce, walked);
        if let Some((_, to)) = walked {
            self.advance(to);
        }
        Some((self.finish(parts), cause.min_some(named)?))
    }

    /// The common case: nothing but the wildcard, whose bytes all such clients share. Which deletions
    /// concern a client depends on how far it ever was, so it has to be there still, unless there are
    /// none.
    fn shares_bytes(&self, wildcard: &Wildcard) -> bool {
        self.session.due.is_empty()
            && !self.isolates()
            && self.session.farewell().is_empty()
            && self.session.spelling == Spelling::Names
            && wildcard.catch_up == CatchUp::Everything
            && (wildcard.reached == wildcard.cursor || self.arena.newest_grave() <= wildcard.told)
    }

    /// After when deletions are told of: none is if the client is to keep what it has (M133).
    fn tells_from(&self, wildcard: &Wildcard) -> Stamp {
        if self.arena.tells_removals() { wildcard.told } else { self.arena.clock() }
    }

    /// Adds the names of what the wildcard has lost. Names that are due anyhow are left to that.
    fn gather_graves(&self, wildcard: Wildcard, parts: &mut Parts) {
        let (edges, own) = (&*self.edges, self.slot);
        let is_due = |resource: Slot| {
            edges
                .find(own, resource)
                .and_then(|slot| edges.at(slot))
                .is_some_and(|edge| edge.due.is_some())
        };
        let spelling = self.session.spelling;
        let (told, reached) = (self.tells_from(&wildcard), wildcard.reached);
        self.arena.gather_graves(told, reached, parts, spelling, |slot| !is_due(slot));
    }

    /// Names what only the wildcard covered that the client has left, unless it has been named since
    /// (M93).
    fn say_farewell(&mut self, parts: &mut Parts) -> bool {
        let mut names = Box::default();
        self.session.with_rare(|rare| names = mem::take(&mut rare.farewell));
        for name in &names {
            let slot = self.arena.find(name.as_str());
            if slot.and_then(|slot| self.edges.find(self.slot, slot)).is_none() {
                parts.remove(name, self.session.spelling);
            }
        }
        !names.is_empty()
    }

    /// Prepares a farewell to everything that the client has from the wildcard alone.
    pub(super) fn prepare_farewell(&mut self) {
        if self.arena.config.wildcard_exit != WildcardExit::Farewell {
            return;
        }
        let Some(wildcard) = self.session.wildcard else { return };
        let known = wildcard.reached;
        if known == Stamp::START && self.session.remembered == 0 {
            return;
        }
        let covered_by_wildcard_alone = |&slot: &Slot| {
            let edge = self.edges.find(self.slot, slot).and_then(|edge| self.edges.at(edge));
            match edge {
                Some(edge) if edge.standing.is_subscribed() => false,
                Some(edge) if edge.sent != 0 => true,
                _ => self.arena.is_known(slot, known, wildcard.told),
            }
        };
        let slots = self.arena.slots().filter(covered_by_wildcard_alone);
        let names = slots.filter_map(|slot| Some(self.arena.at(slot)?.name.clone()));
        let names: Box<[_]> = names.collect();
        if !names.is_empty() {
            self.session.rare_mut().farewell = names;
        }
    }
}

impl Wildcard {
    /// Whether the client waits for an answer even if there is nothing to say (M100, M126).
    fn must_be_answered(&self) -> bool {
        self.owed.is_some_and(|owed| matches!(owed.cause, Cause::First | Cause::Resubscribed))
    }
}
