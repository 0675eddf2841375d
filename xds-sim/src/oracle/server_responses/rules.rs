//! Rules for servers on streams.

use crate::oracle::Rule;

pub(super) const UNIQUE_NONCE: Rule =
    Rule::new("IS1", "every response has a nonce of its own on its stream, whatever its version");
pub(super) const STALE: Rule = Rule::new("IS2", "a request with a stale nonce is ignored");
pub(super) const COUNTED: Rule = Rule::new(
    "IS3",
    "a change of an incremental subscription takes effect even if its nonce is stale",
);
pub(super) const NEWLY_NAMED: Rule =
    Rule::new("IS6", "a newly subscribed name is sent, even if the version has not changed");
pub(super) const EXACT: Rule = Rule::new(
    "IS13",
    "a returning client is sent exactly the differences from its stated versions, including removals",
);
pub(super) const WHOLE: Rule = Rule::new(
    "IS14",
    "a wildcard begins and ends as the protocol says, and a name that remains covered by it is answered",
);
pub(super) const NO_REPETITION: Rule = Rule::new(
    "IS4",
    "a rejected response is not sent again until a resource or the subscription changes",
);
pub(super) const NEWS: Rule = Rule::new("IS5", "a response contains something new for its client");
pub(super) const ANSWERED: Rule =
    Rule::new("IS7", "every newly subscribed name is answered, even if nothing changed");
pub(super) const REMEMBERED: Rule =
    Rule::new("IS8", "a resource created later is sent to earlier subscribers");
pub(super) const FULL_STATE: Rule = Rule::new(
    "IS9",
    "a full-state response contains all subscribed resources that exist, and no others",
);
pub(super) const LEFT_OUT: Rule =
    Rule::new("IS10", "a full-state response omits deleted resources");
pub(super) const NONE_IS_TOLD: Rule = Rule::new(
    "IS12",
    "an incremental client that subscribes to a nonexistent name is sent its removal",
);
pub(super) const OWN_VIEW: Rule =
    Rule::new("IS20", "a client is sent only resources of its view, except those it already has");
pub(super) const REMOVED_ONCE: Rule =
    Rule::new("IS11", "a removal is sent once, and only for names that were subscribed or sent");
pub(super) const SAME_VERSION: Rule =
    Rule::new("IS15", "one version of a resource or state has one content");
pub(super) const ONE_AT_A_TIME: Rule =
    Rule::new("IS16", "at most one response of a type is unanswered on a stream");
pub(super) const ORDER: Rule = Rule::new(
    "IS17",
    "resources that can be sent at once are sent in the order of the references: targets first",
);
pub(super) const ALL_GONE: Rule =
    Rule::new("IS10", "at rest, no client has a deleted resource whose removal could be sent");
pub(super) const HEARTBEATS: Rule = Rule::new(
    "IS27",
    "a heartbeat renews an existing resource with a TTL that was sent to the client",
);
pub(super) const TOLD: Rule =
    Rule::new("IS27", "only clients that support TTLs are sent TTLs and heartbeats");
pub(super) const ERRORS: Rule = Rule::new(
    "IS28",
    "a resource error is sent to clients that name the resource, once per change, instead of the resource",
);
pub(super) const ALL_ACCEPTED: Rule =
    Rule::new("IS30", "at rest, a server's status shows everything as accepted");
pub(super) const AT_ONCE: Rule = Rule::new(
    "IS25",
    "a missing resource is sent as soon as the stream accepts it, however slow other streams are",
);
pub(super) const WARM: Rule = Rule::new(
    "IS18",
    "a request for endpoints after a cluster change is answered with all endpoints, so that the client can warm the cluster",
);
pub(super) const LENGTH: Rule = Rule::new(
    "IS26",
    "responses are split below the size limit; a resource that is too long causes an error and no reconnect loop",
);
pub(super) const ACCEPTED: Rule = Rule::new(
    "IS29",
    "convergence is reported exactly when all live streams have accepted a version",
);
pub(super) const LEAVES: Rule = Rule::new(
    "IS33",
    "a draining server ends a stream after the outstanding ACK, or after the grace period",
);
pub(super) const AFTER_ACKS: Rule = Rule::new(
    "IS17",
    "with ACK gating, listeners and routes are sent after the resources they may refer to were accepted",
);
pub(super) const NOT_FOR_EVER: Rule = Rule::new(
    "IS17",
    "waiting for the ACK of another type ends after the timeout, unless configured otherwise",
);
pub(super) const SO_FAR: Rule = Rule::new(
    "IS30",
    "a server's status shows the answer to the newest response of each stream and type, with the sent and accepted versions",
);

/// Rules that messages on the wire alone show to be broken. The others compare a response with what
/// the server has, and has received, at the instant at which it makes the response.
#[cfg(feature = "stack")]
pub(in crate::oracle) const OF_MESSAGES: [Rule; 3] = [UNIQUE_NONCE, SAME_VERSION, ONE_AT_A_TIME];

/// Rules about participants at rest.
#[cfg(feature = "stack")]
pub(in crate::oracle) const AT_REST: [Rule; 12] = [
    STALE,
    COUNTED,
    NO_REPETITION,
    NEWLY_NAMED,
    ANSWERED,
    REMEMBERED,
    FULL_STATE,
    LEFT_OUT,
    NONE_IS_TOLD,
    EXACT,
    WHOLE,
    ALL_GONE,
];

/// All rules for servers on streams.
pub(super) const ALL: &[Rule] = &[
    UNIQUE_NONCE,
    STALE,
    COUNTED,
    NEWLY_NAMED,
    EXACT,
    WHOLE,
    NO_REPETITION,
    NEWS,
    ANSWERED,
    REMEMBERED,
    FULL_STATE,
    LEFT_OUT,
    NONE_IS_TOLD,
    OWN_VIEW,
    REMOVED_ONCE,
    ORDER,
    AFTER_ACKS,
    NOT_FOR_EVER,
    ALL_GONE,
    SO_FAR,
    HEARTBEATS,
    TOLD,
    ERRORS,
    SAME_VERSION,
    ONE_AT_A_TIME,
    ALL_ACCEPTED,
    AT_ONCE,
    WARM,
    LENGTH,
    ACCEPTED,
    LEAVES,
];
