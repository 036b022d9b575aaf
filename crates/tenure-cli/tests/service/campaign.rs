//! How much is done, by which dice, and what comes of it.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

use tenure_testkit::Dice;

/// Runs a campaign: a slice of it, or the whole as often as `TENURE_CAMPAIGNS` says, each time with
/// other dice. What it returns is shown in the table of `cargo xtask service`.
pub(crate) fn campaign<F: Display>(title: &str, mut run: impl FnMut(Extent, Dice) -> F) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (rounds, first) = (number("TENURE_CAMPAIGNS"), number("TENURE_SEED").unwrap_or(1));
    let extent = if rounds.is_some() { Extent::Whole } else { Extent::Slice };
    for seed in first..first + rounds.unwrap_or(1) {
        say(&format!("{title}, seed {seed} ..."));
        let figures = run(extent, Dice::new(seed)).to_string();
        say(&format!("{title}, seed {seed}: {figures}"));
        if let Some(file) = std::env::var_os("TENURE_FIGURES") {
            let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
            writeln!(file, "{title}\t{seed}\t{figures}").unwrap();
        }
    }
}

/// How much of a campaign is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Slice,
    Whole,
}

impl Extent {
    pub(crate) fn of<T>(self, slice: T, whole: T) -> T {
        if self == Self::Slice { slice } else { whole }
    }
}

/// Says how far it is, to whoever runs a test program by hand.
#[expect(clippy::print_stderr, reason = "whoever waits for minutes wants to know")]
pub(crate) fn say(words: &str) {
    eprintln!("    {words}");
}
