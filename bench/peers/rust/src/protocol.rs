//! What the runner and a driver say to each other; `bench/peers/README.md` describes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::time::{ClockId, clock_gettime};

/// How many names a worker has that uses them again.
const NAMES: usize = 16;

/// What a driver is started with.
pub(crate) struct Arguments {
    pub(crate) peer: String,
    pub(crate) tuned: bool,
    pub(crate) runtime: String,
    pub(crate) nodes: Vec<String>,
}

/// What it is asked to do, again and again.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) tasks: usize,
    pub(crate) names: Names,
    pub(crate) prefix: String,
    pub(crate) time: Duration,
    pub(crate) hold: Duration,
    pub(crate) locks: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Acquire and release in a loop.
    Work,
    /// Keep many locks.
    Hold,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    Once,
    Reused,
    Shared,
}

/// What it has done: the holds of each task, what failed, and why it did first.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) holds: Vec<Hold>,
    pub(crate) failed: usize,
    pub(crate) error: Option<String>,
    pub(crate) renewals: usize,
}

/// When a lock was asked for, had, given up, and gone, by the machine's monotonic clock.
pub(crate) struct Hold {
    pub(crate) task: usize,
    pub(crate) called: u64,
    pub(crate) acquired: u64,
    pub(crate) released: u64,
    pub(crate) finished: u64,
}

/// `name=value` pairs.
struct Pairs<'a>(BTreeMap<&'a str, &'a str>);

impl Arguments {
    pub(crate) fn of(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let arguments: Vec<String> = arguments.collect();
        let pairs = Pairs::of(arguments.iter().map(String::as_str))?;
        Ok(Self {
            peer: pairs.get("peer")?.to_owned(),
            tuned: pairs.get("settings")? == "tuned",
            runtime: pairs.get("runtime")?.to_owned(),
            nodes: pairs.get("nodes")?.split(',').map(str::to_owned).collect(),
        })
    }
}

impl Job {
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let kind = match words.next() {
            Some("work") => Kind::Work,
            Some("hold") => Kind::Hold,
            _ => bail!("not a job: {line:?}"),
        };
        let pairs = Pairs::of(words)?;
        Ok(Self {
            kind,
            tasks: pairs.get("tasks")?.parse()?,
            names: match pairs.get("names")? {
                "once" => Names::Once,
                "reused" => Names::Reused,
                "shared" => Names::Shared,
                unknown => bail!("not a way to name locks: {unknown:?}"),
            },
            prefix: pairs.get("prefix")?.to_owned(),
            time: Duration::from_secs_f64(pairs.get("seconds")?.parse()?),
            hold: Duration::from_millis(pairs.get("hold_ms")?.parse()?),
            locks: pairs.get("locks")?.parse()?,
        })
    }

    /// The name of a task's lock in this cycle.
    pub(crate) fn name(&self, task: usize, cycle: usize) -> String {
        let prefix = &self.prefix;
        match self.names {
            Names::Once => format!("{prefix}:{task}:{cycle}"),
            Names::Reused => format!("{prefix}:{task}:{}", cycle % NAMES),
            Names::Shared => prefix.clone(),
        }
    }

    /// Until when it works, if it begins now.
    pub(crate) fn end(&self) -> u64 {
        now() + u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Done {
    pub(crate) fn add(&mut self, mut other: Self) {
        self.holds.append(&mut other.holds);
        self.failed += other.failed;
        self.error = self.error.take().or(other.error);
        self.renewals += other.renewals;
    }

    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        self.failed += 1;
        self.error.get_or_insert_with(|| format!("{error:#}"));
    }

    /// Says all of it.
    pub(crate) fn print(&self, cpu: Duration) -> io::Result<()> {
        let mut text = String::with_capacity(self.holds.len() * 80);
        for Hold { task, called, acquired, released, finished } in &self.holds {
            let _ = writeln!(text, "{task} {called} {acquired} {released} {finished}");
        }
        let Self { failed, renewals, .. } = self;
        let error = self.error.as_deref().unwrap_or_default().replace(['"', '\\', '\n'], " ");
        let cpu = cpu.as_micros();
        let _ =
            writeln!(text, r#"{{"cpu_us":{cpu},"failed":{failed},"renewals":{renewals},"error":"{error}"}}"#);
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// Says that the first lock was had, so many nanoseconds after the client was begun.
pub(crate) fn print_ready(begun: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "ready {}", now() - begun)?;
    out.flush()
}

/// The machine's monotonic clock, in nanoseconds.
pub(crate) fn now() -> u64 {
    nanos(ClockId::Monotonic)
}

/// The CPU time of this process.
pub(crate) fn cpu() -> Duration {
    Duration::from_nanos(nanos(ClockId::ProcessCPUTime))
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

impl<'a> Pairs<'a> {
    fn of(words: impl Iterator<Item = &'a str>) -> Result<Self> {
        let pair = |word: &'a str| word.split_once('=').with_context(|| format!("{word:?} is no name=value"));
        Ok(Self(words.map(pair).collect::<Result<_>>()?))
    }

    fn get(&self, name: &str) -> Result<&'a str> {
        self.0.get(name).copied().with_context(|| format!("{name} is missing"))
    }
}
