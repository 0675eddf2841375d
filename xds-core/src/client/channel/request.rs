//! A request of one type before it is encoded.

use alloc::vec::Vec;

use crate::{client::config::WildcardForm, slab::Slot};

/// What rendering a request brought about.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// Subscriptions that the server has now been told of for the first time on this channel.
    pub(crate) subscribed: Vec<Slot>,
    /// Subscriptions that it has now been told are over, and that no other server knows of.
    pub(crate) unsubscribed: Vec<Slot>,
    /// Subscriptions that the request leaves out, and one behind it has again.
    pub(crate) left_out: Vec<Slot>,
    pub(crate) wildcard: WildcardStep,
    /// Whether the request says that something is held from before.
    pub(crate) states_held: bool,
}

/// What became of the wildcard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WildcardStep {
    #[default]
    None,
    Subscribed,
    Unsubscribed,
    /// The request leaves it out, and one behind it has it again.
    LeftOut,
}

impl WildcardStep {
    pub(crate) fn between(before: bool, after: bool) -> Self {
        match (before, after) {
            (false, true) => Self::Subscribed,
            (true, false) => Self::Unsubscribed,
            _ => Self::None,
        }
    }
}

/// How a wildcard of this type may be put on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'a> {
    pub(crate) wildcard: WildcardForm,
    /// Whether a response has everything that is subscribed.
    pub(crate) is_complete: bool,
    /// By authority: whether it uses the server.
    pub(crate) scope: &'a [bool],
    /// The position of the server.
    pub(crate) upstream: usize,
}
