//! Tests that take long, which only `--all` runs.
//!
//! Three quarters of the time for all tests go to one in twelve. Without these a first run, two
//! thirds of which are compiling, ends within twelve minutes on two cores. What shows the main
//! promises stays, even if it takes long.

use std::collections::BTreeSet;

/// The tests that took more than five seconds, each below its program.
const LIST: &str = include_str!("long.txt");

/// The long tests of a program.
pub(super) fn of<'a>(program: &'a str) -> impl Iterator<Item = &'static str> + use<'a> {
    LIST.split("\n\n")
        .filter_map(move |part| part.split_once('\n').filter(|(name, _)| *name == program))
        .flat_map(|(_, tests)| tests.lines().map(str::trim))
}

/// What a test program is told, so that it leaves its long tests out.
pub(super) fn leave_out(program: &str) -> Vec<&'static str> {
    let skips: Vec<_> = of(program).flat_map(|test| ["--skip", test]).collect();
    if skips.is_empty() { skips } else { [vec!["--exact"], skips].concat() }
}

/// Names in the list that no test has any more: `ran` is what a whole run of the program ran.
pub(super) fn unknown(program: &str, ran: &BTreeSet<&str>) -> Vec<&'static str> {
    of(program).filter(|test| !ran.contains(test)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "tenure-sim/tests/model";

    #[test]
    fn every_long_test_is_below_its_program_once() {
        let programs: Vec<&str> = LIST.split("\n\n").filter_map(|part| part.lines().next()).collect();
        assert_eq!(programs.len(), programs.iter().collect::<BTreeSet<_>>().len());
        let tests: usize = programs.iter().map(|program| of(program).count()).sum();
        assert_eq!(tests + programs.len(), LIST.lines().filter(|line| !line.is_empty()).count());
        assert!(programs.iter().all(|program| program.contains('/') && of(program).count() > 0));
    }

    #[test]
    fn long_tests_are_left_out_by_their_whole_names() {
        let test = of(PROGRAM).next().expect("the model is long");
        assert_eq!(leave_out(PROGRAM)[..3], ["--exact", "--skip", test]);
        assert_eq!(leave_out("tenure/tests/nothing"), [""; 0]);
        assert_eq!(unknown(PROGRAM, &BTreeSet::from([test])), [""; 0]);
        assert_eq!(unknown(PROGRAM, &BTreeSet::from(["another"])), [test]);
    }
}
