//! State that few streams have: requests that wait, custom messages, and limits of their
//! own. It is boxed, so that an idle stream holds one pointer for it.

use alloc::{boxed::Box, collections::VecDeque};

use bytes::Bytes;

use super::{Stream, unfinished_request::OpenRequest};
use crate::{
    server::{
        config::{PerClientLimits, ServerLimits},
        event::CloseReason,
    },
    text::TypeUrl,
};

/// Rarely needed state of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamExtras {
    /// Request of which a part is handled.
    unfinished: Option<Box<OpenRequest>>,
    /// Requests held until the stream has a view and the request before is finished.
    held_requests: VecDeque<Bytes>,
    /// Messages of types that the application handles, which the transport has not taken yet.
    custom_messages: VecDeque<(TypeUrl, Bytes)>,
    /// Limits of this client, if they differ from the default.
    limits: Option<PerClientLimits>,
}

impl StreamExtras {
    fn is_empty(&self) -> bool {
        self.unfinished.is_none()
            && self.held_requests.is_empty()
            && self.custom_messages.is_empty()
            && self.limits.is_none()
    }
}

impl Stream {
    fn extras_mut(&mut self) -> &mut StreamExtras {
        self.extras.get_or_insert_default()
    }

    /// Takes something out of the rarely needed state, and frees that if nothing is left of it.
    fn take_extra<T>(&mut self, take: impl FnOnce(&mut StreamExtras) -> Option<T>) -> Option<T> {
        let extras = self.extras.as_deref_mut()?;
        let taken = take(extras);
        if extras.is_empty() {
            self.extras = None;
        }
        taken
    }

    /// Whether a request is not finished. Nothing is sent meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        self.extras.as_deref().is_some_and(|extras| extras.unfinished.is_some())
    }

    /// Keeps a request for its next part.
    pub(crate) fn suspend(&mut self, request: OpenRequest) {
        self.extras_mut().unfinished = Some(request.into());
    }

    /// Removes the request that is not finished.
    pub(crate) fn take_unfinished(&mut self) -> Option<OpenRequest> {
        self.take_extra(|extras| extras.unfinished.take()).map(|unfinished| *unfinished)
    }

    /// Requests held until the stream has a view and the request before is finished.
    fn held_requests(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.extras.as_deref().map(|extras| extras.held_requests.iter()).unwrap_or_default()
    }

    /// Number of held requests.
    pub(crate) fn held_count(&self) -> usize {
        self.held_requests().len()
    }

    /// Total length of the held requests.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_requests().map(Bytes::len).sum()
    }

    /// Holds a request behind the others, if there is room for it.
    pub(crate) fn hold_last(
        &mut self,
        message: &Bytes,
        limits: &ServerLimits,
    ) -> Result<(), CloseReason> {
        let limit = limits.held_requests;
        if self.held_count() >= limit {
            return Err(CloseReason::TooManyHeldRequests { limit });
        }
        self.extras_mut().held_requests.push_back(message.clone());
        Ok(())
    }

    /// Holds a request before the others.
    pub(crate) fn hold_first(&mut self, message: &Bytes) {
        self.extras_mut().held_requests.push_front(message.clone());
    }

    /// Removes the first held request.
    pub(crate) fn take_held(&mut self) -> Option<Bytes> {
        self.take_extra(|extras| extras.held_requests.pop_front())
    }

    /// Number of custom messages that the transport has not taken yet.
    pub(crate) fn custom_message_count(&self) -> usize {
        self.extras.as_deref().map_or(0, |extras| extras.custom_messages.len())
    }

    pub(crate) fn queue_custom_message(&mut self, type_url: TypeUrl, message: Bytes) {
        self.extras_mut().custom_messages.push_back((type_url, message));
    }

    pub(crate) fn take_custom_message(&mut self) -> Option<(TypeUrl, Bytes)> {
        self.take_extra(|extras| extras.custom_messages.pop_front())
    }

    /// Limits of this client, if they differ from the default.
    pub(super) fn own_limits(&self) -> Option<&PerClientLimits> {
        self.extras.as_deref()?.limits.as_ref()
    }

    /// Sets the limits of this client; `None` restores the default.
    pub(crate) fn set_own_limits(&mut self, limits: Option<PerClientLimits>) {
        match limits {
            Some(_) => self.extras_mut().limits = limits,
            None => drop(self.take_extra(|extras| extras.limits.take())),
        }
    }
}
