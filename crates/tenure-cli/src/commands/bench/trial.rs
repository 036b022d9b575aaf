//! The prefix that a benchmark makes for itself, its clients, and that nothing of it is left.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tenure::config::KnownNodes;
use tenure::{Builder, Locks, NodeReport, RestartGuard};
use tokio::task::JoinSet;

use crate::capacity::measured::NodeRun;
use crate::failure::Failure;
use crate::output::{duration, plain};
use crate::settings::{Settings, Source, Sourced};

/// The ttl of its locks, and the largest: if it is killed, they are over soon. Long enough for a
/// node timeout that suits nodes a continent away.
const TTL: Duration = Duration::from_secs(4);

/// If it is killed, fences are forgotten after this. Not shorter than a line is kept, or what nodes
/// do when a lock is passed on would differ.
const FENCE_RETENTION: Duration = Duration::from_secs(600);

/// Round trips are measured so often, or for so long, each after so many questions.
const ROUND_TRIPS: usize = 10;
const QUESTIONS: usize = 3;
const ROUND_TRIPS_WITHIN: Duration = Duration::from_secs(2);

/// The lock that shows whether the nodes give any.
const PROBE: &str = "benchmark";

/// How long it may take: the fences of a new prefix begin half a quarantine ahead.
const PROBE_WITHIN: Duration = Duration::from_secs(8);

/// How long it is tried while too few nodes can be reached: after that half quarantine, those that
/// can be are not named beside those that are down.
const PROBE_IN_VAIN: Duration = Duration::from_secs(3);

/// Cleaning up has a deadline of its own.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Trial {
    settings: Settings,
    prefix: String,
    clients: Vec<Locks>,
    /// The nodes that were reached: only they can have something of ours.
    reached: BTreeSet<usize>,
}

impl Trial {
    pub(super) fn new(settings: &Settings) -> Result<Self, Failure> {
        let mut settings = settings.clone();
        // A name that nobody else has. Under the configured prefix, which is what this user may
        // write to.
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        let prefix = format!("{}~bench-{random:016x}:", settings.prefix.value);
        // What nodes forget of this prefix does not matter to anybody.
        settings.known_nodes = Sourced { value: KnownNodes::Off, source: Source::Default };
        let trial = Self { settings, prefix, clients: vec![], reached: BTreeSet::new() };
        trial.builder()?.build()?;
        Ok(trial)
    }

    /// What will be done to the nodes.
    pub(super) fn announcement(&self, time: Duration) -> String {
        let count = self.settings.nodes.value.len();
        let nodes = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
        format!(
            "measuring {nodes} for {}: acquiring and releasing up to 64 locks at a time as fast as \
             possible, under the prefix {:?}, which is removed afterwards",
            duration(time),
            self.prefix
        )
    }

    /// So many clients, each with connections of its own.
    pub(super) fn clients(&mut self, count: usize) -> Result<&[Locks], Failure> {
        while self.clients.len() < count {
            let client = self.builder()?.build()?;
            self.clients.push(client);
        }
        Ok(&self.clients[..count])
    }

    /// Connects, waits for the first lock, and measures the round trips meanwhile.
    pub(super) async fn begin(&mut self) -> Result<Vec<NodeRun>, Failure> {
        let locks = self.clients(1)?[0].clone();
        let probing = tokio::spawn(probe(locks.clone()));
        let (begun, mut samples) = (Instant::now(), vec![]);
        while samples.is_empty() || samples.len() < ROUND_TRIPS && begun.elapsed() < ROUND_TRIPS_WITHIN {
            // Asks every node; the report tells how long the last question took.
            for _ in 0..QUESTIONS {
                let _ = locks.inspect(PROBE).await;
            }
            let reports = locks.nodes().await;
            self.reached.extend((0..reports.len()).filter(|index| reports[*index].reachable));
            samples.push(reports);
        }
        probing.await.map_err(|error| Failure::internal(error.to_string()))??;
        // Who votes is known for certain now.
        let reports = locks.nodes().await;
        Ok(reports.iter().enumerate().map(|(index, report)| node_run(report, index, &samples)).collect())
    }

    /// That the nodes still give locks.
    pub(super) async fn probe(&mut self) -> Result<(), Failure> {
        probe(self.clients(1)?[0].clone()).await
    }

    /// Ends all clients and removes what nodes keep for the prefix. What is left after all, and
    /// what to do about it.
    pub(super) async fn clean_up(&mut self) -> Option<String> {
        let mut ending = JoinSet::new();
        for client in self.clients.drain(..) {
            ending.spawn(async move { client.shutdown_within(CLEAN_UP_WITHIN).await.is_ok() });
        }
        while ending.join_next().await.is_some() {}
        if self.reached.is_empty() {
            return None;
        }
        let nodes = std::mem::take(&mut self.settings.nodes.value).into_iter().enumerate();
        let reached = nodes.filter(|(index, _)| self.reached.contains(index));
        self.settings.nodes.value = reached.map(|(_, node)| node).collect();
        let builder = self.builder().ok()?;
        let given_up = tokio::time::timeout(CLEAN_UP_WITHIN, tenure::give_up_prefix(builder)).await;
        let reason = match given_up {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it took too long".to_owned(),
        };
        Some(format!(
            "warning: not all of the benchmark's keys were removed: {reason}. Fences expire within {}; \
             delete the key tenure~node:{{{}}} by hand",
            duration(FENCE_RETENTION),
            self.prefix
        ))
    }

    fn builder(&self) -> Result<Builder, Failure> {
        let mut options = self.settings.options();
        options.ttl = TTL;
        options.wait = tenure::Wait::No;
        let builder = self.settings.builder()?.prefix(&self.prefix).defaults(options).max_ttl(TTL);
        Ok(builder.restart_guard(RestartGuard::Off).fence_retention(FENCE_RETENTION))
    }
}

/// Acquires a lock and releases it.
async fn probe(locks: Locks) -> Result<(), Failure> {
    let nodes = locks.nodes().await;
    let reachable = nodes.iter().filter(|node| node.reachable).count();
    let patience = if reachable * 2 > nodes.len() { PROBE_WITHIN } else { PROBE_IN_VAIN };
    let guard = locks.lock(PROBE).wait(patience).acquire().await;
    let _ = guard.map_err(|error| Failure::unmeasured(&error))?.release().await;
    Ok(())
}

/// What is known of a node after several looks at it.
fn node_run(report: &NodeReport, index: usize, samples: &[Vec<NodeReport>]) -> NodeRun {
    let seen = samples.iter().filter_map(|reports| reports.get(index)).filter(|report| report.reachable);
    // The shortest: what the network alone takes, whatever else the machines did meanwhile.
    let round_trip = seen.filter_map(|report| report.round_trip).min();
    let worst = report.findings.first();
    NodeRun {
        node: report.node.to_string(),
        votes: report.votes,
        version: report.version.as_deref().map(plain),
        persistence: report.persistence,
        round_trip: round_trip.filter(|_| report.reachable),
        error: worst.filter(|_| !report.votes).map(|finding| plain(&finding.message)),
    }
}
