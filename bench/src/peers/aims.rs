//! What Tenure has to reach beside its peers, and whether it did in this run.

use super::contender::{Runtime, Stores};
use super::figures::Figure;
use super::results::{CellRows, Row, Section};
use super::workload::Workload;

/// A ratio of two figures, and what it should be.
pub(crate) struct Aim {
    what: String,
    value: f64,
    at_least: bool,
    limit: f64,
}

/// The aims that the measured cells can tell about, as a table.
pub(crate) fn table(sections: &[Section]) -> String {
    let aims: Vec<Aim> = sections.iter().flat_map(of).collect();
    if aims.is_empty() {
        return String::new();
    }
    let mut text = "## Aims\n\n| | aim | this run | |\n|---|---|---|---|\n".to_owned();
    for Aim { what, value, at_least, limit } in &aims {
        let (bound, met) = if *at_least { ("at least", value >= limit) } else { ("at most", value <= limit) };
        let verdict = if met { "met" } else { "**missed**" };
        text += &format!("| {what} | {bound} {limit} | {value:.2} | {verdict} |\n");
    }
    text + "\n"
}

fn of(section: &Section) -> Vec<Aim> {
    let cells = section.cells.iter();
    match section.workload {
        Workload::Uncontended => {
            cells.filter(|cell| cell.name.ends_with("used once")).flat_map(uncontended).collect()
        }
        Workload::Contended => {
            cells.filter(|cell| cell.name.starts_with("four")).flat_map(contended).collect()
        }
        Workload::Failures => failures(section),
        // `bench held` judges that, with a floor that is woken as often as renewals are due.
        Workload::Held => vec![],
        Workload::Nodes => nodes(section),
        Workload::Distance => distance(section),
    }
}

const RUNTIMES: [Runtime; 3] = [Runtime::Single, Runtime::Threads1, Runtime::Threads2];

fn uncontended(cell: &CellRows) -> Vec<Aim> {
    let mut aims = vec![];
    let tasks = cell.name.split(',').next().unwrap_or_default();
    for runtime in RUNTIMES {
        let ours = |name| tenure(cell, name, runtime);
        let mut aim = |what: &str, figure, name, at_least, limit| {
            let best = if at_least { largest(cell, figure, runtime) } else { least(cell, figure, runtime) };
            let value = ours(name).and_then(|row| Some(row.value(figure)? / best?));
            aims.extend(value.map(|value| Aim {
                what: format!("{tasks}, {}: {what} / best quorum peer", runtime.name()),
                value,
                at_least,
                limit,
            }));
        };
        match tasks {
            "1 task" => {
                aim("cycle p50, Tenure", Figure::CycleP50, "tenure", false, 0.9);
                aim("cycle p99, Tenure", Figure::CycleP99, "tenure", false, 1.0);
            }
            "4 tasks" => aim("cycles/s, Tenure", Figure::CyclesPerSecond, "tenure", true, 1.1),
            _ => {
                aim("cycles/s, Tenure", Figure::CyclesPerSecond, "tenure", true, 1.4);
                aim("cycles/s, unfenced", Figure::CyclesPerSecond, "tenure-unfenced", true, 2.0);
            }
        }
        aim("client CPU, Tenure", Figure::ClientCpu, "tenure", false, 1.0);
        let floor =
            |name: &str, figure| cell.rows.iter().find(|row| row.contender.peer.name == name)?.value(figure);
        let mut beside_floor = |what: &str, name, figure, at_least, limit| {
            let value = ours("tenure").and_then(|row| Some(row.value(figure)? / floor(name, figure)?));
            aims.extend(value.map(|value| Aim {
                what: format!("{tasks}, {}: {what}", runtime.name()),
                value,
                at_least,
                limit,
            }));
        };
        match tasks {
            "1 task" => beside_floor("cycle p50, Tenure / floor", "floor", Figure::CycleP50, false, 1.3),
            "64 tasks" => beside_floor(
                "cycles/s, Tenure / floor batched",
                "floor-batched",
                Figure::CyclesPerSecond,
                true,
                0.5,
            ),
            _ => {}
        }
    }
    aims
}

fn contended(cell: &CellRows) -> Vec<Aim> {
    let name = &cell.name;
    let Some(ours) = tenure(cell, "tenure", Runtime::Single) else { return vec![] };
    let aim = |what: &str, value: Option<f64>, at_least, limit| {
        value.map(|value| Aim { what: format!("{name}: {what}"), value, at_least, limit })
    };
    let tuned = quorum_peers(cell).filter(|row| row.contender.tuned);
    let best = tuned.filter_map(|row| row.value(Figure::CyclesPerSecond)).max_by(f64::total_cmp);
    let rate = ours.value(Figure::CyclesPerSecond).zip(best).map(|(ours, best)| ours / best);
    let lowest = peers(cell).filter_map(|row| row.value(Figure::HandOverP50)).min_by(f64::total_cmp);
    let hand_over = ours.value(Figure::HandOverP50);
    let floor = cell.floor().and_then(|row| row.value(Figure::HandOverP50));
    let no_hold = name.ends_with("hold 0 ms");
    [
        aim("acquisitions/s, Tenure / best quorum peer tuned", rate, true, 1.0),
        aim("least / most served", ours.value(Figure::LeastToMost), true, 0.9),
        aim("failed", ours.value(Figure::Failed), false, 0.0),
        aim(
            "hand-over p50, Tenure / lowest of all peers",
            hand_over.zip(lowest).map(|(ours, lowest)| ours / lowest),
            false,
            1.0,
        ),
        aim(
            "hand-over p50, Tenure / floor",
            hand_over.zip(floor).filter(|_| no_hold).map(|(ours, floor)| ours / floor),
            false,
            1.5,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn failures(section: &Section) -> Vec<Aim> {
    let p99 = |name: &str| {
        let cell = section.cells.iter().find(|cell| cell.name == name)?;
        tenure(cell, "tenure", Runtime::Threads2)?.value(Figure::AcquireP99)
    };
    let aim = |name: &str| {
        let value = p99(name)? / p99("healthy")?;
        Some(Aim {
            what: format!("{name}: acquire p99, Tenure / Tenure healthy"),
            value,
            at_least: false,
            limit: 1.3,
        })
    };
    ["one hung", "one dead"].into_iter().filter_map(aim).collect()
}

fn nodes(section: &Section) -> Vec<Aim> {
    let cost = |servers: usize, tasks: &str| {
        let name = format!("{servers} servers, {tasks}");
        let row = tenure(section.cells.iter().find(|cell| cell.name == name)?, "tenure", Runtime::Threads2)?;
        Some(row.value(Figure::ClientCpu)? + row.value(Figure::ServerCpu)?)
    };
    let aim = |tasks: &str| {
        let value = cost(9, tasks)? / cost(3, tasks)?;
        let what = format!("{tasks}: CPU of client and servers per cycle, 9 servers / 3");
        Some(Aim { what, value, at_least: false, limit: 3.0 })
    };
    ["1 task", "64 tasks"].into_iter().filter_map(aim).collect()
}

fn distance(section: &Section) -> Vec<Aim> {
    let cell = |ms: u64| section.cells.iter().find(|cell| cell.name == format!("round trip {ms} ms"));
    let first_lock = |ms| tenure(cell(ms)?, "tenure", Runtime::Single)?.value(Figure::FirstLock);
    let mut aims = vec![];
    for ms in [10, 50, 150] {
        // What the floor takes is a round trip as it was, delays that come late included.
        let round_trip = || cell(ms)?.floor()?.value(Figure::AcquireP50);
        let acquire = || tenure(cell(ms)?, "tenure", Runtime::Single)?.value(Figure::AcquireP50);
        let mut aim = |what: &str, value: Option<f64>, limit| {
            let what = format!("{}: {what}", cell(ms).map_or("", |cell| cell.name.as_str()));
            aims.extend(value.map(|value| Aim { what, value, at_least: false, limit }));
        };
        aim(
            "acquire p50, Tenure / floor",
            acquire().zip(round_trip()).map(|(ours, floor)| ours / floor),
            1.1,
        );
        let farther = first_lock(ms).zip(first_lock(0)).map(|(far, near)| far - near);
        aim(
            "round trips to the first lock",
            farther.zip(round_trip()).map(|(time, floor)| time / floor),
            3.0,
        );
    }
    aims
}

fn tenure<'a>(cell: &'a CellRows, name: &str, runtime: Runtime) -> Option<&'a Row> {
    cell.rows.iter().find(|row| row.contender.peer.name == name && row.contender.runtime == runtime)
}

/// All that are not ours.
fn peers(cell: &CellRows) -> impl Iterator<Item = &Row> {
    cell.rows.iter().filter(|row| !row.contender.peer.is_floor() && !row.contender.peer.is_tenure())
}

fn quorum_peers(cell: &CellRows) -> impl Iterator<Item = &Row> {
    peers(cell).filter(|row| row.contender.peer.stores == Stores::Quorum)
}

/// The quorum peers that run on this runtime, or on one of their own.
fn values(cell: &CellRows, figure: Figure, runtime: Runtime) -> impl Iterator<Item = f64> {
    let runs = move |row: &&Row| [Runtime::Fixed, runtime].contains(&row.contender.runtime);
    quorum_peers(cell).filter(runs).filter_map(move |row| row.value(figure))
}

fn largest(cell: &CellRows, figure: Figure, runtime: Runtime) -> Option<f64> {
    values(cell, figure, runtime).max_by(f64::total_cmp)
}

fn least(cell: &CellRows, figure: Figure, runtime: Runtime) -> Option<f64> {
    values(cell, figure, runtime).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::contender::Peer;
    use crate::peers::figures::Figures;
    use crate::peers::results::Measured;

    fn section(workload: Workload, cell: &str, figure: Figure, values: &[(&str, f64)]) -> Section {
        let mut section = Section::new(workload);
        for (name, value) in values {
            let contender = Peer::named(name).unwrap().plain(Runtime::Threads2);
            let measured = Measured { figures: Figures::from([(figure, *value)]), complaint: None };
            section.add(cell, contender, 0, Ok(measured));
        }
        section
    }

    #[test]
    fn tenure_is_compared_with_the_best_quorum_peer_on_the_same_runtime() {
        let values = [("tenure", 21.0), ("rslock", 14.0), ("redsync", 5.0), ("rueidislock", 90.0)];
        let section =
            section(Workload::Uncontended, "16 tasks, names used once", Figure::CyclesPerSecond, &values);
        let text = table(&[section]);
        let line = "| 16 tasks, threads:2: cycles/s, Tenure / best quorum peer | at least 1.4 | 1.50 | met |";
        assert!(text.contains(line), "{text}");
        assert_eq!(text.lines().count(), 6, "what was not measured has no line: {text}");
    }

    #[test]
    fn an_aim_that_was_missed_is_seen() {
        let mut hung = section(Workload::Failures, "healthy", Figure::AcquireP99, &[("tenure", 100.0)]);
        assert!(table(std::slice::from_ref(&hung)).is_empty(), "nothing can be compared yet");
        let tenure = Peer::named("tenure").unwrap().plain(Runtime::Threads2);
        let figures = Figures::from([(Figure::AcquireP99, 500.0)]);
        hung.add("one hung", tenure, 0, Ok(Measured { figures, complaint: None }));
        assert!(table(&[hung]).contains("| at most 1.3 | 5.00 | **missed** |"));
    }
}
