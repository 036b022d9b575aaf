//! What is shown: the state of the demo at one moment.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tenure::NodeReport;

use super::judge::Judge;
use super::server::Power;
use crate::output::duration;

/// A node, as it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeView {
    pub(crate) address: String,
    pub(crate) votes: bool,
    pub(crate) reachable: bool,
    /// What was done to its server.
    pub(crate) power: Power,
    /// When it votes again, if it is in quarantine.
    pub(crate) votes_at: Option<Instant>,
}

impl NodeView {
    /// Takes in what a client knows of it.
    pub(crate) fn look(&mut self, report: &NodeReport) {
        (self.votes, self.reachable) = (report.votes, report.reachable);
        self.votes_at = report.quarantine_left.map(|left| Instant::now() + left);
    }

    /// In words that stay the same while nothing happens.
    pub(crate) const fn word(&self) -> &'static str {
        match (self.votes, self.reachable, self.votes_at) {
            (true, ..) => "votes",
            (false, false, _) => "unreachable",
            (false, true, Some(_)) => "in quarantine: may have forgotten locks",
            (false, true, None) => "does not vote",
        }
    }

    /// What was done to it, and how it is now.
    pub(crate) fn shown(&self) -> String {
        let power = match self.power {
            Power::Up => "up",
            Power::Stopped => "STOPPED",
            Power::Killed => "KILLED",
        };
        let left = self.votes_at.map(|at| at.saturating_duration_since(Instant::now()));
        match left.filter(|_| !self.votes && self.reachable) {
            Some(left) => format!("{power:<8} in quarantine, votes in {}", duration(round(left))),
            None => format!("{power:<8} {}", self.word()),
        }
    }
}

/// A countdown in whole seconds is calmer.
const fn round(left: Duration) -> Duration {
    Duration::from_secs(left.as_secs() + 1)
}

/// All of it.
pub(crate) struct Picture<'a> {
    pub(crate) dashboard: Option<&'a str>,
    pub(crate) guard: bool,
    pub(crate) judge: &'a Judge,
    pub(crate) nodes: &'a [NodeView],
    pub(crate) chosen: usize,
    pub(crate) paused: Option<usize>,
    /// Lines, and whether they are bad news.
    pub(crate) log: &'a VecDeque<(String, bool)>,
    pub(crate) help: bool,
    pub(crate) now_us: u64,
}
