//! Cached resource: the version in use, its origin, and the error of the newest version.

use alloc::boxed::Box;

use bytes::Bytes;

use super::wrapper_fields::WrapperFields;
use crate::{
    client::{
        config::resource_type::Value,
        event::{
            error::WatchError,
            status::{FailedUpdate, ResourceState},
        },
    },
    slab::Slot,
    text::ResourceName,
};

/// Cached resource or glob.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    pub(crate) name: ResourceName,
    pub(crate) state: ResourceState,
    /// Resource in use; `None` if there is none.
    pub(crate) bytes: Option<Bytes>,
    /// Version of the response that last contained `bytes`.
    pub(crate) version: Slot,
    /// Number of the last change that wildcard watches must see; zero if there was none.
    pub(crate) changed: u64,
    /// Position of the server that last sent `bytes` or, without `bytes`, last mentioned the entry;
    /// `u32::MAX` if no server is known to have it.
    pub(crate) source: u32,
    /// Whether the name has an authority. A wildcard does not cover such names.
    pub(crate) has_authority: bool,
    /// Whether the name is a glob.
    pub(crate) is_glob: bool,
    /// Subscription to the name, if any.
    pub(crate) subscription: Slot,
    pub(crate) frame: Slot,
    /// Number of the last occurrence in a response, times two, plus one if the response contained
    /// the entry twice.
    pub(crate) occurrence: u64,
    /// Whether the resource in use came in a wrapper, so that comparing bytes is not sufficient.
    pub(crate) is_wrapped: bool,
    pub(crate) detail: Option<Box<Detail>>,
}

/// State that few entries have.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    pub(crate) value: Option<Value>,
    /// Other fields of the wrapper of the resource in use, if it had one.
    pub(crate) wrapper_fields: Option<Box<WrapperFields>>,
    error: Option<WatchError>,
    /// Position of the server that the error came from; `u32::MAX` if no server is known to still
    /// report it.
    pub(crate) error_source: u32,
    /// Update that caused the error, if one did.
    pub(crate) failed: Option<FailedUpdate>,
    /// Number of channels that had ended when the error occurred, plus one.
    error_epoch: u64,
    /// Number of the last change of the error, for an entry with a resource in use.
    pub(crate) ambient: u64,
}

impl CacheEntry {
    pub(crate) fn value(&self) -> Option<&Value> {
        self.detail.as_ref()?.value.as_ref()
    }

    /// Returns the error of the newest version of the resource, or of its existence.
    pub(crate) fn error(&self) -> Option<&WatchError> {
        self.detail.as_ref()?.error.as_ref()
    }

    /// Returns the time of the error, as the number of channels that had ended, plus one.
    pub(crate) fn error_epoch(&self) -> u64 {
        self.detail.as_ref().map_or(0, |detail| detail.error_epoch)
    }

    /// Sets the error; `epoch` is the number of channels that have ended.
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

    /// Returns the update that caused the error; `None` if no update did, for example after a
    /// timeout.
    pub(crate) fn failed(&self) -> Option<&FailedUpdate> {
        self.detail.as_ref()?.failed.as_ref()
    }

    /// Returns the number of the last change of the resource or its error, which determines the
    /// position in the list.
    pub(crate) fn last_change(&self) -> u64 {
        let ambient = self.detail.as_ref().map_or(0, |detail| detail.ambient);
        self.changed.max(ambient)
    }

    /// Returns the position of the server that last sent the resource.
    pub(crate) fn source(&self) -> usize {
        self.source as usize
    }

    /// Returns whether the resource in use came from this server, the server has not deleted it,
    /// and no other server has caused an error since. Otherwise the server must send it again, even
    /// if it is kept in use.
    pub(crate) fn is_held_from(&self, upstream: usize) -> bool {
        let is_deleted = self.state == ResourceState::DoesNotExist;
        let has_other_error =
            |detail: &Detail| detail.error.is_some() && detail.error_source != self.source;
        self.bytes.is_some()
            && !is_deleted
            && self.source as usize == upstream
            && !self.detail_if_any().is_some_and(has_other_error)
    }

    /// Returns whether an update of this server caused the error.
    pub(crate) fn has_error_from(&self, upstream: usize) -> bool {
        let is_its = |detail: &Detail| {
            detail.error.is_some()
                && detail.failed.is_some()
                && detail.error_source as usize == upstream
        };
        self.detail_if_any().is_some_and(is_its)
    }

    /// Returns whether the resource was rejected and no version of it is in use.
    pub(crate) fn was_never_accepted(&self) -> bool {
        self.bytes.is_none() && self.state == ResourceState::Nacked
    }

    /// Returns whether the entry is only kept to report its deletion to wildcard and glob watches.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.bytes.is_none()
            && self.subscription.is_none()
            && matches!(self.state, ResourceState::DoesNotExist | ResourceState::ReceivedError)
    }

    pub(crate) fn detail_if_any(&self) -> Option<&Detail> {
        self.detail.as_deref()
    }

    pub(crate) fn detail(&mut self) -> &mut Detail {
        self.detail.get_or_insert_default()
    }
}
