//! What is known of the nodes from before: read when the driver begins, and written when the fleet
//! has met something new. On a thread of its own, because a disk may take any time; one that takes
//! too long is done without.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_core::client::Input;
use tenure_core::trust::NodeMemory;
use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::Driver;
use crate::event::Event;
use crate::fleet::known_nodes::{KnownNodes, Recalled};
use crate::machine::clock::Clock;

/// How long the disk may take, and others who write. A busy one takes a second or two; nothing is
/// granted meanwhile.
const DISK_LIMIT: Duration = Duration::from_secs(10);

/// Where what is known of the nodes is kept, and what is being done there.
#[derive(Default)]
pub(super) struct Diary {
    /// `None` if nothing is kept, or cannot be.
    known: Option<Arc<KnownNodes>>,
    /// The clock is the machine's. One that tests move would run away from the disk.
    limited: bool,
    work: Option<Work>,
    /// What was known before has not been read yet.
    reading: bool,
}

/// Something that a thread does.
struct Work {
    outcome: oneshot::Receiver<Result<Recalled, String>>,
    limit: Option<Pin<Box<Sleep>>>,
}

impl Diary {
    /// Begins to read at once: what is left of building the manager goes on meanwhile.
    pub(super) fn new(known: KnownNodes, clock: Clock) -> Self {
        let known = Some(Arc::new(known));
        let mut diary = Self { known, limited: clock == Clock::System, work: None, reading: true };
        diary.begin(KnownNodes::recall);
        diary
    }

    fn begin(&mut self, work: impl FnOnce(&KnownNodes) -> Result<Recalled, String> + Send + 'static) {
        let Some(known) = self.known.clone() else { return };
        let (done, outcome) = oneshot::channel();
        let thread = std::thread::Builder::new().name("tenure-diary".to_owned());
        // If it cannot be started, the channel is closed, and that is told.
        let _ = thread.spawn(move || done.send(work(&known)));
        self.work = Some(Work { outcome, limit: None });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Recalled, String>> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let told =
            |reason: &str| Err(self.known.as_ref().map_or_else(String::new, |known| known.words(reason)));
        let outcome = match Pin::new(&mut work.outcome).poll(cx) {
            Poll::Ready(Ok(outcome)) => outcome,
            Poll::Ready(Err(_)) => told("cannot start a thread to read or write it"),
            Poll::Pending => {
                if !self.limited {
                    return Poll::Pending;
                }
                let limit = work.limit.get_or_insert_with(|| Box::pin(tokio::time::sleep(DISK_LIMIT)));
                std::task::ready!(limit.as_mut().poll(cx));
                told(&format!(
                    "it could not be read or written within {DISK_LIMIT:?}; check the disk, and look for a \
                     process that was stopped while writing it"
                ))
            }
        };
        self.work = None;
        Poll::Ready(outcome)
    }
}

impl Driver {
    /// Takes what a thread has found. `false` while it is not known what was known before: until
    /// then nothing is concluded from what the nodes say.
    pub(super) fn take_memory(&mut self, cx: &mut Context<'_>) -> bool {
        while let Poll::Ready(outcome) = self.diary.poll(cx) {
            let opened = std::mem::take(&mut self.diary.reading);
            if opened {
                self.now = self.clock.now();
            }
            match outcome {
                Ok(Recalled { memory, complaint }) => {
                    if let Some(reason) = complaint {
                        self.observer.observe(&Event::NodesNotRemembered { reason: &reason });
                    }
                    self.tell(match opened {
                        true => Input::Recalled { memory: Some(memory) },
                        false => Input::Remembered { memory },
                    });
                }
                Err(reason) => {
                    self.diary.known = None;
                    self.observer.observe(&Event::NodesNotRemembered { reason: &reason });
                    self.tell(match opened {
                        true => Input::Recalled { memory: None },
                        false => Input::Forgetful,
                    });
                }
            }
        }
        !self.diary.reading
    }

    pub(super) fn remember(&mut self, memory: Vec<NodeMemory>) {
        self.diary.begin(move |known| known.remember(&memory));
        // The thread is polled in the next turn.
        self.unsent = true;
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Prefix;

    use super::*;
    use crate::fleet::known_nodes::Location;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_done_without() {
        let location = Location::at("/nowhere/known_nodes".as_ref());
        let mut diary = Diary::new(KnownNodes::new(location, &Prefix::default(), &[]), Clock::System);
        let (_hangs, hanging) = std::sync::mpsc::channel::<()>();
        diary.begin(move |known| {
            let _ = hanging.recv();
            known.recall()
        });
        let outcome = std::future::poll_fn(|cx| diary.poll(cx)).await;
        let reason = outcome.unwrap_err();
        assert!(
            reason.starts_with("/nowhere/known_nodes: it could not be read or written within 10s"),
            "{reason}"
        );
    }
}
