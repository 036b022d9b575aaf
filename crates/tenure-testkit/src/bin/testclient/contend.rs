//! A client of the chaos campaign: some workers that contend for a few locks and say what becomes of them.
//!
//! A line is written before the worker relies on what it says, see `history.rs`.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tenure::{AcquireError, Distrust, Event, Guard, Locks, RedisNode, Renewal, RestartGuard};
use tenure_testkit::Dice;
use tenure_testkit::history::{Doubt, Line, Miss, Ns, now};
use tokio::time::sleep;

use crate::resource::Resource;

/// Six clients and five servers share two cores: a node may have to wait for its turn.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// A timer that comes this much late means that the process stood still, or got no processor.
const STALL: Ns = 25_000_000;

/// Two readings of the end of a validity differ by the time between the readings of two clocks.
const SAME_END: Ns = 1_000_000;

/// How the workers behave.
#[derive(Clone, Copy)]
struct Manners {
    locks: usize,
    max_ttl: Duration,
    /// Hold three quarters of the ttl each time, without renewal.
    steady: bool,
}

/// `testclient contend seed=S workers=W locks=L max_ttl_ms=T guard=on|off hold=mixed|steady resource=URL URL...`
pub(crate) async fn contend(arguments: &[&str]) {
    let (settings, urls): (Vec<&str>, Vec<&str>) = arguments.iter().partition(|word| word.contains('='));
    let settings: BTreeMap<&str, &str> = settings.iter().filter_map(|word| word.split_once('=')).collect();
    let number = |name: &str| settings[name].parse::<u64>().unwrap();
    let manners = Manners {
        locks: number("locks").try_into().unwrap(),
        max_ttl: Duration::from_millis(number("max_ttl_ms")),
        steady: settings["hold"] == "steady",
    };
    let guard = if settings["guard"] == "on" { RestartGuard::Evidence } else { RestartGuard::Off };
    let locks = manager(&urls, manners.max_ttl, guard);
    tokio::spawn(tell_of_stalls());
    tokio::spawn(tell_whom_it_knows(locks.clone()));
    locks.ready().await;
    let workers: Vec<_> = (0..number("workers"))
        .map(|worker| {
            let dice = Dice::new(number("seed").wrapping_mul(1_000).wrapping_add(worker));
            let resource = Resource::connect(settings["resource"]);
            tokio::spawn(Worker { locks: locks.clone(), manners, dice, resource }.work())
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// The two halves of the clients reach the nodes at different addresses, so the list has a name.
fn manager(urls: &[&str], max_ttl: Duration, guard: RestartGuard) -> Locks {
    let nodes: Vec<RedisNode> = urls.iter().map(|url| RedisNode::parse(url).unwrap()).collect();
    let builder = Locks::builder().nodes(nodes).max_ttl(max_ttl).restart_guard(guard).fleet("chaos");
    let addresses = Arc::<std::sync::OnceLock<Vec<String>>>::default();
    let known = Arc::clone(&addresses);
    let observer = move |event: &Event<'_>| {
        let index = |node: &str| known.get()?.iter().position(|address| address == node);
        match event {
            Event::NodeDistrusted { node, distrust, .. } => {
                let why = match distrust {
                    Distrust::Quarantined { .. } => Doubt::Quarantined,
                    Distrust::ClockJumped { by_us, .. } => Doubt::Jumped(*by_us),
                    _ => Doubt::Other,
                };
                if let Some(node) = index(node) {
                    say(Line::Distrusts { node, at: now(), why });
                }
            }
            Event::NodeTrusted { node, .. } => {
                if let Some(node) = index(node) {
                    say(Line::Trusts { node, at: now() });
                }
            }
            _ => {}
        }
    };
    let locks = builder.observer(observer).build().unwrap();
    let _ = addresses.set(locks.node_addresses().map(str::to_owned).collect());
    locks
}

struct Worker {
    locks: Locks,
    manners: Manners,
    dice: Dice,
    resource: Resource,
}

impl Worker {
    async fn work(mut self) {
        loop {
            let lock = self.dice.index(self.manners.locks);
            let ttl = if self.manners.steady { self.manners.max_ttl } else { self.some_ttl() };
            let renewed = !self.manners.steady && self.dice.chance(50);
            let renewal = if renewed { Renewal::AtThird } else { Renewal::Off };
            let invoked = now();
            match self.acquire(lock, ttl, renewal).await {
                Ok(guard) => self.hold(lock, guard, invoked, ttl, renewal).await,
                Err(why) => {
                    say(Line::Missed { lock, invoked, at: now(), why });
                    sleep(Duration::from_millis(self.dice.between(5, 60))).await;
                }
            }
            sleep(Duration::from_millis(self.dice.between(0, 40))).await;
        }
    }

    /// Every term ends at another time, and none lasts longer than a quarantine.
    fn some_ttl(&mut self) -> Duration {
        let max_ms = u64::try_from(self.manners.max_ttl.as_millis()).unwrap();
        let least_ms = self.dice.pick(&[max_ms * 2 / 5, max_ms]);
        Duration::from_millis(self.dice.between(least_ms, max_ms))
    }

    async fn acquire(&mut self, lock: usize, ttl: Duration, renewal: Renewal) -> Result<Guard, Miss> {
        let options = self.locks.lock(format!("chaos-{lock}")).ttl(ttl).node_timeout(NODE_TIMEOUT);
        let options = options.renewal(renewal);
        let wait = Duration::from_millis(self.dice.between(200, 3_000));
        let answer = match self.dice.below(10) {
            0..=2 => options.try_acquire().await.map(|guard| guard.ok_or(Miss::Contended)),
            3..=5 => options.unqueued().wait(wait).acquire().await.map(Ok),
            _ => options.wait(wait).acquire().await.map(Ok),
        };
        answer.unwrap_or_else(|error| {
            Err(match error {
                AcquireError::Contended { .. } => Miss::Contended,
                AcquireError::TooLate { .. } => Miss::Late,
                AcquireError::Unavailable { .. } => Miss::Unavailable,
                other => panic!("{other}"),
            })
        })
    }

    async fn hold(&mut self, lock: usize, mut guard: Guard, invoked: Ns, ttl: Duration, renewal: Renewal) {
        let fence = i64::try_from(guard.fence().get()).unwrap();
        let (returned, mut until) = look(&guard);
        if until <= returned {
            return say(Line::Missed { lock, invoked, at: returned, why: Miss::Late });
        }
        say(Line::Held { lock, fence, invoked, returned, until });
        let patience = self.how_long(ttl, renewal);
        let by_hand = renewal == Renewal::Off && !self.manners.steady && self.dice.chance(50);
        let mut extend_at = returned + nanos(ttl / 2);
        let lost = guard.lost();
        tokio::pin!(lost);
        let mut claimed = None;
        while now() < returned + patience {
            let left = Duration::from_nanos(u64::try_from(returned + patience - now()).unwrap_or(0));
            let step = Duration::from_millis(self.dice.between(3, 35)).min(left);
            tokio::select! {
                biased;
                () = &mut lost => {
                    say(Line::Lost { lock, fence, at: now() });
                    // Some holders go on all the same: it is the resource that must refuse them.
                    if claimed.is_some() && self.dice.chance(50) {
                        sleep(ttl / 2).await;
                        self.touch(lock, fence, claimed);
                    }
                    return;
                }
                () = sleep(step) => {}
            }
            let (at, end) = look(&guard);
            if end <= at {
                return say(Line::Lost { lock, fence, at });
            }
            if end > until + SAME_END {
                until = end;
                say(Line::Until { lock, fence, at, until });
            }
            claimed = self.touch(lock, fence, claimed);
            if by_hand && at > extend_at {
                extend_at = at + nanos(ttl / 2);
                let _ = guard.extend().await;
            }
        }
        say(Line::Released { lock, fence, at: now() });
        if self.dice.chance(70) {
            let _ = guard.release().await;
        }
    }

    /// Most holds are short; some live on renewals, and some without renewal run into their end.
    fn how_long(&mut self, ttl: Duration, renewal: Renewal) -> Ns {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
        let ms = match self.dice.below(100) {
            _ if self.manners.steady => ttl_ms * 3 / 4,
            0..80 => self.dice.between(2, 40),
            80..86 => self.dice.between(40, ttl_ms * 3 / 4),
            _ if renewal == Renewal::Off => self.dice.between(ttl_ms / 2, ttl_ms * 6 / 5),
            _ => self.dice.between(ttl_ms, ttl_ms * 3),
        };
        nanos(Duration::from_millis(ms))
    }

    /// Claims and reads the resource, and at the next step writes what it read, with one added.
    fn touch(&mut self, lock: usize, fence: i64, claimed: Option<i64>) -> Option<i64> {
        let answer = match claimed {
            None => {
                return self.resource.claim(lock, fence).or_else(|| {
                    say(Line::Refused { lock, fence, at: now() });
                    None
                });
            }
            Some(value) => self.resource.write(lock, fence, value + 1).then_some(value + 1),
        };
        match answer {
            Some(value) => say(Line::Wrote { lock, fence, at: now(), value }),
            None => say(Line::Refused { lock, fence, at: now() }),
        }
        answer
    }
}

/// What time it is, and until when the guard counts; the same as the time if it does not.
fn look(guard: &Guard) -> (Ns, Ns) {
    loop {
        let before = now();
        let valid_for = nanos(guard.valid_for());
        let at = now();
        // A process that is halted between the readings would believe in a later end.
        if at - before < SAME_END / 10 {
            return (at, before + valid_for);
        }
    }
}

fn nanos(duration: Duration) -> Ns {
    Ns::try_from(duration.as_nanos()).unwrap()
}

async fn tell_of_stalls() {
    let every = Duration::from_millis(10);
    loop {
        let from = now();
        sleep(every).await;
        let to = now();
        if to - from > nanos(every) + STALL {
            say(Line::Stalled { from, to });
        }
    }
}

/// Says of each node when its clock is known, so that nobody moves it before.
async fn tell_whom_it_knows(locks: Locks) {
    let mut known = vec![false; locks.node_addresses().count()];
    while known.contains(&false) {
        for (node, report) in locks.nodes().await.iter().enumerate() {
            if report.clock_offset_us.is_some() && !known[node] {
                known[node] = true;
                say(Line::Knows { node, at: now() });
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn say(line: Line) {
    // Whoever reads may have gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}
