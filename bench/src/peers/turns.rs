//! Contenders take turns: in each round every one once in every cell, each round beginning with
//! another. Whatever disturbs the machine meanwhile disturbs them all, and the median over the
//! rounds leaves it out. Their processes live through all rounds, so that nobody is measured cold.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::contender::{Contender, Language};
use super::driver::{Driver, Outcome, Ready};
use super::figures::{self, Figure};
use super::install::Installed;
use super::ours::RING;
use super::protocol::{Job, Kind, Names};
use super::results::{Measured, Section};
use super::servers::Servers;

/// How long a driver may take to its first lock: a virtual machine starts slowly beside others.
const START_MAX: Duration = Duration::from_secs(60);

/// How much longer than it was asked to a peer may work before it counts as stuck.
const GRACE: Duration = Duration::from_secs(10);

/// One case that all contenders are measured in.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) job: Job,
    /// In how many processes the job's tasks are.
    pub(crate) processes: usize,
    /// The servers forget the fences of past turns first. All of them must answer.
    starts_clean: bool,
}

/// Contenders on the same servers.
pub(crate) struct Stage<'a> {
    installed: &'a Installed,
    pub(crate) servers: Servers,
    contenders: &'a [Contender],
    teams: Vec<Team>,
    processes: usize,
}

/// The processes of one contender.
enum Team {
    Absent,
    Ready(Vec<Driver>, Ready),
    /// It failed where it cannot start again.
    Out,
}

impl Cell {
    /// Cycles of so many tasks.
    pub(crate) fn work(name: String, tasks: usize, names: Names, time: Duration) -> Self {
        let job = Job {
            kind: Kind::Work,
            tasks,
            names,
            prefix: String::new(),
            time,
            hold: Duration::ZERO,
            locks: 0,
        };
        Self { name, job, processes: 1, starts_clean: false }
    }

    /// The same on servers without the fences of past turns.
    pub(crate) fn on_clean_servers(self) -> Self {
        Self { starts_clean: true, ..self }
    }
}

impl<'a> Stage<'a> {
    /// So many processes for each.
    pub(crate) fn set(
        installed: &'a Installed,
        servers: Servers,
        contenders: &'a [Contender],
        processes: usize,
    ) -> Self {
        let teams = contenders.iter().map(|_| Team::Absent).collect();
        Self { installed, servers, contenders, teams, processes }
    }

    /// Starts those that are chosen, all at once, and lets each work for a moment. One that does
    /// not start is tried again in its turn, where its failure is seen.
    pub(crate) fn prepare(&mut self, chosen: impl Fn(&Contender) -> bool) {
        let starting: Vec<(usize, Result<Vec<Driver>>)> = (0..self.teams.len())
            .filter(|index| chosen(&self.contenders[*index]))
            .map(|index| (index, self.spawn(index)))
            .collect();
        for (index, drivers) in starting {
            if let Ok(team) = drivers.and_then(ready) {
                self.teams[index] = team;
                let time = self.contenders[index].warm_up();
                let mut warm_up = Cell::work("warm-up".to_owned(), 16, Names::Once, time);
                warm_up.processes = self.processes;
                let _ = self.measure(index, &warm_up, "warm-up");
            }
        }
    }

    /// All rounds of these cells. `restarts`: who fails may start again for its next turn, in
    /// another cell or where it came through before; waiting for it to hang again shows nothing.
    pub(crate) fn take_turns(
        &mut self,
        section: &mut Section,
        cells: &[Cell],
        rounds: usize,
        restarts: bool,
    ) {
        for round in 0..rounds {
            for cell in cells {
                section.progress(&cell.name, round, rounds);
                for turn in 0..self.contenders.len() {
                    let index = (turn + round * self.contenders.len() / rounds) % self.contenders.len();
                    self.take_turn(index, section, cell, round, restarts);
                }
            }
        }
    }

    /// A turn with processes that start for it: their first lock is part of what is seen.
    pub(crate) fn take_fresh_turn(&mut self, index: usize, section: &mut Section, cell: &Cell, round: usize) {
        self.teams[index] = Team::Absent;
        let measured = self.start(index).and_then(|first| {
            let mut measured = self.measure(index, cell, &format!("r{round}"))?;
            measured.figures.insert(Figure::FirstLock, first.client.as_secs_f64() * 1e6);
            measured.figures.insert(Figure::ProcessToFirstLock, first.process.as_secs_f64() * 1e6);
            Ok(measured)
        });
        self.teams[index] = Team::Absent;
        section.add(&cell.name, self.contenders[index], round, measured);
    }

    fn take_turn(&mut self, index: usize, section: &mut Section, cell: &Cell, round: usize, restarts: bool) {
        let contender = self.contenders[index];
        if section.is_hopeless(&cell.name, contender) {
            return;
        }
        let measured = match &self.teams[index] {
            Team::Out => return,
            Team::Absent => self.start(index).and_then(|_| self.measure(index, cell, &format!("r{round}"))),
            Team::Ready(..) => self.measure(index, cell, &format!("r{round}")),
        };
        if measured.is_err() {
            self.teams[index] = if restarts { Team::Absent } else { Team::Out };
        }
        section.add(&cell.name, contender, round, measured);
    }

    fn start(&mut self, index: usize) -> Result<Ready> {
        self.teams[index] = ready(self.spawn(index)?)?;
        match &self.teams[index] {
            Team::Ready(_, first) => Ok(*first),
            Team::Absent | Team::Out => unreachable!("it has just become ready"),
        }
    }

    fn spawn(&self, index: usize) -> Result<Vec<Driver>> {
        let contender = &self.contenders[index];
        let spawn = |process| {
            let mut command = self.installed.command(contender)?;
            command.arg(format!("nodes={}", self.servers.nodes(contender)));
            command.arg(format!("process={process}")).arg(format!("processes={}", self.processes));
            Driver::start(command)
        };
        (0..self.processes).map(spawn).collect()
    }

    /// Lets a contender do the job of a cell.
    fn measure(&mut self, index: usize, cell: &Cell, turn: &str) -> Result<Measured> {
        let contender = &self.contenders[index];
        let Team::Ready(drivers, _) = &mut self.teams[index] else { unreachable!("it has been started") };
        let mut job = cell.job.clone();
        // No two turns have a lock in common.
        let place: String = cell.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let prefix = format!("{turn}-{place}-{index}");
        job.tasks = cell.job.tasks / cell.processes;
        let drivers = &mut drivers[..cell.processes];
        if cell.starts_clean {
            self.servers.redis.forget_fences();
        }
        let before = self.servers.cpu_time(contender)?;
        for (process, driver) in drivers.iter_mut().enumerate() {
            // Nor have two processes, unless they are to compete.
            let shared = job.names == Names::Shared;
            job.prefix = if shared { prefix.clone() } else { format!("{prefix}-{process}") };
            driver.send(&job)?;
        }
        let deadline = Instant::now() + job.patience();
        let outcomes: Vec<_> = drivers
            .iter()
            .map(|driver| driver.outcome(deadline.saturating_duration_since(Instant::now())))
            .collect::<Result<_>>()?;
        let spent = self.servers.cpu_time(contender)?.saturating_sub(before);
        let complaint = outcomes.iter().find_map(|outcome| outcome.done.error.clone());
        let figures = match job.kind {
            Kind::Work => {
                let shared = job.names == Names::Shared;
                let workers = if contender.peer.is_floor() { RING } else { cell.job.tasks };
                figures::of_work(&outcomes, workers, shared, spent)
            }
            Kind::Hold => figures::of_renewals(&outcomes[0]),
        };
        let nothing = |outcome: &Outcome| outcome.done.holds.is_empty() && outcome.done.renewals == 0;
        if let (true, Some(complaint)) = (outcomes.iter().all(nothing), &complaint) {
            bail!("no cycle succeeded: {complaint}");
        }
        Ok(Measured { figures, complaint })
    }
}

fn ready(drivers: Vec<Driver>) -> Result<Team> {
    let mut first = None;
    for driver in &drivers {
        let ready = driver.ready(START_MAX)?;
        first.get_or_insert(ready);
    }
    Ok(Team::Ready(drivers, first.context("a team has a process")?))
}

impl Job {
    /// How long it may take.
    fn patience(&self) -> Duration {
        match self.kind {
            Kind::Work => self.time + GRACE,
            // Acquiring and releasing them one after the other takes longer than keeping them.
            Kind::Hold => self.time + Duration::from_secs(40),
        }
    }
}

impl Contender {
    /// How long it works before it is measured. A virtual machine has to compile what it runs.
    fn warm_up(&self) -> Duration {
        match self.peer.language {
            Language::Java => Duration::from_secs(6),
            _ => Duration::from_millis(300),
        }
    }
}
