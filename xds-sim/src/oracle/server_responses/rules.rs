//! Rules for servers on streams.

use crate::oracle::Rule;

pub(super) const UNIQUE_NONCE: Rule =
    Rule::new("IS1", "every response has a nonce of its own on its stream, whatever its version");
pub(super) const STALE: Rule =
    Rule::new("IS2", "a request that answers an older response than the newest is not answered");
pub(super) const COUNTED: Rule = Rule::new(
    "IS3",
    "a change of an incremental subscription counts, whichever response its request answers",
);
pub(super) const NEWLY_NAMED: Rule = Rule::new(
    "IS6",
    "what is newly named is sent, though its version is the one that others were sent",
);
pub(super) const EXACT: Rule = Rule::new(
    "IS13",
    "who comes back is sent what differs from what it states to have, removals included, and nothing else",
);
pub(super) const WHOLE: Rule = Rule::new(
    "IS14",
    "a subscription to everything begins and ends as the protocol says, and a name that leaves it is answered",
);
pub(super) const NO_REPETITION: Rule = Rule::new(
    "IS4",
    "what was rejected is not sent again until a resource of it or the subscription changes",
);
pub(super) const NEWS: Rule = Rule::new("IS5", "a response has news for its client");
pub(super) const ANSWERED: Rule =
    Rule::new("IS7", "every name that is newly subscribed is answered, also if nothing changed");
pub(super) const REMEMBERED: Rule =
    Rule::new("IS8", "what is created later is sent to whom has subscribed to it before");
pub(super) const FULL_STATE: Rule = Rule::new(
    "IS9",
    "a response in full state has all that exists of what is subscribed, and nothing that never did",
);
pub(super) const LEFT_OUT: Rule =
    Rule::new("IS10", "what is gone is left out of a response in full state");
pub(super) const NONE_IS_TOLD: Rule = Rule::new(
    "IS12",
    "who subscribes to a name that does not exist is told so, in the incremental variant",
);
pub(super) const OWN_VIEW: Rule = Rule::new(
    "IS20",
    "no client is told of what another view has than the one that it is let see, but for what it has had",
);
pub(super) const REMOVED_ONCE: Rule =
    Rule::new("IS11", "a removal is told once, and only of names that were subscribed to or sent");
pub(super) const SAME_VERSION: Rule =
    Rule::new("IS15", "under one version of a resource or of a state there is one content");
pub(super) const ONE_AT_A_TIME: Rule =
    Rule::new("IS16", "of a type, one response at most waits for its answer on a stream");
pub(super) const ORDER: Rule = Rule::new(
    "IS17",
    "of what can be sent at once on a stream, what is referred to goes before what refers to it",
);
pub(super) const ALL_GONE: Rule =
    Rule::new("IS10", "at rest, nobody has been left with what is gone and could be told so");
pub(super) const HEARTBEATS: Rule = Rule::new(
    "IS27",
    "a heartbeat renews what has a time to live, exists, and was sent to its client before",
);
pub(super) const TOLD: Rule = Rule::new(
    "IS27",
    "only clients that know of times to live are told of them, and sent heartbeats",
);
pub(super) const ERRORS: Rule = Rule::new(
    "IS28",
    "an error of a resource is told to whom names it, once for each change, and not beside the resource",
);
pub(super) const ALL_ACCEPTED: Rule = Rule::new(
    "IS30",
    "at rest, a server takes all it has sent to be accepted, as its clients have it",
);
pub(super) const AT_ONCE: Rule = Rule::new(
    "IS25",
    "what a client lacks is sent as soon as its stream takes it, however slow or silent others are",
);
pub(super) const WARM: Rule = Rule::new(
    "IS18",
    "who asks for endpoints after a cluster has changed is sent all of them, changed or not: somebody warms it",
);
pub(super) const LENGTH: Rule = Rule::new(
    "IS26",
    "what may be split is split below the limit of a message; what may not be is an error and no reconnect loop",
);
pub(super) const ACCEPTED: Rule =
    Rule::new("IS29", "whoever asks is told exactly when all live streams have accepted a version");
pub(super) const LEAVES: Rule = Rule::new(
    "IS33",
    "a server that goes away ends a stream after the answer to what is under way, or when it has waited for it",
);
pub(super) const AFTER_ACKS: Rule = Rule::new(
    "IS17",
    "where that is wanted, listeners and routes are sent after what they may refer to was accepted",
);
pub(super) const NOT_FOR_EVER: Rule = Rule::new(
    "IS17",
    "what waits for another type to be accepted does not wait for ever, unless that is wanted",
);
pub(super) const SO_FAR: Rule = Rule::new(
    "IS30",
    "a server shows of each stream and type how the newest response was answered, with the versions sent and accepted",
);

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
