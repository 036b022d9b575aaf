//! How far what follows from the constants is from points that they were not taken from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::constants::{Constants, Memory};
use super::cost::Cost;
use super::{FIVE, FOUR, SEVEN, THREE, cpus};
use crate::report::{Ratio, Target};

/// What others may use of a machine whose rates mean something.
const QUIET_MACHINE: f64 = 0.1;

impl Constants {
    /// Asks the tool about points that no constant was taken from.
    pub(super) fn check(&self, tool: &Path, costs: &[Vec<Cost>], memory: Memory) -> Result<Vec<Ratio>> {
        let file = std::env::temp_dir().join(format!("tenure-capacity-{}.json", std::process::id()));
        std::fs::write(&file, self.as_benchmark())?;
        let checked = self.checks(tool, &file, costs, memory);
        std::fs::remove_file(&file)?;
        checked
    }

    fn checks(&self, tool: &Path, file: &PathBuf, costs: &[Vec<Cost>], memory: Memory) -> Result<Vec<Ratio>> {
        let plan = |nodes: usize, per_second: f64, names: usize, field: &str| -> Result<f64> {
            let mut command = Command::new(tool);
            command.args(["plan", "--json", "--held", "0", "--clients", "1"]).arg("--measured").arg(file);
            command.args(["--nodes", &nodes.to_string(), "--names", &names.to_string()]);
            command.args(["--locks-per-second", &format!("{per_second:.3}")]);
            let said = command.output().context("the tool could not be started")?;
            let said = String::from_utf8(said.stdout)?;
            let number =
                said.split(&format!("\"{field}\":")).nth(1).and_then(|rest| rest.split([',', '}']).next());
            number.and_then(|number| number.parse().ok()).with_context(|| format!("no {field} in {said}"))
        };
        let cores = |cost: &Cost| cost.server() * cost.per_second / 1e6;
        let four = &costs[FOUR][0];
        let four_cores = plan(4, four.per_second, 1, "node_cores")?;
        // Fences that are not trimmed yet are planned for.
        let fences = plan(5, 1.0, memory.names, "fences")? / 1.1;
        let off = |name, planned: f64, measured: f64| {
            let value = (planned / measured).max(measured / planned);
            Ratio { name, value, target: Target::AtMost(1.25) }
        };
        // Here every core is busy, with servers and the client.
        let (three, five, seven) = (&costs[THREE][1], &costs[FIVE][1], &costs[SEVEN][1]);
        let client = five.client + (five.client - three.client);
        let rate = cpus() * 1e6 / (client + 7.0 * Cost::mean(three, five).server());
        let mut checks = vec![
            off("plan: cores of a node, 4 nodes, 16 clients, off by", four_cores, cores(four)),
            off("plan: memory of 60,000 names, off by", fences, memory.used),
            off(
                "CPU of a lock, 5 nodes, 64 tasks, from 16, off by",
                self.together.server(),
                costs[FIVE][2].server(),
            ),
            off("CPU of a lock, 7 nodes, 16 tasks, off by", Cost::mean(three, five).server(), seven.server()),
        ];
        // Whoever else is busy takes a part of the rate, and of nothing else.
        if [three, five, seven].iter().all(|cost| cost.others < QUIET_MACHINE) {
            checks.push(off("locks/s here, 7 nodes, 16 tasks, off by", rate, seven.per_second));
        }
        Ok(checks)
    }

    /// The words of `tenure bench --json`.
    fn as_benchmark(&self) -> String {
        let load = |clients: usize, tasks: usize, server: f64, client: f64| {
            format!(
                r#"{{"clients":{clients},"tasks":{tasks},"server_cpu_us":{server},"client_cpu_us":{client},"acquire_p50_us":{}}}"#,
                self.overhead
            )
        };
        let loads = [
            load(1, 1, self.alone.server(), self.client_single),
            load(1, 64, self.together.server(), self.together.client),
            load(16, 1, self.alone.server(), self.alone.client),
        ];
        format!(r#"{{"loads":[{}],"majority_rtt_us":0}}"#, loads.join(","))
    }
}
