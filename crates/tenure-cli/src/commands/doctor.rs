//! `tenure doctor`: what is wrong with nodes and settings, and what to do about it.

mod service;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure::config::KnownNodes;
use tenure::{
    Circle, Event, FindingKind, LockList, LockReport, LockState, Locks, NodeReport, Persistence,
    RestartGuard, Severity,
};

use crate::advice::{Advice, Level};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::looking::of_all_nodes;
use crate::output::Output;
use crate::settings::Settings;

/// How many locks without an end are named one by one.
const ENDLESS_NAMED_MAX: usize = 3;

/// Of so many locks it is seen whether those who hold and want them wait for each other. It takes a
/// round trip for every 32 of them.
const LOOKED_AT_MAX: usize = 256;

pub(crate) async fn run(settings: &Settings, output: &Output) -> Result<Exit, Failure> {
    let complaints = Arc::new(Mutex::new(vec![]));
    let heard = Arc::clone(&complaints);
    let locks = settings.connect(move |event| {
        if let Event::NodesNotRemembered { reason, .. } = event {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push((*reason).to_owned());
        }
    })?;
    let nodes = locks.nodes().await;
    let mut advice = of_nodes(&nodes);
    advice.extend(of_settings(settings, &nodes));
    let complaints = complaints.lock().unwrap_or_else(PoisonError::into_inner).clone();
    advice.extend(of_memory(settings, &nodes, complaints));
    advice.extend(service::advice(&settings.serve));
    // Without a majority it is said above what is wrong.
    let mut progress = output.progress();
    let list = locks.list_under("", of_all_nodes(|done, all| progress.keys(done, all))).await;
    progress.clear();
    if let Ok(list) = list {
        advice.extend(of_locks(&list));
        advice.extend(of_waiters(&locks, &list).await);
    }
    output.doctor(&nodes, &advice)?;
    let danger = advice.iter().any(|advice| advice.level == Level::Danger);
    Ok(if danger { Exit::NO } else { Exit::DONE })
}

/// Locks that nobody will ever get, unless somebody helps.
fn of_locks(list: &LockList) -> Option<Advice> {
    let is_endless = |lock: &&LockReport| matches!(lock.state, LockState::Held { left: None, .. });
    let endless: Vec<String> =
        list.locks.iter().filter(is_endless).map(|lock| format!("{:?}", lock.name)).collect();
    let more = endless.len().saturating_sub(ENDLESS_NAMED_MAX);
    let named = endless.get(..ENDLESS_NAMED_MAX).unwrap_or(&endless).join(", ");
    let message = match (endless.len(), more) {
        (0, _) => return None,
        (1, _) => format!("{named} is held by another owner and never expires"),
        (_, 0) => format!("{named} are held by other owners and never expire"),
        (_, more) => format!("{named} and {more} more are held by other owners and never expire"),
    };
    Some(Advice {
        level: Level::Warning,
        message,
        advice: "If its holder is gone, delete the key on every node; with an empty prefix, check first \
                 that the key is a lock",
    })
}

/// Those who wait for each other for ever.
async fn of_waiters(locks: &Locks, list: &LockList) -> Vec<Advice> {
    let is_held = |lock: &&LockReport| matches!(lock.state, LockState::Held { .. });
    let names = list.locks.iter().filter(is_held).map(|lock| &lock.name).take(LOOKED_AT_MAX);
    let circles = locks.circles(names).await.unwrap_or_default();
    let advice = |circle: &Circle| Advice {
        level: Level::Warning,
        message: format!("deadlock: {circle}"),
        advice: "Stop one of them, then lock all names at once (tenure run a b -- ...), or always in the \
                 same order",
    };
    circles.iter().map(advice).collect()
}

fn of_nodes(nodes: &[NodeReport]) -> Vec<Advice> {
    let mut advice = vec![];
    let voting = nodes.iter().filter(|node| node.votes).count();
    let majority = nodes.len() / 2 + 1;
    if let [node] = nodes {
        let (level, message, advice_given) = if node.votes {
            let message = "the only node votes; without it no lock can be acquired".to_owned();
            (
                Level::Good,
                message,
                "Nothing to do; for locks that survive the loss of a machine, use three \
                                    or five nodes",
            )
        } else {
            let message = "the only node does not vote: no lock can be acquired".to_owned();
            (Level::Danger, message, "Fix the problems listed above")
        };
        advice.push(Advice { level, message, advice: advice_given });
    } else if voting < majority {
        advice.push(Advice {
            level: Level::Danger,
            message: format!(
                "only {voting} of {} nodes vote, {majority} needed: no lock can be acquired",
                nodes.len()
            ),
            advice: "Fix the problems listed above",
        });
    } else if voting < nodes.len() {
        let spare = voting - majority;
        advice.push(Advice {
            level: Level::Warning,
            message: format!("{voting} of {} nodes vote; {spare} more may fail", nodes.len()),
            advice: "Fix the problems listed above",
        });
    } else {
        let message = format!("all {voting} nodes vote; {} may fail", voting - majority);
        let findings = nodes.iter().flat_map(|node| &node.findings);
        let (message, given) = match findings.filter(|finding| finding.severity > Severity::Info).count() {
            0 => (message, "Nothing to do"),
            1 => (format!("works, with 1 warning: {message}"), "See the warning above"),
            warnings => (format!("works, with {warnings} warnings: {message}"), "See the warnings above"),
        };
        advice.push(Advice { level: Level::Good, message, advice: given });
    }
    let refused =
        |node: &&NodeReport| node.findings.iter().any(|finding| finding.severity == Severity::Refuse);
    for node in nodes.iter().filter(refused) {
        advice.push(Advice {
            level: Level::Danger,
            message: format!("{} cannot be used as a node", node.node),
            advice: "Remove it from every client's node list, or fix it as described above",
        });
    }
    let ahead =
        |node: &&NodeReport| node.findings.iter().any(|finding| finding.kind == FindingKind::FencesAhead);
    let ahead = nodes.iter().filter(ahead).count();
    if nodes.len() - ahead < majority {
        advice.push(Advice {
            level: Level::Danger,
            message: format!(
                "the clocks of {ahead} of {} nodes were set back: locks with fences ahead of them cannot \
                 be acquired",
                nodes.len()
            ),
            advice: "Wait until the clocks catch up, or reset the fences: docs/how-to/run-nodes.md, Clocks \
                     that were set back",
        });
    }
    let evicting =
        |node: &&NodeReport| node.findings.iter().any(|finding| finding.kind == FindingKind::Eviction);
    for node in nodes.iter().filter(evicting) {
        advice.push(Advice {
            level: Level::Danger,
            message: format!("{} evicts locks when its memory is full", node.node),
            advice: "Set maxmemory-policy to noeviction on that server",
        });
    }
    if nodes.len() > 1 && nodes.len().is_multiple_of(2) {
        advice.push(Advice {
            level: Level::Warning,
            message: format!("{} nodes tolerate no more failures than {}", nodes.len(), nodes.len() - 1),
            advice: "Use an odd number of nodes",
        });
    }
    advice
}

/// Whether a loss of all memory at once would be noticed: by the servers themselves, by those who
/// know them from before, or because everybody waits after every start.
fn of_memory(settings: &Settings, nodes: &[NodeReport], complaints: Vec<String>) -> Vec<Advice> {
    if settings.is_embedded() || settings.restart_guard.value == RestartGuard::Strict {
        return vec![];
    }
    let warning = |message, advice| Advice { level: Level::Warning, message, advice };
    let mut advice: Vec<Advice> = complaints
        .into_iter()
        .map(|reason| {
            warning(
                reason,
                "Fix it, or use another file (--known-nodes): without one, this machine cannot tell when a \
                 node has lost its memory",
            )
        })
        .collect();
    if settings.known_nodes.value == KnownNodes::Off {
        advice.push(warning(
            "known_nodes is off: this machine cannot tell when a node has lost its memory".to_owned(),
            "Remove known_nodes = \"off\", or set restart_guard = \"strict\"",
        ));
    }
    let reachable = || nodes.iter().filter(|node| node.reachable);
    if reachable().count() == 0 || !reachable().all(|node| node.persistence == Persistence::None) {
        return advice;
    }
    advice.push(match nodes {
        [node] => Advice {
            level: Level::Danger,
            message: format!(
                "{} is the only node and has no persistence: after a restart, a machine that has never \
                 used it can get a lock that is still held",
                node.node
            ),
            advice: "Use three or five nodes, turn on persistence (appendonly yes), or set restart_guard = \
                     \"strict\"",
        },
        _ => warning(
            "no node has persistence: if all restart at once, a machine that has never used them can get a \
             lock that is still held"
                .to_owned(),
            "Turn on persistence on at least one node (appendonly yes), or set restart_guard = \"strict\"",
        ),
    });
    advice
}

fn of_settings(settings: &Settings, nodes: &[NodeReport]) -> Vec<Advice> {
    let mut advice: Vec<Advice> = settings
        .warnings
        .iter()
        .map(|warning| Advice {
            level: Level::Warning,
            message: warning.clone(),
            advice: "Move the password to `password_file`",
        })
        .collect();
    let (ttl, (timeout, timeout_max)) = (settings.ttl.value, settings.node_timeout_range());
    if timeout.saturating_mul(5) > ttl {
        advice.push(Advice {
            level: Level::Warning,
            message: format!("a node timeout of {timeout:?} is large relative to the ttl of {ttl:?}"),
            advice: "Use a longer ttl: an attempt that waits for a hung node uses up much of it",
        });
    }
    for node in nodes {
        let is_far = |round_trip: &Duration| round_trip.saturating_mul(3) > timeout_max.saturating_mul(2);
        if let Some(round_trip) = node.round_trip.filter(is_far) {
            advice.push(Advice {
                level: Level::Warning,
                message: format!(
                    "{} answers in {round_trip:.1?}, close to the node timeout of {timeout_max:.1?}",
                    node.node
                ),
                advice: if settings.node_timeout.value.is_some() {
                    "Remove node_timeout from tenure.toml: the default adapts to the round trip"
                } else {
                    "Use a ttl of at least 20 round trips, or nodes closer by"
                },
            });
        }
    }
    advice
}
