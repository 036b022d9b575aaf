//! Waiters in processes of their own: served in order, woken in time, cheap while they wait. In a
//! test program of their own: ten thousand waiters and what they cost leave no room for others.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has to fail")]
#![allow(clippy::print_stdout, reason = "what was measured is worth knowing")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tenure_testkit::{Client, RedisServer};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn nanos_now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// What one call went through, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Call {
    called: Option<u128>,
    in_line: Option<u128>,
    served: Option<u128>,
    released: Option<u128>,
    /// It was given up, or its process was killed.
    gone: Option<u128>,
}

/// The calls of all processes.
#[derive(Clone, Default)]
struct History(Arc<Mutex<BTreeMap<(u32, u64), Call>>>);

impl History {
    fn start(&self, waiters: &str, impatient: &str, ttl: Duration, servers: &[RedisServer]) -> Client {
        let ttl = ttl.as_millis().to_string();
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        let arguments =
            ["queue", waiters, "5", impatient, &ttl].into_iter().chain(urls.iter().map(String::as_str));
        let mut client = Client::start_talking(env!("CARGO_BIN_EXE_testclient"), arguments);
        let (history, pid) = (self.clone(), client.pid());
        client.hear_all(move |line| history.take(pid, &line));
        client
    }

    fn take(&self, pid: u32, line: &str) {
        let [what, id, time] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let (id, time) = (id.parse().unwrap(), time.parse().ok());
        let mut calls = self.0.lock().unwrap();
        let call = calls.entry((pid, id)).or_default();
        match what {
            "called" => call.called = time,
            "in_line" => call.in_line = call.in_line.or(time),
            "served" => call.served = time,
            "released" => call.released = time,
            "gave_up" => call.gone = time,
            other => panic!("{other}"),
        }
    }

    /// Kills a process; its calls end there.
    fn kill(&self, client: &mut Client) {
        let now = nanos_now();
        client.kill();
        // What it had said is read.
        sleep(ms(20));
        for ((_, _), call) in self.0.lock().unwrap().iter_mut().filter(|((pid, _), _)| *pid == client.pid()) {
            if call.released.is_none() && call.gone.is_none() {
                call.gone = Some(now);
            }
        }
    }

    fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().values().cloned().collect()
    }

    /// Whether a call of this process has the lock.
    fn holds(&self, pid: u32) -> bool {
        let calls = self.0.lock().unwrap();
        calls.iter().any(|((of, _), call)| *of == pid && call.served.is_some() && call.released.is_none())
    }

    /// Waits until this is true of the calls; a minute without anything new is too long on any
    /// machine.
    fn until(&self, is_true: impl Fn(&[Call]) -> bool) {
        let (mut start, mut heard) = (Instant::now(), 0);
        loop {
            let calls = self.calls();
            if is_true(&calls) {
                return;
            }
            if served(&calls) > heard {
                (start, heard) = (Instant::now(), served(&calls));
            }
            assert!(start.elapsed() < ms(60_000), "nobody is served any more: {heard} of {}", calls.len());
            sleep(ms(10));
        }
    }
}

fn served(calls: &[Call]) -> usize {
    calls.iter().filter(|call| call.served.is_some()).count()
}

fn given_up(calls: &[Call]) -> usize {
    calls.iter().filter(|call| call.served.is_none() && call.gone.is_some()).count()
}

/// Nobody who was in line on a majority before another called was served after it.
fn overtaken(calls: &[Call]) -> Vec<(Call, Call)> {
    let mut found = vec![];
    for later in calls {
        let (Some(called), Some(served)) = (later.called, later.served) else { continue };
        for earlier in calls {
            let Some(in_line) = earlier.in_line.filter(|in_line| *in_line < called) else { continue };
            let waits = earlier.served.is_none_or(|served_then| served_then > served)
                && earlier.gone.is_none_or(|gone| gone > served);
            if waits && in_line < called {
                found.push((earlier.clone(), later.clone()));
            }
        }
    }
    found
}

/// The longest time for which the lock was free and somebody waited for it. A holder that was
/// killed keeps it for its term.
fn longest_idle(calls: &[Call], term: Duration) -> Duration {
    let mut served: Vec<u128> = calls.iter().filter_map(|call| call.served).collect();
    served.sort_unstable();
    let mut longest = 0;
    for call in calls {
        let Some(begun) = call.served else { continue };
        let freed =
            call.released.or_else(|| call.gone.map(|gone| gone + term.as_nanos())).unwrap_or(u128::MAX);
        let Some(next) = served.iter().find(|served| **served > begun) else { continue };
        // Whoever was killed in between may just have been given it, and had no time to say so: it
        // keeps it for its term.
        let just_given =
            |other: &&Call| other.served.is_none() && other.gone.is_some_and(|gone| gone < *next);
        let killed =
            calls.iter().filter(just_given).filter_map(|other| other.gone).filter(|gone| *gone > begun);
        let freed = killed.max().map_or(freed, |gone| freed.max(gone + term.as_nanos()));
        // Who waited for it all that time?
        let waited = |other: &&Call| {
            other.called.is_some_and(|called| called < freed)
                && other.served.is_none_or(|served| served >= *next)
                && other.gone.is_none_or(|gone| gone > *next)
        };
        if *next > freed && calls.iter().any(|other| waited(&other)) {
            longest = longest.max(next - freed);
        }
    }
    Duration::from_nanos(u64::try_from(longest).unwrap())
}

/// How long it usually took to pass the lock on, from a release to the next one served: how slow
/// this machine is at the moment.
fn usual_gap(calls: &[Call]) -> Duration {
    let mut served: Vec<u128> = calls.iter().filter_map(|call| call.served).collect();
    served.sort_unstable();
    let next = |released: u128| served.iter().find(|served| **served > released).map(|next| next - released);
    let mut gaps: Vec<u128> = calls.iter().filter_map(|call| call.released.and_then(next)).collect();
    gaps.sort_unstable();
    Duration::from_nanos(u64::try_from(gaps[gaps.len() / 2]).unwrap())
}

/// That the lock was never free for longer than the backstop while somebody waited for it, and what
/// a slow machine needs.
fn never_forgotten(calls: &[Call], ttl: Duration) {
    // A holder that is killed keeps the lock for its term and the guard band.
    let (idle, usual) = (longest_idle(calls, ttl + ttl / 10), usual_gap(calls));
    println!("longest idle {idle:?}, usually {usual:?}");
    let limit = (ms(2_300) + usual * 20).min(ms(8_000));
    assert!(idle < limit, "free for {idle:?}, and passing it on usually took {usual:?}");
}

#[test]
fn of_64_waiters_in_8_processes_none_is_overtaken_while_some_are_killed_and_give_up() {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (history, ttl) = (History::default(), ms(2_000));
    let mut clients: Vec<Client> = (0..8).map(|_| history.start("8", "5", ttl, &servers)).collect();
    let mut victim = 0;
    for killed in 0..12 {
        history.until(|calls| served(calls) > killed * 18 && given_up(calls) > killed * 4);
        history.kill(&mut clients[victim % 8]);
        clients[victim % 8] = history.start("8", "5", ttl, &servers);
        victim += 3;
    }
    history.until(|calls| served(calls) > 200 && given_up(calls) > 50);
    clients.iter_mut().for_each(|client| history.kill(client));
    let calls = history.calls();
    let (served, given_up) = (served(&calls), given_up(&calls));
    println!("{} calls, {served} served, {given_up} given up or killed while waiting", calls.len());
    let overtaken = overtaken(&calls);
    assert!(overtaken.is_empty(), "{} of {served}: {:?}", overtaken.len(), &overtaken[0]);
    never_forgotten(&calls, ttl);
}

#[test]
fn no_wake_up_that_is_lost_costs_more_than_the_backstop() {
    // They keep what they know over a restart, so that it costs them no quarantine.
    let mut servers: [RedisServer; 5] =
        RedisServer::start_many(&["--appendonly", "yes", "--appendfsync", "always"]);
    // Much longer than the backstop: whoever waits also asks when the lock would end that it saw
    // held.
    let (history, ttl) = (History::default(), ms(12_000));
    let mut clients: Vec<Client> = (0..4).map(|_| history.start("4", "0", ttl, &servers)).collect();
    let mut dice = 7_usize;
    for trouble in 0..40 {
        history.until(|calls| served(calls) > trouble * 4);
        dice = dice.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let choice = (dice >> 16) % 100;
        match choice % 4 {
            // Subscribers and publishers lose their connections to one node, or to all.
            0 => {
                servers[choice % 5].execute(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            }
            1 => servers.iter().for_each(|server| {
                server.execute(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            }),
            // A process goes, which may just be passing the lock on. A holder would keep it for its
            // term.
            2 => {
                let holds = |client: &Client| history.holds(client.pid());
                let victim =
                    (choice..choice + 4).map(|index| index % 4).find(|index| !holds(&clients[*index]));
                let victim = victim.expect("one holds it at most");
                history.kill(&mut clients[victim]);
                clients[victim] = history.start("4", "0", ttl, &servers);
            }
            _ => {
                servers[choice % 5].kill();
                sleep(ms(50));
                servers[choice % 5].restart();
            }
        }
    }
    clients.iter_mut().for_each(|client| history.kill(client));
    let calls = history.calls();
    println!("{} calls, {} served", calls.len(), served(&calls));
    never_forgotten(&calls, ttl);
}

/// What a crowd of waiters costs.
#[derive(Debug)]
struct Cost {
    /// Scripts per waiter and second on one node, while all of them just wait.
    scripts_per_waiter: f64,
    /// The share of one processor that all of their processes together use meanwhile, and what that
    /// is for each script.
    idle_cpu: f64,
    idle_cpu_per_script: f64,
    /// Scripts and wake-ups on one node for each release.
    scripts_per_release: f64,
    wakes_per_release: f64,
}

/// How much a crowd may ask while it just waits, in scripts per waiter and second. It takes a while
/// until everybody knows its place.
const SETTLED: f64 = 0.06;

/// How many of a crowd are served before its cost is looked at.
const SERVED: u32 = 60;

fn cost_of_a_crowd(processes: usize, managers: usize, waiters: usize) -> Cost {
    let servers: [RedisServer; 3] = RedisServer::start_many(&[]);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let locks = runtime.block_on(tenure::Locks::connect(&urls)).unwrap();
    let guard = runtime.block_on(locks.lock("x").acquire()).unwrap();
    let served = Arc::new(Mutex::new(0));
    let numbers = [managers, waiters].map(|number| number.to_string());
    let clients: Vec<Client> = (0..processes)
        .map(|_| {
            let arguments = ["crowd", &numbers[0], &numbers[1], "5"].into_iter();
            let arguments = arguments.chain(urls.iter().map(String::as_str));
            let mut client = Client::start_talking(env!("CARGO_BIN_EXE_testclient"), arguments);
            let served = Arc::clone(&served);
            client.hear_all(move |_| *served.lock().unwrap() += 1);
            client
        })
        .collect();
    let all = processes * managers * waiters;
    let in_line =
        |server: &RedisServer| format!("{:?}", server.execute(&["ZCARD", "tenure~queue:{tenure:x}"]));
    let start = Instant::now();
    while !servers.iter().all(|server| in_line(server).contains(&all.to_string())) {
        assert!(start.elapsed() < ms(180_000), "in line: {:?} of {all}", servers.each_ref().map(in_line));
        sleep(ms(50));
    }
    let cpu = || clients.iter().map(Client::cpu_time).sum::<Duration>();
    let while_waiting = || {
        let (scripts, used, start) = (servers[0].calls("evalsha"), cpu(), Instant::now());
        sleep(ms(5_000));
        let seconds = start.elapsed().as_secs_f64();
        let scripts = (servers[0].calls("evalsha") - scripts) as f64 / seconds;
        (scripts, (cpu() - used).as_secs_f64() / seconds)
    };
    sleep(ms(2_000));
    let mut idle = while_waiting();
    for _ in 0..8 {
        if idle.0 / (all as f64) < SETTLED || waiters == 1 {
            break;
        }
        idle = while_waiting();
    }
    let (idle_scripts, idle_cpu) = idle;
    let before = ["evalsha", "publish"].map(|command| servers[0].calls(command));
    let start = Instant::now();
    runtime.block_on(guard.release()).unwrap();
    while *served.lock().unwrap() < SERVED {
        assert!(start.elapsed() < ms(60_000), "{} served", served.lock().unwrap());
        sleep(ms(1));
    }
    // Looked at together, so that both are of the same moment.
    let after = ["evalsha", "publish"].map(|command| servers[0].calls(command));
    let (served, served_for) = (f64::from(*served.lock().unwrap()), start.elapsed().as_secs_f64());
    Cost {
        scripts_per_waiter: idle_scripts / all as f64,
        idle_cpu,
        idle_cpu_per_script: idle_cpu / idle_scripts,
        scripts_per_release: ((after[0] - before[0]) as f64 - idle_scripts * served_for) / served,
        wakes_per_release: (after[1] - before[1]) as f64 / served,
    }
}

#[test]
fn ten_thousand_waiters_cost_no_more_per_release_than_sixty_four_and_little_while_they_wait() {
    let few = cost_of_a_crowd(8, 8, 1);
    let many = cost_of_a_crowd(8, 8, 157);
    println!("64 waiters: {few:?}\n10,048 waiters: {many:?}");
    for cost in [&few, &many] {
        assert!(cost.wakes_per_release < 1.2, "{cost:?}");
    }
    assert!(few.scripts_per_release < 6.0, "{few:?}");
    // How much is asked meanwhile is known only roughly. If a release cost one script per client,
    // it would be 64.
    assert!(many.scripts_per_release < few.scripts_per_release + 10.0, "{few:?} {many:?}");
    // The first of each client asks every two seconds at most, the others every thirty.
    assert!(few.scripts_per_waiter < 1.2, "{few:?}");
    assert!(many.scripts_per_waiter < SETTLED, "{many:?}");
    // No machine is so slow that 64 waiters need half a processor, and a script costs many waiters
    // what it costs few.
    assert!(few.idle_cpu < 0.5, "{few:?}");
    assert!(many.idle_cpu_per_script < 3.0 * few.idle_cpu_per_script, "{few:?} {many:?}");
}

/// How long the one at this place in line waits after a release if this happens to the first one
/// just before.
fn cost_of_the_first(place: usize, happens: &dyn Fn(&mut Client)) -> Duration {
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let locks = runtime.block_on(tenure::Locks::connect(&urls)).unwrap();
    let guard = runtime.block_on(locks.lock("x").acquire()).unwrap();
    let mut clients = vec![];
    for number in 1..=2 {
        let arguments = ["crowd", "1", "1", "5"].into_iter().chain(urls.iter().map(String::as_str));
        clients.push(Client::start_talking(env!("CARGO_BIN_EXE_testclient"), arguments));
        let start = Instant::now();
        let in_line =
            |server: &RedisServer| format!("{:?}", server.execute(&["ZCARD", "tenure~queue:{tenure:x}"]));
        while !servers.iter().all(|server| in_line(server).contains(&number.to_string())) {
            assert!(start.elapsed() < ms(60_000), "{number} in line");
            sleep(ms(5));
        }
    }
    happens(&mut clients[0]);
    let released = nanos_now();
    runtime.block_on(guard.release()).unwrap();
    let line = clients[place].hear();
    let served: u128 = line.strip_prefix("served 0 ").and_then(|time| time.parse().ok()).unwrap();
    Duration::from_nanos(u64::try_from(served - released).unwrap())
}

#[test]
fn a_first_in_line_that_is_killed_costs_nothing_and_one_that_stands_still_a_claim_window() {
    // A busy machine makes all of them slower: the quickest of some tries says what it has to cost.
    let quickest = |place, happens: &dyn Fn(&mut Client)| {
        let costs: Vec<Duration> = (0..5).map(|_| cost_of_the_first(place, happens)).collect();
        println!("{costs:?}");
        costs.into_iter().min().unwrap()
    };
    let untouched = quickest(0, &|_| ());
    let killed = quickest(1, &Client::kill);
    let paused = quickest(1, &|client| client.pause());
    println!("untouched: {untouched:?}, killed: {killed:?}, paused: {paused:?}");
    assert!(killed < untouched + ms(100), "half a reservation more than {untouched:?}: {killed:?}");
    // The claim window is 250 ms, the backstop two seconds.
    assert!((ms(190)..untouched + ms(500)).contains(&paused), "{paused:?} beside {untouched:?}");
}
