//! A second run of what failed, alone.
//!
//! Most tests have real servers and real time limits, and a machine that stops for a second breaks
//! some of them. A mistake fails alone, too.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::{End, Program, Report, Running, ended};

/// How many failed tests get a second run. Noise fails one or two; more than this is a mistake.
const TESTS_MAX: usize = 4;

/// Runs what failed again, one test at a time with nothing beside it, and returns what still fails.
/// The first failure stays in the report.
pub(super) fn run(
    report: &mut Report,
    failed: Vec<(Running, Vec<String>)>,
    all: bool,
) -> Result<Vec<String>> {
    let count: usize = failed.iter().map(|(_, tests)| tests.len()).sum();
    // A program that hung or crashed names no test.
    let hopeless = count > TESTS_MAX || failed.iter().any(|(_, tests)| tests.is_empty());
    let mut still = vec![];
    for (first, tests) in failed {
        let program = &first.program;
        if tests.is_empty() {
            still.push(program.name.clone());
        }
        for test in tests {
            if !hopeless && runs_alone(program, &test, &first.log, all)? {
                let log = first.log.display();
                report.doubt(format!("{} {test} (failed beside others, passed alone: {log})", program.name));
            } else {
                still.push(format!("{} {test}", program.name));
            }
        }
    }
    Ok(still)
}

/// Whether a test passes with nothing beside it. What it says goes to a log beside the first one.
fn runs_alone(program: &Program, test: &str, first: &Path, all: bool) -> Result<bool> {
    println!("    again, alone: {} {test}", program.name);
    let (log, skips) = (first.with_extension("again.log"), first.with_extension("again.skipped"));
    let mut run =
        Running::spawn(program.clone(), log, skips, all, &["--exact", test, "--test-threads", "1"])?;
    let end = loop {
        std::thread::sleep(Duration::from_millis(20));
        if let Some(end) = run.end()? {
            break end;
        }
    };
    println!("    {end}");
    if let End::Failed { .. } = end {
        println!("{}", run.output());
        return Ok(false);
    }
    // A name that matches nothing would pass, too.
    Ok(ended(&run.output()).any(|(name, result)| name == test && result == "ok"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// A test program that fails beside others, and its run.
    fn failed(name: &str, alone: &str) -> (Running, Vec<String>) {
        let folder = std::env::temp_dir().join(format!("tenure-again-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (text, path) = (folder.join("text"), folder.join("program"));
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --exact ]; then echo \"test $2 ... {alone}\"; [ {alone} = ok ]; exit; fi\n\
             echo 'test a ... FAILED'\nexit 101\n"
        );
        fs::write(&text, script).unwrap();
        // Another process writes it: one that somebody still writes cannot be run.
        assert!(Command::new("install").args(["-m", "755"]).args([&text, &path]).status().unwrap().success());
        let program = Program { name: name.to_owned(), path, folder: folder.clone() };
        let mut run =
            Running::spawn(program, folder.join("log"), folder.join("skipped"), false, &[]).unwrap();
        let end = loop {
            if let Some(end) = run.end().unwrap() {
                break end;
            }
        };
        let End::Failed { tests, .. } = end else { panic!("it fails") };
        (run, tests)
    }

    #[test]
    fn what_passes_alone_is_doubted_and_what_fails_alone_fails() {
        let mut report = Report::begin(1);
        let still =
            run(&mut report, vec![failed("noise", "ok"), failed("mistake", "FAILED")], false).unwrap();
        assert_eq!(still, ["mistake a"]);
        assert!(report.doubts().iter().any(|doubt| doubt.starts_with("noise a ")), "{:?}", report.doubts());
        assert_eq!(report.doubts().len(), 1);
    }

    #[test]
    fn many_failures_and_programs_that_name_no_test_are_not_repeated() {
        let mut report = Report::begin(1);
        let (crashed, _) = failed("crash", "ok");
        let many = (0..=TESTS_MAX).map(|number| format!("t{number}")).collect();
        for (failure, count) in [((crashed, vec![]), 1), ((failed("many", "ok").0, many), TESTS_MAX + 1)] {
            assert_eq!(run(&mut report, vec![failure], false).unwrap().len(), count);
        }
        assert!(report.doubts().is_empty());
    }
}
