//! What a server does with one type where implementations part ways.

use core::{num::NonZeroU16, time::Duration};

/// What a state-of-the-world response of a type stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SotwResponse {
    /// Every subscribed resource that exists; absence is deletion (S0.112, M74, M76).
    FullState,
    /// Every subscribed resource that exists, but absence says nothing: deletion is silent (M75, M77).
    AlwaysFull,
    /// The resources that are new to the client or changed; deletion is silent (S0.111, M75, M77).
    Changes,
}

/// What an empty list of names means while no request of the type on the stream has named any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyWildcard {
    /// A subscription to everything (M22).
    Honored,
    /// A subscription to nothing (M32); the name `*` still subscribes to everything.
    Ignored,
}

/// What becomes of a subscription to everything that the client ends: by a list without `*`, or by
/// unsubscribing `*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WildcardExit {
    /// It ends, and an incremental client is told as removed what it no longer has a claim to (M93).
    #[default]
    Farewell,
    /// It ends, and nothing is said of it.
    Silent,
    /// It cannot be ended: names in later requests are ignored. So the protocol was at first (S0.106,
    /// S0.139); some very old clients count on it (X01).
    Never,
}

/// What a state-of-the-world client is told of names that do not exist (M39). Incremental clients
/// are told anyhow ([`AbsenceGrace`]).
///
/// An application that makes resources when they are first asked for leaves this as it is, and
/// answers with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// Nothing: the request is held, and the resource sent when it is created (S0.133).
    Hold,
    /// The same. But where absence is deletion ([`SotwResponse::FullState`]), a first request is answered
    /// after this time even if there is still nothing, or nothing any more: a client may have used a part of
    /// a response that it rejected, and states no version when it comes back, so that nothing tells it from
    /// one that never had anything; no other message would ever end its use of what was deleted meanwhile.
    ///
    /// It should stay below [15 s](super::DOES_NOT_EXIST_TIMER), together with the other waits before an answer: a
    /// client concludes by itself then that the resource does not exist, without the server having said so.
    HoldFor(Duration),
    /// A first request is answered, if need be without any resource. Of a client's view nothing is said
    /// before it is [assigned](crate::server::Server::assign) one (M38).
    EmptyResponse,
    /// Each is reported as `NOT_FOUND`, also when it is deleted later (TP3, M173).
    NotFound,
}

impl Default for Missing {
    /// For 4 seconds.
    fn default() -> Self {
        Self::HoldFor(Duration::from_secs(4))
    }
}

/// When an incremental client is told that a name it subscribes to does not exist (M127).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbsenceGrace {
    /// At once.
    #[default]
    Prompt,
    /// If it does not exist after this time either: for resources that may come a little later than
    /// those that refer to them. Deletions are told at once. Whoever comes to see another view meanwhile waits as long
    /// once more.
    ///
    /// It should stay below [15 s](super::DOES_NOT_EXIST_TIMER), or below half of that where clients are moved
    /// between views: a client concludes by itself then that the resource does not exist.
    Grace(Duration),
    /// Never, as long as it has not existed: for clients that no server ever told so.
    Never,
}

/// Whether an incremental client is told that a resource was deleted (M129, M133).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removals {
    /// It is.
    #[default]
    Send,
    /// It keeps what it has: for types whose removal hurts while something still refers to them. That a
    /// name does not exist which it newly asks for, it is told.
    Suppress,
}

/// What the versions are made of that responses state for a type (M69, M72).
///
/// What clients are sent never depends on it: that is decided by content. A single resource has a version of
/// its own for incremental clients, which is made of its content in every mode, unless the application gives
/// it one ([`ResourceOptions::version`](crate::server::ResourceOptions::version)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionMode {
    /// The resources: equal versions are equal resources, on whichever server and whenever (M124). A
    /// response in full state to a client that names some has the version of just these (B06).
    #[default]
    Content,
    /// A number that rises with every change, behind
    /// [`ServerConfig::version_prefix`](super::ServerConfig::version_prefix). No two views of a server have
    /// the same one; numbers may be left out. What is not all of a type in full state has, instead of a
    /// number, a `~` and a digest. While there is no prefix, a returning client is sent everything again, as
    /// if [`ReconnectTrust::WildcardOnly`] were [`ReconnectTrust::Never`].
    Counter,
    /// What the application says ([`Transaction::set_version`](crate::server::Transaction::set_version)),
    /// which has to say so whenever it changes a resource, and then something else than before. Another
    /// version of the same resources is sent to state-of-the-world clients, with all they subscribe to
    /// (M69); incremental ones are told versions of single resources, and nothing.
    ///
    /// The version is that of all resources, and stated to all clients alike, be it that they name some. So
    /// what it says of a returning client is what the application makes of it:
    /// [`ReconnectTrust::WildcardOnly`] is taken for [`ReconnectTrust::Never`], and with
    /// [`ReconnectTrust::SameNames`] the application must never give a version to two sets of resources,
    /// over all views and restarts. Where a response in full state cannot be what the application means,
    /// as while a deletion is withheld or a rejected resource is looked for, a `~` and a digest follow the
    /// version.
    ///
    /// Views made of layers have versions as with [`Content`](Self::Content), since nobody speaks for all of
    /// them together; and so has a type until the application has said something, which it has to repeat
    /// when there was neither a resource nor a client of it for a time.
    Caller,
    /// What the application says, as with [`Caller`](Self::Caller), but as a label, from which nothing
    /// follows: it may be given to several sets of resources, one after the other, and a change without one
    /// leaves it as it is. A returning client is sent everything again whatever it states, as with
    /// [`ReconnectTrust::Never`], and nothing ever follows a label.
    ///
    /// A NACK is then best known by its `error_detail` alone. Under
    /// [`NackDetection::ErrorDetailOrVersion`] a client without that field is heard only where the label
    /// changed: see there.
    Label,
}

impl VersionMode {
    /// Whether the application may say what the version is.
    pub(crate) fn is_given(self) -> bool {
        matches!(self, Self::Caller | Self::Label)
    }
}

/// How a NACK is told from an ACK (M56, M57).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NackDetection {
    /// By `error_detail`, and nothing else (B04).
    #[default]
    ErrorDetail,
    /// Also by a version that is not that of the response (S0.078), for state-of-the-world clients older
    /// than that field. What is bad at an unchanged version they cannot say.
    ///
    /// With [`VersionMode::Content`] and [`VersionMode::Counter`] another content has another version, so that
    /// nothing is lost. With [`VersionMode::Caller`] that is so as far as the application keeps to it. With
    /// [`VersionMode::Label`] it need not be: of two responses with the same label, who rejects the second one
    /// and goes on stating what it has states the label of both, and is taken to have accepted it. It has what
    /// the first one had, and is sent the second one's resources again only once they change; what waits for
    /// its acceptance, as under [`AckGated`](crate::server::AckGated) or in a query for convergence, goes on
    /// too early. A new label with each change avoids it.
    ErrorDetailOrVersion,
}

/// How many responses of one type may wait for a client's answer on a stream (M113, IS16).
///
/// With one, which is the default, what changes meanwhile is sent in its newest state only (M64). More
/// hide the time that an answer takes. On a stream whose types wait for each other's ACKs
/// ([`OrderingPolicy::AckGated`](super::OrderingPolicy::AckGated)) it is one, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(NonZeroU16);

impl Window {
    /// That many; one if it is zero.
    #[must_use]
    pub const fn new(responses: u16) -> Self {
        match NonZeroU16::new(responses) {
            Some(responses) => Self(responses),
            None => Self(NonZeroU16::MIN),
        }
    }

    /// How many.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl Default for Window {
    fn default() -> Self {
        Self(NonZeroU16::MIN)
    }
}

/// Whether a client's word on what it holds is taken after a reconnect (M41, M42, X07, B06).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconnectTrust {
    /// Everything subscribed is sent on every new stream.
    Never,
    /// For a type in full state, a first request for the wildcard alone that states the version of
    /// all resources is not answered. Where versions prove it ([`VersionMode`]), the client was sent just
    /// these, by whichever replica; a client that has forgotten some of them since must not state
    /// it.
    #[default]
    WildcardOnly,
    /// Also for names: a first request that states the current version is taken to come from a
    /// client that wants what it wanted before, and was sent all of that (M42). In full state the
    /// version proves it. For other types only the client can know, and one that has added a name since,
    /// or read a part of a split response, is not sent what it lacks.
    SameNames,
}

/// What happens to the unchanged resources of a rejected response (M54, M107, IS4).
///
/// Nothing is ever sent again until something changes. Types in full state repeat everything then
/// anyhow; this is about the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NackRecovery {
    /// Only what changed is sent.
    Minimal,
    /// The rest of the rejected response rides along once with the first change: a client that
    /// drops a whole response for one bad resource gets the good ones after all. A full state that it
    /// rejected is sent without what it unsubscribes then.
    ///
    /// Of other types, that the client unsubscribes the bad one, or that this goes where nobody is told of it
    /// (M77), is no change that would be sent: the good ones wait for the next one, of whatever resource, or
    /// until the client asks for them again. What rode and was rejected again waits for a change of its own.
    /// The rule asks for no more: what is sent again without a change may be rejected again, and so on.
    ///
    /// Only resources ride. That something is gone, told in a rejected response, is told again with the next
    /// change to an incremental client of everything, which may have refused to look at any of it. It is not to a
    /// client of names, and not where [make before break](crate::server::OrderingPolicy::AckGated) lets
    /// deletions wait: there what is gone is told once, when nothing refers to it any more.
    #[default]
    ResendBatch,
    /// The resources of the rejected response that are unchanged are sent one at a time, each once, to
    /// learn which of them the client rejects; all others it has after that (M108). In full state it
    /// is the state that the client accepted last, with one of the new resources at a time; that needs
    /// the server to keep that state for each client that has rejected what came after. The one is
    /// observed ([`Observation::Isolated`](crate::server::Observation)).
    Isolate,
}

/// What becomes of a client that does not answer a response (M65). It is sent no more of the type
/// than the [`Window`] allows until it does, and delays nobody else (IS25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerOverdue {
    /// It is waited for as long as it takes, and nothing is said.
    Wait,
    /// After this time it is observed ([`Observation::AnswerOverdue`](crate::server::Observation)), once for
    /// each response, and waited for.
    Observe(Duration),
    /// After this time it is observed and the stream closed with `DEADLINE_EXCEEDED`.
    Close(Duration),
    /// After this time it is observed and no longer waited for: another response may be sent, as soon as
    /// there is something to send. Who never answers is sent one response in this time at most. A late
    /// answer counts while the response is one of the newest.
    OpenWindow(Duration),
}

impl AnswerOverdue {
    /// How long an answer may take.
    #[must_use]
    pub const fn after(self) -> Option<Duration> {
        match self {
            Self::Wait => None,
            Self::Observe(after) | Self::Close(after) | Self::OpenWindow(after) => Some(after),
        }
    }
}

impl Default for AnswerOverdue {
    /// 30 seconds, then it is observed.
    fn default() -> Self {
        Self::Observe(Duration::from_secs(30))
    }
}
