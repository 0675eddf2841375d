//! One resource: what is in use, where it came from, and what is wrong with the newest of it.

use alloc::boxed::Box;

use bytes::Bytes;

use super::wrapper_fields::Wrapping;
use crate::{
    client::{
        config::resource_type::Value,
        event::{
            error::WatchError,
            status::{EntryState, FailedUpdate},
        },
    },
    slab::Slot,
    text::ResourceName,
};

/// One resource.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: ResourceName,
    pub(crate) state: EntryState,
    /// The resource in use; `None` if there is none.
    pub(crate) bytes: Option<Bytes>,
    /// The version of the response that `bytes` last came in.
    pub(crate) version: Slot,
    /// The number of the last change that wildcard watches must hear of; zero if there was none.
    pub(crate) changed: u64,
    /// The position of the server that `bytes` last came from, or that last spoke of it while there were none;
    /// `u32::MAX` if nobody is known to have it.
    pub(crate) source: u32,
    /// Whether the name states an authority: then it is no part of what a wildcard asks for.
    pub(crate) is_foreign: bool,
    /// Whether the name is that of a glob, which is no resource but stands for others.
    pub(crate) is_glob: bool,
    /// Who asks for the entry by name, if anybody.
    pub(crate) subscription: Slot,
    pub(crate) frame: Slot,
    /// The number of the last time a response had the entry, times two, plus one if it had it twice.
    pub(crate) stamp: u64,
    /// Whether the resource in use came in a wrapper, so that its bytes are not all there is to it.
    pub(crate) is_wrapped: bool,
    pub(crate) detail: Option<Box<Detail>>,
}

/// What few entries have.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    pub(crate) value: Option<Value>,
    /// What came beside the resource in use, if it came in a wrapper.
    pub(crate) wrapping: Option<Box<Wrapping>>,
    error: Option<WatchError>,
    /// The position of the server that the error came from; `u32::MAX` if nobody is known to say so still.
    pub(crate) blamed_by: u32,
    /// The update that brought the error, if one did.
    pub(crate) failed: Option<FailedUpdate>,
    /// How many channels had ended when the error came up, plus one.
    error_epoch: u64,
    /// The number of the last change of the error of an entry that has a resource in use.
    pub(crate) ambient: u64,
}

impl Entry {
    pub(crate) fn value(&self) -> Option<&Value> {
        self.detail.as_ref()?.value.as_ref()
    }

    /// What is wrong with the newest version of the resource, or with its existence.
    pub(crate) fn error(&self) -> Option<&WatchError> {
        self.detail.as_ref()?.error.as_ref()
    }

    /// When the error came up: one more than the number of channels that had ended by then.
    pub(crate) fn error_epoch(&self) -> u64 {
        self.detail.as_ref().map_or(0, |detail| detail.error_epoch)
    }

    /// Notes what is wrong, on the channel that comes after `epoch` others.
    pub(crate) fn set_error(&mut self, error: WatchError, epoch: u64) {
        let detail = self.detail();
        detail.error = Some(error);
        detail.failed = None;
        detail.error_epoch = epoch + 1;
    }

    pub(crate) fn clear_error(&mut self) {
        if let Some(detail) = &mut self.detail {
            detail.error = None;
            detail.failed = None;
        }
    }

    /// The update that brought the error; `None` if none did, as when a resource never came.
    pub(crate) fn failed(&self) -> Option<&FailedUpdate> {
        self.detail.as_ref()?.failed.as_ref()
    }

    /// The number of the last change of the resource, or of the error beside it: the list is in the
    /// order of these.
    pub(crate) fn moved(&self) -> u64 {
        let ambient = self.detail.as_ref().map_or(0, |detail| detail.ambient);
        self.changed.max(ambient)
    }

    /// The position of the server that the resource last came from.
    pub(crate) fn source(&self) -> usize {
        self.source as usize
    }

    /// Whether there is a resource, it came from this server, and neither has the server deleted it
    /// since nor another one found fault with it: one that is kept in use all the same must be sent
    /// again if it comes back.
    pub(crate) fn is_held_from(&self, upstream: usize) -> bool {
        let is_deleted = self.state == EntryState::DoesNotExist;
        let is_blamed = |detail: &Detail| detail.error.is_some() && detail.blamed_by != self.source;
        self.bytes.is_some()
            && !is_deleted
            && self.source as usize == upstream
            && !self.detail_if_any().is_some_and(is_blamed)
    }

    /// Whether the error of the entry came from this server.
    pub(crate) fn is_blamed_by(&self, upstream: usize) -> bool {
        let is_its = |detail: &Detail| {
            detail.error.is_some()
                && detail.failed.is_some()
                && detail.blamed_by as usize == upstream
        };
        self.detail_if_any().is_some_and(is_its)
    }

    /// Whether the newest of the resource was rejected, and nothing of it is in use.
    pub(crate) fn was_never_accepted(&self) -> bool {
        self.bytes.is_none() && self.state == EntryState::Nacked
    }

    /// Whether the entry is only kept so that wildcard watches hear of its deletion.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.bytes.is_none()
            && self.subscription.is_none()
            && matches!(self.state, EntryState::DoesNotExist | EntryState::ReceivedError)
    }

    pub(crate) fn detail_if_any(&self) -> Option<&Detail> {
        self.detail.as_deref()
    }

    pub(crate) fn detail(&mut self) -> &mut Detail {
        self.detail.get_or_insert_default()
    }
}
