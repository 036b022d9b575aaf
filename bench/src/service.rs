//! What the service costs beside the library, beside a call that does nothing, and beside etcd.
//!
//! A cycle is an acquire and a release of a name that is used once. Over HTTP these are two calls
//! on a connection that stays, from this process to `tenure serve` in another; the same connections
//! also ask for `/livez`, which is what two calls cost anyhow. Everybody takes turns on the same
//! machine. etcd has three members, which write to disk before they answer, and is asked through
//! its JSON gateway; beside it are nodes that do so as well (`appendfsync always`).

mod contender;
mod http;
mod instance;

use std::time::Duration;

use anyhow::Result;
use tenure_testkit::certificates::Authority;

use self::contender::{Contender, Cycles};
use self::instance::Instance;
use crate::cluster::Cluster;
use crate::measure::{Percentiles, micros};
use crate::peers::Etcd;
use crate::report::{Ratio, Target};
use crate::settings::Settings;

/// So many connections, or tasks, when there are many.
const MANY: usize = 64;

/// So many want one lock.
const WORKERS: usize = 16;

/// What is measured of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    One,
    Many,
    HandOver,
}

/// A contender under a load, and what each round has shown.
struct Case {
    name: &'static str,
    load: Load,
    rounds: Vec<Round>,
}

struct Round {
    per_second: f64,
    failed: usize,
    times: Percentiles,
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let Settings { time, rounds, json } = *settings;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (near, durable, authority) = (Cluster::start(), Cluster::start_durable(), Authority::new());
    let plain = Instance::start(&near, None)?;
    let tls = Instance::start(&near, Some(&authority))?;
    let on_disk = Instance::start(&durable, None)?;
    let etcd = Etcd::start(false)?;
    let contenders = [
        ("library", Contender::library(&runtime, &near)?, &[Load::One, Load::Many, Load::HandOver][..]),
        ("livez", Contender::livez(&plain), &[Load::One, Load::Many]),
        ("service", Contender::service(&plain), &[Load::One, Load::Many, Load::HandOver]),
        ("service, TLS", Contender::service_by_tls(&tls, &authority)?, &[Load::One]),
        ("service, nodes on disk", Contender::service(&on_disk), &[Load::Many]),
        ("etcd", Contender::etcd(&etcd), &[Load::One, Load::Many]),
    ];
    let mut cases: Vec<(Case, &Contender)> = vec![];
    for (name, contender, loads) in &contenders {
        // The first locks of a process, and its first connections, are another matter.
        runtime.block_on(contender.cycles(MANY, Duration::from_millis(300)))?;
        let case = |load: &Load| (Case { name, load: *load, rounds: vec![] }, contender);
        cases.extend(loads.iter().map(case));
    }
    for round in 0..rounds {
        if !json {
            eprintln!("service: round {} of {rounds}, {} cases of {time:?}", round + 1, cases.len());
        }
        let turns = cases.len();
        for turn in 0..turns {
            let (case, contender) = &mut cases[(round + turn) % turns];
            case.rounds.push(runtime.block_on(case.load.measure(contender, time))?);
        }
    }
    let cases: Vec<Case> = cases.into_iter().map(|(case, _)| case).collect();
    print(&cases, json);
    Ok(())
}

impl Load {
    async fn measure(self, contender: &Contender, time: Duration) -> Result<Round> {
        let Cycles { times, failed, elapsed } = match self {
            Self::One => contender.cycles(1, time).await?,
            Self::Many => contender.cycles(MANY, time).await?,
            Self::HandOver => contender.hand_overs(WORKERS, time).await?,
        };
        anyhow::ensure!(!times.is_empty(), "not a single cycle came to its end");
        let per_second = times.len() as f64 / elapsed.as_secs_f64();
        Ok(Round { per_second, failed, times: Percentiles::of(times) })
    }

    const fn title(self) -> &'static str {
        match self {
            Self::One => "one connection",
            Self::Many => "64 connections",
            Self::HandOver => "hand-over, 16 workers",
        }
    }
}

impl Case {
    fn median(&self, of: fn(&Round) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    fn per_second(&self) -> f64 {
        self.median(|round| round.per_second)
    }

    fn p50(&self) -> f64 {
        self.median(|round| micros(round.times.p50))
    }

    fn p99(&self) -> f64 {
        self.median(|round| micros(round.times.p99))
    }
}

fn print(cases: &[Case], json: bool) {
    if !json {
        println!(
            "five Redis servers, medians; times in microseconds, of a cycle or from a release to the next holder"
        );
        println!("  {:24}{:24}{:>12}{:>10}{:>10}{:>10}", "", "", "per second", "p50", "p99", "failed");
    }
    for case in cases {
        let (name, load, rate) = (case.name, case.load.title(), case.per_second());
        let (p50, p99) = (case.p50(), case.p99());
        let failed: usize = case.rounds.iter().map(|round| round.failed).sum();
        if json {
            println!(
                r#"{{"contender":"{name}","load":"{load}","per_second":{rate:.1},"p50_us":{p50:.1},"p99_us":{p99:.1},"failed":{failed}}}"#
            );
        } else {
            println!("  {load:24}{name:24}{rate:>12.0}{p50:>10.0}{p99:>10.0}{failed:>10}");
        }
    }
    for ratio in ratios(cases) {
        println!("{}{}", if json { "" } else { "  " }, if json { ratio.json() } else { ratio.to_string() });
    }
}

/// What is aimed at.
fn ratios(cases: &[Case]) -> [Ratio; 6] {
    let of = |name: &str, load: Load| {
        cases.iter().find(|case| case.name == name && case.load == load).expect("it was measured")
    };
    let p50 = |name, load| of(name, load).p50();
    let rate = |name| of(name, Load::Many).per_second();
    let ratio = |name, value, target| Ratio { name, value, target };
    [
        ratio(
            "cycle p50, service / (library + 2 livez)",
            p50("service", Load::One) / (p50("library", Load::One) + 2.0 * p50("livez", Load::One)),
            Target::AtMost(1.3),
        ),
        ratio(
            "cycles/s, service / 1 / (1 / library + 2 / livez)",
            rate("service") * (1.0 / rate("library") + 2.0 / rate("livez")),
            Target::AtLeast(0.7),
        ),
        ratio(
            "cycle p50, TLS / plain",
            p50("service, TLS", Load::One) / p50("service", Load::One),
            Target::AtMost(1.15),
        ),
        ratio(
            "hand-over p50, service / (library + livez)",
            p50("service", Load::HandOver) / (p50("library", Load::HandOver) + p50("livez", Load::One)),
            Target::AtMost(1.4),
        ),
        ratio("cycles/s, service / etcd", rate("service") / rate("etcd"), Target::AtLeast(5.0)),
        ratio(
            "cycles/s, service with nodes on disk / etcd",
            rate("service, nodes on disk") / rate("etcd"),
            Target::AtLeast(1.0),
        ),
    ]
}
