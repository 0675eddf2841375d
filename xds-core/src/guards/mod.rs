//! Checks of a change before it is served.
//!
//! A mistake in a source, such as a generator that writes nothing, is a valid change: it removes
//! what every client uses. [`Guards`] compare what is served with what would be served, and refuse
//! the change. They hold no state and apply nothing: the caller keeps serving what it serves.
//!
//! ```
//! use xds_core::guards::{Guards, ViewChange};
//! use xds_core::server::{Server, ServerConfig, Transaction};
//! use xds_core::{Time, ViewName, types};
//!
//! let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
//! let mut change = Transaction::new();
//! for (name, cluster) in [("a", b"\x0a\x01a"), ("b", b"\x0a\x01b")] {
//!     change.set(types::CLUSTER, name, &cluster[..]);
//! }
//! server.apply(change, Time::ZERO)?;
//!
//! let guards: Guards = ["max-removal:cds=20".parse()?].into_iter().collect();
//! let mut change = Transaction::new();
//! change.remove(types::CLUSTER, "a");
//! let view = ViewName::default();
//! let (before, after) = (server.contents(&view), server.preview(&change)?);
//! let refused = guards.judge([ViewChange::new(&view, &before, &after[0])]).unwrap_err();
//! assert_eq!(
//!     refused.violations[0].to_string(),
//!     "would remove 1 of 2 clusters (50 percent), the limit is 20 percent: cds `a` \
//!      (guard max-removal:cds=20)"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! | spelling | refuses a change of a view |
//! |---|---|
//! | `min:TYPE=NUMBER` | after which there are fewer resources of the type |
//! | `max-removal:TYPE=PERCENT` | that removes a greater share of the resources of the type |
//! | `max-removal=PERCENT` | that removes a greater share of the resources of all types together |
//! | `require:TYPE=NAME` | after which the resource does not exist |
//! | `references` | that leaves a dangling reference ([`references`](crate::references)) |
//!
//! `TYPE` is `cds`, `eds`, `lds` and so on, or a type URL. A rule applies to each view, and with
//! `@VIEW` behind it to that view only. An application adds rules of its own with [`Guard::hook`].
//!
//! # First change, and later ones
//!
//! A view without resources is judged as a whole: `min`, `require` and `references` apply to what it
//! would have, and `max-removal` to nothing. Later a change is refused only if it makes things worse:
//! a view that has fewer clusters than the minimum, because a change was forced, may have any change
//! that removes no further one.
//!
//! # Forcing a change
//!
//! A [`RefusedChange`] has an [id](ChangeId), which identifies what the change removes, adds and
//! replaces. A person who wants the change states this id, and it cannot be mistaken for a later
//! change.

mod change_id;
mod guard;
mod judge;
mod spelling;
mod view_change;
mod violation;

pub use self::{
    change_id::{ChangeId, InvalidChangeId},
    guard::Guard,
    judge::Guards,
    spelling::InvalidGuard,
    view_change::ViewChange,
    violation::{GuardViolation, RefusedChange, Violation},
};
