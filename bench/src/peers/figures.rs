//! From the holds of all processes to figures that can be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use super::driver::Outcome;
use super::protocol::Hold;

/// What is measured. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    CyclesPerSecond,
    CycleP50,
    CycleP99,
    AcquireP50,
    AcquireP99,
    AcquireMax,
    /// From the call that releases to the grant of another worker.
    HandOverP50,
    HandOverP99,
    /// Cycles of the least served worker to those of the most served.
    LeastToMost,
    /// From the beginning of the client, and of its process, to the first lock.
    FirstLock,
    ProcessToFirstLock,
    /// Per cycle.
    ClientCpu,
    ServerCpu,
    CpuPerRenewal,
    /// Cycles that did not get their lock, or not rid of it for certain.
    Failed,
    /// Holds of one lock that had another holder at the same time.
    Overlaps,
}

pub(crate) type Figures = BTreeMap<Figure, f64>;

impl Figure {
    /// In the raw numbers.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::CyclesPerSecond => "cycles_per_second",
            Self::CycleP50 => "cycle_p50_us",
            Self::CycleP99 => "cycle_p99_us",
            Self::AcquireP50 => "acquire_p50_us",
            Self::AcquireP99 => "acquire_p99_us",
            Self::AcquireMax => "acquire_max_us",
            Self::HandOverP50 => "hand_over_p50_us",
            Self::HandOverP99 => "hand_over_p99_us",
            Self::LeastToMost => "least_to_most_served",
            Self::FirstLock => "first_lock_us",
            Self::ProcessToFirstLock => "process_to_first_lock_us",
            Self::ClientCpu => "client_cpu_us",
            Self::ServerCpu => "server_cpu_us",
            Self::CpuPerRenewal => "cpu_us_per_renewal",
            Self::Failed => "failed",
            Self::Overlaps => "overlaps",
        }
    }

    /// In the tables.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::CyclesPerSecond => "cycles/s",
            Self::CycleP50 => "cycle p50",
            Self::AcquireP50 => "acquire p50",
            Self::CycleP99 => "cycle p99",
            Self::AcquireP99 => "acquire p99",
            Self::HandOverP99 => "hand-over p99",
            Self::AcquireMax => "longest",
            Self::HandOverP50 => "hand-over p50",
            Self::LeastToMost => "least / most served",
            Self::FirstLock => "first lock",
            Self::ProcessToFirstLock => "from process start",
            Self::ClientCpu => "client CPU",
            Self::ServerCpu => "server CPU",
            Self::CpuPerRenewal => "CPU per renewal",
            Self::Failed => "failed",
            Self::Overlaps => "overlaps",
        }
    }

    /// Whether the floor shows how good it could be. Its fairness was agreed on before, and its
    /// start loads scripts one after the other.
    pub(crate) const fn has_floor(self) -> bool {
        !matches!(self, Self::LeastToMost | Self::FirstLock | Self::ProcessToFirstLock) && !self.is_counted()
    }

    /// Whether the rounds are added up, and not compared.
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::Failed | Self::Overlaps)
    }
}

/// What one turn has shown. `shared`: all workers wanted one lock.
pub(crate) fn of_work(outcomes: &[Outcome], workers: usize, shared: bool, server_cpu: Duration) -> Figures {
    let mut holds: Vec<(usize, &Hold)> = vec![];
    for (process, outcome) in outcomes.iter().enumerate() {
        holds.extend(outcome.done.holds.iter().map(|hold| (process, hold)));
    }
    holds.sort_by_key(|(_, hold)| hold.acquired);
    let failed: usize = outcomes.iter().map(|outcome| outcome.done.failed).sum();
    let mut figures = Figures::from([(Figure::Failed, failed as f64)]);
    if shared {
        figures.insert(Figure::Overlaps, overlaps(&holds) as f64);
    }
    if holds.is_empty() {
        figures.insert(Figure::CyclesPerSecond, 0.0);
        return figures;
    }
    let count = holds.len() as f64;
    let cpu: Duration = outcomes.iter().map(|outcome| outcome.cpu).sum();
    figures.insert(Figure::ClientCpu, micros(cpu) / count);
    figures.insert(Figure::ServerCpu, micros(server_cpu) / count);
    // The beginning and the end are not contended.
    let cut = if shared { holds.len() / 20 } else { 0 };
    let holds = &holds[cut..holds.len() - cut];
    let cycles = sorted(holds.iter().map(|(_, hold)| hold.finished - hold.called));
    let acquires = sorted(holds.iter().map(|(_, hold)| hold.acquired - hold.called));
    figures.insert(Figure::CyclesPerSecond, per_second(holds, shared));
    figures.insert(Figure::CycleP50, percentile(&cycles, 50));
    figures.insert(Figure::CycleP99, percentile(&cycles, 99));
    figures.insert(Figure::AcquireP50, percentile(&acquires, 50));
    figures.insert(Figure::AcquireP99, percentile(&acquires, 99));
    figures.insert(Figure::AcquireMax, percentile(&acquires, 100));
    if shared {
        let worker = |(process, hold): &(usize, &Hold)| (*process, hold.task);
        // Who takes the lock back from itself waits for nobody.
        let pairs = holds.windows(2).filter(|pair| worker(&pair[0]) != worker(&pair[1]));
        let hand_overs = sorted(pairs.map(|pair| pair[1].1.acquired.saturating_sub(pair[0].1.released)));
        if !hand_overs.is_empty() {
            figures.insert(Figure::HandOverP50, percentile(&hand_overs, 50));
            figures.insert(Figure::HandOverP99, percentile(&hand_overs, 99));
        }
        let mut served: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        holds.iter().for_each(|hold| *served.entry(worker(hold)).or_default() += 1.0);
        // Who was never served is in no hold.
        let least =
            if served.len() < workers { 0.0 } else { served.values().copied().fold(f64::MAX, f64::min) };
        figures.insert(Figure::LeastToMost, least / served.values().copied().fold(1.0, f64::max));
    }
    figures
}

/// What it took to keep locks.
pub(crate) fn of_renewals(outcome: &Outcome) -> Figures {
    let mut figures = Figures::from([(Figure::Failed, outcome.done.failed as f64)]);
    if outcome.done.renewals > 0 {
        figures.insert(Figure::CpuPerRenewal, micros(outcome.cpu) / outcome.done.renewals as f64);
    }
    figures
}

/// How many holds begin while another one lasts. They are in the order in which they began.
fn overlaps(holds: &[(usize, &Hold)]) -> usize {
    let (mut until, mut count) = (0, 0);
    for (_, hold) in holds {
        count += usize::from(hold.acquired < until);
        until = until.max(hold.released);
    }
    count
}

fn per_second(holds: &[(usize, &Hold)], shared: bool) -> f64 {
    let first = |part: fn(&Hold) -> u64| holds.iter().map(|(_, hold)| part(hold)).min().unwrap_or(0);
    let last = |part: fn(&Hold) -> u64| holds.iter().map(|(_, hold)| part(hold)).max().unwrap_or(0);
    let nanos = if shared {
        // From one to the next, without the wait of those that came first.
        last(|hold| hold.finished) - first(|hold| hold.acquired)
    } else {
        last(|hold| hold.finished) - first(|hold| hold.called)
    };
    holds.len() as f64 / (nanos.max(1) as f64 / 1e9)
}

fn sorted(nanos: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut nanos: Vec<u64> = nanos.collect();
    nanos.sort_unstable();
    nanos
}

/// In microseconds.
fn percentile(sorted: &[u64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100] as f64 / 1e3
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::protocol::Done;

    fn outcome(holds: &[[u64; 5]], failed: usize) -> Outcome {
        let hold = |[task, called, acquired, released, finished]: &[u64; 5]| Hold {
            task: usize::try_from(*task).unwrap(),
            called: called * 1_000,
            acquired: acquired * 1_000,
            released: released * 1_000,
            finished: finished * 1_000,
        };
        let done = Done { holds: holds.iter().map(hold).collect(), failed, ..Done::default() };
        Outcome { done, cpu: Duration::from_micros(30) }
    }

    #[test]
    fn hand_overs_go_from_one_worker_to_another_in_whichever_process() {
        let processes =
            [outcome(&[[0, 0, 10, 20, 25], [0, 26, 50, 60, 65]], 1), outcome(&[[0, 0, 30, 40, 45]], 0)];
        let figures = of_work(&processes, 2, true, Duration::from_micros(90));
        let of = |figure| figures[&figure];
        assert_eq!((of(Figure::HandOverP50), of(Figure::HandOverP99)), (10.0, 10.0));
        assert_eq!((of(Figure::Overlaps), of(Figure::Failed)), (0.0, 1.0));
        assert_eq!((of(Figure::ClientCpu), of(Figure::ServerCpu)), (20.0, 30.0));
        assert!((of(Figure::LeastToMost) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn two_holders_at_once_are_seen_across_processes() {
        let processes = [outcome(&[[0, 0, 10, 40, 45]], 0), outcome(&[[0, 0, 30, 35, 45]], 0)];
        assert_eq!(of_work(&processes, 2, true, Duration::ZERO)[&Figure::Overlaps], 1.0);
    }

    #[test]
    fn whoever_is_never_served_makes_it_unfair() {
        let figures = of_work(&[outcome(&[[0, 0, 10, 40, 45]], 0)], 2, true, Duration::ZERO);
        assert_eq!(figures[&Figure::LeastToMost], 0.0);
    }

    #[test]
    fn a_peer_that_gets_no_lock_has_a_rate_of_zero() {
        let figures = of_work(&[outcome(&[], 7)], 1, false, Duration::ZERO);
        assert_eq!((figures[&Figure::CyclesPerSecond], figures[&Figure::Failed]), (0.0, 7.0));
        assert!(!figures.contains_key(&Figure::CycleP50));
    }
}
