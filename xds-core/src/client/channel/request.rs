//! Form and effects of a request of one type.

use alloc::vec::Vec;

use crate::{client::config::WildcardForm, slab::Slot};

/// Effects of rendering a request.
#[derive(Debug, Default)]
pub(crate) struct RenderEffects {
    /// Names newly subscribed on this channel.
    pub(crate) subscribed: Vec<Slot>,
    /// Names unsubscribed on this channel and not subscribed on any other.
    pub(crate) unsubscribed: Vec<Slot>,
    /// Subscribed names that this request leaves out and the next one contains.
    pub(crate) left_out: Vec<Slot>,
    pub(crate) wildcard: WildcardChange,
    /// Whether the request states a version of resources held before.
    pub(crate) states_versions: bool,
}

/// Change of the wildcard subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WildcardChange {
    #[default]
    None,
    Subscribed,
    Unsubscribed,
    /// Left out of this request, and contained in the next one.
    LeftOut,
}

impl WildcardChange {
    pub(crate) fn between(before: bool, after: bool) -> Self {
        match (before, after) {
            (false, true) => Self::Subscribed,
            (true, false) => Self::Unsubscribed,
            _ => Self::None,
        }
    }
}

/// Form of a type's requests to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestForm<'a> {
    pub(crate) wildcard: WildcardForm,
    /// Whether a response contains all subscribed resources.
    pub(crate) is_complete: bool,
    /// For each authority, whether it uses the server.
    pub(crate) scope: &'a [bool],
    /// Position of the server.
    pub(crate) upstream: usize,
}
