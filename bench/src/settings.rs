//! What was typed behind the name of a benchmark.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

pub(crate) struct Settings {
    /// How long each case is measured in each round.
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
    pub(crate) json: bool,
}

impl Settings {
    pub(crate) fn parse(options: &[String]) -> Result<Self> {
        let mut settings = Self { time: Duration::from_secs(1), rounds: 5, json: false };
        let mut options = options.iter().map(String::as_str);
        while let Some(option) = options.next() {
            let mut number = || options.next().with_context(|| format!("{option} needs a number"));
            match option {
                "--seconds" => {
                    let seconds: f64 = number()?.parse().context("--seconds needs a number such as 0.5")?;
                    // Shorter, the clock ticks of the servers' CPU time are all that is seen;
                    // longer, it takes ages.
                    ensure!((0.05..=10.0).contains(&seconds), "--seconds must be 0.05 to 10");
                    settings.time = Duration::from_secs_f64(seconds);
                }
                "--rounds" => {
                    settings.rounds = number()?.parse().context("--rounds needs a whole number")?;
                    ensure!((1..=20).contains(&settings.rounds), "--rounds must be 1 to 20");
                }
                "--json" => settings.json = true,
                unknown => bail!("{unknown:?} is no option; see --help"),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<Settings> {
        Settings::parse(&options.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let settings = parse("--seconds 0.5 --json --rounds 3").unwrap();
        assert_eq!((settings.time, settings.rounds, settings.json), (Duration::from_millis(500), 3, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for options in ["--seconds", "--seconds x", "--seconds 0", "--seconds nan", "--rounds 0", "--fast"] {
            assert!(parse(options).is_err(), "{options}");
        }
    }
}
