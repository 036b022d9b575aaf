//! A client of the chaos campaign: some workers that contend for a few locks and say what becomes
//! of them.
//!
//! `contender seed=S workers=W locks=L max_ttl_ms=T guard=on|off hold=mixed|steady resource=URL
//! URL...`
//!
//! An entry is written before the worker relies on what it says, see `history.rs`.
#![allow(clippy::unwrap_used, reason = "a client that cannot go on has to fail")]

mod resource;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use tenure::{AcquireError, Distrust, Event, Guard, Locks, RedisNode, Renewal, RestartGuard};
use tenure_chaos::Dice;
use tenure_chaos::history::{Doubt, Entry, Miss, Ns, now};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::resource::Resource;

/// Six clients and five servers share two cores: a node may have to wait for its turn.
const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// A timer that comes this much late means that the process stood still, or got no processor.
const STALL: Ns = 25_000_000;

/// Two readings of the end of a validity differ by the time between the readings of two clocks.
const SAME_END: Ns = 1_000_000;

/// What the names of the locks begin with.
const NAME_LEAD: &str = "chaos-";

/// How the workers behave.
#[derive(Clone, Copy)]
struct Manners {
    locks: usize,
    max_ttl: Duration,
    /// Hold three quarters of the ttl each time, without renewal.
    steady: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words = arguments.iter().map(String::as_str);
    let (settings, urls): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
    let settings: BTreeMap<&str, &str> = settings.iter().filter_map(|word| word.split_once('=')).collect();
    let number = |name: &str| settings[name].parse::<u64>().unwrap();
    let manners = Manners {
        locks: number("locks").try_into().unwrap(),
        max_ttl: Duration::from_millis(number("max_ttl_ms")),
        steady: settings["hold"] == "steady",
    };
    let guard = if settings["guard"] == "on" { RestartGuard::Evidence } else { RestartGuard::Off };
    let extended: Arc<[Notify]> = (0..manners.locks).map(|_| Notify::new()).collect();
    let locks = manager(&urls, manners.max_ttl, guard, Arc::clone(&extended));
    let mut tasks = JoinSet::new();
    tasks.spawn(tell_of_stalls());
    tasks.spawn(tell_whom_it_knows(locks.clone()));
    locks.ready().await;
    for worker in 0..number("workers") {
        let dice = Dice::new(number("seed").wrapping_mul(1_000).wrapping_add(worker));
        let resource = Resource::connect(settings["resource"]);
        let extended = Arc::clone(&extended);
        tasks.spawn(Worker { locks: locks.clone(), manners, dice, resource, extended }.work());
    }
    // The first that fails ends the process: a worker less would only look like less contention.
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// The two halves of the clients reach the nodes at different addresses, so the list has a name.
/// Whoever holds a lock is woken when it was extended.
fn manager(urls: &[&str], max_ttl: Duration, guard: RestartGuard, extended: Arc<[Notify]>) -> Locks {
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
                    say(Entry::Distrusts { node, at: now(), why });
                }
            }
            Event::NodeTrusted { node, .. } => {
                if let Some(node) = index(node) {
                    say(Entry::Trusts { node, at: now() });
                }
            }
            Event::Extended { name, .. } => {
                let lock = name.strip_prefix(NAME_LEAD).and_then(|lock| lock.parse::<usize>().ok());
                if let Some(holder) = lock.and_then(|lock| extended.get(lock)) {
                    holder.notify_one();
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
    /// Says for each lock that it was extended.
    extended: Arc<[Notify]>,
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
                    say(Entry::Missed { lock, invoked, at: now(), why });
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
        let options = self.locks.lock(format!("{NAME_LEAD}{lock}")).ttl(ttl).node_timeout(NODE_TIMEOUT);
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
                // Nodes that were set back grant no fence for as long.
                AcquireError::Unavailable { .. } | AcquireError::ClocksSetBack { .. } => Miss::Unavailable,
                other => panic!("{other}"),
            })
        })
    }

    async fn hold(&mut self, lock: usize, mut guard: Guard, invoked: Ns, ttl: Duration, renewal: Renewal) {
        let fence = i64::try_from(guard.fence().get()).unwrap();
        let (returned, mut until) = look(&guard);
        if until <= returned {
            return say(Entry::Missed { lock, invoked, at: returned, why: Miss::Late });
        }
        say(Entry::Held { lock, fence, invoked, returned, until, lead: nanos(lead(ttl)) });
        let patience = self.how_long(ttl, renewal);
        let by_hand = renewal == Renewal::Off && !self.manners.steady && self.dice.chance(50);
        let mut extend_at = returned + nanos(ttl / 2);
        let lost = guard.lost();
        tokio::pin!(lost);
        let (extended, mut claimed) = (Arc::clone(&self.extended), None);
        while now() < returned + patience {
            let left = Duration::from_nanos(u64::try_from(returned + patience - now()).unwrap_or(0));
            let step = Duration::from_millis(self.dice.between(3, 35)).min(left);
            let touches = tokio::select! {
                biased;
                () = &mut lost => return self.lose(lock, fence, guard, ttl, claimed).await,
                () = extended[lock].notified() => false,
                () = sleep(step) => true,
            };
            let (at, end) = look(&guard);
            if end <= at {
                return self.lose(lock, fence, guard, ttl, claimed).await;
            }
            tell_of_extension(lock, fence, at, end, &mut until);
            if touches {
                claimed = self.touch(lock, fence, claimed);
            }
            if by_hand && at > extend_at {
                extend_at = at + nanos(ttl / 2);
                if guard.extend().await.is_ok() {
                    let (at, end) = look(&guard);
                    tell_of_extension(lock, fence, at, end, &mut until);
                }
            }
        }
        say(Entry::Released { lock, fence, at: now() });
        if self.dice.chance(70) {
            let _ = guard.release().await;
        }
    }

    /// It was told that the lock is lost. If that was the timer, the lock counts a little longer,
    /// and some use that. Some go on far beyond it: it is the resource that must refuse them.
    async fn lose(&mut self, lock: usize, fence: i64, guard: Guard, ttl: Duration, mut claimed: Option<i64>) {
        let (at, end) = look(&guard);
        say(Entry::Lost { lock, fence, at });
        let counts = end > at;
        if counts && self.dice.chance(50) {
            claimed = self.touch(lock, fence, claimed);
        }
        if !counts || self.dice.chance(50) {
            say(Entry::Released { lock, fence, at: now() });
            drop(guard);
        }
        if claimed.is_some() && self.dice.chance(50) {
            sleep(ttl / 2).await;
            self.touch(lock, fence, claimed);
        }
        // Said twice, this ends nothing that is over.
        say(Entry::Released { lock, fence, at: now() });
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
                    say(Entry::Refused { lock, fence, at: now() });
                    None
                });
            }
            Some(value) => self.resource.write(lock, fence, value + 1).then_some(value + 1),
        };
        match answer {
            Some(value) => say(Entry::Wrote { lock, fence, at: now(), value }),
            None => say(Entry::Refused { lock, fence, at: now() }),
        }
        answer
    }
}

/// Says so, if the guard counts for longer than before.
fn tell_of_extension(lock: usize, fence: i64, at: Ns, end: Ns, until: &mut Ns) {
    if end > *until + SAME_END {
        *until = end;
        say(Entry::Until { lock, fence, at, until: end });
    }
}

/// How long before its end the loss of a lock is told, by the guarantees: the checker must not take
/// it from the library.
fn lead(ttl: Duration) -> Duration {
    (ttl / 20).max(Duration::from_millis(50)).min(ttl / 4)
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
            say(Entry::Stalled { from, to });
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
                say(Entry::Knows { node, at: now() });
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

fn say(entry: Entry) {
    // Whoever reads may have gone.
    let _ = writeln!(std::io::stdout(), "{entry}");
}
