//! What was measured, by workload, cell and contender.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::contender::Contender;
use super::figures::{Figure, Figures};
use super::workload::Workload;

/// One workload.
pub(crate) struct Section {
    pub(crate) workload: Workload,
    pub(crate) cells: Vec<CellRows>,
    /// One JSON object for each turn.
    pub(crate) raw: Vec<Value>,
    began: Instant,
}

pub(crate) struct CellRows {
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
}

/// What one turn has shown.
pub(crate) struct Measured {
    pub(crate) figures: Figures,
    /// Why the first of the cycles failed that did.
    pub(crate) complaint: Option<String>,
}

/// One contender in one cell.
pub(crate) struct Row {
    pub(crate) contender: Contender,
    pub(crate) rounds: Vec<Figures>,
    /// Why a round is missing, or cycles failed.
    pub(crate) problem: Option<String>,
}

impl Section {
    pub(crate) fn new(workload: Workload) -> Self {
        Self { workload, cells: vec![], raw: vec![], began: Instant::now() }
    }

    /// Says what comes next.
    pub(crate) fn progress(&self, cell: &str, round: usize, rounds: usize) {
        let seconds = self.began.elapsed().as_secs();
        let name = self.workload.name();
        eprintln!("peers: {name}, {cell}, round {} of {rounds} ({seconds} s)", round + 1);
    }

    pub(crate) fn add(&mut self, cell: &str, contender: Contender, round: usize, measured: Result<Measured>) {
        let mut raw = json!({
            "workload": self.workload.name(),
            "cell": cell,
            "peer": contender.peer.name,
            "settings": contender.settings(),
            "runtime": contender.runtime.name(),
            "stores": contender.peer.stores.name(),
            "round": round,
        });
        let row = self.row(cell, contender);
        match measured {
            Ok(Measured { figures, complaint }) => {
                let numbers: Map<String, Value> =
                    figures.iter().map(|(figure, value)| (figure.key().to_owned(), json!(value))).collect();
                raw["figures"] = Value::Object(numbers);
                row.rounds.push(figures);
                if let Some(complaint) = complaint {
                    raw["complaint"] = json!(complaint);
                    row.problem.get_or_insert(complaint);
                }
            }
            Err(error) => {
                let problem = format!("{error:#}");
                eprintln!("peers: {cell}, {contender}: {problem}");
                raw["problem"] = json!(problem);
                row.problem.get_or_insert(problem);
            }
        }
        self.raw.push(raw);
    }

    /// Whether a contender failed in a cell and never came through it.
    pub(crate) fn is_hopeless(&self, cell: &str, contender: Contender) -> bool {
        let rows = self.cells.iter().filter(|rows| rows.name == cell).flat_map(|rows| &rows.rows);
        let mut rows = rows.filter(|row| row.contender == contender);
        rows.any(|row| row.rounds.is_empty() && row.problem.is_some())
    }

    fn row(&mut self, cell: &str, contender: Contender) -> &mut Row {
        let place = self.cells.iter().position(|rows| rows.name == cell).unwrap_or_else(|| {
            self.cells.push(CellRows { name: cell.to_owned(), rows: vec![] });
            self.cells.len() - 1
        });
        let rows = &mut self.cells[place].rows;
        let place = rows.iter().position(|row| row.contender == contender).unwrap_or_else(|| {
            rows.push(Row { contender, rounds: vec![], problem: None });
            rows.len() - 1
        });
        &mut rows[place]
    }

    /// Who let two hold one lock at once, in which cell, and how often.
    pub(crate) fn overlaps(&self) -> Vec<(Contender, &str, f64)> {
        let rows = self.cells.iter().flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)));
        let overlaps = rows.filter_map(|(cell, row)| {
            let count = row.value(Figure::Overlaps).filter(|count| *count > 0.0)?;
            Some((row.contender, cell.name.as_str(), count))
        });
        overlaps.collect()
    }
}

impl CellRows {
    /// The least that this can cost.
    pub(crate) fn floor(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.contender.peer.name == "floor")
    }

    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Row> {
        // Turns rotate; the table does not.
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| {
            let contender = row.contender;
            let peer = super::contender::PEERS.iter().position(|peer| peer == contender.peer);
            (peer, contender.tuned, contender.runtime as usize)
        });
        rows.into_iter()
    }
}

impl Row {
    /// The median over the rounds, or the sum of what is counted.
    pub(crate) fn value(&self, figure: Figure) -> Option<f64> {
        let mut values: Vec<f64> =
            self.rounds.iter().filter_map(|round| round.get(&figure).copied()).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
        Some(if figure.is_counted() { values.iter().sum() } else { f64::midpoint(*low, *high) })
    }

    /// The distance of the best from the worst round, in per cent of the median.
    pub(crate) fn spread(&self, figure: Figure) -> Option<f64> {
        let values = || self.rounds.iter().filter_map(|round| round.get(&figure).copied());
        let (low, high) = (values().min_by(f64::total_cmp)?, values().max_by(f64::total_cmp)?);
        let median = self.value(figure).filter(|median| *median > 0.0)?;
        Some(100.0 * (high - low) / median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::contender::{Peer, Runtime};

    fn row(values: &[f64]) -> Row {
        let contender = Peer::named("redsync").unwrap().plain(Runtime::Fixed);
        let rounds =
            values.iter().map(|value| Figures::from([(Figure::CycleP50, *value), (Figure::Failed, *value)]));
        Row { contender, rounds: rounds.collect(), problem: None }
    }

    #[test]
    fn rounds_have_a_median_and_a_spread_and_failures_add_up() {
        let row = row(&[30.0, 10.0, 20.0]);
        assert_eq!(row.value(Figure::CycleP50), Some(20.0));
        assert_eq!(row.spread(Figure::CycleP50), Some(100.0));
        assert_eq!(row.value(Figure::Failed), Some(60.0));
        assert_eq!(row.value(Figure::HandOverP50), None);
    }

    #[test]
    fn two_holders_at_once_are_reported_with_their_peer_and_cell() {
        let contender = Peer::named("redsync").unwrap().plain(Runtime::Fixed);
        let mut section = Section::new(Workload::Contended);
        for (cell, count) in [("quiet", 0.0), ("busy", 2.0), ("busy", 1.0)] {
            let figures = Figures::from([(Figure::Overlaps, count)]);
            section.add(cell, contender, 0, Ok(Measured { figures, complaint: None }));
        }
        assert_eq!(section.overlaps(), [(contender, "busy", 3.0)]);
    }

    #[test]
    fn a_turn_that_failed_is_kept_with_its_reason() {
        let contender = Peer::named("redsync").unwrap().plain(Runtime::Fixed);
        let mut section = Section::new(Workload::Failures);
        section.add("one hung", contender, 0, Err(anyhow::anyhow!("stuck")));
        assert_eq!(section.cells[0].rows[0].problem.as_deref(), Some("stuck"));
        assert!(section.is_hopeless("one hung", contender), "it is not tried again there");
        assert!(!section.is_hopeless("one dead", contender));
        assert_eq!(section.raw[0]["problem"], "stuck");
    }
}
