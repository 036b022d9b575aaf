//! Cases that are measured in turns, and the ratios that come of them.
//!
//! All cases run in one process, on the same machine, in turns: in each round every case once, each
//! round beginning with another. Whatever disturbs the machine meanwhile disturbs them all, and the
//! median over the rounds leaves it out. Every case connects anew, warms up, and is measured; a
//! server that is to hang does so only then, so that the client has to find out for itself. The
//! dead server is dead before the client comes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::client::{Client, Flavour, FloorClient, Names, Setup, TenureClient};
use crate::cluster::Cluster;
use crate::measure::{Measurement, Summary};
use crate::report::{self, Ratio};
use crate::settings::Settings;

/// How many cycles the floor runs at once, and the most tasks of Tenure it is compared with.
pub(crate) const BATCH: usize = 256;

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
    /// All are well, and full of other libraries' locks; ours have no prefix either.
    BesidePeers,
}

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The floor, one cycle at a time.
    FloorSingle,
    /// The floor, [`BATCH`] cycles at a time.
    FloorBatched,
    /// Tenure.
    Tenure(Setup),
}

#[derive(Clone, Copy)]
pub(crate) struct Case(pub(crate) Condition, pub(crate) Variant);

/// One case and what was measured of it.
pub(crate) struct Row {
    pub(crate) condition: Condition,
    pub(crate) variant: Variant,
    pub(crate) summary: Summary,
}

/// A benchmark.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) cases: &'static [Case],
    pub(crate) ratios: fn(&Rows<'_>) -> Vec<Ratio>,
}

/// What was measured, by case.
pub(crate) struct Rows<'a>(pub(crate) &'a [Row]);

struct Clusters {
    whole: Cluster,
    with_one_dead: Cluster,
    /// Where a case wants it.
    beside_peers: Option<Cluster>,
}

impl Rows<'_> {
    pub(crate) fn of(&self, condition: Condition, variant: Variant) -> &Summary {
        let row = self.0.iter().find(|row| (row.condition, row.variant) == (condition, variant));
        row.map(|row| &row.summary).expect("every case was measured")
    }
}

impl Suite {
    pub(crate) fn run(&self, settings: &Settings) -> Result<()> {
        report::begin(settings, self);
        let start = Instant::now();
        let cases = self.cases;
        let wants_peers = cases.iter().any(|Case(condition, _)| *condition == Condition::BesidePeers);
        let clusters = Clusters {
            whole: Cluster::start(),
            with_one_dead: Cluster::start_with_one_dead()?,
            beside_peers: wants_peers.then(Cluster::start_beside_peers),
        };
        let mut measurements: Vec<Vec<Measurement>> = cases.iter().map(|_| vec![]).collect();
        for round in 0..settings.rounds {
            let mut order: Vec<usize> = (0..cases.len()).collect();
            order.rotate_left(round * cases.len() / settings.rounds);
            for index in order {
                let Case(condition, variant) = cases[index];
                let measurement = cases[index].measure(&clusters, settings, &format!("r{round}c{index}"));
                measurements[index].push(measurement.with_context(|| format!("{variant:?}, {condition:?}"))?);
            }
        }
        let row = |(Case(condition, variant), rounds): (&Case, &Vec<Measurement>)| Row {
            condition: *condition,
            variant: *variant,
            summary: Summary::of(rounds),
        };
        let rows: Vec<Row> = cases.iter().zip(&measurements).map(row).collect();
        report::end(settings, &rows, &(self.ratios)(&Rows(&rows)), start.elapsed());
        Ok(())
    }
}

impl Case {
    fn measure(self, clusters: &Clusters, settings: &Settings, names: &str) -> Result<Measurement> {
        let Self(condition, variant) = self;
        let cluster = match condition {
            Condition::Healthy | Condition::Hung => &clusters.whole,
            Condition::Dead => &clusters.with_one_dead,
            Condition::BesidePeers => clusters.beside_peers.as_ref().context("no servers with peers")?,
        };
        cluster.forget_fences();
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
    /// Tenure with so many tasks, as it comes.
    pub(crate) const fn fenced(tasks: usize) -> Self {
        Self::Tenure(Setup { tasks, fenced: true, flavour: Flavour::Single, names: Names::Reused })
    }

    /// Tenure with so many tasks, without fences: what the floor does.
    pub(crate) const fn unfenced(tasks: usize) -> Self {
        Self::Tenure(Setup { tasks, fenced: false, flavour: Flavour::Single, names: Names::Reused })
    }

    fn connect(self, cluster: &Cluster, names: &str) -> Result<Box<dyn Client>> {
        Ok(match self {
            Self::FloorSingle => Box::new(FloorClient::connect(cluster, 1, names)?),
            Self::FloorBatched => Box::new(FloorClient::connect(cluster, BATCH, names)?),
            Self::Tenure(setup) => Box::new(TenureClient::connect(cluster, setup, names)?),
        })
    }
}
