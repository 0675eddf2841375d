//! In what order the types of one stream are sent.

use alloc::sync::Arc;
use core::time::Duration;

use crate::references::{EnvoyReferences, ReferenceExtractor};

/// In what order the types of one aggregated stream are sent (M144-M158, IS17).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum OrderingPolicy {
    /// As they become due.
    Off,
    /// Of what is due at the same time first clusters, then endpoints, listeners, routes, and so on; and
    /// what is deleted last, in the reverse order (IS17, S0.166). Nothing waits for an ACK.
    #[default]
    OrderOnly,
    /// Make before break: what may refer to clusters waits until these are accepted, and what is deleted
    /// stays until nothing accepted may refer to it.
    AckGated(AckGated),
}

/// How a change goes to a client step by step, each when the one before was accepted.
///
/// | is sent | once there are accepted | and is told to be gone once there are accepted |
/// |---|---|---|
/// | clusters | | listeners, routes, scoped routes, virtual hosts, extension configurations |
/// | endpoints | | clusters, and the endpoints that these name |
/// | secrets | | clusters, listeners, extension configurations |
/// | listeners | clusters, endpoints, secrets | |
/// | extension configurations | clusters, endpoints, secrets | listeners |
/// | routes | clusters, endpoints, secrets, listeners | listeners, scoped routes |
/// | scoped routes | the same and routes | listeners |
/// | virtual hosts | the same and scoped routes | routes |
///
/// A cluster that comes to name other endpoints is warmed with these, while the one before stays in use (M147): the
/// old ones are therefore told to be gone when the client has asked for the new ones and accepted them, or has not
/// asked for as long as `stage_timeout`.
///
/// A type that the client does not subscribe to on the stream is not waited for, and neither is one
/// of which there is nothing to send: a client that has never asked for endpoints on the stream is sent its routes
/// without. What is waited for is the newest state at the time of the change
/// that waits, so that endpoints which change all the time hold up nothing. If the target changes on the
/// way, the newest one counts (M149). Each stream goes at its own pace (IS25).
///
/// It holds for aggregated streams; the services of single types know nothing of each other.
///
/// # How long a client waits for what it asked for
///
/// A client concludes that a resource does not exist if it does not arrive within
/// [15 seconds](super::DOES_NOT_EXIST_TIMER) after its request. What a client has asked for and never received is
/// therefore held back no longer than [`stage_timeout`](Self::stage_timeout) **in all**, whatever
/// [`on_stuck`](Self::on_stuck) says: the time counts for each type from when its request was first held back. It
/// goes on when the type comes to wait for another one, so that the waits for clusters, endpoints, listeners and
/// routes do not add up. After that the requested resources are sent without the other changes of their type, which
/// wait on. It is [observed](crate::server::Observation::SentOutOfOrder). A response of the same type that the client
/// has not answered yet goes first in any case ([`Window`](super::Window)).
///
/// # Costs
///
/// It costs what changed. A client that goes over from names to everything of a type costs once the names of the type
/// that it has been sent, which are remembered until it has accepted the rest.
///
/// # Limits
///
/// A client that has asked for endpoints, listeners and routes before it has acknowledged its first clusters, as
/// proxies do, has the promise from the start. One that acknowledges clusters, and asks for the first endpoints of
/// its stream only after that, may be sent routes to these clusters before it has their endpoints.
///
/// What is sent after `stage_timeout` because it was asked for may refer to something that the client lacks. In full
/// state, which listeners have in the state-of-the-world variant, a listener that is asked for by name comes with
/// the changes of all others that the client names; and a client that subscribes to everything is sent everything.
///
/// To a client that rejects what it is sent the promise is kept as well: what it rejects it has as it was before, or
/// not at all. These are the exceptions; in each, it may be sent what refers to something that it lacks, or be told
/// that something is gone which it still refers to.
///
/// - A state-of-the-world client is not told that endpoints, routes, and other types that are sent as
///   changes are gone (M77), so there is nothing to delay.
/// - What a state-of-the-world client still has from an earlier stream is not known: it is sent the clusters that
///   exist. An incremental one says what it has. Of what a state-of-the-world client has from another view the
///   contents stay that the resources had there last, also if it has not been sent them yet.
/// - An incremental client that asks once more for a resource that was deleted is told at once that it is
///   gone, unless other resources of the type that wait are due at the same time.
/// - In full state what is deleted is served until that may be told, to who has rejected it as it was at last as the
///   client has accepted it before. Where that is forgotten, such a client rejects each state meanwhile; under
///   [`OnStuck::Hold`] that lasts until the resource is set to what it accepts, or its stream ends. The same is served to
///   who comes to see another view. Where it is not known what the client has accepted, as of one that came with something
///   from an earlier stream and has accepted nothing since, or of what lingered when it was set anew, under that policy a
///   client that rejects may lose by such a move what it has.
/// - News that something is gone which an incremental client has rejected counts as accepted with the next
///   response that it accepts after a change. It is not told again, so that a client which goes on using a route that
///   it was told is gone loses the clusters of that route.
/// - A client that rejects the same endpoints, routes or other resources that it names twice, and accepts others
///   of the type in between, is taken to have them: routes to a cluster go out that it may have no endpoints for.
/// - A client that is moved to a view that has what it was sent before, and rejects that afterwards, is taken to have
///   it. Of a moved incremental client that rejects a resource, which is then deleted, it is not known that it
///   may have one of that name from before.
/// - At most [`deletions_per_type`](super::ServerLimits::deletions_per_type) deleted resources of a type
///   stay; of more, the oldest go at once. As many earlier contents of clusters are remembered, to know which
///   ones a state-of-the-world client takes as new and asks for the endpoints of; of more, it is waited for in
///   vain.
/// - Such a client may take clusters of a response that it rejects. It is known by its asking for endpoints
///   once more. One that takes nothing, but asks just then for another reason, is taken for one that does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AckGated {
    /// How long something is held back before [`on_stuck`](Self::on_stuck) applies, and how long an answer to a
    /// request is held back in all; 5 s by default.
    ///
    /// It should stay well below [15 s](super::DOES_NOT_EXIST_TIMER): together with the wait for
    /// [`decision`](super::ServerLimits::decision) it stands between a request and its answer, and a client that
    /// waits longer takes existing resources not to exist.
    pub stage_timeout: Duration,
    /// What happens then.
    pub on_stuck: OnStuck,
    /// Finds the endpoints that clusters name; by default those of the v3 API. If the client subscribes to any
    /// endpoints on the stream, listeners and routes then also wait until it has asked for these and accepted them.
    /// A client that does not ask is waited for no longer than the timeout, whatever [`on_stuck`](Self::on_stuck)
    /// says.
    ///
    /// Without it the server cannot know which endpoints belong to new clusters. It waits for those that
    /// the client has asked for already.
    pub references: Option<Arc<dyn ReferenceExtractor>>,
}

impl Default for AckGated {
    fn default() -> Self {
        Self {
            stage_timeout: Duration::from_secs(5),
            on_stuck: OnStuck::default(),
            references: Some(Arc::new(EnvoyReferences)),
        }
    }
}

/// What becomes of a change whose next step waits for a client that rejects the one before, or does not
/// answer (M148). Either way it is [observed](crate::server::Observation::Held).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnStuck {
    /// It waits on: the client keeps what it has, which is consistent. What it does not ask for any more, or
    /// what has gone, holds up nothing. A name that the client asked for and never received is answered all the same.
    #[default]
    Hold,
    /// It goes on, as if the client had accepted.
    Continue,
}

impl OrderingPolicy {
    pub(crate) fn gated(&self) -> Option<&AckGated> {
        match self {
            Self::AckGated(gated) => Some(gated),
            Self::Off | Self::OrderOnly => None,
        }
    }
}
