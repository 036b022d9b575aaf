//! Managers on memory nodes, as most tests want them.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]
#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

use std::time::Duration;

use tenure::{Builder, Event, Faults, Locks, MemoryNode};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn nodes<const N: usize>() -> [MemoryNode; N] {
    std::array::from_fn(|index| MemoryNode::new(index.to_string()))
}

pub fn builder(nodes: &[MemoryNode]) -> Builder {
    Locks::builder().nodes(nodes)
}

/// A manager under tokio's clock, for tests that pause it.
pub fn paused(nodes: &[MemoryNode]) -> Locks {
    builder(nodes).tokio_time().build().unwrap()
}

/// Every key on every node.
pub fn keys(nodes: &[MemoryNode]) -> Vec<String> {
    nodes.iter().flat_map(MemoryNode::keys).collect()
}

/// Makes these nodes fail.
pub fn fail(nodes: &[MemoryNode], faults: &Faults) {
    nodes.iter().for_each(|node| node.set_faults(faults.clone()));
}

/// An event in words, without the digits of its fence: they come from the clock.
pub fn words(event: &Event<'_>) -> String {
    let text = format!("{event:?}");
    match text.split_once("Fence(") {
        Some((before, after)) if !after.starts_with("0)") => {
            let rest = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
            format!("{before}Fence(..{rest}")
        }
        _ => text,
    }
}
