//! The body of a response that holds a value until the response has been sent or its client is gone.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// A body, and what is held as long as it.
pub(crate) struct HoldingBody<T> {
    body: Body,
    /// Some of it was given to the server.
    has_begun: bool,
    _held: T,
}

impl<T> HoldingBody<T> {
    pub(crate) fn new(body: Body, held: T) -> Self {
        Self {
            body,
            has_begun: false,
            _held: held,
        }
    }
}

impl<T: Unpin> HttpBody for HoldingBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.has_begun |= matches!(frame, Poll::Ready(Some(_)));
        frame
    }

    /// The server drops a body that has ended as soon as it has the last part, which its client may not have taken yet. So one
    /// that has begun ends by its next poll, for which the server first writes what it has.
    fn is_end_stream(&self) -> bool {
        !self.has_begun && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
