//! What a cycle (acquire, release) costs when nobody competes for the lock, against the floor.
//!
//! All cases run in one process, on the same machine, in turns: in each round every case once, each round beginning
//! with another. Whatever disturbs the machine meanwhile disturbs them all, and the median over the rounds leaves
//! it out. Every case connects anew, warms up, and is measured; a server that is to hang does so only then, so that
//! the client has to find out for itself. The dead server is dead from the start.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::client::{Client, FloorClient, TenureClient};
use crate::cluster::Cluster;
use crate::measure::{Measurement, Summary};
use crate::report::{self, Row};
use crate::settings::Settings;

/// How many cycles the floor runs at once, and the most tasks of Tenure it is compared with.
const BATCH: usize = 256;

/// The part of the time of a measurement that goes before it, unmeasured.
const WARM_UP: f64 = 0.1;

/// What is wrong with the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Healthy,
    /// One is halted: it keeps its connections and answers nobody.
    Hung,
    /// One is gone: it refuses connections.
    Dead,
}

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The floor, one cycle at a time.
    FloorSingle,
    /// The floor, [`BATCH`] cycles at a time.
    FloorBatched,
    /// Tenure with so many tasks.
    Tenure(usize),
}

#[derive(Clone, Copy)]
struct Case(Condition, Variant);

const CASES: &[Case] = &[
    Case(Condition::Healthy, Variant::FloorSingle),
    Case(Condition::Healthy, Variant::FloorBatched),
    Case(Condition::Healthy, Variant::Tenure(1)),
    Case(Condition::Healthy, Variant::Tenure(16)),
    Case(Condition::Healthy, Variant::Tenure(64)),
    Case(Condition::Healthy, Variant::Tenure(BATCH)),
    Case(Condition::Hung, Variant::FloorSingle),
    Case(Condition::Hung, Variant::Tenure(1)),
    Case(Condition::Hung, Variant::Tenure(16)),
    Case(Condition::Hung, Variant::Tenure(64)),
    Case(Condition::Hung, Variant::Tenure(BATCH)),
    Case(Condition::Dead, Variant::FloorSingle),
    Case(Condition::Dead, Variant::Tenure(1)),
    Case(Condition::Dead, Variant::Tenure(16)),
    Case(Condition::Dead, Variant::Tenure(64)),
    Case(Condition::Dead, Variant::Tenure(BATCH)),
];

struct Clusters {
    whole: Cluster,
    with_one_dead: Cluster,
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    report::begin(settings, CASES.len());
    let start = Instant::now();
    let clusters = Clusters { whole: Cluster::start(), with_one_dead: Cluster::start_with_one_dead() };
    let mut measurements: Vec<Vec<Measurement>> = CASES.iter().map(|_| vec![]).collect();
    for round in 0..settings.rounds {
        let mut order: Vec<usize> = (0..CASES.len()).collect();
        order.rotate_left(round * CASES.len() / settings.rounds);
        for index in order {
            let Case(condition, variant) = CASES[index];
            let measurement = CASES[index].measure(&clusters, settings, &format!("r{round}c{index}"));
            measurements[index].push(measurement.with_context(|| format!("{variant:?}, {condition:?}"))?);
        }
    }
    let rows: Vec<Row> = CASES
        .iter()
        .zip(&measurements)
        .map(|(Case(condition, variant), rounds)| (*condition, *variant, Summary::of(rounds)))
        .collect();
    report::end(settings, &rows, start.elapsed());
    Ok(())
}

impl Case {
    fn measure(self, clusters: &Clusters, settings: &Settings, names: &str) -> Result<Measurement> {
        let Self(condition, variant) = self;
        let cluster = match condition {
            Condition::Healthy | Condition::Hung => &clusters.whole,
            Condition::Dead => &clusters.with_one_dead,
        };
        let mut client = variant.connect(cluster, names)?;
        client.work(settings.time.mul_f64(WARM_UP))?;
        let hung = (condition == Condition::Hung).then(|| cluster.hang_one());
        let measurement = Measurement::take(&mut *client, cluster, settings.time)?;
        drop(hung);
        let left_out = client.finish()?;
        // A floor that asks fewer servers would be too low.
        ensure!(condition == Condition::Hung || left_out == 0, "servers were left out {left_out} times");
        Ok(measurement)
    }
}

impl Variant {
    fn connect(self, cluster: &Cluster, names: &str) -> Result<Box<dyn Client>> {
        Ok(match self {
            Self::FloorSingle => Box::new(FloorClient::connect(cluster, 1, names)?),
            Self::FloorBatched => Box::new(FloorClient::connect(cluster, BATCH, names)?),
            Self::Tenure(tasks) => Box::new(TenureClient::connect(cluster, tasks, names)?),
        })
    }
}
