//! Version that a polling client last accepted from a server.

use crate::{
    Toy,
    options::{ProfileName, Verdicts},
    world::{
        LinkId, World, is_alias,
        message::{Request, Response, Text},
    },
};

/// Accepted responses from a server.
#[derive(Debug, Default)]
pub(super) struct PolledVersion {
    /// Version accepted last.
    pub(super) version: Text,
    /// Responses read since. Only the next request shows whether they were accepted.
    pub(super) unconfirmed: Vec<Read>,
    /// Whether all watched names have been requested.
    pub(super) is_asked: bool,
    /// Whether the client may have released a resource of that version, or replaced it with another
    /// server's. It then states no version.
    // RJ-01, FB-08
    pub(super) is_invalidated: bool,
    /// Whether a part of a response that was rejected since is certainly in use.
    pub(super) is_mixed: bool,
}

#[derive(Debug)]
pub(super) struct Read {
    pub(super) version: Text,
    /// Whether all names watched when the response was read had been requested.
    pub(super) is_whole: bool,
    pub(super) has_good: HasGood,
}

/// Whether a resource of a response is used although the response is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HasGood {
    No,
    Maybe,
    Surely,
}

impl HasGood {
    pub(super) fn of(response: &Response, link: LinkId, kind: usize, world: &World) -> Self {
        let (it, options) = (world.link(link), world.options());
        let mut good = response.resources.iter().filter(|item| {
            item.bytes.as_ref().is_some_and(|bytes| !Toy::is_invalid(bytes, options))
        });
        let uses = good.clone().any(|item| {
            let is_asked =
                it.asked(kind).is_some_and(|subscription| subscription.covers(&item.name));
            let is_watched = world.watched(it.client, kind).covers(&item.name);
            is_asked && is_watched && world.serves(it.server, &item.name) && !is_alias(&item.name)
        });
        let is_told_at_once =
            options.verdicts == Verdicts::AtOnce && options.lies.iter().next().is_none();
        match uses && is_told_at_once && options.profile == ProfileName::Grpc {
            true => Self::Surely,
            // A rejection may also end the use of a resource.
            false if good.next().is_some() || options.drops_cached() => Self::Maybe,
            false => Self::No,
        }
    }
}

impl PolledVersion {
    /// Notes that some resources may not be in use any more.
    pub(super) fn invalidate(&mut self) {
        self.is_invalidated = true;
        self.unconfirmed.iter_mut().for_each(|read| read.is_whole = false);
    }

    /// Applies a request. Returns false if it states a wrong version.
    pub(super) fn take(&mut self, request: &Request) -> bool {
        if request.error.is_none() {
            return self.states(request);
        }
        // The rejected response is not accepted.
        let has_good = self.unconfirmed.pop().map_or(HasGood::No, |rejected| rejected.has_good);
        self.is_invalidated |= has_good != HasGood::No;
        let is_right = self.states(request);
        self.unconfirmed.clear();
        self.is_mixed |= has_good == HasGood::Surely;
        // The rejection may have ended the use of an accepted resource.
        self.is_invalidated = true;
        is_right
    }

    pub(super) fn states(&mut self, request: &Request) -> bool {
        if request.version.is_empty() {
            return self.is_invalidated || self.version.is_empty() || !self.unconfirmed.is_empty();
        }
        let mut unconfirmed = self.unconfirmed.iter();
        if let Some(at) = unconfirmed.position(|read| read.version == request.version) {
            let is_whole =
                self.unconfirmed.drain(..=at).next_back().is_some_and(|read| read.is_whole);
            self.version = request.version.clone();
            self.is_invalidated &= !is_whole;
            self.is_mixed = false;
        }
        request.version == self.version
    }
}
