//! Tenure and the floors as drivers, in processes of their own like everybody else.

use std::io::BufRead;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use floor::{Floor, Holder, Party};
use tenure::{Guard, Locks, RedisNode, Worker};

use super::protocol::{Arguments, Done, Hold, Job, Kind, Names, cpu, now, print_ready};
use super::tasks::{self, Locker};
use crate::held::EXTEND;
use crate::suite::BATCH;

/// So many locks are extended at a time: a message holds as many.
const MOMENT: usize = 64;

/// So many pass the floor's lock on to each other.
pub(crate) const RING: usize = 4;

/// `peers-driver NAME=VALUE...`
pub(crate) fn run(words: &[String]) -> Result<()> {
    let arguments = Arguments::of(words.iter().cloned())?;
    let number = |name: &str| -> Result<usize> {
        let value = words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        Ok(value.with_context(|| format!("{name} is missing"))?.parse()?)
    };
    match arguments.peer.as_str() {
        "tenure" | "tenure-unfenced" | "tenure-cohort" => {
            let usage = match arguments.peer.as_str() {
                "tenure-unfenced" => Usage::Unfenced,
                "tenure-cohort" => Usage::Cohort,
                _ => Usage::Default,
            };
            let worker = if arguments.runtime == "own" { Worker::OwnThread } else { Worker::CurrentRuntime };
            tasks::serve(&arguments, |nodes, _| async move {
                let nodes = nodes.iter().map(|node| RedisNode::parse(&format!("redis://{node}")));
                let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
                let locks = Locks::builder().nodes(nodes).worker(worker).build()?;
                Ok(Tenure { locks, usage })
            })
        }
        "floor" | "floor-batched" | "floor-fenced" => {
            serve(&arguments, number("process")?, number("processes")?)
        }
        unknown => bail!("there is no peer {unknown:?} here"),
    }
}

#[derive(Clone)]
struct Tenure {
    locks: Locks,
    usage: Usage,
}

#[derive(Clone, Copy)]
enum Usage {
    Default,
    Unfenced,
    /// A lock is passed on inside the client first.
    Cohort,
}

impl Locker for Tenure {
    type Guard = Guard;

    async fn acquire(&self, name: String) -> Result<Guard> {
        let lock = self.locks.lock(name).wait_forever();
        let lock = match self.usage {
            Usage::Default => lock,
            Usage::Unfenced => lock.unfenced(),
            Usage::Cohort => lock.cohort(),
        };
        Ok(lock.acquire().await?)
    }

    async fn release(&self, guard: Guard) -> Result<()> {
        guard.release().await?;
        Ok(())
    }

    async fn extend(&self, _guard: &mut Guard) -> Result<()> {
        bail!("it renews by itself")
    }

    /// A third of the default ttl.
    fn renews_every(&self) -> Option<Duration> {
        Some(Duration::from_secs(10))
    }
}

/// The floor does what standard input asks for, in batches of as many cycles as there would be
/// tasks, or of more.
fn serve(arguments: &Arguments, process: usize, processes: usize) -> Result<()> {
    let batch = (arguments.peer == "floor-batched").then_some(BATCH);
    let port = |node: &String| node.rsplit(':').next().and_then(|port| port.parse().ok());
    let ports: Vec<u16> =
        arguments.nodes.iter().map(port).collect::<Option<_>>().context("nodes have ports")?;
    let begun = now();
    let mut floor = Floor::connect(&ports, &format!("floor:{begun}"))?;
    if arguments.peer == "floor-fenced" {
        floor = floor.fenced()?;
    }
    floor.acquire(1)?;
    print_ready(begun)?;
    floor.release()?;
    for line in std::io::stdin().lock().lines() {
        let job = Job::parse(&line?)?;
        let before = cpu();
        match (job.kind, job.names) {
            (Kind::Work, Names::Shared) => {
                let done = take_turns(&ports, &job, process, processes)?;
                done.print(cpu() - before)?;
            }
            (Kind::Work, _) => {
                let done = cycles(&mut floor, batch.unwrap_or(job.tasks), &job)?;
                done.print(cpu() - before)?;
            }
            (Kind::Hold, _) => {
                let (done, spent) = hold(&ports, &job)?;
                done.print(spent)?;
            }
        }
    }
    Ok(())
}

fn cycles(floor: &mut Floor, batch: usize, job: &Job) -> Result<Done> {
    let (mut done, end) = (Done::default(), job.end());
    while now() < end {
        let called = now();
        floor.acquire(batch)?;
        let acquired = now();
        floor.release()?;
        let finished = now();
        // Each cycle of a batch takes as long as the batch.
        done.holds.extend((0..batch).map(|task| Hold {
            task,
            called,
            acquired,
            released: acquired,
            finished,
        }));
    }
    Ok(done)
}

/// The least that it can cost to keep locks: one extension of each.
fn hold(ports: &[u16], job: &Job) -> Result<(Done, Duration)> {
    let mut holder = Holder::connect(ports, &job.prefix, EXTEND)?;
    let count = job.locks as u64;
    let moments =
        || (0..job.locks).step_by(MOMENT).map(|begin| begin as u64..count.min((begin + MOMENT) as u64));
    for locks in moments() {
        holder.acquire(locks)?;
    }
    let before = cpu();
    for locks in moments() {
        holder.extend(locks)?;
    }
    Ok((Done { renewals: job.locks, ..Done::default() }, cpu() - before))
}

/// The least that passing a lock on can cost: a ring of four, in as many processes as there are.
fn take_turns(ports: &[u16], job: &Job, process: usize, processes: usize) -> Result<Done> {
    // A process works alone if it has as many tasks as all would have together.
    let alone = job.tasks > RING || processes == 1;
    let members: Vec<usize> = if alone { (0..RING).collect() } else { vec![process] };
    let end = job.end();
    let mut all = Done::default();
    std::thread::scope(|scope| {
        let start = |member| scope.spawn(move || take_turn(ports, job, member, RING, end));
        let threads: Vec<_> = members.into_iter().map(start).collect();
        for thread in threads {
            all.add(thread.join().expect("no panic there")?);
        }
        anyhow::Ok(())
    })?;
    Ok(all)
}

fn take_turn(ports: &[u16], job: &Job, member: usize, ring: usize, end: u64) -> Result<Done> {
    let names: Vec<String> = (0..ring).map(|member| format!("{}-{member}", job.prefix)).collect();
    let mut party = Party::connect(ports, &job.prefix, &names[member], &names[(member + 1) % ring])?;
    let mut done = Done::default();
    let mut called = now();
    if member == 0 {
        Party::wait_for(*ports.last().context("there is a server")?, &names)?;
    } else if party.wait().is_err() {
        return Ok(done);
    }
    while now() < end {
        party.acquire()?;
        let acquired = now();
        std::thread::sleep(job.hold);
        let released = now();
        party.release()?;
        done.holds.push(Hold { task: member, called, acquired, released, finished: now() });
        called = now();
        if party.wait().is_err() {
            return Ok(done); // The others have gone.
        }
    }
    // So that the next one does not wait for us.
    let _ = party.acquire();
    let _ = party.release();
    Ok(done)
}
