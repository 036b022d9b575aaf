//! Tenure's own driver: the same protocol as the peers' (`peers/README.md`).
//!
//! It also takes `kind` (`string`, `hash` or `yii2`), `prefix`, `owner` (for `hash`) and
//! `max_ttl_ms`, and the order `state NAME`: whether the lock is still valid.
#![allow(clippy::print_stdout, reason = "it answers on its standard output")]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use tenure::{Guard, KeyScheme, Lock, Locks};
use tenure_interop::now;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut driver = Driver::new()?;
    println!("{}", json!({ "ready": true, "version": env!("CARGO_PKG_VERSION") }));
    let (sender, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    while let Some(order) = orders.recv().await {
        let begun = nanos();
        let words: Vec<&str> = order.split(' ').collect();
        let mut answer = driver.perform(&words).await.unwrap_or_else(|error| refused(format!("{error:#}")));
        answer.insert("begun".to_owned(), begun.into());
        answer.insert("ended".to_owned(), nanos().into());
        println!("{}", Value::Object(answer));
    }
    driver.locks.shutdown().await?;
    Ok(())
}

struct Driver {
    locks: Locks,
    owner: Option<String>,
    held: BTreeMap<String, Vec<Guard>>,
}

type Answer = Map<String, Value>;

impl Driver {
    fn new() -> Result<Self> {
        let arguments = std::env::args().skip(1);
        let values: HashMap<String, String> = arguments
            .filter_map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect();
        let value = |name: &str| values.get(name).map(String::as_str);
        let mut builder = Locks::builder().prefix(value("prefix").unwrap_or_default());
        for node in value("nodes").context("nodes=HOST:PORT,... is missing")?.split(',') {
            builder = builder.url(&format!("redis://{node}"))?;
        }
        if let Some(max_ttl) = value("max_ttl_ms") {
            builder = builder.max_ttl(Duration::from_millis(max_ttl.parse()?));
        }
        let owner = match value("kind") {
            Some("string") => None,
            Some("yii2") => {
                builder = builder.key_scheme(KeyScheme::Yii2);
                None
            }
            // Each process is an owner of its own, unless it is told which.
            Some("hash") => {
                let own = format!("tenure-{}", std::process::id());
                Some(value("owner").map_or(own, str::to_owned))
            }
            other => bail!("kind is {other:?}; expected string, hash or yii2"),
        };
        Ok(Self { locks: builder.build()?, owner, held: BTreeMap::new() })
    }

    async fn perform(&mut self, words: &[&str]) -> Result<Answer> {
        match *words {
            ["try", name, ttl] => {
                let guard = self.lock(name, ttl)?.try_acquire().await?;
                Ok(guard.map_or_else(|| refused("held by another"), |guard| self.keep(name, guard)))
            }
            ["lock", name, ttl] => {
                let guard = self.lock(name, ttl)?.acquire().await?;
                Ok(self.keep(name, guard))
            }
            ["wait", name, ttl, patience] => {
                let guard = self.lock(name, ttl)?.wait(millis(patience)?).acquire().await?;
                Ok(self.keep(name, guard))
            }
            ["unlock", name] => {
                let guard = self.held.get_mut(name).and_then(Vec::pop).context("not locked here")?;
                guard.release().await?;
                Ok(done())
            }
            ["extend", name] => {
                let guard = self.held.get_mut(name).and_then(|held| held.last_mut());
                guard.context("not locked here")?.extend().await?;
                Ok(done())
            }
            ["state", name] => {
                let guard = self.held.get(name).and_then(|held| held.last()).context("not locked here")?;
                let mut answer = done();
                answer.insert("valid".to_owned(), guard.is_valid().into());
                Ok(answer)
            }
            ["count", name, ttl, file, times] => self.count(name, ttl, Path::new(file), times.parse()?).await,
            ["turns", name, ttl, hold, time] => self.turns(name, ttl, millis(hold)?, millis(time)?).await,
            _ => bail!("unknown: {}", words.join(" ")),
        }
    }

    fn lock(&self, name: &str, ttl: &str) -> Result<Lock> {
        let ttl = millis(ttl)?;
        // Sixteen processes on two cores keep a server waiting for longer than the default.
        let lock = self.locks.lock(name).ttl(ttl).node_timeout(ttl / 10);
        Ok(match &self.owner {
            Some(owner) => lock.owner(owner),
            None => lock,
        })
    }

    fn keep(&mut self, name: &str, guard: Guard) -> Answer {
        let mut answer = done();
        answer.insert("fence".to_owned(), guard.fence().get().into());
        self.held.entry(name.to_owned()).or_default().push(guard);
        answer
    }

    async fn count(&self, name: &str, ttl: &str, file: &Path, times: u64) -> Result<Answer> {
        let lock = self.lock(name, ttl)?.wait(Duration::from_secs(120));
        for _ in 0..times {
            let guard = lock.acquire().await?;
            let number: u64 = std::fs::read_to_string(file)?.trim().parse()?;
            std::fs::write(file, (number + 1).to_string())?;
            guard.release().await?;
        }
        Ok(done_times(times))
    }

    async fn turns(&self, name: &str, ttl: &str, hold: Duration, time: Duration) -> Result<Answer> {
        let lock = self.lock(name, ttl)?.wait(Duration::from_secs(30));
        let (begun, mut turns) = (Instant::now(), 0);
        while begun.elapsed() < time {
            let guard = lock.acquire().await?;
            turns += 1;
            tokio::time::sleep(hold).await;
            guard.release().await?;
        }
        Ok(done_times(turns))
    }
}

fn done() -> Answer {
    Map::from_iter([("ok".to_owned(), true.into())])
}

fn done_times(times: u64) -> Answer {
    let mut answer = done();
    answer.insert("done".to_owned(), times.into());
    answer
}

fn refused(why: impl Display) -> Answer {
    Map::from_iter([("ok".to_owned(), false.into()), ("error".to_owned(), why.to_string().into())])
}

fn millis(word: &str) -> Result<Duration> {
    Ok(Duration::from_millis(word.parse()?))
}

fn nanos() -> u64 {
    u64::try_from(now().as_nanos()).unwrap_or(u64::MAX)
}
