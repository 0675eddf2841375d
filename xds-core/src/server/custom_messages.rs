//! Custom messages that the application and a client exchange on the stream of the resources.
//!
//! A custom message subscribes to nothing, has no nonce, and does not count as the first request of
//! a stream. Messages are sent in order and before responses.
// M21

use bytes::Bytes;
use thiserror::Error;

use super::{
    Server,
    event::{CloseReason, ResponseCause, ServerEvent, ServerTransmit},
    stream::Stream,
};
use crate::{
    frame::Frame,
    id::StreamId,
    text::{Nonce, TypeUrl, Version},
    time::Time,
    wire::request::Request,
};

/// Error of [`Server::send_custom_message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CustomMessageError {
    /// The stream has ended.
    #[error("the stream has ended")]
    NoStream,
    /// The number of messages that wait to be sent is at its limit
    /// ([`custom_messages_per_stream`](super::ServerLimits::custom_messages_per_stream)).
    #[error("more than {limit} custom messages are queued")]
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
    pub fn send_custom_message(
        &mut self,
        stream: StreamId,
        type_url: impl Into<TypeUrl>,
        message: impl Into<Bytes>,
        now: Time,
    ) -> Result<(), CustomMessageError> {
        self.clock.advance(now);
        let limit = self.config.limits.custom_messages_per_stream;
        let state = self.streams.get_mut(stream.0).ok_or(CustomMessageError::NoStream)?;
        if state.custom_message_count() >= limit {
            return Err(CustomMessageError::TooMany { limit });
        }
        state.queue_custom_message(type_url.into(), message.into());
        self.notify_writable(stream);
        Ok(())
    }

    /// Passes a request of a custom-message type on to the application. Returns whether it was one.
    pub(crate) fn take_custom_message(
        &mut self,
        id: StreamId,
        request: &Request<'_>,
        message: &Bytes,
    ) -> Result<bool, CloseReason> {
        if self.config.custom_message_types.is_empty() {
            return Ok(false);
        }
        let Some(stream) = self.streams.get(id.0) else { return Ok(false) };
        let Ok(type_url) = stream.kind.type_of(request.type_url) else { return Ok(false) };
        let Some(type_url) = self.config.custom_message_types.get(type_url).cloned() else {
            return Ok(false);
        };
        // A custom message may carry the client's node.
        if request.node.is_some() {
            self.identify(id, request)?;
        }
        self.out.event(ServerEvent::CustomMessage {
            stream: id,
            type_url,
            message: message.clone(),
        });
        Ok(true)
    }
}

impl Stream {
    /// Moves the next custom message into `frame`.
    pub(crate) fn next_custom_message(&mut self, frame: &mut Frame) -> Option<ServerTransmit> {
        let (type_url, message) = self.take_custom_message()?;
        *frame = Frame { body: message, ..Frame::default() };
        Some(ServerTransmit {
            type_url,
            version: Version::default(),
            nonce: Nonce::default(),
            variant: self.kind.variant(),
            resources: 0,
            removed: 0,
            errors: 0,
            cause: ResponseCause::CustomMessage,
        })
    }
}
