//! Situations that runs have to come to, or the rules about them were shown of nothing.

use std::{collections::BTreeMap, fmt};

use crate::effects::{Effects, Kind};

/// A situation that is rare enough to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Situation {
    /// A response is rejected, the stream ends, and on the next one the type is accepted.
    NackThenReconnectThenAck,
    /// A rejected response had good resources beside the bad ones.
    GoodBesideBad,
    /// All have to agree though nobody can reach the first server.
    WithoutFirstServer,
    /// A response arrives at the same instant as a client's timer is due.
    ResponseAtTimer,
    /// A client turns to the next server while a response is under way on another of its streams.
    FallbackWhileResponseUnderWay,
    /// A client turns back from the next server to the preferred one.
    PreferredServerReturns,
    /// A resource is found missing because it did not come in time.
    NotReceivedInTime,
    /// A resource that was found missing is created and arrives.
    CreatedAfterMissing,
    /// A resource is deleted while it is watched.
    DeletedWhileWatched,
    /// A watch begins while the end of the last one of that name has not been told to the server.
    WatchedAgainBeforeUnsubscribed,
    /// The last watch of a type ends, and the stream goes on.
    LastWatchOfTypeEnds,
    /// A stream is reset while a response is under way.
    ResetWithResponseUnderWay,
    /// A stream is reset while an answer is under way.
    ResetWithAnswerUnderWay,
    /// A new stream states the version that the client accepted last.
    VersionsStatedAgain,
    /// A new incremental stream states the versions of what the client holds.
    HeldVersionsStated,
    /// A client is slow, and changes come together in one response.
    ChangesCoalesced,
    /// A watcher is told something while its last notice is still being handled.
    WatcherBehind,
    /// A stream that nobody wants anything of is closed.
    IdleClose,
    /// A server starts anew while clients are connected.
    RestartWhileConnected,
    /// A stream goes silent and is given up.
    HalfOpenGivenUp,
    /// Connectivity trouble is told to a watcher that has a value.
    TroubleBesideValue,
    /// A watch begins or ends while another is told something.
    WatchFromWithinNotice,
    /// A server drops a request because a newer response has replaced the one it answers.
    StaleNonce,
    /// A client passes a response of an unknown type over.
    UnknownTypePassedOver,
    /// A client gives a stream up because it cannot read what came.
    MalformedResponse,
    /// A server waits for one type to be accepted before it sends another one, for as long as it may.
    HeldTooLong,
    /// A server renews what has a time to live.
    Heartbeat,
    /// A resource was not renewed in time.
    Expired,
    /// A server reports an error of a single resource.
    ErrorReported,
    /// A client rejects a response that names a resource twice.
    RejectedForRepetition,
    /// A stream ends without a response, and so did the one before.
    EndedEarlyAgain,
    /// A server gives a stream up because it cannot read what came.
    MalformedRequest,
    /// A server that is polled gives an answer that is none.
    BadAnswer,
    /// A cache in front of a server that is polled answers with what it said before.
    StaleAnswer,
    /// A client that polls is told that nothing has changed.
    NothingNew,
    /// A file cannot be read.
    FileUnreadable,
    /// A change of a file is only seen because somebody looks at it anyway.
    FileSeenLate,
    /// A server goes away by plan while something is under way on its streams.
    GoesAwayInMidSentence,
    /// Somebody outside has the last word on what is new in a response.
    VerdictFromOutside,
    /// A verdict from outside comes when its stream has ended.
    VerdictForNothing,
    /// A stream ends in good order before its first response.
    EndedWellBeforeResponse,
    /// A stream ends in good order after a response.
    EndedWellAfterResponse,
    /// A timer comes later than it is due.
    TimerLate,
    /// The clock jumps over the time at which something was due.
    ClockJumped,
    /// Messages that were sent one after the other arrive together.
    ArrivedTogether,
    /// Several streams are clogged at a time.
    Clogged,
    /// Clients come to a replica that has another state than the one before.
    OtherReplica,
    /// A client with an open stream is let see another view.
    MovedInMidStream,
    /// The same while a response is under way.
    MovedWithResponseUnderWay,
    /// A watch of a glob is told of a member.
    GlobMember,
    /// A stranger rejects what comes after something that it rejected.
    RejectedAgain,
    /// A stranger rejects something with an error of a mebibyte.
    HugeError,
    /// A stranger has changed its mind a hundred times.
    Churned,
    /// A stranger answers to what was never sent.
    FutureAnswered,
    /// A stranger is another node than before.
    NodeChanged,
    /// A stranger asks for thousands of names.
    NamesWithoutEnd,
    /// A server gives a stream up because of a name that is too long.
    LongNameRefused,
    /// A stranger speaks both variants on one stream.
    BothVariants,
    /// A server gives a stream up because of a type that nobody knows.
    UnknownTypeRefused,
    /// A server gives a stream up because its client becomes another node.
    OtherNodeRefused,
    /// A server has streams of both variants.
    VariantsMixed,
    /// A client is sent names that are too long, empty, or none of their authority.
    LiedOfNames,
    /// A client is sent a response of the other variant.
    LiedOfVariant,
    /// A client is sent a response that says several things of one name.
    Contradicted,
    /// A client is told that thousands of names are gone.
    ManyRemoved,
    /// A client takes it for trouble of a server that a resource does not come.
    SilenceIsTrouble,
    /// A watch of another name of a resource is told of it.
    HeardByAlias,
    /// A client is sent endpoints that it has, since their clusters have changed.
    WarmedUnchanged,
    /// A client that knows of no time to live is sent a resource that has one.
    TtlUntold,
    /// A client is shut down with all of its watches.
    ShutDownWhileWatched,
    /// A server gives a stream up because of too many names.
    TooManyNamesRefused,
    /// A client watches thousands of names that do not exist.
    NamesByTheThousand,
    /// A client is told that a hundred thousand names are gone.
    HundredThousandRemoved,
    /// A server that is polled answers that somebody else is to be asked.
    Redirected,
    /// A server that is polled answers with a body of another type.
    ForeignBody,
    /// A verdict from outside comes later than the response and rejects it.
    RefusedFromOutside,
    /// A client that has streams open is cut off from all of its servers.
    CutOffWhileConnected,
    /// What is for trusted servers only is accepted from one.
    PrivilegedAccepted,
    /// What is for trusted servers only is rejected, as it comes from another one.
    PrivilegedRejected,
    /// Several streams of a client to a server are reset at one instant, as they share a connection.
    SeveralReset,
    /// A client that is cut off from its first server, and from no other, comes to the next one.
    ServedAcrossPartition,
    /// A server ends open streams as the credentials of their clients are valid no longer.
    CredentialExpired,
    /// A stranger asks a server for a type that nobody knows.
    UnknownTypeHeld,
    /// A stranger that asks for a type that nobody knows is sent another one.
    ServedBesideUnknownType,
    /// A server gives a stream up because of a type that is not the one it is for.
    ForeignTypeRefused,
    /// A server gives a stream up because a request does not say its type.
    MissingTypeRefused,
    /// A client is told that a resource is too long for any response.
    TooLongTold,
}

impl Situation {
    /// All of them.
    pub const ALL: [Self; 87] = [
        Self::NackThenReconnectThenAck,
        Self::GoodBesideBad,
        Self::WithoutFirstServer,
        Self::ResponseAtTimer,
        Self::FallbackWhileResponseUnderWay,
        Self::PreferredServerReturns,
        Self::NotReceivedInTime,
        Self::CreatedAfterMissing,
        Self::DeletedWhileWatched,
        Self::WatchedAgainBeforeUnsubscribed,
        Self::LastWatchOfTypeEnds,
        Self::ResetWithResponseUnderWay,
        Self::ResetWithAnswerUnderWay,
        Self::VersionsStatedAgain,
        Self::HeldVersionsStated,
        Self::ChangesCoalesced,
        Self::WatcherBehind,
        Self::IdleClose,
        Self::RestartWhileConnected,
        Self::HalfOpenGivenUp,
        Self::TroubleBesideValue,
        Self::WatchFromWithinNotice,
        Self::StaleNonce,
        Self::UnknownTypePassedOver,
        Self::MalformedResponse,
        Self::HeldTooLong,
        Self::Heartbeat,
        Self::Expired,
        Self::ErrorReported,
        Self::RejectedForRepetition,
        Self::EndedEarlyAgain,
        Self::MalformedRequest,
        Self::BadAnswer,
        Self::StaleAnswer,
        Self::NothingNew,
        Self::FileUnreadable,
        Self::FileSeenLate,
        Self::GoesAwayInMidSentence,
        Self::VerdictFromOutside,
        Self::VerdictForNothing,
        Self::EndedWellBeforeResponse,
        Self::EndedWellAfterResponse,
        Self::TimerLate,
        Self::ClockJumped,
        Self::ArrivedTogether,
        Self::Clogged,
        Self::OtherReplica,
        Self::MovedInMidStream,
        Self::MovedWithResponseUnderWay,
        Self::GlobMember,
        Self::RejectedAgain,
        Self::HugeError,
        Self::Churned,
        Self::FutureAnswered,
        Self::NodeChanged,
        Self::NamesWithoutEnd,
        Self::LongNameRefused,
        Self::BothVariants,
        Self::UnknownTypeRefused,
        Self::OtherNodeRefused,
        Self::VariantsMixed,
        Self::LiedOfNames,
        Self::LiedOfVariant,
        Self::Contradicted,
        Self::ManyRemoved,
        Self::SilenceIsTrouble,
        Self::HeardByAlias,
        Self::WarmedUnchanged,
        Self::TtlUntold,
        Self::ShutDownWhileWatched,
        Self::TooManyNamesRefused,
        Self::NamesByTheThousand,
        Self::HundredThousandRemoved,
        Self::Redirected,
        Self::ForeignBody,
        Self::RefusedFromOutside,
        Self::CutOffWhileConnected,
        Self::PrivilegedAccepted,
        Self::PrivilegedRejected,
        Self::SeveralReset,
        Self::ServedAcrossPartition,
        Self::CredentialExpired,
        Self::UnknownTypeHeld,
        Self::ServedBesideUnknownType,
        Self::ForeignTypeRefused,
        Self::MissingTypeRefused,
        Self::TooLongTold,
    ];

    /// The situation in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NackThenReconnectThenAck => "NACK then reconnect then ACK",
            Self::GoodBesideBad => "good resources beside bad ones",
            Self::WithoutFirstServer => "agreement without the first server",
            Self::ResponseAtTimer => "response at the instant of a timer",
            Self::FallbackWhileResponseUnderWay => "fallback while a response is under way",
            Self::PreferredServerReturns => "preferred server returns",
            Self::NotReceivedInTime => "resource not received in time",
            Self::CreatedAfterMissing => "resource created after it was missing",
            Self::DeletedWhileWatched => "resource deleted while watched",
            Self::WatchedAgainBeforeUnsubscribed => "watched again before unsubscribed",
            Self::LastWatchOfTypeEnds => "last watch of a type ends",
            Self::ResetWithResponseUnderWay => "reset with a response under way",
            Self::ResetWithAnswerUnderWay => "reset with an answer under way",
            Self::VersionsStatedAgain => "version stated on a new stream",
            Self::HeldVersionsStated => "versions held stated on a new stream",
            Self::ChangesCoalesced => "changes coalesced",
            Self::WatcherBehind => "watcher told while busy",
            Self::IdleClose => "idle stream closed",
            Self::RestartWhileConnected => "server restarted while connected",
            Self::HalfOpenGivenUp => "half-open stream given up",
            Self::TroubleBesideValue => "trouble told beside a value",
            Self::WatchFromWithinNotice => "watch begun or ended within a notice",
            Self::StaleNonce => "stale nonce dropped",
            Self::UnknownTypePassedOver => "unknown type passed over",
            Self::MalformedResponse => "malformed response",
            Self::HeldTooLong => "type held back too long",
            Self::Heartbeat => "resource renewed",
            Self::Expired => "resource not renewed in time",
            Self::ErrorReported => "error of a resource reported",
            Self::RejectedForRepetition => "rejected for a name that comes twice",
            Self::EndedEarlyAgain => "stream ended early again",
            Self::MalformedRequest => "malformed request",
            Self::BadAnswer => "bad answer to a poll",
            Self::StaleAnswer => "poll answered from a cache",
            Self::NothingNew => "poll answered with nothing new",
            Self::FileUnreadable => "file unreadable",
            Self::FileSeenLate => "change of a file seen late",
            Self::GoesAwayInMidSentence => "server gone with something under way",
            Self::VerdictFromOutside => "verdict from outside",
            Self::VerdictForNothing => "verdict when its stream had ended",
            Self::EndedWellBeforeResponse => "stream ended well before a response",
            Self::EndedWellAfterResponse => "stream ended well after a response",
            Self::TimerLate => "timer late",
            Self::ClockJumped => "clock jumped over what was due",
            Self::ArrivedTogether => "messages arrived together",
            Self::Clogged => "several streams clogged",
            Self::OtherReplica => "replica with another state",
            Self::MovedInMidStream => "moved in mid-stream",
            Self::MovedWithResponseUnderWay => "moved with a response under way",
            Self::GlobMember => "glob told of a member",
            Self::RejectedAgain => "everything rejected",
            Self::HugeError => "huge error detail",
            Self::Churned => "subscriptions without end",
            Self::FutureAnswered => "ACK of the future",
            Self::NodeChanged => "node changed in mid-stream",
            Self::NamesWithoutEnd => "names by the thousand",
            Self::LongNameRefused => "name too long",
            Self::BothVariants => "both variants on one stream",
            Self::UnknownTypeRefused => "unknown type refused",
            Self::OtherNodeRefused => "another node refused",
            Self::VariantsMixed => "server with streams of both variants",
            Self::LiedOfNames => "names that are none",
            Self::LiedOfVariant => "response of the other variant",
            Self::Contradicted => "response that contradicts itself",
            Self::ManyRemoved => "thousands of names removed",
            Self::SilenceIsTrouble => "silence taken for trouble",
            Self::HeardByAlias => "told of a resource by another name",
            Self::WarmedUnchanged => "endpoints sent again after clusters",
            Self::TtlUntold => "time to live left out",
            Self::ShutDownWhileWatched => "shut down while watched",
            Self::TooManyNamesRefused => "too many names",
            Self::NamesByTheThousand => "thousands of names watched",
            Self::HundredThousandRemoved => "a hundred thousand names removed",
            Self::Redirected => "poll redirected",
            Self::ForeignBody => "poll answered with another type of content",
            Self::RefusedFromOutside => "rejected by a late verdict from outside",
            Self::CutOffWhileConnected => "cut off while connected",
            Self::PrivilegedAccepted => "privileged resource accepted",
            Self::PrivilegedRejected => "privileged resource rejected",
            Self::SeveralReset => "several streams reset with their connection",
            Self::ServedAcrossPartition => "next server reached from the wrong side of a partition",
            Self::CredentialExpired => "stream ended for an expired credential",
            Self::UnknownTypeHeld => "stranger asks for an unknown type",
            Self::ServedBesideUnknownType => "stranger served beside an unknown type",
            Self::ForeignTypeRefused => "foreign type on a stream of one type refused",
            Self::MissingTypeRefused => "request without a type refused",
            Self::TooLongTold => "resource too long for any response",
        }
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How often each situation was come to, and what has taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situations {
    hits: [u64; Situation::ALL.len()],
    own: BTreeMap<&'static str, u64>,
    pub(crate) effects: Effects,
}

impl Default for Situations {
    fn default() -> Self {
        Self { hits: [0; Situation::ALL.len()], own: BTreeMap::new(), effects: Effects::default() }
    }
}

impl Situations {
    /// Counts a situation.
    pub fn note(&mut self, situation: Situation) {
        self.hits[situation as usize] += 1;
    }

    /// How often it was come to.
    #[must_use]
    pub fn hits(&self, situation: Situation) -> u64 {
        self.hits[situation as usize]
    }

    /// Those of the user's own that were [counted](crate::sometimes), by name.
    pub fn own(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.own.iter().map(|(name, hits)| (*name, *hits))
    }

    /// How often a situation of this name was come to, of the user's own or not.
    #[must_use]
    pub fn hits_of(&self, name: &str) -> u64 {
        let ours = self.iter().find(|(situation, _)| situation.as_str() == name);
        self.own.get(name).copied().or_else(|| ours.map(|(_, hits)| hits)).unwrap_or_default()
    }

    /// What has taken effect of all that can be done, go wrong or be lied about.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Counts one more effect.
    pub fn note_effect(&mut self, kind: Kind) {
        self.effects.note(kind);
    }

    /// Adds situations of the user's own.
    pub(crate) fn add_own(&mut self, reached: BTreeMap<&'static str, u64>) {
        for (name, hits) in reached {
            *self.own.entry(name).or_default() += hits;
        }
    }

    /// Every situation with how often it was come to.
    pub fn iter(&self) -> impl Iterator<Item = (Situation, u64)> {
        Situation::ALL.into_iter().map(|situation| (situation, self.hits(situation)))
    }

    /// From so many runs on, [storms](crate::storm()) have to come to every situation. Of fewer, some come to none of
    /// the rare ones, though nothing is wrong.
    pub const ENOUGH_RUNS: u64 = 8_000;

    /// The situations that were never come to.
    pub fn missing(&self) -> impl Iterator<Item = Situation> {
        self.iter().filter(|(_, hits)| *hits == 0).map(|(situation, _)| situation)
    }

    /// Adds what another run came to.
    pub fn add(&mut self, other: &Self) {
        for (hits, more) in self.hits.iter_mut().zip(other.hits) {
            *hits += more;
        }
        self.add_own(other.own.clone());
        self.effects.add(&other.effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_situation_has_a_place_of_its_own() {
        let mut situations = Situations::default();
        for (position, situation) in Situation::ALL.into_iter().enumerate() {
            assert_eq!(situation as usize, position, "{situation}");
            situations.note(situation);
        }
        assert_eq!(situations.missing().count(), 0);
    }
}
