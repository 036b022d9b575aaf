//! What is shown: the state of the demo at one moment.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tenure::NodeReport;

use super::judge::Judge;
use super::server::Power;
use crate::output::duration;

/// A node, as it is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeView {
    pub(super) address: String,
    pub(super) votes: bool,
    pub(super) reachable: bool,
    /// What was done to its server.
    pub(super) power: Power,
    /// When it votes again, if it is in quarantine.
    pub(super) votes_at: Option<Instant>,
}

impl NodeView {
    /// Takes in what a client knows of it.
    pub(super) fn look(&mut self, report: &NodeReport) {
        (self.votes, self.reachable) = (report.votes, report.reachable);
        self.votes_at = report.quarantine_left.map(|left| Instant::now() + left);
    }

    /// In words that stay the same while nothing happens.
    pub(super) const fn word(&self) -> &'static str {
        match (self.votes, self.reachable, self.votes_at) {
            (true, ..) => "votes",
            (false, false, _) => "unreachable",
            (false, true, Some(_)) => "in quarantine: it may have forgotten locks",
            (false, true, None) => "does not vote",
        }
    }

    /// What was done to it, and how it is now.
    #[cfg(feature = "top")]
    pub(super) fn shown(&self) -> String {
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
#[cfg(feature = "top")]
const fn round(left: Duration) -> Duration {
    Duration::from_secs(left.as_secs() + 1)
}

/// All of it.
#[cfg_attr(not(feature = "top"), expect(dead_code, reason = "nobody draws it"))]
pub(super) struct Picture<'a> {
    pub(super) dashboard: Option<&'a str>,
    pub(super) guard: bool,
    pub(super) judge: &'a Judge,
    pub(super) nodes: &'a [NodeView],
    pub(super) chosen: usize,
    pub(super) paused: Option<usize>,
    /// Lines, and whether they are bad news.
    pub(super) log: &'a VecDeque<(String, bool)>,
    pub(super) help: bool,
    pub(super) now_us: u64,
}
