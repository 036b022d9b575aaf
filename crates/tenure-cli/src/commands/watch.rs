//! `tenure watch`: one line a change.

use std::io::ErrorKind;

use crate::args::WatchArgs;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::looking::Looking;
use crate::output::{Output, WatchLine};
use crate::settings::Settings;
use crate::sight::{Change, News, Node, Sights};
use crate::signals::{Signals, ends_wait};

pub(crate) async fn run(args: &WatchArgs, settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let (begins, only) = match args.name.as_deref() {
        None => ("", None),
        Some(name) => name.strip_suffix('*').map_or((name, Some(name)), |begins| (begins, None)),
    };
    let mut signals = Signals::install()?;
    let reader = output.reader_is_gone();
    tokio::pin!(reader);
    let mut sights = None;
    let connecting = Looking::connect_when_there(settings, output);
    tokio::pin!(connecting);
    let mut watched = Watched { only, all: args.all, complete: false, nodes: vec![] };
    if written(output.watch_line(&WatchLine::Watching))? {
        return Ok(Exit::DONE);
    }
    loop {
        let news = tokio::select! {
            connected = &mut connecting, if sights.is_none() => {
                sights = Some(Sights::begin(&connected?, begins));
                continue;
            }
            news = next(&mut sights) => news?,
            signal = signals.next() => {
                if ends_wait(signal) {
                    return Ok(Exit::signal(signal as i32));
                }
                continue;
            }
            () = &mut reader => return Ok(Exit::DONE),
        };
        let Some(news) = news else { return Ok(Exit::DONE) };
        for line in watched.lines(news) {
            if written(output.watch_line(&line))? {
                return Ok(Exit::DONE);
            }
        }
    }
}

/// What is new; nothing before anybody can look.
async fn next(sights: &mut Option<Sights>) -> Result<Option<News>, Failure> {
    match sights {
        Some(sights) => sights.next().await,
        None => std::future::pending().await,
    }
}

/// Whether the reader is gone, which is the end and no failure.
fn written(result: std::io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(Failure::internal(format!("cannot write to standard output: {error}"))),
    }
}

struct Watched<'a> {
    /// This lock alone.
    only: Option<&'a str>,
    /// Extensions, and changes of the line, too.
    all: bool,
    complete: bool,
    nodes: Vec<Node>,
}

impl Watched<'_> {
    fn lines(&mut self, news: News) -> Vec<WatchLine> {
        match news {
            News::Locks(changes) => changes.into_iter().filter_map(|change| self.line(change)).collect(),
            News::Nodes(nodes) => {
                let before = std::mem::replace(&mut self.nodes, nodes);
                let is_new = |(place, node): &(usize, &Node)| {
                    before
                        .get(*place)
                        .is_none_or(|old| (old.votes, old.reachable) != (node.votes, node.reachable))
                };
                let told = self.nodes.iter().enumerate().filter(is_new);
                told.map(|(_, node)| WatchLine::Node(node.clone())).collect()
            }
            News::Progress(progress) => {
                let was = std::mem::replace(&mut self.complete, progress.complete);
                if progress.complete && !was { vec![WatchLine::Complete] } else { vec![] }
            }
            News::Stale(reason) => vec![WatchLine::Stale(reason)],
            News::Fresh => vec![WatchLine::Fresh],
        }
    }

    fn line(&self, change: Change) -> Option<WatchLine> {
        if self.only.is_some_and(|only| only != change.name) {
            return None;
        }
        let state = |lock: &Option<crate::sight::Lock>| lock.as_ref().map(|lock| lock.state);
        let matters = change.changes_hands() || state(&change.before) != state(&change.now);
        let line = || WatchLine::Lock { change: Box::new(change), was_there: !self.complete };
        (matters || self.all).then(line)
    }
}
