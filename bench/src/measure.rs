//! From single cycles to numbers that can be compared.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::client::Client;
use crate::cluster::Cluster;
use crate::cpu_time;

/// How long one cycle took.
#[derive(Clone, Copy)]
pub(crate) struct Cycle {
    pub(crate) acquire: Duration,
    pub(crate) whole: Duration,
}

/// What a client has done.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) cycles: Vec<Cycle>,
    /// Cycles in which the lock was not acquired, or not released for certain.
    pub(crate) failed: usize,
}

/// What one round has shown of one case.
pub(crate) struct Measurement {
    cycles: usize,
    failed: usize,
    elapsed: Duration,
    whole: Percentiles,
    acquire: Percentiles,
    client_cpu: Duration,
    server_cpu: Duration,
    /// What all processes of this machine have used.
    all_cpu: Duration,
}

/// What all rounds have shown of one case. Times are in microseconds.
pub(crate) struct Summary {
    pub(crate) cycles_per_second: f64,
    /// The failed cycles of all rounds; they count for nothing else.
    pub(crate) failed: usize,
    /// The distance of the best from the worst round, in per cent of the median.
    pub(crate) spread: f64,
    pub(crate) whole_p50: f64,
    pub(crate) whole_p99: f64,
    pub(crate) acquire_p50: f64,
    pub(crate) acquire_p99: f64,
    pub(crate) client_cpu: f64,
    pub(crate) server_cpu: f64,
    /// What everything else has used of the machine, in per cent. It is counted in ticks: a few are
    /// noise, and with more the other numbers cannot be trusted.
    pub(crate) others: f64,
}

#[derive(Clone, Copy)]
pub(crate) struct Percentiles {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Measurement {
    /// Lets the client work for this time, and reads the clocks around it.
    pub(crate) fn take(client: &mut dyn Client, cluster: &Cluster, time: Duration) -> Result<Self> {
        let (before, start) = (clocks(cluster)?, Instant::now());
        let Work { cycles, failed } = client.work(time)?;
        let (elapsed, after) = (start.elapsed(), clocks(cluster)?);
        let spent = |clock: usize| after[clock].saturating_sub(before[clock]);
        let (client_cpu, server_cpu, all_cpu) = (spent(0), spent(1), spent(2));
        ensure!(!cycles.is_empty(), "not a single cycle came to its end");
        let of = |part: fn(&Cycle) -> Duration| Percentiles::of(cycles.iter().map(part).collect());
        let (whole, acquire) = (of(|cycle| cycle.whole), of(|cycle| cycle.acquire));
        Ok(Self { cycles: cycles.len(), failed, elapsed, whole, acquire, client_cpu, server_cpu, all_cpu })
    }

    fn cycles_per_second(&self) -> f64 {
        self.cycles as f64 / self.elapsed.as_secs_f64()
    }

    fn client_cpu(&self) -> f64 {
        micros(self.client_cpu) / self.cycles as f64
    }
}

impl Summary {
    /// The medians over all rounds. Only the CPU time of other processes is summed up: it is
    /// counted in ticks of 10 ms, too coarse for one round.
    pub(crate) fn of(rounds: &[Measurement]) -> Self {
        let over = |part: fn(&Measurement) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(part).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let median = |part| middle(&over(part));
        let rates = over(Measurement::cycles_per_second);
        let cycles: usize = rounds.iter().map(|round| round.cycles).sum();
        let sum = |part: fn(&Measurement) -> Duration| rounds.iter().map(part).sum::<Duration>();
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let ours = sum(|round| round.client_cpu + round.server_cpu);
        let others = sum(|round| round.all_cpu).saturating_sub(ours);
        Self {
            cycles_per_second: middle(&rates),
            failed: rounds.iter().map(|round| round.failed).sum(),
            spread: 100.0 * (rates[rates.len() - 1] - rates[0]) / middle(&rates),
            whole_p50: median(|round| micros(round.whole.p50)),
            whole_p99: median(|round| micros(round.whole.p99)),
            acquire_p50: median(|round| micros(round.acquire.p50)),
            acquire_p99: median(|round| micros(round.acquire.p99)),
            client_cpu: median(Measurement::client_cpu),
            server_cpu: micros(sum(|round| round.server_cpu)) / cycles as f64,
            others: 100.0 * others.div_duration_f64(sum(|round| round.elapsed)) / cpus,
        }
    }
}

impl Percentiles {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent| times[(times.len() - 1) * percent / 100];
        Self { p50: at(50), p99: at(99) }
    }
}

/// The CPU time that this process, the servers and all processes have used.
fn clocks(cluster: &Cluster) -> Result<[Duration; 3]> {
    Ok([cpu_time::of_this_process(), cluster.cpu_time()?, cpu_time::of_all_processes()?])
}

/// The median of one figure over several rounds.
pub(crate) fn median_of<T>(rounds: &[T], figure: fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    middle(&values)
}

/// The median of sorted values.
fn middle(values: &[f64]) -> f64 {
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times = (1..=200).rev().map(Duration::from_micros).collect();
        let Percentiles { p50, p99 } = Percentiles::of(times);
        assert_eq!((p50.as_micros(), p99.as_micros()), (100, 198));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert!((middle(&[1.0, 2.0, 4.0, 9.0]) - 3.0).abs() < 1e-9);
        assert!((middle(&[1.0, 2.0, 9.0]) - 2.0).abs() < 1e-9);
    }
}
