//! Walks through all states of the small worlds and prints the fault matrix: `model [--stories]
//! [--small] [PART OF A ROW'S NAME]`, with `--small` those of the smaller ones that the tests walk
//! through.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::process::ExitCode;

use tenure_sim::model::{Cell, Finding, Matrix, examine, rows};

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| !["--stories", "--small"].contains(&flag.as_str())) {
        eprintln!("{flag} is no option; there are --stories and --small");
        return ExitCode::FAILURE;
    }
    let part = words.join(" ");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let is_small = flags.iter().any(|flag| flag == "--small");
    let mut matrix = Matrix::default();
    for row in rows().iter().filter(|row| row.faults.contains(&part)) {
        let row = if is_small { row.clone().small() } else { row.clone() };
        let finding = examine(&row, threads);
        eprintln!("{:>10} states: {}", finding.states, row.faults);
        if flags.iter().any(|flag| flag == "--stories") {
            tell(&finding);
        }
        matrix.findings.push(finding);
    }
    println!("{matrix}");
    let problems = matrix.problems();
    for problem in &problems {
        println!("\n{problem}");
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(finding: &Finding) {
    for (broken, cell) in [("two holders", &finding.exclusion), ("fences out of order", &finding.fences)] {
        if let Cell::Broken { story } = cell {
            println!("## {}: {broken}\n{}\n", finding.row.faults, story.join("\n"));
        }
    }
}
