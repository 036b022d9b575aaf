//! `redlock`: blocking, one node after the other, a new connection for every command.

use std::io::BufRead;
use std::time::Duration;

use anyhow::{Result, bail};
use redlock::RedLock;

use crate::protocol::{Arguments, Done, Hold, Job, Kind, cpu, now, print_ready};

/// It has no default.
const TTL_MS: usize = 30_000;

pub(crate) fn serve(arguments: &Arguments) -> Result<()> {
    let begun = now();
    let mut manager = RedLock::new(arguments.nodes.iter().map(|node| format!("redis://{node}")).collect());
    if arguments.tuned {
        manager.set_retry(1_000, 2);
    }
    let first = manager.acquire(format!("first:{begun}").as_bytes(), TTL_MS)?;
    print_ready(begun)?;
    drop(first);
    for line in std::io::stdin().lock().lines() {
        let job = Job::parse(&line?)?;
        if job.kind == Kind::Hold {
            bail!("it cannot extend locks");
        }
        let before = cpu();
        let done = work(&manager, &job);
        done.print(cpu() - before)?;
    }
    Ok(())
}

fn work(manager: &RedLock, job: &Job) -> Done {
    let end = job.end();
    let mut all = Done::default();
    std::thread::scope(|scope| {
        let start = |task| scope.spawn(move || cycles(manager, job, task, end));
        let threads: Vec<_> = (0..job.tasks).map(start).collect();
        for thread in threads {
            all.add(thread.join().unwrap_or_default());
        }
    });
    all
}

fn cycles(manager: &RedLock, job: &Job, task: usize, end: u64) -> Done {
    let (mut done, mut cycle) = (Done::default(), 0);
    while now() < end {
        let called = now();
        match manager.acquire(job.name(task, cycle).as_bytes(), TTL_MS) {
            Ok(guard) => {
                let acquired = now();
                std::thread::sleep(job.hold);
                let released = now();
                drop(guard);
                done.holds.push(Hold { task, called, acquired, released, finished: now() });
            }
            Err(error) => {
                done.fail(&error.into());
                // A dead node is an error at once.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        cycle += 1;
    }
    done
}
