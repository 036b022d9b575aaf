//! The fuzz target for node records. Only built for the fuzzer and for tests.
//!
//! A record is text on a node, where anybody who can write there can change it. Whatever it says,
//! it must not stop a client, and must not make a quarantine shorter than it says itself.

use std::time::Duration;

use super::record::{Nonce, Record, difference, quarantine_of};
use super::{Facts, Fleet, Input, Output, Roster, Settings};
use crate::command::{Command, Swap};
use crate::config::MaxTtl;
use crate::names::Prefix;
use crate::node::LockTable;
use crate::round::{NodeIndex, Quorum};
use crate::time::{NodeTime, Time};

/// The nodes that the fleet expects.
const NODES: [&str; 3] = ["a:1/0", "b:2/0", "c:3/0"];

/// The terms of such a fleet, more or less.
const TERMS: &str = "nodes=a:1/0,b:2/0 node=a:1/0 max_ttl_ms=60000 guard_ms=6000";

/// How many outputs and timeouts one run follows: a fleet that does not settle goes on asking.
const STEPS_MAX: usize = 60;

/// Reads the lines as the records of three nodes; a fourth is the time by their clocks.
///
/// # Panics
/// If a record is misread.
pub fn record(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let records = NODES.map(|_| lines.next().unwrap_or_default());
    let time = lines.next().and_then(|time| time.trim().parse().ok()).unwrap_or(1_700_000_000_000_000);
    records.into_iter().for_each(reads_back);
    fleet_lives_with(records, NodeTime::from_micros(time));
}

fn reads_back(text: &str) {
    let vacant = Record::vacant(text, Nonce::new(7)).to_text();
    assert!(Record::parse(&format!("{vacant}5")).is_some(), "unreadable: {vacant}");
    let _ = difference(text, TERMS);
    let _ = difference(TERMS, text);
    let Some(record) = Record::parse(text) else { return };
    assert!(record.nonce.begins(text), "an acquire would not find its nonce in {text:?}");
    assert!(record.quarantine() >= quarantine_of(&record.terms).max(record.wait));
    // Of several the first counts.
    let max_ttl = record.terms.split(' ').find_map(|word| word.strip_prefix("max_ttl_ms="));
    let max_ttl = max_ttl.and_then(|ms| ms.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
    assert!(record.quarantine() >= max_ttl, "{text:?}");
    if !record.wants_time() {
        assert_eq!(Record::parse(&record.to_text()).as_ref(), Some(&record), "from {text:?}");
    }
    let next = record.renamed(Nonce::new(8), record.phase.clone());
    assert!(next.is_life(record.nonce), "the same life");
    let _ = next.clone().going_on(next.lasting());
}

/// A client connects to nodes that have these records, and follows them for a while.
fn fleet_lives_with(records: [&str; 3], start: NodeTime) {
    let prefix = Prefix::default();
    let quorum = Quorum::of(NODES.len()).expect("three nodes are a quorum");
    let mut nodes = records.map(|text| node_with(&prefix, text, start));
    let settings = Settings::new(MaxTtl::default(), Roster::of_names(NODES));
    let mut fleet = Fleet::new(settings, quorum, prefix, 1);
    let mut now = Time::from_nanos(1_000_000);
    for node in quorum.indexes() {
        fleet.handle(now, Input::Connected { node, facts: Facts::default() });
    }
    for _ in 0..STEPS_MAX {
        match fleet.poll_output() {
            Some(Output::Send { node, command }) => {
                let (sent, node_now) = (now, after(start, now));
                now = now + Duration::from_micros(200);
                let reply = nodes[node.get()].execute(node_now, &command);
                fleet.observe(now, node, sent, &reply);
                fleet.handle(now, Input::Answer { node, answer: Ok(reply) });
            }
            Some(Output::Survey { node }) => {
                fleet.handle(now, Input::Surveyed { node, facts: Facts::default() });
            }
            Some(Output::Remember { .. }) => fleet.handle(now, Input::Forgetful),
            Some(_) => {}
            None => {
                let Some(due) = fleet.poll_timeout() else { break };
                now = due.max(now + Duration::from_millis(1));
                fleet.handle(now, Input::Timeout);
            }
        }
        quorum.indexes().for_each(|node| looked_at(&fleet, now, node));
    }
}

fn looked_at(fleet: &Fleet, now: Time, node: NodeIndex) {
    let report = fleet.report(now, node);
    let _ = report.trust.map_err(|distrust| distrust.to_string());
}

fn node_with(prefix: &Prefix, text: &str, now: NodeTime) -> LockTable {
    let mut node = LockTable::default();
    let swap = Swap { expected: None, text: text.into(), stamp: false };
    node.execute(now, &Command::Record { prefix: prefix.clone(), swap: Some(swap) });
    node
}

fn after(start: NodeTime, now: Time) -> NodeTime {
    NodeTime::from_micros(start.as_micros().saturating_add(now.as_nanos() / 1_000))
}

#[cfg(test)]
#[path = "../../../../fuzz/smoke.rs"]
mod smoke;

#[test]
fn records_survive_a_short_fuzz_run() {
    smoke::run("record", record);
}
