//! Clients that live on tokio: many tasks, one client.

use std::future::Future;
use std::io::BufRead;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use super::protocol::{Arguments, Done, Hold, Job, Kind, cpu, now, print_ready};

/// A client that tasks share.
pub(crate) trait Locker: Clone + Send + Sync + 'static {
    type Guard: Send + Sync;

    /// Acquires, however long it takes.
    fn acquire(&self, name: String) -> impl Future<Output = Result<Self::Guard>> + Send;

    fn release(&self, guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;

    /// Keeps a lock for another term.
    fn extend(&self, guard: &mut Self::Guard) -> impl Future<Output = Result<()>> + Send;

    /// How often it renews locks by itself, if it does.
    fn renews_every(&self) -> Option<Duration>;
}

/// Does what standard input asks for until it ends.
pub(crate) fn serve<L, C, F>(arguments: &Arguments, connect: C) -> Result<()>
where
    L: Locker,
    C: FnOnce(Vec<String>, bool) -> F,
    F: Future<Output = Result<L>>,
{
    let runtime = runtime(&arguments.runtime)?;
    // The runtime goes on between jobs, as it does in a program: connections are kept up.
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
    });
    runtime.block_on(async {
        let begun = now();
        let locker = connect(arguments.nodes.clone(), arguments.tuned).await?;
        let first = locker.acquire(format!("first:{begun}")).await?;
        print_ready(begun)?;
        locker.release(first).await?;
        while let Some(line) = lines.recv().await {
            let job = Job::parse(&line)?;
            let (done, spent) = match job.kind {
                Kind::Work => {
                    let before = cpu();
                    let done = work(&locker, &job).await?;
                    (done, cpu() - before)
                }
                Kind::Hold => hold(&locker, &job).await?,
            };
            done.print(spent)?;
        }
        Ok(())
    })
}

fn runtime(flavour: &str) -> Result<Runtime> {
    Ok(match flavour {
        "single" | "own" => Builder::new_current_thread().enable_all().build()?,
        "threads:1" => Builder::new_multi_thread().worker_threads(1).enable_all().build()?,
        "threads:2" => Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
        unknown => bail!("there is no runtime {unknown:?}"),
    })
}

async fn work<L: Locker>(locker: &L, job: &Job) -> Result<Done> {
    let end = job.end();
    let start = |task| tokio::spawn(cycles(locker.clone(), job.clone(), task, end));
    let tasks: Vec<_> = (0..job.tasks).map(start).collect();
    let mut all = Done::default();
    for task in tasks {
        all.add(task.await?);
    }
    Ok(all)
}

/// One task: one cycle after the other.
async fn cycles<L: Locker>(locker: L, job: Job, task: usize, end: u64) -> Done {
    let (mut done, mut cycle) = (Done::default(), 0);
    while now() < end {
        let called = now();
        let result = async {
            let guard = locker.acquire(job.name(task, cycle)).await?;
            let acquired = now();
            if !job.hold.is_zero() {
                exactly(job.hold).await?;
            }
            let released = now();
            locker.release(guard).await?;
            Ok(Hold { task, called, acquired, released, finished: now() })
        };
        match result.await {
            Ok(hold) => done.holds.push(hold),
            Err(error) => done.fail(&error),
        }
        cycle += 1;
    }
    done
}

/// The runtime's own timer is one millisecond late, beside those of other languages: of five that
/// would count as a slower lock.
async fn exactly(time: Duration) -> Result<()> {
    Ok(tokio::task::spawn_blocking(move || std::thread::sleep(time)).await?)
}

/// Keeps many locks. Returns the CPU time that renewals took.
async fn hold<L: Locker>(locker: &L, job: &Job) -> Result<(Done, Duration)> {
    let mut guards = vec![];
    for task in 0..job.tasks {
        let (locker, job) = (locker.clone(), job.clone());
        guards.push(tokio::spawn(async move {
            let mut guards = vec![];
            for number in (task..job.locks).step_by(job.tasks) {
                guards.push(locker.acquire(job.name(task, number)).await?);
            }
            anyhow::Ok(guards)
        }));
    }
    let mut held = vec![];
    for guards in guards {
        held.push(guards.await??);
    }
    if let Some(interval) = locker.renews_every() {
        // Renewals lie far from the beginning and the end of what is measured.
        tokio::time::sleep(interval / 2).await;
        let before = cpu();
        tokio::time::sleep(job.time).await;
        let spent = cpu() - before;
        let renewals = job.time.as_millis() * job.locks as u128 / interval.as_millis();
        let mut done = Done { renewals: usize::try_from(renewals)?, ..Done::default() };
        release(locker, held, &mut done).await?;
        return Ok((done, spent));
    }
    let before = cpu();
    let mut tasks = vec![];
    for mut guards in held {
        let locker = locker.clone();
        tasks.push(tokio::spawn(async move {
            let mut done = Done::default();
            for guard in &mut guards {
                match locker.extend(guard).await {
                    Ok(()) => done.renewals += 1,
                    Err(error) => done.fail(&error),
                }
            }
            (done, guards)
        }));
    }
    let (mut done, mut held) = (Done::default(), vec![]);
    for task in tasks {
        let (part, guards) = task.await?;
        done.add(part);
        held.push(guards);
    }
    let spent = cpu() - before;
    release(locker, held, &mut done).await?;
    Ok((done, spent))
}

async fn release<L: Locker>(locker: &L, held: Vec<Vec<L::Guard>>, done: &mut Done) -> Result<()> {
    let mut tasks = vec![];
    for guards in held {
        let locker = locker.clone();
        tasks.push(tokio::spawn(async move {
            let mut done = Done::default();
            for guard in guards {
                if let Err(error) = locker.release(guard).await {
                    done.fail(&error);
                }
            }
            done
        }));
    }
    for task in tasks {
        done.add(task.await?);
    }
    Ok(())
}
