//! Client core behind a handle, with its driver, connected to a server core. A follower uses the
//! handle.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, Frame, StreamId, Time,
    client::{ChannelEvent, ClientConfig, Output},
    server::{Server, ServerConfig, ServerOutput, StreamEvent, StreamKind, Transaction, Variant},
};
use xds_handle::{ApplyOutcome, ClientHandle, DriverSide, channel};

/// User of the handle.
pub(crate) trait Polled {
    type Said;

    fn poll(&mut self, now: Time, cx: &mut Context<'_>) -> Poll<Option<Self::Said>>;

    fn poll_timeout(&self) -> Option<Time>;
}

pub(crate) struct HandleNetwork<F> {
    pub(crate) client: Client,
    pub(crate) follower: F,
    pub(crate) now: Time,
    side: DriverSide,
    server: Server,
    variant: Variant,
    connection: Option<(ChannelId, StreamId)>,
    /// Responses on their way to the client.
    responses: VecDeque<Bytes>,
}

impl<F: Polled> HandleNetwork<F> {
    pub(crate) fn connect(
        variant: Variant,
        client: ClientConfig,
        server: ServerConfig,
        follow: impl FnOnce(ClientHandle) -> F,
    ) -> Self {
        let (handle, side) = channel();
        Self {
            client: Client::new(client, 1, Time::ZERO),
            follower: follow(handle),
            now: Time::ZERO,
            side,
            server: Server::new(server, 1, Time::ZERO),
            variant,
            connection: None,
            responses: VecDeque::new(),
        }
    }

    /// Changes the server's resources and returns the results.
    pub(crate) fn apply(&mut self, change: Transaction) -> Vec<F::Said> {
        self.server.apply(change, self.now).expect("a sound change");
        self.settle()
    }

    pub(crate) fn settle(&mut self) -> Vec<F::Said> {
        let mut said = Vec::new();
        // The driver wakes the follower, which may give the driver more work.
        for _ in 0..100 {
            while self.side.apply(&mut self.client, self.now) == ApplyOutcome::More {}
            self.exchange();
            while let Poll::Ready(Some(more)) = self.poll() {
                said.push(more);
            }
        }
        said
    }

    /// Advances the time and returns the results.
    pub(crate) fn advance(&mut self, duration: Duration) -> Vec<F::Said> {
        let end = self.now.after(duration);
        let mut said = self.settle();
        while let Some(next) = self.follower.poll_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            said.extend(self.settle());
        }
        self.now = end;
        said.extend(self.settle());
        said
    }

    /// Shuts down the client and its driver.
    pub(crate) fn end(mut self) -> Poll<Option<F::Said>> {
        self.client.shut_down(self.now);
        drop(self.side);
        self.follower.poll(self.now, &mut Context::from_waker(Waker::noop()))
    }

    fn poll(&mut self) -> Poll<Option<F::Said>> {
        self.follower.poll(self.now, &mut Context::from_waker(Waker::noop()))
    }

    fn exchange(&mut self) {
        let (now, mut frame) = (self.now, Frame::default());
        while let Some(output) = self.side.poll_output(&mut self.client, now) {
            match output {
                Output::Open(channel, _) => {
                    let via = StreamKind::Aggregated(self.variant);
                    let stream = self.server.accept(via, now).expect("room");
                    self.connection = Some((channel, stream));
                    self.client.handle_event(ChannelEvent::Opened(channel), now);
                }
                Output::Writable(channel) => {
                    let Some((_, stream)) = self.connection else { continue };
                    while self.client.poll_transmit(channel, now, &mut frame).is_some() {
                        let message = StreamEvent::Message(stream, frame.to_bytes());
                        self.server.handle_event(message, now);
                    }
                }
                _ => {}
            }
        }
        while let Some(output) = self.server.poll_output() {
            if let ServerOutput::Writable(stream) = output {
                while self.server.poll_transmit(stream, now, &mut frame).is_some() {
                    self.responses.push_back(frame.to_bytes());
                }
            }
        }
        if let Some((channel, _)) = self.connection
            && self.client.wants_read(channel)
            && let Some(response) = self.responses.pop_front()
        {
            self.client.handle_event(ChannelEvent::Message(channel, response), now);
        }
    }
}
