//! Custom messages that the application and a client exchange on the stream of the resources.
//!
//! A custom message subscribes to nothing, has no nonce, and does not count as the first request of
//! a stream. Messages are sent in order and before responses.
// M21

use bytes::Bytes;
use thiserror::Error;

use super::{
    Server,
    event::{Cause, CloseReason, ServerOutput, ServerTransmit},
    stream::{Stream, Writable},
};
use crate::{
    frame::Frame,
    id::StreamId,
    text::{Nonce, TypeUrl, Version},
    time::Time,
    wire::request::Request,
};

/// Error of [`Server::send_aside`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AsideError {
    /// The stream has ended.
    #[error("the stream is gone")]
    NoStream,
    /// The number of messages that wait to be sent is at its limit
    /// ([`asides_per_stream`](super::ServerLimits::asides_per_stream)).
    #[error("more than {limit} messages wait to be sent")]
    TooMany {
        /// Configured limit.
        limit: usize,
    },
}

impl Server {
    /// Sends a client a custom message, which must be an encoded response of the stream's variant;
    /// the server does not inspect it. [`poll_transmit`](Self::poll_transmit) returns `type_url`
    /// for logs.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream has ended or too many messages are queued.
    pub fn send_aside(
        &mut self,
        stream: StreamId,
        type_url: impl Into<TypeUrl>,
        message: impl Into<Bytes>,
        now: Time,
    ) -> Result<(), AsideError> {
        self.clock.advance(now);
        let limit = self.config.limits.asides_per_stream;
        let state = self.streams.get_mut(stream.0).ok_or(AsideError::NoStream)?;
        let queue = state.asides.get_or_insert_default();
        if queue.len() >= limit {
            return Err(AsideError::TooMany { limit });
        }
        queue.push_back((type_url.into(), message.into()));
        if state.writable == Writable::NotTold {
            state.writable = Writable::Told;
            self.out.writable(stream);
        }
        Ok(())
    }

    /// Passes a request of a custom-message type on to the application. Returns whether it was one.
    pub(crate) fn take_aside(
        &mut self,
        id: StreamId,
        request: &Request<'_>,
        message: &Bytes,
    ) -> Result<bool, CloseReason> {
        if self.config.asides.is_empty() {
            return Ok(false);
        }
        let Some(stream) = self.streams.get(id.0) else { return Ok(false) };
        let Ok(type_url) = stream.via.type_of(request.type_url) else { return Ok(false) };
        let Some(type_url) = self.config.asides.get(type_url).cloned() else { return Ok(false) };
        // A custom message may carry the client's node.
        if request.node.is_some() {
            self.identify(id, request)?;
        }
        self.out.ask(ServerOutput::Aside { stream: id, type_url, message: message.clone() });
        Ok(true)
    }
}

impl Stream {
    /// Moves the next custom message into `frame`.
    pub(crate) fn next_aside(&mut self, frame: &mut Frame) -> Option<ServerTransmit> {
        let queue = self.asides.as_deref_mut()?;
        let (type_url, message) = queue.pop_front()?;
        if queue.is_empty() {
            self.asides = None;
        }
        *frame = Frame { body: message, ..Frame::default() };
        Some(ServerTransmit {
            type_url,
            version: Version::default(),
            nonce: Nonce::default(),
            variant: self.via.variant(),
            resources: 0,
            removed: 0,
            errors: 0,
            cause: Cause::Aside,
        })
    }
}
