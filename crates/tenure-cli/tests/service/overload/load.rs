//! Those who ask for locks and release them: each as soon as it has its answer, or all together at
//! a rate, whatever the answers are.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout_at};

use crate::wire::Wire;

/// How often it is looked which requests are due.
const TICK: Duration = Duration::from_millis(1);

pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) connections: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Tally {
    time: Duration,
    /// Not sent when it was time, because no connection was free.
    unsent: u64,
    /// Acquired and released, both within the time.
    cycles: u64,
    refused: u64,
    /// Whatever else was answered.
    failed: u64,
    /// How much later than they should the requests left, at most.
    late: Duration,
}

impl Tally {
    pub(super) fn cycles_per_second(&self) -> f64 {
        self.cycles as f64 / self.time.as_secs_f64()
    }

    pub(super) fn refused_per_second(&self) -> f64 {
        self.refused as f64 / self.time.as_secs_f64()
    }

    const fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Cycle => self.cycles += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Failed => self.failed += 1,
        }
    }
}

#[derive(Clone, Copy)]
enum Outcome {
    Cycle,
    Refused,
    Failed,
}

impl Load {
    /// Each asks as soon as it has its answer.
    pub(super) fn closed(&self, time: Duration) -> Tally {
        run(async {
            let (clients, end) = (self.clients().await, Instant::now() + time);
            let each = clients.into_iter().map(move |mut client| async move {
                let mut cycles = 0;
                while let Ok(outcome) = timeout_at(end, client.cycle()).await {
                    cycles += u64::from(matches!(outcome, Outcome::Cycle));
                }
                client.wire.reset();
                cycles
            });
            let cycles = each.collect::<JoinSet<u64>>().join_all().await.into_iter().sum();
            Tally { time, cycles, ..Tally::default() }
        })
    }

    /// So many a second are asked for, in even intervals.
    pub(super) fn open(&self, rate: f64, time: Duration) -> Tally {
        run(async {
            let mut idle = self.clients().await;
            let (done, mut outcomes) = mpsc::unbounded_channel();
            let (begin, mut tick, mut under_way) = (Instant::now(), interval(TICK), JoinSet::new());
            let (mut tally, mut due, mut last) = (Tally { time, ..Tally::default() }, 0_u32, begin);
            while begin.elapsed() < time {
                tick.tick().await;
                tally.late = tally.late.max(last.elapsed().saturating_sub(TICK));
                last = Instant::now();
                while let Ok((client, outcome)) = outcomes.try_recv() {
                    tally.add(outcome);
                    idle.push(client);
                }
                while f64::from(due) < begin.elapsed().as_secs_f64() * rate {
                    due += 1;
                    let Some(mut client) = idle.pop() else {
                        tally.unsent += 1;
                        continue;
                    };
                    let done = done.clone();
                    under_way.spawn(async move {
                        let outcome = client.cycle().await;
                        let _ = done.send((client, outcome));
                    });
                }
            }
            // What has no answer by then is given up.
            under_way.shutdown().await;
            tally
        })
    }

    async fn clients(&self) -> Vec<Client> {
        // What another load had when it was given up is not free yet.
        let load = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let mut clients = vec![];
        for number in 0..self.connections {
            clients.push(Client { wire: Wire::connect(self.address).await, load, number, count: 0 });
        }
        clients
    }
}

fn run(load: impl Future<Output = Tally>) -> Tally {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(load)
}

/// One connection, with one call under way at most.
struct Client {
    wire: Wire,
    load: u128,
    number: usize,
    count: u64,
}

impl Client {
    /// Acquires a lock that nobody else wants, and releases it.
    async fn cycle(&mut self) -> Outcome {
        self.count += 1;
        let name = format!("load-{:x}-{}-{}", self.load, self.number, self.count);
        let (status, body) =
            self.wire.ask("acquire", &format!("{{\"name\":\"{name}\",\"ttl_ms\":10000}}")).await;
        match (status, &body["type"]) {
            (200, _) => {
                let given = json!({ "name": name, "token": body["token"] });
                let (status, _) = self.wire.post("release", &given).await;
                if status == 200 { Outcome::Cycle } else { Outcome::Failed }
            }
            (503, kind) if kind == "urn:tenure:overloaded" => Outcome::Refused,
            _ => Outcome::Failed,
        }
    }
}
