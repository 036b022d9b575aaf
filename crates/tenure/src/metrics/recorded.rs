//! What is counted, told to whichever recorder the program has installed.
//!
//! Recorders may come and go, so a metric is asked for whenever it is counted. Its key is made
//! once: without a recorder nothing is allocated.

use std::sync::Arc;

use metrics::{Key, Label, Level, Metadata, Recorder, Unit, with_recorder};

use super::{
    ACQUIRE_OUTCOMES, ACQUIRE_SECONDS, ACQUIRES, Count, EXTENSION_OUTCOMES, EXTENSIONS, LEASES_LOST, Metric,
    NODE_DISTRUSTED, NODE_GAUGES, QUORUM_NODES, group,
};
use crate::event::Event;
use crate::locks::{Builder, Locks};

static METADATA: Metadata<'_> = Metadata::new("tenure", Level::INFO, Some("tenure"));

/// Counts the events of one manager. A clone counts into the same.
#[derive(Clone, Debug)]
pub(crate) struct Recorded(Arc<Keys>);

#[derive(Debug)]
struct Keys {
    groups: Vec<String>,
    /// One for each group, and at the end one for locks in none.
    of_groups: Vec<GroupKeys>,
    /// In the order of [`ACQUIRE_OUTCOMES`].
    acquire_seconds: Vec<Key>,
}

#[derive(Debug)]
struct GroupKeys {
    /// In the order of [`ACQUIRE_OUTCOMES`].
    acquires: Vec<Key>,
    /// In the order of [`EXTENSION_OUTCOMES`].
    extensions: Vec<Key>,
    lost: Key,
}

impl Recorded {
    pub(crate) fn new(groups: Vec<String>) -> Self {
        let none = String::new();
        let of_groups = groups.iter().chain([&none]).map(|group| GroupKeys::new(group)).collect();
        let acquire_seconds = ACQUIRE_OUTCOMES.map(|outcome| key(ACQUIRE_SECONDS, &[outcome])).into();
        Self(Arc::new(Keys { groups, of_groups, acquire_seconds }))
    }

    /// Tells the recorder, if there is one yet, what the metrics mean.
    pub(crate) fn describe(&self) {
        with_recorder(|recorder| {
            for counter in [ACQUIRES, EXTENSIONS, LEASES_LOST, NODE_DISTRUSTED] {
                recorder.describe_counter(counter.name.into(), Some(Unit::Count), counter.help.into());
            }
            let Metric { name, help, .. } = ACQUIRE_SECONDS;
            recorder.describe_histogram(name.into(), Some(Unit::Seconds), help.into());
            let gauges = NODE_GAUGES.iter().map(|gauge| gauge.metric).chain([QUORUM_NODES]);
            for Metric { name, help, .. } in gauges {
                recorder.describe_gauge(name.into(), unit(name), help.into());
            }
        });
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        let Some(count) = Count::of(event) else { return };
        with_recorder(|recorder| self.0.record(recorder, count));
    }
}

impl Default for Recorded {
    /// All locks are alike.
    fn default() -> Self {
        Self::new(vec![])
    }
}

impl Keys {
    fn record(&self, recorder: &dyn Recorder, count: Count<'_>) {
        let increment = |key: &Key| recorder.register_counter(key, &METADATA).increment(1);
        match count {
            Count::Acquire { outcome, name, elapsed } => {
                let place = place(&ACQUIRE_OUTCOMES, outcome);
                increment(&self.of(name).acquires[place]);
                let seconds = recorder.register_histogram(&self.acquire_seconds[place], &METADATA);
                seconds.record(elapsed.as_secs_f64());
            }
            Count::Extension { outcome, name } => {
                increment(&self.of(name).extensions[place(&EXTENSION_OUTCOMES, outcome)]);
            }
            Count::Lost { name } => increment(&self.of(name).lost),
            // Hardly ever.
            Count::NodeDistrusted { node } => increment(&key(NODE_DISTRUSTED, &[node])),
        }
    }

    fn of(&self, name: &str) -> &GroupKeys {
        let place = group(&self.groups, name).unwrap_or(self.groups.len());
        &self.of_groups[place]
    }
}

impl GroupKeys {
    fn new(group: &str) -> Self {
        Self {
            acquires: ACQUIRE_OUTCOMES.map(|outcome| key(ACQUIRES, &[outcome, group])).into(),
            extensions: EXTENSION_OUTCOMES.map(|outcome| key(EXTENSIONS, &[outcome, group])).into(),
            lost: key(LEASES_LOST, &[group]),
        }
    }
}

impl Builder {
    /// Groups locks in metrics by name prefix: a lock belongs to the longest prefix that its name
    /// begins with, and to the group `""` if there is none.
    ///
    /// Each group is a label value, so define few. See [`metrics`](crate::metrics).
    pub fn metrics_groups<G: Into<String>>(mut self, groups: impl IntoIterator<Item = G>) -> Self {
        self.observer.record_groups(groups.into_iter().map(Into::into).collect());
        self
    }
}

impl Locks {
    /// Records the state of the nodes ([`NODE_GAUGES`]), as [`Locks::nodes`] reports it. Call it
    /// now and then, for instance before metrics are exported. See [`metrics`](crate::metrics).
    ///
    /// # Cancel safety
    /// It changes nothing, so it may be dropped at any time.
    pub async fn record_nodes(&self) {
        let nodes = self.nodes().await;
        with_recorder(|recorder| {
            let gauge = |key: &Key, value: f64| recorder.register_gauge(key, &METADATA).set(value);
            let majority = u32::try_from(nodes.len() / 2 + 1).map_or(f64::INFINITY, f64::from);
            gauge(&key(QUORUM_NODES, &[]), majority);
            for (node, of) in nodes.iter().flat_map(|node| NODE_GAUGES.iter().map(move |of| (node, of))) {
                if let Some(value) = (of.value)(node) {
                    gauge(&key(of.metric, &[&node.node]), value);
                }
            }
        });
    }
}

fn key(metric: Metric, values: &[&str]) -> Key {
    let label = |(name, value): (&&'static str, &&str)| Label::new(*name, (*value).to_owned());
    Key::from_parts(metric.name, metric.labels.iter().zip(values).map(label).collect::<Vec<_>>())
}

fn place(outcomes: &[&str], outcome: &str) -> usize {
    // The last one stands for all others.
    outcomes.iter().position(|known| *known == outcome).unwrap_or(outcomes.len() - 1)
}

fn unit(name: &str) -> Option<Unit> {
    match name {
        name if name.ends_with("_seconds") => Some(Unit::Seconds),
        name if name.ends_with("_bytes") => Some(Unit::Bytes),
        _ => None,
    }
}
