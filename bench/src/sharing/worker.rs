//! One process with readers and writers. It prints how many holds each side had, the longest wait
//! of each in microseconds, and how often a writer had the lock beside somebody else.
//!
//! That is seen by the system's own lock on a file, which each holder takes without waiting: one
//! that is refused has found somebody who should not be there.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tenure::{Lock, Locks, RedisNode};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long each has the lock.
pub(super) const HOLD: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Seen {
    reads: AtomicU64,
    writes: AtomicU64,
    read_wait_us: AtomicU64,
    write_wait_us: AtomicU64,
    broken: AtomicU64,
}

/// `sharing-worker NAME WITNESS HOW READERS WRITERS TIME_MS URL...`; `HOW` is `shared` or `alone`.
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let [name, witness, how, readers, writers, time_ms, urls @ ..] = arguments else {
        bail!("too few arguments")
    };
    let (readers, writers): (usize, usize) = (readers.parse()?, writers.parse()?);
    let (shares, end) = (how == "shared", Instant::now() + Duration::from_millis(time_ms.parse()?));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let seen = Arc::new(Seen::default());
    runtime.block_on(async {
        let locks = client(urls)?;
        let mut workers = JoinSet::new();
        for worker in 0..readers + writers {
            let (reads, lock) = (worker < readers, locks.lock(name).wait_forever());
            let lock = if reads && shares { lock.shared() } else { lock };
            workers.spawn(work(Arc::clone(&seen), File::open(witness)?, lock, reads, reads && shares, end));
        }
        while let Some(done) = workers.join_next().await {
            done??;
        }
        locks.shutdown().await?;
        anyhow::Ok(())
    })?;
    let Seen { reads, writes, read_wait_us, write_wait_us, broken } = &*seen;
    let counts = [reads, writes, read_wait_us, write_wait_us, broken].map(|it| it.load(Ordering::Relaxed));
    println!("{}", counts.map(|count| count.to_string()).join(" "));
    Ok(())
}

/// A client of these servers, by whichever addresses.
pub(super) fn client<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Locks> {
    let nodes = urls.into_iter().map(|url| RedisNode::parse(url.as_ref())).collect::<Result<Vec<_>, _>>()?;
    Ok(Locks::builder().nodes(nodes).prefix("sharing:").fleet("sharing").build()?)
}

async fn work(
    seen: Arc<Seen>,
    witness: File,
    lock: Lock,
    reads: bool,
    shares: bool,
    end: Instant,
) -> Result<()> {
    let (count, longest) = match reads {
        true => (&seen.reads, &seen.read_wait_us),
        false => (&seen.writes, &seen.write_wait_us),
    };
    while Instant::now() < end {
        let asked = Instant::now();
        let guard = lock.acquire().await?;
        let waited = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
        longest.fetch_max(waited, Ordering::Relaxed);
        let alone = if shares { witness.try_lock_shared() } else { witness.try_lock() };
        seen.broken.fetch_add(u64::from(alone.is_err()), Ordering::Relaxed);
        sleep(HOLD).await;
        witness.unlock()?;
        count.fetch_add(1, Ordering::Relaxed);
        guard.release().await?;
    }
    Ok(())
}
