//! The body of a response, for as long as the call takes.

use core::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
};
use std::sync::Arc;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use xds_routing::balancer::CallPermit;

use crate::{driver::Hold, status};

/// The body of a response. The call is under way until it is dropped: its cluster and its connection stay.
#[derive(Debug)]
pub struct CallBody {
    body: Incoming,
    deadline: Option<Pin<Box<Sleep>>>,
    _permit: CallPermit,
    _hold: Arc<Hold>,
}

impl CallBody {
    pub(crate) fn new(
        body: Incoming,
        deadline: Option<Instant>,
        permit: CallPermit,
        hold: Arc<Hold>,
    ) -> Self {
        let deadline = deadline.map(|deadline| Box::pin(sleep_until(deadline)));
        Self { body, deadline, _permit: permit, _hold: hold }
    }
}

impl Body for CallBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let is_late = frame.is_pending()
            && self.deadline.as_mut().is_some_and(|it| it.as_mut().poll(cx).is_ready());
        if is_late {
            return Poll::Ready(Some(Err(status::late())));
        }
        frame.map_err(|error| Status::new(status::code_of(&error), status::with_causes(&error)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
