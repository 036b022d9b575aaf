//! A change of a lock or a node, in one line.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tenure_server::form::milliseconds;

use super::{Output, clock, text, write_line};
use crate::report::State;
use crate::sight::{Change, Lock, Node};

/// What one line is about.
#[derive(Debug)]
pub(crate) enum WatchLine {
    /// The watch has begun.
    Watching,
    /// All locks that are held have been told of; what follows happens now.
    Complete,
    Lock {
        change: Box<Change>,
        /// It may have been so before anybody looked.
        was_there: bool,
    },
    Node(Node),
    /// The service is gone.
    Stale(String),
    /// It is back.
    Fresh,
}

impl Output {
    /// Says what has changed.
    pub(crate) fn watch_line(&self, line: &WatchLine) -> std::io::Result<()> {
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds);
        if self.json {
            return write_line(std::io::stdout(), &json(line, time_ms).to_string());
        }
        match words(line) {
            Words::Change(words) => {
                write_line(std::io::stdout(), &format!("{}  {words}", clock::time(time_ms)))
            }
            Words::Note(note) => {
                self.note(&note);
                Ok(())
            }
        }
    }

    /// Resolves when nobody reads standard output any more. Only a pipe says so; others never end.
    pub(crate) async fn reader_is_gone(&self) {
        let (gone, going) = tokio::sync::oneshot::channel();
        // Asked for nothing, `poll` waits for an end. The process does not wait for this thread.
        let thread = std::thread::Builder::new().name("reader".to_owned()).spawn(move || {
            use std::os::fd::AsFd;
            let stdout = std::io::stdout();
            let mut polled = [nix::poll::PollFd::new(stdout.as_fd(), nix::poll::PollFlags::empty())];
            while nix::poll::poll(&mut polled, nix::poll::PollTimeout::NONE) == Err(nix::errno::Errno::EINTR)
            {
            }
            let _ = gone.send(());
        });
        if thread.is_err() || going.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

enum Words {
    Change(String),
    Note(String),
}

fn words(line: &WatchLine) -> Words {
    Words::Change(match line {
        WatchLine::Watching => return Words::Note("watching; press Ctrl-C to stop".to_owned()),
        WatchLine::Complete => {
            return Words::Note("these are all the locks held now; changes follow".to_owned());
        }
        WatchLine::Stale(reason) => return Words::Note(format!("{}; retrying", text::plain(reason))),
        WatchLine::Fresh => return Words::Note("the service is back".to_owned()),
        WatchLine::Lock { change, .. } => lock_words(change),
        WatchLine::Node(node) => node_words(node),
    })
}

fn lock_words(change: &Change) -> String {
    let name = text::plain(&change.name);
    match (&change.before, &change.now) {
        (_, None) => {
            let before = change.before.as_ref();
            let expired = before.and_then(Lock::left).is_some_and(|left| left.is_zero());
            let had = before
                .and_then(|lock| lock.label.as_deref())
                .map(|label| format!(", was {}", text::plain(label)));
            let how = if expired { " (expired)" } else { "" };
            format!("free       {name}{how}{}", had.unwrap_or_default())
        }
        (before, Some(lock)) => {
            let word = match (lock.state, before) {
                (State::Held, Some(_)) if change.changes_hands() => "taken over",
                (State::Held, Some(_)) if change.is_extension() => "extended",
                (state, _) => state.word(),
            };
            format!("{word:<10} {name}{}", held_words(lock))
        }
    }
}

fn held_words(lock: &Lock) -> String {
    let mut words = String::new();
    if let Some(label) = &lock.label {
        words += &format!("  by {}", text::plain(label));
    }
    if let Some(left) = lock.left() {
        words += &format!("  frees in {}", text::duration(left));
    }
    if let Some(fence) = lock.fence {
        words += &format!("  fence {fence}");
    }
    if let Some(waiters) = lock.waiters.filter(|waiters| *waiters > 0) {
        words += &format!("  {waiters} waiting");
    }
    if lock.others > 0 {
        words += &format!("  {} nodes report another holder", lock.others);
    }
    words
}

fn node_words(node: &Node) -> String {
    let name = text::plain(&node.node);
    if node.votes {
        return format!("node       {name}  votes");
    }
    let why =
        node.findings.first().map_or_else(|| "reason unknown".to_owned(), |finding| text::plain(finding));
    format!("node       {name}  does not vote: {why}")
}

fn json(line: &WatchLine, time_ms: u64) -> Value {
    match line {
        WatchLine::Watching => json!({ "event": "watching", "time_ms": time_ms }),
        WatchLine::Complete => json!({ "event": "complete", "time_ms": time_ms }),
        WatchLine::Stale(reason) => json!({ "event": "stale", "time_ms": time_ms, "reason": reason }),
        WatchLine::Fresh => json!({ "event": "fresh", "time_ms": time_ms }),
        WatchLine::Node(node) => json!({
            "event": "node", "time_ms": time_ms, "node": node.node, "votes": node.votes,
            "reachable": node.reachable, "reason": node.findings.first(),
        }),
        WatchLine::Lock { change, was_there } => {
            let event = match (&change.before, &change.now) {
                (_, None) => "freed",
                (None, Some(_)) if *was_there => "is_held",
                (None, Some(_)) => "held",
                (Some(_), Some(_)) if change.changes_hands() => "changed_hands",
                (Some(_), Some(_)) if change.is_extension() => "extended",
                (Some(_), Some(_)) => "changed",
            };
            let lock = change.now.as_ref();
            json!({
                "event": event,
                "time_ms": time_ms,
                "name": change.name,
                "state": lock.map_or(State::Free, |lock| lock.state).word(),
                "holder": lock.and_then(|lock| lock.label.as_deref()),
                "was": change.before.as_ref().and_then(|lock| lock.label.as_deref()),
                "left_ms": lock.and_then(Lock::left).map(milliseconds),
                "held_ms": lock.map(|lock| milliseconds(lock.age())),
                "fence": lock.and_then(|lock| lock.fence),
                "margin": lock.and_then(|lock| lock.margin),
                "waiters": lock.and_then(|lock| lock.waiters),
                "agree": lock.map(|lock| lock.agree),
                "disagree": lock.map(|lock| lock.disagree),
                "others": lock.map(|lock| lock.others),
                "passed_on_after_ms": change.passed_on_after.map(milliseconds),
            })
        }
    }
}
