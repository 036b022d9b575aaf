//! What was typed behind `bench peers`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::contender::{PEERS, Peer};
use super::workload::Workload;

#[derive(Debug)]
pub(crate) struct Options {
    /// Tenure and the floors, and who was asked for.
    pub(crate) peers: Vec<&'static Peer>,
    pub(crate) workloads: Vec<Workload>,
    /// How long each case is measured in each round.
    pub(crate) time: Duration,
    pub(crate) rounds: usize,
    /// Only the cells that say most.
    pub(crate) quick: bool,
    /// Where the results go; beside the drivers unless it is said.
    pub(crate) out: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) list: bool,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let (mut peers, mut workloads) = (vec![], vec![]);
        let (mut seconds, mut rounds) = (None, None);
        let (mut out, mut quick, mut json, mut list) = (None, false, false, false);
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word {
                "--peer" => peers.push(peer(value()?)?),
                "--workload" => workloads.push(workload(value()?)?),
                "--seconds" => {
                    let number: f64 = value()?.parse().context("--seconds needs a number such as 0.5")?;
                    ensure!((0.1..=30.0).contains(&number), "--seconds must be 0.1 to 30");
                    seconds = Some(number);
                }
                "--rounds" => {
                    let number: usize = value()?.parse().context("--rounds needs a whole number")?;
                    ensure!((1..=20).contains(&number), "--rounds must be 1 to 20");
                    rounds = Some(number);
                }
                "--out" => out = Some(PathBuf::from(value()?)),
                "--quick" => quick = true,
                "--json" => json = true,
                "--list" => list = true,
                unknown => bail!("{unknown:?} is no option; see `cargo xtask bench --help`"),
            }
        }
        let all = peers.is_empty();
        let takes_part =
            |peer: &&'static Peer| all || peer.is_floor() || peer.is_tenure() || peers.contains(peer);
        Ok(Self {
            peers: PEERS.iter().filter(takes_part).collect(),
            workloads: if workloads.is_empty() { Workload::ALL.to_vec() } else { workloads },
            time: Duration::from_secs_f64(seconds.unwrap_or(if quick { 0.3 } else { 0.5 })),
            rounds: rounds.unwrap_or(if quick { 1 } else { 3 }),
            quick,
            out,
            json,
            list,
        })
    }
}

fn peer(name: &str) -> Result<&'static Peer> {
    let names = || PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ");
    Peer::named(name).with_context(|| format!("there is no peer {name:?}; there is {}", names()))
}

fn workload(name: &str) -> Result<Workload> {
    let names = || Workload::ALL.iter().map(|workload| workload.name()).collect::<Vec<_>>().join(", ");
    let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
    found.with_context(|| format!("there is no workload {name:?}; there is {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options> {
        Options::parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn tenure_and_the_floors_are_measured_beside_every_choice() {
        let options = parse("--peer rslock --peer etcd --workload contended --rounds 2").unwrap();
        let names: Vec<&str> = options.peers.iter().map(|peer| peer.name).collect();
        let ours = ["floor", "floor-batched", "floor-fenced", "tenure", "tenure-unfenced", "tenure-cohort"];
        assert_eq!(names, [&ours[..], &["rslock", "etcd"]].concat());
        assert_eq!((options.workloads, options.rounds), (vec![Workload::Contended], 2));
    }

    #[test]
    fn what_is_typed_beats_what_quick_means() {
        let options = parse("--quick --rounds 4").unwrap();
        assert_eq!((options.time, options.rounds), (Duration::from_millis(300), 4));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        for words in ["--peer", "--seconds x", "--seconds 0", "--seconds nan", "--rounds 0", "--fast"] {
            assert!(parse(words).is_err(), "{words}");
        }
        let error = parse("--peer redlok").unwrap_err().to_string();
        assert!(error.contains("redlok") && error.contains("redsync"), "{error}");
        let error = parse("--workload sleeping").unwrap_err().to_string();
        assert!(error.contains("contended"), "{error}");
    }
}
