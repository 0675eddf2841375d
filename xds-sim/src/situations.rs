//! Rare situations that the runs must reach, so that the rules about them are tested.

use std::{collections::BTreeMap, fmt};

use crate::effects::{Effect, Effects};

/// A situation rare enough to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Situation {
    /// A response is rejected, the stream ends, and the next stream's response is accepted.
    NackThenReconnectThenAck,
    /// A rejected response also contains valid resources.
    ValidAndInvalid,
    /// Clients and servers must agree although no client can reach the first server.
    WithoutFirstServer,
    /// A response arrives at the instant at which a timer of the client is due.
    ResponseAtTimer,
    /// A client falls back to the next server while a response is in flight on another stream.
    FallbackWithResponseInFlight,
    /// A client returns from the fallback server to the preferred server.
    PreferredServerReturns,
    /// A resource is reported missing because the does-not-exist timer expired.
    NotReceivedInTime,
    /// A resource that was reported missing is created and arrives.
    CreatedAfterMissing,
    /// A watched resource is deleted.
    DeletedWhileWatched,
    /// A name is watched again before the server has received the unsubscribe.
    WatchedAgainBeforeUnsubscribed,
    /// The last watch of a type ends while its stream remains open.
    LastWatchOfTypeEnds,
    /// A stream is reset while a response is in flight.
    ResetWithResponseInFlight,
    /// A stream is reset while an ACK or NACK is in flight.
    ResetWithRequestInFlight,
    /// A new stream states the version that the client accepted last.
    VersionStatedOnReconnect,
    /// A new incremental stream states the versions of the client's resources.
    InitialVersionsStated,
    /// A slow client receives several changes in one response.
    ChangesCoalesced,
    /// A watcher receives a notice while it is still handling the previous one.
    WatcherBehind,
    /// A stream without subscriptions is closed.
    IdleClose,
    /// A server restarts while clients are connected.
    RestartWhileConnected,
    /// A half-open stream is detected and closed.
    HalfOpenClosed,
    /// A watcher that has a value is notified of a connectivity error.
    AmbientConnectivityError,
    /// A watch starts or ends while another watch is notified.
    WatchInsideNotice,
    /// A server drops a request with a stale nonce.
    StaleNonce,
    /// A client ignores a response of an unknown type.
    UnknownTypeIgnored,
    /// A client closes a stream because a response is malformed.
    MalformedResponse,
    /// A server waits for the ACK of one type until the stage timeout before it sends another type.
    WithheldTooLong,
    /// A server sends a heartbeat to renew a TTL.
    Heartbeat,
    /// The TTL of a resource expires.
    Expired,
    /// A server reports an error of a single resource.
    ErrorReported,
    /// A client rejects a response that contains a resource twice.
    DuplicateRejected,
    /// Two streams in a row end without a response.
    EndedEarlyAgain,
    /// A server closes a stream because a request is malformed.
    MalformedRequest,
    /// A polled server gives an invalid answer.
    BadAnswer,
    /// A cache in front of a polled server repeats an earlier answer.
    StaleAnswer,
    /// A polling client receives the answer that nothing has changed.
    Unchanged,
    /// A file cannot be read.
    FileUnreadable,
    /// A change of a file is found only by the periodic read.
    FileReadLate,
    /// A server drains while messages are in flight on its streams.
    DrainedWithMessagesInFlight,
    /// An external verdict decides on the new contents of a response.
    ExternalVerdict,
    /// An external verdict arrives after its stream has ended.
    LateVerdict,
    /// A stream ends with OK before its first response.
    EndedOkBeforeResponse,
    /// A stream ends with OK after a response.
    EndedOkAfterResponse,
    /// A timer fires late.
    TimerLate,
    /// The clock jumps over the due time of an event.
    ClockJumped,
    /// Messages sent one after the other arrive together.
    ArrivedTogether,
    /// Several streams are blocked at the same time.
    AllBlocked,
    /// Clients are moved to a replica with a different state.
    OtherReplica,
    /// A client with an open stream is moved to another view.
    MovedWhileConnected,
    /// A client is moved to another view while a response is in flight.
    MovedWithResponseInFlight,
    /// A glob watch is notified of a member.
    GlobMember,
    /// A rogue client rejects a further response after a rejected one.
    RejectedAgain,
    /// A rogue client sends a NACK with an error message of 1 MiB.
    HugeError,
    /// A rogue client has changed its subscriptions a hundred times.
    Churned,
    /// A rogue client acknowledges a response that was never sent.
    FutureAck,
    /// A rogue client changes its node.
    NodeChanged,
    /// A rogue client requests thousands of names.
    ThousandsRequested,
    /// A server closes a stream because a name is too long.
    LongNameRefused,
    /// A rogue client sends messages of both variants on one stream.
    BothVariants,
    /// A server closes a stream because of an unknown type.
    UnknownTypeRefused,
    /// A server closes a stream because its client changes its node.
    ChangedNodeRefused,
    /// A server has streams of both variants.
    VariantsMixed,
    /// A client receives names that are overlong, empty or malformed.
    ForgedNames,
    /// A client receives a response of the other variant.
    ForgedVariant,
    /// A client receives a response that contradicts itself about a name.
    Contradicted,
    /// A client receives a response that removes thousands of names.
    ManyRemoved,
    /// A client reports a missing resource as a transient error of the server.
    TimeoutIsTransient,
    /// A watch of an alias is notified.
    NotifiedByAlias,
    /// A client is sent unchanged endpoints again, because their clusters have changed.
    WarmedUnchanged,
    /// A client without TTL support is sent a resource that has a TTL.
    TtlOmitted,
    /// A client is shut down while it has watches.
    ShutDownWhileWatched,
    /// A server closes a stream because it subscribes to too many names.
    TooManyNamesRefused,
    /// A client watches thousands of names that do not exist.
    ThousandsWatched,
    /// A client receives a response that removes a hundred thousand names.
    HundredThousandRemoved,
    /// A polled server answers with a redirect.
    Redirected,
    /// A polled server answers with a body of another type.
    WrongContentType,
    /// An external verdict rejects a response after it was read.
    RejectedExternally,
    /// A client with open streams is cut off from all of its servers.
    CutOffWhileConnected,
    /// A resource that is valid only from a trusted server is accepted.
    PrivilegedAccepted,
    /// A resource that is valid only from a trusted server is rejected.
    PrivilegedRejected,
    /// A connection reset ends several streams of a client to a server at once.
    SeveralReset,
    /// A client that is cut off from its first server falls back to the next one.
    ServedAcrossPartition,
    /// A server ends open streams because the client's credentials have expired.
    CredentialExpired,
    /// A rogue client requests an unknown type.
    UnknownTypeAccepted,
    /// A rogue client that requests an unknown type is sent a known one.
    ServedDespiteUnknownType,
    /// A server closes a dedicated stream because it requests another type.
    WrongTypeRefused,
    /// A server closes a stream because a request has no type URL.
    MissingTypeRefused,
    /// A client receives an error because a resource exceeds the size limit.
    TooLongReported,
    /// A server has handled a part of a request.
    RequestInParts,
    /// A server has freed a part of the names of a closed stream.
    CloseInParts,
}

impl Situation {
    /// All situations.
    pub const ALL: [Self; 89] = [
        Self::NackThenReconnectThenAck,
        Self::ValidAndInvalid,
        Self::WithoutFirstServer,
        Self::ResponseAtTimer,
        Self::FallbackWithResponseInFlight,
        Self::PreferredServerReturns,
        Self::NotReceivedInTime,
        Self::CreatedAfterMissing,
        Self::DeletedWhileWatched,
        Self::WatchedAgainBeforeUnsubscribed,
        Self::LastWatchOfTypeEnds,
        Self::ResetWithResponseInFlight,
        Self::ResetWithRequestInFlight,
        Self::VersionStatedOnReconnect,
        Self::InitialVersionsStated,
        Self::ChangesCoalesced,
        Self::WatcherBehind,
        Self::IdleClose,
        Self::RestartWhileConnected,
        Self::HalfOpenClosed,
        Self::AmbientConnectivityError,
        Self::WatchInsideNotice,
        Self::StaleNonce,
        Self::UnknownTypeIgnored,
        Self::MalformedResponse,
        Self::WithheldTooLong,
        Self::Heartbeat,
        Self::Expired,
        Self::ErrorReported,
        Self::DuplicateRejected,
        Self::EndedEarlyAgain,
        Self::MalformedRequest,
        Self::BadAnswer,
        Self::StaleAnswer,
        Self::Unchanged,
        Self::FileUnreadable,
        Self::FileReadLate,
        Self::DrainedWithMessagesInFlight,
        Self::ExternalVerdict,
        Self::LateVerdict,
        Self::EndedOkBeforeResponse,
        Self::EndedOkAfterResponse,
        Self::TimerLate,
        Self::ClockJumped,
        Self::ArrivedTogether,
        Self::AllBlocked,
        Self::OtherReplica,
        Self::MovedWhileConnected,
        Self::MovedWithResponseInFlight,
        Self::GlobMember,
        Self::RejectedAgain,
        Self::HugeError,
        Self::Churned,
        Self::FutureAck,
        Self::NodeChanged,
        Self::ThousandsRequested,
        Self::LongNameRefused,
        Self::BothVariants,
        Self::UnknownTypeRefused,
        Self::ChangedNodeRefused,
        Self::VariantsMixed,
        Self::ForgedNames,
        Self::ForgedVariant,
        Self::Contradicted,
        Self::ManyRemoved,
        Self::TimeoutIsTransient,
        Self::NotifiedByAlias,
        Self::WarmedUnchanged,
        Self::TtlOmitted,
        Self::ShutDownWhileWatched,
        Self::TooManyNamesRefused,
        Self::ThousandsWatched,
        Self::HundredThousandRemoved,
        Self::Redirected,
        Self::WrongContentType,
        Self::RejectedExternally,
        Self::CutOffWhileConnected,
        Self::PrivilegedAccepted,
        Self::PrivilegedRejected,
        Self::SeveralReset,
        Self::ServedAcrossPartition,
        Self::CredentialExpired,
        Self::UnknownTypeAccepted,
        Self::ServedDespiteUnknownType,
        Self::WrongTypeRefused,
        Self::MissingTypeRefused,
        Self::TooLongReported,
        Self::RequestInParts,
        Self::CloseInParts,
    ];

    /// Name of the situation in a few words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NackThenReconnectThenAck => "NACK then reconnect then ACK",
            Self::ValidAndInvalid => "valid and invalid resources in one response",
            Self::WithoutFirstServer => "agreement without the first server",
            Self::ResponseAtTimer => "response at the instant of a timer",
            Self::FallbackWithResponseInFlight => "fallback while a response is in flight",
            Self::PreferredServerReturns => "preferred server returns",
            Self::NotReceivedInTime => "resource not received in time",
            Self::CreatedAfterMissing => "resource created after it was missing",
            Self::DeletedWhileWatched => "resource deleted while watched",
            Self::WatchedAgainBeforeUnsubscribed => "watched again before unsubscribed",
            Self::LastWatchOfTypeEnds => "last watch of a type ends",
            Self::ResetWithResponseInFlight => "reset with a response in flight",
            Self::ResetWithRequestInFlight => "reset with a request in flight",
            Self::VersionStatedOnReconnect => "version stated on a new stream",
            Self::InitialVersionsStated => "initial resource versions stated on a new stream",
            Self::ChangesCoalesced => "changes coalesced",
            Self::WatcherBehind => "watcher notified while busy",
            Self::IdleClose => "idle stream closed",
            Self::RestartWhileConnected => "server restarted while connected",
            Self::HalfOpenClosed => "half-open stream closed",
            Self::AmbientConnectivityError => "connectivity error notified as ambient",
            Self::WatchInsideNotice => "watch started or ended inside a notice",
            Self::StaleNonce => "stale nonce dropped",
            Self::UnknownTypeIgnored => "unknown type ignored",
            Self::MalformedResponse => "malformed response",
            Self::WithheldTooLong => "type withheld too long",
            Self::Heartbeat => "resource renewed",
            Self::Expired => "resource not renewed in time",
            Self::ErrorReported => "error of a resource reported",
            Self::DuplicateRejected => "rejected for a duplicate name",
            Self::EndedEarlyAgain => "stream ended early again",
            Self::MalformedRequest => "malformed request",
            Self::BadAnswer => "bad answer to a poll",
            Self::StaleAnswer => "poll answered from a cache",
            Self::Unchanged => "poll answered without changes",
            Self::FileUnreadable => "file unreadable",
            Self::FileReadLate => "change of a file read late",
            Self::DrainedWithMessagesInFlight => "server drained with messages in flight",
            Self::ExternalVerdict => "external verdict",
            Self::LateVerdict => "external verdict after its stream had ended",
            Self::EndedOkBeforeResponse => "stream ended with OK before a response",
            Self::EndedOkAfterResponse => "stream ended with OK after a response",
            Self::TimerLate => "timer late",
            Self::ClockJumped => "clock jumped over a deadline",
            Self::ArrivedTogether => "messages arrived together",
            Self::AllBlocked => "several streams blocked",
            Self::OtherReplica => "replica with another state",
            Self::MovedWhileConnected => "client moved while connected",
            Self::MovedWithResponseInFlight => "client moved with a response in flight",
            Self::GlobMember => "glob watcher notified of a member",
            Self::RejectedAgain => "everything rejected",
            Self::HugeError => "huge error detail",
            Self::Churned => "endless subscription changes",
            Self::FutureAck => "ACK of an unsent response",
            Self::NodeChanged => "node changed on an open stream",
            Self::ThousandsRequested => "thousands of names requested",
            Self::LongNameRefused => "stream closed for a long name",
            Self::BothVariants => "both variants on one stream",
            Self::UnknownTypeRefused => "stream closed for an unknown type",
            Self::ChangedNodeRefused => "stream closed for a changed node",
            Self::VariantsMixed => "server with streams of both variants",
            Self::ForgedNames => "response with malformed names",
            Self::ForgedVariant => "response of the other variant",
            Self::Contradicted => "response that contradicts itself",
            Self::ManyRemoved => "thousands of names removed",
            Self::TimeoutIsTransient => "timeout reported as a transient error",
            Self::NotifiedByAlias => "notified of a resource by an alias",
            Self::WarmedUnchanged => "endpoints sent again after clusters",
            Self::TtlOmitted => "TTL omitted",
            Self::ShutDownWhileWatched => "shut down while watched",
            Self::TooManyNamesRefused => "stream closed for too many names",
            Self::ThousandsWatched => "thousands of names watched",
            Self::HundredThousandRemoved => "a hundred thousand names removed",
            Self::Redirected => "poll redirected",
            Self::WrongContentType => "poll answered with another content type",
            Self::RejectedExternally => "rejected by an external verdict",
            Self::CutOffWhileConnected => "client cut off while connected",
            Self::PrivilegedAccepted => "privileged resource accepted",
            Self::PrivilegedRejected => "privileged resource rejected",
            Self::SeveralReset => "several streams reset with their connection",
            Self::ServedAcrossPartition => "next server reached from the wrong side of a partition",
            Self::CredentialExpired => "stream ended for an expired credential",
            Self::UnknownTypeAccepted => "rogue client requests an unknown type",
            Self::ServedDespiteUnknownType => "rogue client served despite an unknown type",
            Self::WrongTypeRefused => "stream closed for another type",
            Self::MissingTypeRefused => "stream closed for a missing type",
            Self::TooLongReported => "resource too long for any response",
            Self::RequestInParts => "request handled in parts",
            Self::CloseInParts => "closed stream freed in parts",
        }
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Number of times that each situation was reached, and the effects of a run.
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

    /// Number of times that a situation was reached.
    #[must_use]
    pub fn hits(&self, situation: Situation) -> u64 {
        self.hits[situation as usize]
    }

    /// Iterates over user-defined situations that were [counted](crate::sometimes), by name.
    pub fn own(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.own.iter().map(|(name, hits)| (*name, *hits))
    }

    /// Number of times that a predefined or user-defined situation of this name was reached.
    #[must_use]
    pub fn hits_of(&self, name: &str) -> u64 {
        let ours = self.iter().find(|(situation, _)| situation.as_str() == name);
        self.own.get(name).copied().or_else(|| ours.map(|(_, hits)| hits)).unwrap_or_default()
    }

    /// Actions, faults and lies that took effect.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Counts one effect.
    pub fn note_effect(&mut self, kind: Effect) {
        self.effects.note(kind);
    }

    /// Adds counts of user-defined situations.
    pub(crate) fn add_own(&mut self, reached: BTreeMap<&'static str, u64>) {
        for (name, hits) in reached {
            *self.own.entry(name).or_default() += hits;
        }
    }

    /// Iterates over all predefined situations with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Situation, u64)> {
        Situation::ALL.into_iter().map(|situation| (situation, self.hits(situation)))
    }

    /// Number of [storms](crate::storm()) that must reach every situation. Fewer runs may miss rare
    /// situations without a fault.
    pub const ENOUGH_RUNS: u64 = 8_000;

    /// Iterates over predefined situations that were never reached.
    pub fn missing(&self) -> impl Iterator<Item = Situation> {
        self.iter().filter(|(_, hits)| *hits == 0).map(|(situation, _)| situation)
    }

    /// Adds the counts of another run.
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
    fn situation_index_equals_its_position() {
        let mut situations = Situations::default();
        for (position, situation) in Situation::ALL.into_iter().enumerate() {
            assert_eq!(situation as usize, position, "{situation}");
            situations.note(situation);
        }
        assert_eq!(situations.missing().count(), 0);
    }
}
