//! The bytes of a pipeline: written as far as the connection takes them, read as they come, and
//! missed when they do not.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::Pipeline;

/// A server that has not answered for so long is gone, or as good as: far beyond any node timeout.
const STALL_MAX: Duration = Duration::from_secs(2);

const READ_BYTES: usize = 16 * 1024;

impl Pipeline {
    /// Writes as much as the connection takes; the rest waits for the next call.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.complete_output();
        while self.written < self.output.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]) {
                Poll::Ready(Ok(0)) => return Err("the connection accepts no more data".to_owned()),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(error.to_string()),
                Poll::Pending => {
                    // A connection that never catches up must not keep what it has sent.
                    self.output.drain(..self.written);
                    self.written = 0;
                    return Ok(());
                }
            }
        }
        self.output.clear();
        self.written = 0;
        // TLS keeps what it has encrypted until it is told to send it.
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, String> {
        if self.input.len() < self.filled + READ_BYTES {
            self.input.resize(self.filled + READ_BYTES, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
        match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                Err("the server closed the connection".to_owned())
            }
            Poll::Ready(Ok(())) => {
                let count = buffer.filled().len();
                let skipped = count.min(self.skip);
                // What is passed over counts as decoded; nothing else is in the buffer then.
                self.skip -= skipped;
                self.decoded += skipped;
                self.filled += count;
                self.progress = Instant::now();
                Ok(Poll::Ready(()))
            }
            Poll::Ready(Err(error)) => Err(error.to_string()),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    /// Ready with the reason when commands have waited for too long. The timer is polled only when
    /// that is news to it: this is asked whenever the driver is polled.
    pub(super) fn poll_stall(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        while !self.in_flight.is_empty() {
            let due = self.progress + STALL_MAX;
            match &mut self.stall {
                None => {
                    let mut stall = Box::pin(tokio::time::sleep_until(due));
                    let pending = stall.as_mut().poll(cx).is_pending();
                    self.stall = Some(stall);
                    if pending {
                        return Poll::Pending;
                    }
                }
                Some(stall) if !stall.is_elapsed() => return Poll::Pending,
                Some(_) if Instant::now() >= due => {
                    return Poll::Ready(format!("no answer for {STALL_MAX:?}"));
                }
                Some(_) => self.stall = None,
            }
        }
        Poll::Pending
    }
}
