//! Decision on what may be sent of one type of a stream: a function of facts.
//!
//! [`Dependencies`] states which types a type waits for. Each of these is in a state:
//!
//! | newest response of the other type | [`TypeState`] | until | then |
//! |---|---|---|---|
//! | none, or another one is due | `Idle` | it is sent | `Sent` |
//! | unanswered | `Sent` | the answer | `Acked`, `Nacked` |
//! | accepted, and nothing is due | `Acked` | a change | `Idle` |
//! | rejected | `Nacked` | a change or removal of what was rejected | `Idle` |
//!
//! After the time limit, changes up to [`StreamFacts::waived`] wait for nothing. A test renders what
//! each state holds back into `docs/design/make-before-break.md`.
// M146-M150, M158; M149: no stored rollout plan.

use super::{STAGES, dependencies::Dependencies, held_since::RequestTime};
use crate::{
    server::{
        event::{BlockedBy, BlockedChange},
        session::deferred_removal::Portion,
        store::revision::Revision,
    },
    types::rank,
};

/// State of the newest response of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TypeState {
    /// Resources are due.
    #[default]
    Idle,
    /// A response is unanswered.
    Sent,
    /// The client has accepted all resources.
    Acked,
    /// The client has rejected resources.
    Nacked,
}

/// Whether a type has an unanswered request now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PendingRequest {
    #[default]
    None,
    /// The answer may be sent now.
    Sendable,
    Blocked,
}

/// Facts about one type of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TypeFacts {
    pub(crate) state: TypeState,
    /// Newest change that is to be sent.
    pub(crate) due_set: Option<Revision>,
    /// Newest removal that is to be sent.
    pub(crate) due_removed: Option<Revision>,
    /// Whether a response is to be sent that contains nothing new, such as heartbeats. Nothing
    /// holds it back.
    pub(crate) has_unchanged: bool,
    /// Whether a response may be sent now.
    pub(crate) may_send: bool,
    /// Whether a response of any kind is unanswered, such as a heartbeat.
    pub(crate) awaits_answer: bool,
    /// Whether the client has accepted all resources that exist.
    pub(crate) has_all: bool,
    /// Revision up to which the client has accepted all resources.
    pub(crate) accepted_set: Revision,
    /// Revision up to which the client has accepted all resources and removals.
    pub(crate) accepted_removed: Revision,
    /// Whether the client waits for removals, because it requested the resources.
    pub(crate) requests_removed: bool,
    /// Whether the client keeps removed resources because it rejected their removal.
    pub(crate) keeps_removed: bool,
    /// Whether the type waits for the client's answer to the first response.
    pub(crate) awaits_first_exchange: bool,
}

/// Facts about a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamFacts {
    /// By rank. Types without a subscription are missing.
    pub(crate) types: [Option<TypeFacts>; STAGES],
    /// Revision up to which changes wait for nothing any more.
    pub(crate) waived: Revision,
}

/// Facts that take time to find, and are seldom needed.
pub(crate) trait LateFacts {
    /// Lowest revision since which the client lacks a resource of a type that it has rejected.
    fn rejected_since(&self, rank: usize) -> Option<Revision>;

    /// Whether resources of a type that the client has were removed after a revision, and it is not
    /// told so.
    fn has_silent_removals(&self, rank: usize, after: Revision) -> bool;

    /// Whether resources of a type that the client has were removed, came back after a revision, and
    /// are due.
    fn has_outdated(&self, rank: usize, after: Revision) -> bool;

    /// Whether the client waits for resources of the type that is decided on.
    fn waits_for_answer(&self) -> bool;

    /// Reason for which the client has not warmed all clusters.
    fn cold_clusters(&mut self) -> Option<BlockedBy>;

    /// Reason for which the client may use endpoints that were removed up to a revision.
    fn endpoints_in_use(&mut self, removed: Revision) -> Option<BlockedBy>;
}

/// Change that is held back, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) rank: u8,
    pub(crate) change: BlockedChange,
    pub(crate) waits_for: usize,
    pub(crate) reason: BlockedBy,
}

/// Decision on one type.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeDecision {
    /// Part of the due resources that may be sent.
    pub(crate) portion: Option<Portion>,
    /// First change that is held back.
    pub(crate) blocked: Option<Blocked>,
    pub(crate) pending_request: PendingRequest,
}

impl Blocked {
    /// Whether both concern the same change, even if it waits for something else.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.rank, self.change) == (other.rank, other.change)
    }

    /// Whether the change waits for a request that the client has not sent and may never send.
    pub(crate) fn waits_for_request(&self) -> bool {
        matches!(self.reason, BlockedBy::NotRequested(_) | BlockedBy::NotRequestedAgain)
    }
}

impl TypeState {
    /// Returns the reason for which a change waits for a type in this state.
    pub(crate) fn blocked_by(self) -> BlockedBy {
        match self {
            Self::Nacked => BlockedBy::Rejected,
            Self::Sent => BlockedBy::Unanswered,
            Self::Idle | Self::Acked => BlockedBy::Unsent,
        }
    }
}

impl StreamFacts {
    /// Decides what may be sent of the type with a rank.
    pub(crate) fn decide(
        &self,
        rank: u8,
        own: &TypeFacts,
        request: RequestTime,
        late: &mut impl LateFacts,
    ) -> TypeDecision {
        // Keeps a change waiting while a response of its type, such as a heartbeat, is unanswered.
        if !own.may_send && !own.awaits_answer {
            return TypeDecision::default();
        }
        let additions = own.due_set.and_then(|changed| self.blocked_additions(rank, changed, late));
        let removals =
            own.due_removed.and_then(|removed| self.blocked_removals(rank, own, removed, late));
        let is_held_back = additions.is_some() || removals.is_some() && own.requests_removed;
        let is_concerned = is_held_back || request != RequestTime::NotBlocked;
        let is_pending = is_concerned && (own.requests_removed || late.waits_for_answer());
        let pending_request = match (is_pending, is_held_back) {
            (false, _) => PendingRequest::None,
            (true, false) => PendingRequest::Sendable,
            (true, true) => PendingRequest::Blocked,
        };
        let portion = match (&additions, &removals) {
            (None, None) => Some(Portion::Everything),
            _ if is_held_back && is_pending && request == RequestTime::Overdue => {
                Some(Portion::Unanswered)
            }
            (None, Some(_)) if own.due_set.is_some() || own.has_unchanged => {
                Some(Portion::Additions)
            }
            (Some(_), _) if own.has_unchanged => Some(Portion::Unchanged),
            _ => None,
        };
        let portion = portion.filter(|_| own.may_send);
        TypeDecision { portion, blocked: additions.or(removals), pending_request }
    }

    fn get(&self, rank: usize) -> Option<&TypeFacts> {
        self.types.get(rank)?.as_ref()
    }

    fn blocked_additions(
        &self,
        rank: u8,
        changed: Revision,
        late: &mut impl LateFacts,
    ) -> Option<Blocked> {
        let waits = Dependencies::of(usize::from(rank)).before_additions;
        if waits.is_empty() || changed <= self.waived {
            return None;
        }
        let blocked = |waits_for, reason| {
            Some(Blocked { rank, change: BlockedChange::Changes, waits_for, reason })
        };
        for &waits_for in waits {
            let Some(other) = self.get(waits_for) else { continue };
            if late.rejected_since(waits_for).is_some_and(|since| since <= changed) {
                let is_settled = other.state == TypeState::Acked;
                return blocked(
                    waits_for,
                    if is_settled { BlockedBy::Rejected } else { other.state.blocked_by() },
                );
            }
            if !other.has_all && other.accepted_set < changed {
                return blocked(waits_for, other.state.blocked_by());
            }
        }
        blocked(rank::ENDPOINTS, late.cold_clusters()?)
    }

    fn blocked_removals(
        &self,
        rank: u8,
        own: &TypeFacts,
        removed: Revision,
        late: &mut impl LateFacts,
    ) -> Option<Blocked> {
        let waits = Dependencies::of(usize::from(rank)).before_deletions;
        if waits.is_empty() {
            return None;
        }
        let blocked = |waits_for, reason| {
            Some(Blocked { rank, change: BlockedChange::Deletions, waits_for, reason })
        };
        if removed > self.waived && own.awaits_first_exchange {
            return blocked(usize::from(rank), BlockedBy::Unsent);
        }
        let keeps_rejected =
            |rank, other: &TypeFacts, late: &_| other.keeps_removed || is_rejected(rank, late);
        for &waits_for in waits {
            let Some(other) = self.get(waits_for) else { continue };
            let keeps = || keeps_rejected(waits_for, other, late);
            let is_settled = other.state == TypeState::Acked;
            if self.has_unfinished(waits_for, other, removed, waits, late)
                || self.waived < removed && keeps()
            {
                let is_kept = is_settled && keeps();
                let reason = if is_kept { BlockedBy::Rejected } else { other.state.blocked_by() };
                return blocked(waits_for, reason);
            }
        }
        if usize::from(rank) != rank::ENDPOINTS || removed <= self.waived {
            return None;
        }
        blocked(rank::ENDPOINTS, late.endpoints_in_use(removed)?)
    }

    /// Whether the client may still have something of a type that refers to a resource which was
    /// removed at a revision.
    fn has_unfinished(
        &self,
        rank: usize,
        facts: &TypeFacts,
        removed: Revision,
        waits: &[usize],
        late: &impl LateFacts,
    ) -> bool {
        if facts.state == TypeState::Acked && facts.due_removed.is_none() {
            return false;
        }
        let reached = facts.accepted_removed.max(self.waived);
        // The client keeps a silently deleted resource until it has nothing that refers to it.
        let refers = |&&to: &&usize| Dependencies::of(to).before_deletions.contains(&rank);
        let mut lost = waits.iter().filter(refers);
        reached < removed
            || lost.any(|&to| late.has_silent_removals(to, reached))
            || late.has_outdated(rank, reached)
    }
}

fn is_rejected(rank: usize, late: &impl LateFacts) -> bool {
    late.rejected_since(rank).is_some()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::{format, string::String, vec::Vec};
    use core::fmt::Write as _;
    use std::fs;

    use crate::{server::make_before_break::decision::*, types};

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/design/make-before-break.md");

    #[derive(Default)]
    struct FixedFacts {
        rejected_since: Option<Revision>,
        cold: Option<BlockedBy>,
        in_use: Option<BlockedBy>,
    }

    impl LateFacts for FixedFacts {
        fn rejected_since(&self, _: usize) -> Option<Revision> {
            self.rejected_since
        }

        fn has_silent_removals(&self, _: usize, _: Revision) -> bool {
            false
        }

        fn has_outdated(&self, _: usize, _: Revision) -> bool {
            false
        }

        fn waits_for_answer(&self) -> bool {
            false
        }

        fn cold_clusters(&mut self) -> Option<BlockedBy> {
            self.cold.clone()
        }

        fn endpoints_in_use(&mut self, _: Revision) -> Option<BlockedBy> {
            self.in_use.clone()
        }
    }

    fn revision(number: usize) -> Revision {
        (0..number).fold(Revision::START, |revision, _| revision.next())
    }

    /// Facts about a type with a change, or with a removal, at revision 5.
    fn with_change() -> TypeFacts {
        TypeFacts { due_set: Some(revision(5)), may_send: true, ..TypeFacts::default() }
    }

    fn with_removal() -> TypeFacts {
        let due_removed = Some(revision(5));
        TypeFacts { due_removed, may_send: true, state: TypeState::Acked, ..TypeFacts::default() }
    }

    /// Facts about a type in a state, of which the client has accepted everything up to a revision.
    fn in_state(state: TypeState, accepted: usize) -> TypeFacts {
        let (accepted_set, accepted_removed) = (revision(accepted), revision(accepted));
        let (has_all, awaits_answer) = (state == TypeState::Acked, state == TypeState::Sent);
        TypeFacts {
            state,
            has_all,
            awaits_answer,
            accepted_set,
            accepted_removed,
            ..with_removal()
        }
    }

    /// Decides on a type beside one other type.
    fn decide(
        (rank, own): (usize, TypeFacts),
        (other_rank, other): (usize, TypeFacts),
        waived: usize,
        mut late: FixedFacts,
    ) -> TypeDecision {
        let mut facts = StreamFacts { types: [None; STAGES], waived: revision(waived) };
        facts.types[other_rank] = Some(other);
        facts.decide(u8::try_from(rank).unwrap(), &own, RequestTime::NotBlocked, &mut late)
    }

    fn outcome(decision: &TypeDecision) -> String {
        let Some(blocked) = &decision.blocked else { return "sent".into() };
        let reason = match &blocked.reason {
            BlockedBy::Unsent => "unsent",
            BlockedBy::Unanswered => "unanswered",
            BlockedBy::Rejected => "rejected",
            BlockedBy::NotRequested(_) => "not requested",
            BlockedBy::NotRequestedAgain => "not requested again",
        };
        format!("waits: {reason}")
    }

    fn waits_of(rank: usize, own: TypeFacts) -> String {
        let unanswered = in_state(TypeState::Sent, 4);
        let others = (0..STAGES).filter(|&other| other != rank);
        let waits = others.filter(|&other| {
            let decision = decide((rank, own), (other, unanswered), 0, FixedFacts::default());
            decision.blocked.is_some_and(|blocked| blocked.waits_for == other)
        });
        let names: Vec<&str> = waits.map(short_name).collect();
        names.join(", ")
    }

    fn short_name(rank: usize) -> &'static str {
        types::by_rank(rank).and_then(types::short_name).expect("a type of this rank")
    }

    fn tables() -> String {
        let mut text =
            String::from("| type | a change waits for | a removal waits for |\n|---|---|---|\n");
        for rank in 0..STAGES {
            let (changes, removals) =
                (waits_of(rank, with_change()), waits_of(rank, with_removal()));
            writeln!(text, "| {} | {changes} | {removals} |", short_name(rank)).unwrap();
        }
        text += "\n| other type | accepted | a change that refers to it | removal of what it refers to | \
             after `stage_timeout`, with `Continue` |\n|---|---|---|---|---|\n";
        let unrejected: fn() -> FixedFacts = FixedFacts::default;
        let rejected: fn() -> FixedFacts =
            || FixedFacts { rejected_since: Some(revision(3)), ..FixedFacts::default() };
        let rows = [
            ("`Idle`", TypeState::Idle, unrejected),
            ("`Sent`", TypeState::Sent, unrejected),
            ("`Acked`", TypeState::Acked, unrejected),
            ("`Nacked`", TypeState::Nacked, unrejected),
            ("`Acked`, except a resource that was rejected twice", TypeState::Acked, rejected),
        ];
        for (title, state, late) in rows {
            for (accepted, up_to) in [(4, "before the change"), (5, "after it")] {
                // The other type has removals to be sent, so the client has not accepted these.
                let other = in_state(state, accepted);
                let change =
                    decide((rank::ROUTES, with_change()), (rank::CLUSTERS, other), 0, late());
                let removed = (rank::CLUSTERS, with_removal());
                let removal = decide(removed, (rank::ROUTES, other), 0, late());
                let waived =
                    decide((rank::ROUTES, with_change()), (rank::CLUSTERS, other), 5, late());
                let [change, removal, waived] = [change, removal, waived].each_ref().map(outcome);
                writeln!(text, "| {title} | {up_to} | {change} | {removal} | {waived} |").unwrap();
            }
        }
        text += "\n| clusters | a change of routes | removal of endpoints |\n|---|---|---|\n";
        for (title, reason) in [
            ("warm", None),
            ("their endpoints were not requested", Some(BlockedBy::NotRequested("e".into()))),
            ("their endpoints are to be requested again", Some(BlockedBy::NotRequestedAgain)),
            ("their endpoints are due", Some(BlockedBy::Unsent)),
            ("their endpoints are unanswered", Some(BlockedBy::Unanswered)),
            ("their endpoints were rejected", Some(BlockedBy::Rejected)),
        ] {
            let late =
                || FixedFacts { cold: reason.clone(), in_use: reason.clone(), ..unrejected() };
            let other = in_state(TypeState::Acked, 5);
            let change = decide((rank::ROUTES, with_change()), (rank::CLUSTERS, other), 0, late());
            let removed = (rank::ENDPOINTS, with_removal());
            let removal = decide(removed, (rank::CLUSTERS, other), 0, late());
            let [change, removal] = [change, removal].each_ref().map(outcome);
            writeln!(text, "| {title} | {change} | {removal} |").unwrap();
        }
        text
    }

    /// The page has the tables of the code. `UPDATE=1` writes them.
    #[test]
    fn page_on_make_before_break_has_the_tables() {
        let page = fs::read_to_string(PAGE).expect("the page");
        let (begin, end) = ("<!-- tables -->\n", "<!-- end of tables -->\n");
        let (before, rest) = page.split_once(begin).expect("a place for the tables");
        let (found, after) = rest.split_once(end).expect("an end of the tables");
        let expected = tables();
        if std::env::var_os("UPDATE").is_some() {
            fs::write(PAGE, format!("{before}{begin}{expected}{end}{after}")).expect("the page");
            return;
        }
        assert_eq!(found, expected, "UPDATE=1 writes the tables");
    }
}
