//! What came of the cases: a table for people, JSON for programs.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// A whole run.
#[derive(Debug, Default)]
pub struct Report {
    /// One row for each peer and number of nodes, as they were run.
    pub rows: Vec<Row>,
    /// The peers that were not run, and why.
    pub not_run: Vec<(&'static str, String)>,
}

/// One peer on so many nodes.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub peer: &'static str,
    /// Its version.
    pub version: String,
    /// How many nodes.
    pub nodes: usize,
    /// What came of each case.
    pub cases: Vec<Outcome>,
}

/// One case.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub case: &'static str,
    /// What was seen, or what went wrong.
    pub result: Result<String, String>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// Whether every case that ran has passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cases).all(|case| case.result.is_ok())
    }

    /// Everything, for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let case = |case: &Outcome| {
            json!({
                "case": case.case,
                "passed": case.result.is_ok(),
                "seen": case.result.as_ref().unwrap_or_else(|wrong| wrong),
                "seconds": (case.took.as_secs_f64() * 1000.0).round() / 1000.0,
            })
        };
        let row = |row: &Row| {
            json!({
                "peer": row.peer,
                "version": row.version,
                "nodes": row.nodes,
                "cases": row.cases.iter().map(case).collect::<Vec<_>>(),
            })
        };
        let not_run = |(peer, why): &(&str, String)| json!({ "peer": peer, "missing": why });
        json!({
            "passed": self.passed(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "not_run": self.not_run.iter().map(not_run).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| peer | version | nodes | cases | result |\n|---|---|---|---|---|")?;
        for row in &self.rows {
            let passed = row.cases.iter().filter(|case| case.result.is_ok()).count();
            let result = if passed == row.cases.len() {
                "passed".to_owned()
            } else {
                let failed = row.cases.iter().filter(|case| case.result.is_err());
                format!("FAILED: {}", failed.map(|case| case.case).collect::<Vec<_>>().join(", "))
            };
            let Row { peer, version, nodes, cases } = row;
            writeln!(f, "| {peer} | {version} | {nodes} | {passed} of {} | {result} |", cases.len())?;
        }
        for (peer, why) in &self.not_run {
            writeln!(f, "| {peer} | - | - | - | not run: {why} |")?;
        }
        let failed = self.rows.iter().flat_map(|row| &row.cases).filter(|case| case.result.is_err()).count();
        let cases: usize = self.rows.iter().map(|row| row.cases.len()).sum();
        let missing = self.not_run.len();
        writeln!(f, "\n{cases} cases, {failed} failed; {missing} peers not run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(result: Result<String, String>) -> Report {
        let case = Outcome { case: "exclusion", result, took: Duration::from_millis(1500) };
        let row = Row { peer: "redsync", version: "4.18.1".to_owned(), nodes: 3, cases: vec![case] };
        Report { rows: vec![row], not_run: vec![("yii2", "php is not installed".to_owned())] }
    }

    #[test]
    fn a_table_has_what_passed_failed_and_did_not_run() {
        let good = report(Ok("both ways".to_owned()));
        assert!(good.passed());
        let text = good.to_string();
        assert!(text.contains("| redsync | 4.18.1 | 3 | 1 of 1 | passed |"), "{text}");
        assert!(text.contains("| yii2 | - | - | - | not run: php is not installed |"), "{text}");
        assert!(text.ends_with("1 cases, 0 failed; 1 peers not run\n"), "{text}");
        let bad = report(Err("two holders".to_owned()));
        assert!(!bad.passed());
        assert!(bad.to_string().contains("| 0 of 1 | FAILED: exclusion |"), "{bad}");
    }

    #[test]
    fn json_has_the_same() {
        let json = report(Err("two holders".to_owned())).json();
        assert_eq!(json["passed"], false);
        assert_eq!(json["rows"][0]["cases"][0]["seen"], "two holders");
        assert_eq!(json["rows"][0]["cases"][0]["seconds"], 1.5);
        assert_eq!(json["not_run"][0]["peer"], "yii2");
    }
}
