//! The numbers as tables for people, or as JSON for programs, and the ratios that must hold.

use std::fmt;
use std::time::Duration;

use crate::settings::Settings;
use crate::suite::{Condition, Row, Suite, Variant};

/// A ratio of two measured numbers, and what it should be.
pub(crate) struct Ratio {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) target: Target,
}

pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// Says what will be done.
pub(crate) fn begin(settings: &Settings, suite: &Suite) {
    let (name, title, cases) = (suite.name, suite.title, suite.cases.len());
    let Settings { time, rounds, json } = *settings;
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    if json {
        let seconds = time.as_secs_f64();
        println!(r#"{{"benchmark":"{name}","seconds":{seconds},"rounds":{rounds},"cpus":{cpus}}}"#);
    } else {
        println!("{title} on five Redis servers, {cpus} CPUs for all");
        println!("{cases} cases in turns, {rounds} rounds of {time:?} each; medians over the rounds");
        println!(
            "times in microseconds, CPU times per cycle; others: what other processes used of the machine"
        );
    }
}

/// Says what has come of it.
pub(crate) fn end(settings: &Settings, rows: &[Row], ratios: &[Ratio], elapsed: Duration) {
    if settings.json {
        rows.iter().for_each(|row| println!("{}", json(row)));
        ratios.iter().for_each(|ratio| println!("{}", ratio.json()));
        return;
    }
    for condition in [Condition::Healthy, Condition::Hung, Condition::Dead, Condition::BesidePeers] {
        if rows.iter().any(|row| row.condition == condition) {
            println!("\n{condition}");
            print_table(rows.iter().filter(|row| row.condition == condition));
        }
    }
    println!("\nratios");
    for ratio in ratios {
        println!("  {ratio}");
    }
    println!("\nmeasured in {:.0} s", elapsed.as_secs_f64());
}

fn print_table<'a>(rows: impl Iterator<Item = &'a Row>) {
    let header = ["cycles/s", "spread", "cycle p50", "p99", "acquire p50", "p99", "client CPU", "server CPU"];
    let header: String =
        header.iter().chain(&["others", "failed"]).map(|name| format!("{name:>12}")).collect();
    println!("  {:20}{header}", "");
    for Row { variant, summary, .. } in rows {
        let cells = [
            format!("{:.0}", summary.cycles_per_second),
            format!("{:.0} %", summary.spread),
            format!("{:.0}", summary.whole_p50),
            format!("{:.0}", summary.whole_p99),
            format!("{:.0}", summary.acquire_p50),
            format!("{:.0}", summary.acquire_p99),
            format!("{:.1}", summary.client_cpu),
            format!("{:.1}", summary.server_cpu),
            format!("{:.0} %", summary.others),
            summary.failed.to_string(),
        ];
        let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
        println!("  {:20}{cells}", variant.to_string());
    }
}

fn json(Row { condition, variant, summary }: &Row) -> String {
    let numbers = [
        ("cycles_per_second", summary.cycles_per_second),
        ("spread_percent", summary.spread),
        ("cycle_p50_us", summary.whole_p50),
        ("cycle_p99_us", summary.whole_p99),
        ("acquire_p50_us", summary.acquire_p50),
        ("acquire_p99_us", summary.acquire_p99),
        ("client_cpu_us_per_cycle", summary.client_cpu),
        ("server_cpu_us_per_cycle", summary.server_cpu),
        ("others_percent_of_machine", summary.others),
    ];
    let numbers: String = numbers.iter().map(|(name, value)| format!(r#","{name}":{value:.2}"#)).collect();
    format!(r#"{{"condition":"{condition}","variant":"{variant}"{numbers},"failed":{}}}"#, summary.failed)
}

impl Ratio {
    fn is_met(&self) -> bool {
        match self.target {
            Target::AtMost(limit) => self.value <= limit,
            Target::AtLeast(limit) => self.value >= limit,
        }
    }

    pub(crate) fn json(&self) -> String {
        let Self { name, value, .. } = self;
        let (bound, limit) = match self.target {
            Target::AtMost(limit) => ("at_most", limit),
            Target::AtLeast(limit) => ("at_least", limit),
        };
        format!(r#"{{"ratio":"{name}","value":{value:.3},"{bound}":{limit},"met":{}}}"#, self.is_met())
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, limit) = match self.target {
            Target::AtMost(limit) => ("at most", limit),
            Target::AtLeast(limit) => ("at least", limit),
        };
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        write!(f, "{:52} {:6.2}   target {bound:8} {limit:.2}   {verdict}", self.name, self.value)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Hung => "one hung",
            Self::BesidePeers => "beside peers",
            Self::Dead => "one dead",
        })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FloorSingle => f.write_str("floor single"),
            Self::FloorBatched => f.write_str("floor batched"),
            Self::Tenure(setup) => setup.fmt(f),
        }
    }
}
