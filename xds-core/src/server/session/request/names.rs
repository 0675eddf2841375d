//! Complete name lists of state-of-the-world requests.
//!
//! A state-of-the-world request lists everything the client wants, so the list replaces the
//! subscription. A new name is due at once if its resource exists, and is remembered otherwise. A
//! name missing from the list is unsubscribed without a response.
// M22-M34, B01, S0.102, IS6, S0.133, M48

use alloc::vec::Vec;

use super::globs::canonical;
use crate::{
    server::{
        config::WildcardExit,
        event::Cause,
        session::{
            CatchUp, Claim, First, Leftovers, Legacy, Owed, Sends, Wildcard, Withdrawn,
            context::Turn,
            extras::{Bereft, Entered},
            subscription::{Chain, Standing},
            window::Sent,
        },
        store::{revision::Stamp, version::content::TypeVersion},
    },
    service::Variant,
    slab::Slot,
    zoo::{self, Bug},
};

/// Name of the wildcard subscription.
// B01
pub(crate) const WILDCARD: &str = "*";

/// Whether a list of names changed the subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Same,
    Changed,
}

impl Turn<'_> {
    /// Replaces the subscription by `names`. Takes time proportional to the names listed and
    /// dropped.
    pub(crate) fn replace_names<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Outcome {
        let before = self.session.interest();
        let cause = self.session.asked();
        self.session.round = self.session.round.wrapping_add(1);
        if self.ignores_names() {
            return Outcome::Same;
        }
        let (mut everything, mut listed, mut added) = (false, 0, 0);
        for name in names {
            self.session.legacy = Legacy::Left;
            if name == WILDCARD {
                everything = true;
                continue;
            }
            match self.list(name, cause) {
                Listed::Again => {}
                Listed::Kept => listed += 1,
                Listed::Added => {
                    listed += 1;
                    added += 1;
                }
            }
        }
        everything |= self.session.legacy == Legacy::Possible;

        let entering = everything && self.session.wildcard.is_none();
        if entering {
            self.enter_wildcard(cause);
        } else if !everything {
            self.leave_wildcard();
        }
        if listed < self.session.named || self.may_drop_remembered() {
            self.drop_unlisted(entering);
        }
        if added > 0 || self.session.interest() != before {
            Outcome::Changed
        } else {
            Outcome::Same
        }
    }

    /// Handles one name of the list.
    fn list(&mut self, name: &str, cause: Cause) -> Listed {
        let round = self.session.round;
        let name = canonical(name, self.arena);
        if zoo::is(Bug::MissingNotRemembered) && !self.exists(&name) {
            return Listed::Again;
        }
        let Some(resource) = self.arena.slot_of(&*name) else { return Listed::Again };
        let existing = self.edges.find(self.slot, resource);
        if let Some(edge) = existing.and_then(|slot| self.edges.at_mut(slot)) {
            if edge.round == round {
                return Listed::Again;
            }
            edge.round = round;
            if edge.standing == Standing::Named {
                return Listed::Kept;
            }
        }
        let edge = match existing {
            Some(edge) => {
                self.set_standing(edge, Standing::Named);
                Some(edge)
            }
            None => self.connect(resource).inspect(|_| self.session.named += 1),
        };
        let Some(edge) = edge else { return Listed::Again };
        self.want(resource);
        let exists = self.arena.payload(resource).is_some();
        let may_be_known = self.may_know(resource, exists);
        if may_be_known && let Some(edge) = self.edges.at_mut(edge) {
            edge.sent = self.session.newest.map_or(1, |sent| sent.nonce.get());
        }
        let is_silent = zoo::is(Bug::SilentOnNewNames)
            && self.session.newest.is_some_and(|sent| sent.at == self.arena.clock());
        if (exists || may_be_known || self.error_of(resource).is_some()) && !is_silent {
            self.make_due(edge, cause);
        }
        self.cover_members(resource, cause);
        Listed::Added
    }

    /// Whether a client that newly subscribes to a resource may already have it, either from the
    /// wildcard or from a response that it had not read when it unsubscribed. In full state it
    /// must then be sent the removal, even if the resource was removed earlier.
    fn may_know(&self, resource: Slot, exists: bool) -> bool {
        let deletes = self.sends_full_state() && self.arena.absence_deletes();
        if !deletes || self.session.first != First::Answered {
            return false;
        }
        // If removals are withheld, a name without any change is known to be missing at the
        // client.
        let has_a_past = !self.session.needs_ghosts(self.arena)
            || self.arena.at(resource).is_some_and(|it| it.stamp != Stamp::START);
        // Resources had by name before a wildcard that was never answered are still at the
        // client.
        let by_wildcard = self.session.wildcard.as_ref().is_some_and(|wildcard| {
            exists
                || wildcard.owed.is_some()
                || has_a_past && wildcard.version != self.arena.version
        });
        let is_behind = |sent: Sent| exists || sent.at != self.arena.clock();
        let by_name = self.session.withdrawn == Withdrawn::Unread;
        by_wildcard || by_name && self.session.newest.is_some_and(is_behind)
    }

    /// Records that the client unsubscribed from a resource that an unanswered response may
    /// contain.
    fn note_withdrawal(&mut self) {
        if self.session.is_waiting() {
            self.session.withdrawn = Withdrawn::Unread;
        }
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.arena.find(name).is_some_and(|slot| self.arena.payload(slot).is_some())
    }

    pub(crate) fn connect(&mut self, resource: Slot) -> Option<Slot> {
        let entry = self.arena.at_mut(resource)?;
        self.edges.connect(
            (self.slot, &mut self.session.edges),
            (resource, &mut entry.subscribers),
            self.session.round,
        )
    }

    /// Unsubscribes from the names missing from the list. When a client switches to the wildcard,
    /// it is not sent resources again that it has by name; full state repeats everything anyway.
    // M31
    fn drop_unlisted(&mut self, entering_wildcard: bool) {
        let remember = entering_wildcard && !self.sends_full_state();
        let round = self.session.round;
        let mut globs = Vec::new();
        let mut slot = self.session.edges.first();
        while let Some(edge) = self.edges.at(slot) {
            let next = self.edges.next(Chain::Session, slot);
            match edge.standing {
                _ if edge.round == round => {}
                // It is removed together with the glob.
                Standing::Covered => {}
                Standing::Named if self.arena.is_glob(edge.resource) => globs.push(slot),
                Standing::Named if self.lies_below(edge.resource) => {
                    self.set_standing(slot, Standing::Covered);
                }
                Standing::Named if remember && self.session.holds(edge) => {
                    self.set_standing(slot, Standing::Remembered);
                }
                Standing::Remembered | Standing::Lingering if self.session.wildcard.is_some() => {}
                Standing::Named
                | Standing::Remembered
                | Standing::Parting
                | Standing::Lingering => {
                    self.note_withdrawal();
                    self.disconnect(slot);
                }
            }
            slot = next;
        }
        for glob in globs {
            self.note_withdrawal();
            self.drop_named(glob);
        }
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.leftovers = Leftovers::None;
        }
    }

    /// Whether a retained subscription may have to end because it is not listed. With the
    /// wildcard most of them stay, so this avoids a search for each of many lists.
    // IS25
    fn may_drop_remembered(&self) -> bool {
        let stays = |wildcard: &Wildcard| wildcard.leftovers == Leftovers::None;
        self.session.remembered > 0 && !self.session.wildcard.as_ref().is_some_and(stays)
    }

    fn lies_below(&self, resource: Slot) -> bool {
        self.arena.at(resource).is_some_and(|it| self.is_covered(it.name.as_str()))
    }

    /// Ends retained subscriptions once the client has caught up with the wildcard.
    pub(crate) fn forget_remembered(&mut self) {
        if self.session.remembered == 0 {
            return;
        }
        for slot in self.apart() {
            let Some(edge) = self.edges.at(slot) else { continue };
            let standing = edge.standing;
            // The removal is withheld, or there was no room for it.
            let is_to_be_told = edge.is_withheld()
                || edge.due.is_some() && self.arena.payload(edge.resource).is_none();
            match standing {
                // The removal still has to be sent.
                Standing::Remembered if is_to_be_told => {
                    self.set_standing(slot, Standing::Lingering)
                }
                Standing::Remembered => self.disconnect(slot),
                _ => {}
            }
        }
    }

    pub(crate) fn disconnect(&mut self, slot: Slot) {
        let Some(edge) = self.edges.at(slot) else { return };
        let (resource, standing) = (edge.resource, edge.standing);
        if !standing.is_subscribed() {
            self.session.with_rare(|rare| {
                rare.apart.remove(&slot);
            });
        }
        self.session.with_rare(|rare| {
            rare.too_long.remove(&resource);
        });
        self.uncount(standing);
        self.session.drop_brought(resource);
        self.session.with_rare(|rare| {
            rare.owed_globs.globs.remove(&resource);
        });
        let Some(entry) = self.arena.at_mut(resource) else { return };
        self.edges.disconnect(
            slot,
            &mut self.session.edges,
            &mut self.session.due,
            &mut entry.subscribers,
        );
        self.unwant(resource);
        self.arena.release(resource);
    }

    pub(crate) fn enter_wildcard(&mut self, cause: Cause) {
        let Some(seat) = self.arena.wildcards.push_back(self.slot) else { return };
        if self.session.follows_graves(self.arena) {
            self.arena.join_mourners();
            self.session.with_rare(|rare| rare.bereft = Bereft::default());
        }
        self.note_entered();
        let has_names = self.session.named + self.session.remembered > 0;
        self.session.wildcard = Some(Wildcard {
            seat: seat.slot(),
            cursor: Stamp::START,
            reached: Stamp::START,
            told: self.arena.clock(),
            rode: Stamp::START,
            version: TypeVersion::default(),
            owed: Some(Owed { cause, at: self.arena.clock(), claim: Claim::of(cause) }),
            catch_up: match cause {
                Cause::First if self.session.variant == Variant::StateOfTheWorld => {
                    CatchUp::Everything
                }
                _ if has_names => CatchUp::TheRest,
                _ => CatchUp::Everything,
            },
            leftovers: Leftovers::Possible,
        });
    }

    /// Records the time of the switch to the wildcard and the resources that the client has by
    /// name.
    fn note_entered(&mut self) {
        let after = self.session.newest_nonce();
        if after > 0 && self.session.variant == Variant::Incremental {
            self.session.rare_mut().began = self.arena.clock();
        }
        if after > 0 && self.session.is_held_to_answers() {
            let known = self.session.sent_by_name(self.edges).filter_map(|it| self.arena.at(it));
            let had = known.map(|resource| resource.name.clone()).collect();
            self.session.rare_mut().entered = Some(Entered { had, after });
        }
    }

    pub(crate) fn leave_wildcard(&mut self) {
        if let Some(wildcard) = self.session.wildcard.take() {
            self.note_withdrawal();
            self.arena.wildcards.remove(wildcard.seat);
            if self.session.follows_graves(self.arena) {
                self.arena.leave_mourners();
            }
            self.session.with_rare(|rare| {
                rare.telling = None;
                rare.entered = None;
                rare.began = Stamp::START;
            });
            self.drop_lingering();
        }
    }

    /// Makes all existing subscribed resources due, whatever the client has.
    pub(crate) fn owe_everything(&mut self, cause: Cause) {
        let names = self.session.named + self.session.remembered;
        if self.session.wildcard.is_some() && self.arena.existing() < names as usize {
            // The response will contain all resources; there may be many more names without one
            // (IS25).
            let edges = &*self.edges;
            let existing = self.arena.slots_after(Stamp::START);
            let due: Vec<_> = existing.filter_map(|it| edges.find(self.slot, it)).collect();
            for edge in due {
                self.make_due(edge, cause);
            }
        } else {
            self.owe_names(cause);
        }
        self.owe_wildcard(cause);
    }

    /// Makes the entire wildcard due, if there is one.
    pub(crate) fn owe_wildcard(&mut self, cause: Cause) {
        let (newest, at) = (self.arena.newest(), self.arena.clock());
        if let Some(wildcard) = &mut self.session.wildcard {
            let claim = wildcard.claim().max(Claim::of(cause));
            let cause = match wildcard.owed {
                Some(owed) => owed.cause.min(cause),
                None if newest > wildcard.cursor => Cause::Changed,
                None => cause,
            };
            wildcard.owed = Some(Owed { cause, at, claim });
            wildcard.cursor = Stamp::START;
            wildcard.catch_up = CatchUp::Everything;
        }
    }

    fn owe_names(&mut self, cause: Cause) {
        let mut slot = self.session.edges.first();
        while let Some(edge) = self.edges.at(slot) {
            let resource = edge.resource;
            if self.arena.payload(resource).is_some() {
                self.make_due(slot, cause);
            }
            slot = self.edges.next(Chain::Session, slot);
        }
    }

    /// Whether a wildcard subscription is permanent by configuration, so that names are ignored.
    // S0.106
    pub(crate) fn ignores_names(&self) -> bool {
        self.session.wildcard.is_some() && self.arena.config.wildcard_exit == WildcardExit::Never
    }

    pub(crate) fn sends_full_state(&self) -> bool {
        self.session.sends(self.arena) == Sends::FullState
    }
}

/// Effect of one listed name on the subscription.
enum Listed {
    /// Repeated within the list.
    // M33
    Again,
    Kept,
    Added,
}
