//! What is done for a call belongs to the caller's trace, although the worker does it: a span for
//! each command to a node, and the events until the answer.
//!
//! A caller whose span is recorded hands it over before it asks. While it waits, commands about its
//! lease get spans below that one, and events are logged inside it. Nobody who does not trace pays
//! for it.

use std::collections::HashMap;

use tenure_core::client::{Addressee, Id, Tag};
use tenure_core::{Command, Fault, NodeIndex, Reply};
use tracing::{Span, dispatcher};

#[derive(Default)]
pub(super) struct Spans {
    callers: HashMap<Id, Span>,
    /// Commands without an answer.
    asked: HashMap<(usize, Tag), Span>,
}

impl Spans {
    /// From now on commands about this lease belong to this span.
    pub(super) fn begin(&mut self, lease: Id, span: Span) {
        self.callers.insert(lease, span);
    }

    /// The span of whoever waits for an answer about this lease.
    pub(super) fn of(&self, lease: Id) -> Option<Span> {
        if self.callers.is_empty() { None } else { self.callers.get(&lease).cloned() }
    }

    /// The caller has its answer, or is about to get it: the span that it belongs to.
    pub(super) fn end(&mut self, lease: Id) -> Option<Span> {
        if self.callers.is_empty() { None } else { self.callers.remove(&lease) }
    }

    /// A command leaves for a node.
    pub(super) fn ask(&mut self, (node, address): (NodeIndex, &str), tag: Tag, command: &Command) {
        if self.callers.is_empty() {
            return;
        }
        let (Addressee::Lease { lease, .. } | Addressee::Release { lease, .. }) = tag.to else { return };
        // Made where the caller's span lives, which need not be what this thread records.
        let span = self.callers.get(&lease).and_then(|caller| {
            caller.with_subscriber(|(parent, dispatch)| {
                dispatcher::with_default(dispatch, || {
                    tracing::debug_span!(
                        target: "tenure", parent: parent.clone(), "tenure.ask", otel.kind = "client", node = address,
                        command = kind(command), error = tracing::field::Empty,
                    )
                })
            })
        });
        if let Some(span) = span {
            self.asked.insert((node.get(), tag), span);
        }
    }

    /// A node has answered, or never will.
    pub(super) fn answered(&mut self, node: NodeIndex, tag: Tag, answer: &Result<Reply, Fault>) {
        if self.asked.is_empty() {
            return;
        }
        if let (Some(span), Err(fault)) = (self.asked.remove(&(node.get(), tag)), answer) {
            span.record("error", tracing::field::display(fault));
        }
    }
}

/// Logs inside a caller's span what is said there: where that span lives, which need not be what
/// this thread records.
pub(super) fn within(span: Option<&Span>, say: impl FnOnce()) {
    let Some(span) = span else { return say() };
    let mut say = Some(say);
    span.with_subscriber(|(_, dispatch)| {
        dispatcher::with_default(dispatch, || span.in_scope(|| say.take().map(|say| say())));
    });
    // A span that nobody records.
    if let Some(say) = say {
        say();
    }
}

const fn kind(command: &Command) -> &'static str {
    match command {
        Command::Acquire { .. } => "acquire",
        Command::Extend { .. } => "extend",
        Command::Release { .. } => "release",
        Command::Heal { .. } => "heal",
        Command::Undo { .. } => "undo",
        Command::Enqueue { .. } => "enqueue",
        Command::Leave { .. } => "leave",
        Command::Nudge { .. } => "nudge",
        _ => "other",
    }
}
