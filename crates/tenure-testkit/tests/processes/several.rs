//! Sets, semaphores, periods and leaders among processes that are killed, stopped and cut off.
//!
//! A few seconds here; `TENURE_KINDS_SECONDS` sets how many for a campaign.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_testkit::{Client, Dice, Mode, MovedClock, Proxy, RedisServer, nursery};

fn seconds(default: u64) -> Duration {
    let seconds = std::env::var("TENURE_KINDS_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(default))
}

/// What all of them have said, each line in words.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Vec<String>>>>);

impl Heard {
    fn listen(&self, client: &mut Client) {
        let heard = Arc::clone(&self.0);
        client.hear_all(move |line| {
            let words = line.split(' ').map(str::to_owned).collect();
            heard.lock().unwrap().push(words);
        });
    }

    fn lines(&self, verb: &str) -> Vec<Vec<String>> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|words| words[0] == verb).cloned().collect()
    }
}

/// One hold: its fence, and from when to when it was, in microseconds.
#[derive(Clone, Debug)]
struct Held {
    fence: u64,
    span: Range<u64>,
}

fn number(word: &str) -> u64 {
    word.parse().unwrap()
}

/// The holds of each name, in the order in which they began.
fn holds(heard: &Heard) -> BTreeMap<String, Vec<Held>> {
    let mut holds: BTreeMap<String, Vec<Held>> = BTreeMap::new();
    for words in heard.lines("got") {
        let held = Held { fence: number(&words[2]), span: number(&words[3])..number(&words[4]) };
        for name in words[1].split(',') {
            holds.entry(name.to_owned()).or_default().push(held.clone());
        }
    }
    holds.values_mut().for_each(|holds| holds.sort_by_key(|held| held.span.start));
    holds
}

/// Nobody has a name while another one does, and fences grow.
fn take_turns(holds: &BTreeMap<String, Vec<Held>>) {
    for (name, holds) in holds {
        for pair in holds.windows(2) {
            assert!(pair[0].span.end <= pair[1].span.start, "{name}: {pair:?}");
            assert!(pair[0].fence < pair[1].fence, "{name}: {pair:?}");
        }
    }
}

fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

fn start(words: &[&str], urls: &[String]) -> Client {
    let words = words.iter().copied().chain(urls.iter().map(String::as_str));
    Client::start_talking(env!("CARGO_BIN_EXE_testclient"), words)
}

/// Starts 32 workers in four processes.
fn start_sets(urls: &[String], heard: &Heard) -> Vec<Client> {
    let start = |seed: u64| {
        let mut client = start(&["sets", "8", "5", &seed.to_string()], urls);
        heard.listen(&mut client);
        client
    };
    (1..=4).map(start).collect()
}

fn tell(what: &str, heard: &Heard, took: Duration) -> (usize, u64) {
    let holds = heard.lines("got");
    let mut waits: Vec<u64> = holds.iter().map(|words| number(&words[5])).collect();
    waits.sort_unstable();
    let longest = waits.last().copied().unwrap_or(0);
    let middle = waits.get(waits.len() / 2).copied().unwrap_or(0);
    let rate = holds.len() as f64 / took.as_secs_f64();
    println!("{what}: {rate:.0}/s, waits of {middle} us in the middle and {longest} us at most");
    (holds.len(), longest)
}

#[test]
fn sets_that_overlap_are_all_served_in_turn() {
    let _turn = crate::turn();
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (heard, took) = (Heard::default(), seconds(4));
    let clients = start_sets(&urls(&servers), &heard);
    std::thread::sleep(took);
    drop(clients);
    let (count, longest) = tell("sets", &heard, took);
    let holds = holds(&heard);
    take_turns(&holds);
    assert!(count > 40 && holds.len() == 8, "{count} holds of {} names", holds.len());
    assert!(longest < 20_000_000, "{longest} us");
}

#[test]
fn sets_that_overlap_are_served_while_two_nodes_of_five_are_killed_in_turn() {
    let _turn = crate::turn();
    let mut servers: [RedisServer; 5] =
        RedisServer::start_many(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (heard, took, begun) = (Heard::default(), seconds(6), Instant::now());
    let clients = start_sets(&urls(&servers), &heard);
    std::thread::sleep(Duration::from_secs(1));
    let mut first = 0;
    while begun.elapsed() < took {
        let pair = [first % 5, (first + 1) % 5];
        pair.into_iter().for_each(|node| servers[node].kill());
        std::thread::sleep(Duration::from_millis(700));
        pair.into_iter().for_each(|node| servers[node].restart());
        std::thread::sleep(Duration::from_millis(700));
        first += 2;
    }
    drop(clients);
    let (count, _) = tell("sets, two of five nodes killed in turn", &heard, begun.elapsed());
    take_turns(&holds(&heard));
    assert!(count > 20, "{count} holds");
}

/// How many hold at once, at most.
fn most_at_once(holds: &BTreeMap<String, Vec<Held>>, within: &Range<u64>) -> usize {
    let all = holds.values().flatten().filter(|held| within.contains(&held.span.start));
    let mut edges: Vec<(u64, i64)> =
        all.flat_map(|held| [(held.span.start, 1), (held.span.end, -1)]).collect();
    edges.sort_unstable();
    let mut now = 0_i64;
    let counts = edges.into_iter().map(|(_, change)| {
        now += change;
        now
    });
    usize::try_from(counts.max().unwrap_or(0)).unwrap()
}

#[test]
fn a_semaphore_lets_in_so_many_and_no_more_however_it_is_resized() {
    let _turn = crate::turn();
    let part = seconds(1);
    let mut rates = vec![];
    for permits in [1, 8] {
        // New ones each time: what was killed before holds its permits for a while.
        let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
        let (heard, urls) = (Heard::default(), urls(&servers));
        let mut client = start(&["slots", "64", "5", &permits.to_string()], &urls);
        heard.listen(&mut client);
        std::thread::sleep(part);
        drop(client);
        rates.push(tell(&format!("a semaphore of {permits}"), &heard, part).0);
        let holds = holds(&heard);
        take_turns(&holds);
        assert!(most_at_once(&holds, &(0..u64::MAX)) <= permits);
    }
    println!("8 permits beside 1: {:.2} times", rates[1] as f64 / rates[0] as f64);
    assert!(rates[1] > 2 * rates[0], "{rates:?}");
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (heard, urls) = (Heard::default(), urls(&servers));
    let mut clients: Vec<Client> = (0..2).map(|_| start(&["slots", "32", "5", "8"], &urls)).collect();
    clients.iter_mut().for_each(|client| heard.listen(client));
    let mut bounds = vec![];
    for permits in [8, 3, 16] {
        clients.iter_mut().for_each(|client| client.say(&permits.to_string()));
        // Who asked before, with another number, has an answer by now.
        std::thread::sleep(Duration::from_secs(2) + Duration::from_millis(300));
        let begun = now_us();
        std::thread::sleep(part);
        bounds.push((permits, begun..now_us()));
    }
    drop(clients);
    let holds = holds(&heard);
    take_turns(&holds);
    assert!(most_at_once(&holds, &(0..u64::MAX)) <= 16);
    for (permits, within) in bounds {
        let most = most_at_once(&holds, &within);
        println!("resized to {permits}: {most} at once at most");
        assert!(most <= permits && most >= permits.min(4) / 2, "{most} of {permits}");
    }
}

/// Nodes are killed, stopped and emptied, and so are clients; six processes with 16 workers each
/// want four permits all the while.
#[test]
fn a_semaphore_lets_in_no_more_while_nodes_and_clients_fail() {
    let _turn = crate::turn();
    const PERMITS: usize = 4;
    let mut servers: [RedisServer; 5] =
        RedisServer::start_many(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (heard, took, begun, urls) = (Heard::default(), seconds(8), Instant::now(), urls(&servers));
    let process = || {
        let mut client = start(&["slots", "16", "5", &PERMITS.to_string()], &urls);
        heard.listen(&mut client);
        client
    };
    let mut clients: Vec<Client> = (0..6).map(|_| process()).collect();
    std::thread::sleep(Duration::from_secs(1));
    let (mut dice, mut faults, mut emptied) = (Dice::new(23), [0; 5], begun);
    while begun.elapsed() < took {
        let fault = usize::try_from(dice.below(5)).unwrap();
        let (node, client) =
            (usize::try_from(dice.below(5)).unwrap(), usize::try_from(dice.below(6)).unwrap());
        let moment = |dice: &mut Dice, most_ms| Duration::from_millis(100 + dice.below(most_ms));
        match fault {
            0 => {
                servers[node].kill();
                std::thread::sleep(moment(&mut dice, 700));
                servers[node].restart();
            }
            1 => {
                servers[node].pause();
                std::thread::sleep(moment(&mut dice, 700));
                servers[node].resume();
            }
            // An emptied node does not vote for a minute: not two of five at once.
            2 if emptied.elapsed() > Duration::from_secs(75) || emptied == begun => {
                servers[node].restart_empty();
                emptied = Instant::now();
            }
            3 => {
                clients[client].kill();
                clients[client] = process();
            }
            4 => {
                clients[client].pause();
                std::thread::sleep(moment(&mut dice, 2_500));
                clients[client].resume();
            }
            _ => continue,
        }
        faults[fault] += 1;
        std::thread::sleep(moment(&mut dice, 200));
    }
    drop(clients);
    let (count, _) = tell("a semaphore of 4 among failures", &heard, begun.elapsed());
    let holds = holds(&heard);
    let most = most_at_once(&holds, &(0..u64::MAX));
    println!(
        "{most} of {PERMITS} at once at most; nodes killed, stopped, emptied, clients killed, stopped: {faults:?}"
    );
    take_turns(&holds);
    assert!(most <= PERMITS && count > 20, "{most} at once, {count} holds");
}

fn now_us() -> u64 {
    u64::try_from(tenure::machine_time().as_micros()).unwrap()
}

/// Four machines whose clocks differ by up to 20 s start a job every five seconds (two in a short
/// run), each by its own clock. Now and then one is killed and another is started.
#[test]
fn a_job_runs_once_per_period_on_machines_whose_clocks_differ() {
    let _turn = crate::turn();
    let took = seconds(12);
    let every_ms = if took > Duration::from_secs(60) { 5_000 } else { 2_000 };
    let at_least_ms = every_ms - 200;
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (heard, begun, urls) = (Heard::default(), Instant::now(), urls(&servers));
    let clocks = [-20_000, -700, 300, 20_000].map(|offset_ms| {
        let clock = MovedClock::new();
        clock.step(offset_ms);
        clock
    });
    let machine = |clock: &MovedClock| {
        let mut command = nursery::command(env!("CARGO_BIN_EXE_testclient"));
        command.args(["period", &every_ms.to_string(), &at_least_ms.to_string()]).args(&urls);
        command.envs(clock.environment()).stdout(std::process::Stdio::piped());
        let mut client = Client::of(command);
        heard.listen(&mut client);
        client
    };
    let mut machines: Vec<Client> = clocks.iter().map(machine).collect();
    let mut dice = Dice::new(3);
    while begun.elapsed() < took {
        std::thread::sleep(Duration::from_millis(1_000 + dice.below(2_500)));
        let index = usize::try_from(dice.below(4)).unwrap();
        machines[index].kill();
        machines[index] = machine(&clocks[index]);
    }
    drop(machines);
    let mut runs: Vec<(u64, u64)> =
        heard.lines("ran").iter().map(|words| (number(&words[2]), number(&words[1]))).collect();
    runs.sort_unstable();
    let gaps: Vec<u64> = runs.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    println!("{} runs, {:?} to {:?} us apart", runs.len(), gaps.iter().min(), gaps.iter().max());
    assert!(runs.len() > 2, "{runs:?}");
    assert!(runs.is_sorted_by(|one, other| one.1 < other.1), "fences: {runs:?}");
    // By the nodes' clocks, which run like this one.
    assert!(gaps.iter().all(|gap| *gap >= at_least_ms * 990), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 2 * every_ms * 1_000 + 1_500_000), "two periods without: {gaps:?}");
}

/// Ten candidates in five processes. The leader's process is killed, stopped or cut off from the
/// nodes, again and again.
#[test]
fn one_candidate_at_a_time_leads_though_leaders_are_killed_stopped_and_cut_off() {
    let _turn = crate::turn();
    const TTL_MS: u64 = 1_000;
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (heard, took, begun) = (Heard::default(), seconds(10), Instant::now());
    // A way of its own to each node for every process, so that it can be cut off.
    let ways: Vec<Vec<Proxy>> = (0..5)
        .map(|_| servers.iter().map(|server| Proxy::start(server.port())).collect::<Vec<_>>())
        .collect();
    let process = |ways: &[Proxy]| {
        let urls: Vec<String> = ways.iter().map(|way| format!("redis://127.0.0.1:{}", way.port())).collect();
        let mut client = start(&["candidates", "2", &TTL_MS.to_string()], &urls);
        heard.listen(&mut client);
        client
    };
    let mut processes: Vec<Client> = ways.iter().map(|ways| process(ways)).collect();
    let (mut dice, mut faults) = (Dice::new(11), 0);
    std::thread::sleep(Duration::from_secs(1));
    while begun.elapsed() < took {
        let index = faults % 5;
        match dice.below(3) {
            0 => {
                processes[index].kill();
                processes[index] = process(&ways[index]);
            }
            1 => {
                processes[index].pause();
                std::thread::sleep(Duration::from_millis(200 + dice.below(2 * TTL_MS)));
                processes[index].resume();
            }
            _ => {
                ways[index].iter().for_each(|way| way.set_both(Mode::Stall));
                std::thread::sleep(Duration::from_millis(200 + dice.below(2 * TTL_MS)));
                ways[index].iter().for_each(|way| way.set_both(Mode::Pass));
            }
        }
        faults += 1;
        std::thread::sleep(Duration::from_millis(dice.below(400)));
    }
    drop(processes);
    // Until when each could count on its term when it last looked.
    let mut terms: BTreeMap<u64, Range<u64>> = BTreeMap::new();
    for words in heard.lines("elected") {
        terms.insert(number(&words[1]), number(&words[2])..number(&words[2]));
    }
    for words in heard.lines("leads") {
        if let Some(term) = terms.get_mut(&number(&words[1])) {
            term.end = term.end.max(number(&words[2]));
        }
    }
    println!("{} terms, {faults} faults", terms.len());
    assert!(terms.len() > 3, "{terms:?}");
    let terms: Vec<(u64, Range<u64>)> = terms.into_iter().collect();
    for pair in terms.windows(2) {
        assert!(pair[0].1.end <= pair[1].1.start, "two leaders, or epochs that do not grow: {pair:?}");
    }
    let gaps = terms.windows(2).map(|pair| pair[1].1.start - pair[0].1.end);
    let longest = Duration::from_micros(gaps.max().unwrap_or(0));
    println!("the next one leads {longest:?} later at most");
    // The ttl, the guard band, and a claim window for a candidate ahead that stands still; beyond
    // that only what a busy machine takes.
    assert!(longest < Duration::from_secs(4), "{longest:?}");
}
