//! How the nodes stand, for whoever asks.

use std::time::Duration;

use tenure_core::trust::Report;
use tenure_core::{Fleet, NODES_MAX, NodeIndex, NodeSet, Time};
use tokio::sync::oneshot;

use crate::node::Server;

/// How long servers may take to tell about themselves; those that do not are shown as they were.
const SURVEY_MAX: Duration = Duration::from_secs(1);

/// What is known about one node.
pub(crate) struct Surveyed {
    pub(crate) report: Report,
    /// What its server last said about itself.
    pub(crate) server: Option<Server>,
}

/// The last words of every server, and who waits for new ones.
#[derive(Default)]
pub(super) struct Surveys {
    servers: [Option<Server>; NODES_MAX],
    waiting: Vec<Waiting>,
}

struct Waiting {
    asked: NodeSet,
    limit: Time,
    reply: oneshot::Sender<Vec<Surveyed>>,
}

impl Surveys {
    pub(super) fn begin(&mut self, now: Time, asked: NodeSet, reply: oneshot::Sender<Vec<Surveyed>>) {
        self.waiting.push(Waiting { asked, limit: now + SURVEY_MAX, reply });
    }

    pub(super) fn learn(&mut self, node: NodeIndex, server: Server) {
        self.servers[node.get()] = Some(server);
        self.waiting.iter_mut().for_each(|waiting| waiting.asked.remove(node));
    }

    /// Answers those who have waited for long enough, or have nobody left to wait for.
    pub(super) fn answer(&mut self, now: Time, fleet: &Fleet) {
        let settled = fleet.is_settled();
        let ready = |waiting: &mut Waiting| waiting.asked.is_empty() && settled || now >= waiting.limit;
        let surveyed = |node: NodeIndex| Surveyed {
            report: fleet.report(now, node),
            server: self.servers[node.get()].clone(),
        };
        for Waiting { reply, .. } in self.waiting.extract_if(.., ready) {
            let _ = reply.send(fleet.quorum().indexes().map(surveyed).collect());
        }
    }

    /// When somebody has waited for long enough.
    pub(super) fn next_limit(&self) -> Option<Time> {
        self.waiting.iter().map(|waiting| waiting.limit).min()
    }
}
