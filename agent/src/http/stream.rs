//! The stream of a connection: what is written to it counts as progress.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::permits::Permit;

/// A stream for which a permit is held.
pub struct PermittedStream<S> {
    stream: S,
    permit: Arc<Permit>,
}

impl<S: Unpin> PermittedStream<S> {
    /// Of this stream, with this permit.
    pub fn new(stream: S, permit: Arc<Permit>) -> Self {
        Self { stream, permit }
    }

    fn stream(&mut self) -> Pin<&mut S> {
        Pin::new(&mut self.stream)
    }

    fn note(&self, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(_)) = written {
            self.permit.writing();
        }
        written
    }
}

impl<S: Read + Unpin> Read for PermittedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for PermittedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = self.stream().poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = self.stream().poll_write_vectored(context, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
