//! The figures as tables for people, in Markdown.

use std::fmt::Write;

use super::figures::Figure;
use super::results::{CellRows, Row, Section};

pub(crate) fn of(section: &Section) -> String {
    let mut text = format!("## {}\n\n", section.workload.title());
    let columns = section.workload.columns();
    for cell in &section.cells {
        let titles: Vec<&str> = columns.iter().map(|figure| figure.title()).collect();
        let _ = writeln!(text, "| {} | stores | {} | spread |", cell.name, titles.join(" | "));
        let _ = writeln!(text, "|---|---|{}---|", "---|".repeat(columns.len()));
        for row in cell.sorted() {
            let figures: Vec<String> = columns.iter().map(|figure| figure_text(cell, row, *figure)).collect();
            let spread = row.spread(columns[0]).map_or(String::new(), |spread| format!("{spread:.0} %"));
            let stores = row.contender.peer.stores.name();
            let _ = writeln!(text, "| {} | {stores} | {} | {spread} |", row.contender, figures.join(" | "));
        }
        for row in cell.sorted() {
            if let Some(problem) = &row.problem {
                let _ = writeln!(text, "\n{}: {}", row.contender, problem.replace('|', "/"));
            }
        }
        text.push('\n');
    }
    text
}

/// A figure, and what it is of the floor's.
fn figure_text(cell: &CellRows, row: &Row, figure: Figure) -> String {
    let Some(value) = row.value(figure) else { return "-".to_owned() };
    let compares = figure.has_floor();
    let floor = cell.floor().filter(|floor| floor.contender != row.contender && compares);
    let floor = floor.and_then(|floor| floor.value(figure)).filter(|value| *value > 0.0);
    let share = floor.map(|floor| format!(" ({})", ratio(value / floor)));
    format!("{}{}", number(figure, value), share.unwrap_or_default())
}

fn number(figure: Figure, value: f64) -> String {
    match figure {
        Figure::LeastToMost => format!("{value:.2}"),
        Figure::ClientCpu | Figure::ServerCpu | Figure::CpuPerRenewal if value < 100.0 => {
            format!("{value:.1}")
        }
        _ => thousands(value),
    }
}

fn ratio(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}x") } else { format!("{value:.0}x") }
}

/// Digits in groups of three.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::contender::{Peer, Runtime};
    use crate::peers::figures::Figures;
    use crate::peers::results::Measured;
    use crate::peers::workload::Workload;

    #[test]
    fn every_figure_has_its_share_of_the_floor_beside_it() {
        let mut section = Section::new(Workload::Held);
        let measured = |value| {
            let figures = Figures::from([(Figure::CpuPerRenewal, value), (Figure::Failed, 1.0)]);
            Ok(Measured { figures, complaint: None })
        };
        let plain = |name| Peer::named(name).unwrap().plain(Runtime::Single);
        section.add("10,000 locks", plain("rslock"), 0, measured(1_500.0));
        section.add("10,000 locks", plain("floor"), 0, measured(1.0));
        section.add("10,000 locks", plain("etcd"), 0, Err(anyhow::anyhow!("no leader")));
        let text = of(&section);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "| 10,000 locks | stores | CPU per renewal | failed | spread |");
        assert_eq!(lines[2], "| floor | quorum | 1.0 | 1 | 0 % |");
        assert_eq!(lines[3], "| rslock, single | quorum | 1,500 (1500x) | 1 | 0 % |");
        assert_eq!(lines[4], "| etcd | 3 etcd | - | - |  |");
        assert!(text.contains("etcd: no leader"), "{text}");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0.4, 999.0, 1_000.0, 1_234_567.0].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
