//! The figures as pictures, in SVG: bars for one cell, lines over several.

mod svg;

use super::contender::{Contender, Runtime};
use super::figures::Figure;
use super::results::{CellRows, Row, Section};
use super::workload::Workload;
use svg::{Bar, Line, bars, lines};

/// What a picture shows.
struct Plot {
    name: &'static str,
    title: &'static str,
    figure: Figure,
    /// Who is in it: each peer as it comes, on one runtime.
    runtime: Runtime,
    cells: Cells,
}

enum Cells {
    /// One cell as bars.
    Bars(&'static str),
    /// All cells whose names end like this, as lines; the axis shows how the names begin.
    Lines { end: &'static str, axis: &'static str },
}

/// The pictures of a workload, each with the name of its file. A cell that was not measured has
/// none.
pub(crate) fn of(section: &Section) -> Vec<(&'static str, String)> {
    let drawn = |plot: &Plot| Some((plot.name, plot.draw(section)?));
    plots(section.workload).iter().filter_map(drawn).collect()
}

const fn plots(workload: Workload) -> &'static [Plot] {
    match workload {
        Workload::Uncontended => &[
            Plot {
                name: "throughput",
                title: "Cycles per second, names used once, Rust clients on 2 threads",
                figure: Figure::CyclesPerSecond,
                runtime: Runtime::Threads2,
                cells: Cells::Lines { end: ", names used once", axis: "tasks" },
            },
            Plot {
                name: "latency",
                title: "One task: cycle p50 in microseconds, Rust clients on one thread",
                figure: Figure::CycleP50,
                runtime: Runtime::Single,
                cells: Cells::Bars("1 task, names used once"),
            },
            Plot {
                name: "client-cpu",
                title: "64 tasks: client CPU per cycle in microseconds, Rust clients on 2 threads",
                figure: Figure::ClientCpu,
                runtime: Runtime::Threads2,
                cells: Cells::Bars("64 tasks, names used once"),
            },
        ],
        Workload::Contended => &[
            Plot {
                name: "hand-over",
                title: "16 workers in four processes, hold 5 ms: hand-over p50 in microseconds",
                figure: Figure::HandOverP50,
                runtime: Runtime::Single,
                cells: Cells::Bars("four processes, hold 5 ms"),
            },
            Plot {
                name: "longest-wait",
                title: "16 workers in four processes, hold 5 ms: longest wait in microseconds",
                figure: Figure::AcquireMax,
                runtime: Runtime::Single,
                cells: Cells::Bars("four processes, hold 5 ms"),
            },
        ],
        Workload::Failures => &[
            Plot {
                name: "one-hung",
                title: "One of five servers hung: acquire p99 in microseconds",
                figure: Figure::AcquireP99,
                runtime: Runtime::Threads2,
                cells: Cells::Bars("one hung"),
            },
            Plot {
                name: "one-dead",
                title: "One of five servers dead: acquire p99 in microseconds",
                figure: Figure::AcquireP99,
                runtime: Runtime::Threads2,
                cells: Cells::Bars("one dead"),
            },
        ],
        Workload::Held => &[Plot {
            name: "held",
            title: "10,000 locks held: client CPU per renewal in microseconds",
            figure: Figure::CpuPerRenewal,
            runtime: Runtime::Single,
            cells: Cells::Bars("10,000 locks"),
        }],
        Workload::Nodes => &[Plot {
            name: "nodes",
            title: "Cycles per second with 64 tasks",
            figure: Figure::CyclesPerSecond,
            runtime: Runtime::Threads2,
            cells: Cells::Lines { end: ", 64 tasks", axis: "servers" },
        }],
        Workload::Distance => &[
            Plot {
                name: "distance",
                title: "Acquire p50 in microseconds by round trip",
                figure: Figure::AcquireP50,
                runtime: Runtime::Single,
                cells: Cells::Lines { end: " ms", axis: "round trip" },
            },
            Plot {
                name: "first-lock",
                title: "From the start of the client to its first lock in microseconds, by round trip",
                figure: Figure::FirstLock,
                runtime: Runtime::Single,
                cells: Cells::Lines { end: " ms", axis: "round trip" },
            },
        ],
    }
}

impl Plot {
    fn draw(&self, section: &Section) -> Option<String> {
        match self.cells {
            Cells::Bars(name) => {
                let cell = section.cells.iter().find(|cell| cell.name == name)?;
                // Those that failed are shown, too: without a bar, with their reason.
                let bar = |row: &Row| Bar {
                    label: row.contender.to_string(),
                    colour: colour(&row.contender),
                    value: row.value(self.figure),
                    problem: row.problem.clone().unwrap_or_default(),
                };
                let both = |row: &&Row| self.shows(&row.contender) || row.contender.tuned;
                let rows: Vec<Bar> = cell.sorted().filter(both).map(bar).collect();
                (!rows.is_empty()).then(|| bars(self.title, &rows))
            }
            Cells::Lines { end, axis } => {
                let cells: Vec<&CellRows> =
                    section.cells.iter().filter(|cell| cell.name.ends_with(end)).collect();
                let first = cells.first()?;
                let labels: Vec<String> = cells.iter().map(|cell| number(&cell.name)).collect();
                let line = |row: &Row| Line {
                    label: row.contender.to_string(),
                    colour: colour(&row.contender),
                    values: cells.iter().map(|cell| value(cell, &row.contender, self.figure)).collect(),
                };
                let rows: Vec<Line> =
                    first.sorted().filter(|row| self.shows(&row.contender)).map(line).collect();
                Some(lines(self.title, axis, &labels, &rows))
            }
        }
    }

    fn shows(&self, contender: &Contender) -> bool {
        !contender.tuned && (contender.runtime == Runtime::Fixed || contender.runtime == self.runtime)
    }
}

fn value(cell: &CellRows, contender: &Contender, figure: Figure) -> Option<f64> {
    cell.rows.iter().find(|row| row.contender == *contender)?.value(figure)
}

/// The number in the name of a cell.
fn number(name: &str) -> String {
    name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect()
}

/// Colours that most people can tell apart; one for each peer.
fn colour(contender: &Contender) -> &'static str {
    match contender.peer.name {
        "floor" => "#444444",
        "floor-batched" => "#888888",
        "floor-fenced" => "#bbbbbb",
        "tenure" => "#cc3311",
        "tenure-unfenced" => "#ee7733",
        "tenure-cohort" => "#bb5566",
        "rslock" => "#0077bb",
        "redsync" => "#33bbee",
        "redisson-redlock" => "#009988",
        "redisson-rlock" => "#66ccaa",
        "node-redlock" => "#aa3377",
        "redlock-universal" => "#dd88bb",
        "redlock-rs" => "#666633",
        "pottery" => "#ccbb44",
        "redlock-py" => "#997700",
        "rueidislock" => "#7755cc",
        _ => "#99aa88",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::contender::Peer;
    use crate::peers::figures::Figures;
    use crate::peers::results::Measured;

    fn measured(figure: Figure, value: f64) -> anyhow::Result<Measured> {
        Ok(Measured { figures: Figures::from([(figure, value)]), complaint: None })
    }

    #[test]
    fn lines_have_a_point_for_each_cell_that_was_measured() {
        let mut section = Section::new(Workload::Nodes);
        let rslock = Peer::named("rslock").unwrap().plain(Runtime::Threads2);
        for (cell, value) in [("3 servers, 64 tasks", 9_000.0), ("9 servers, 64 tasks", 3_000.0)] {
            section.add(cell, rslock, 0, measured(Figure::CyclesPerSecond, value));
        }
        let pictures = of(&section);
        let [(name, picture)] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
        assert_eq!(*name, "nodes");
        assert_eq!(picture.matches("<circle").count(), 2, "{picture}");
        assert!(picture.contains("rslock, 2 threads") && picture.ends_with("</svg>\n"));
    }

    #[test]
    fn who_failed_is_in_the_picture_with_its_reason() {
        let mut section = Section::new(Workload::Failures);
        let plain = |name| Peer::named(name).unwrap().plain(Runtime::Threads2);
        section.add("one hung", plain("tenure"), 0, measured(Figure::AcquireP99, 120.0));
        section.add("one hung", plain("redsync"), 0, Err(anyhow::anyhow!("stuck <here>")));
        let pictures = of(&section);
        let (_, picture) = pictures.iter().find(|(name, _)| *name == "one-hung").unwrap();
        assert!(picture.contains("stuck &lt;here&gt;"), "{picture}");
        assert!(pictures.iter().all(|(name, _)| *name != "one-dead"), "that was not measured");
    }
}
