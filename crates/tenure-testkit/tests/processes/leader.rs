//! Ten candidates in five processes, and one leader at a time, whatever happens to it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use tenure_testkit::{Client, Dice, Mode, Proxy, RedisServer};

use crate::heard::{Heard, Line, Process, now_us, rounds};

const TTL_MS: u64 = 1_000;

/// The nodes keep a key for this much longer than its ttl.
const GUARD_BAND_MS: u64 = 100;

/// What a candidate that is ahead in line and does not move costs the next one.
const CLAIM_WINDOW_MS: u64 = 250;

/// What a busy machine may add.
const SLACK_MS: u64 = 2_500;

/// How long nobody may lead, in all.
const PATIENCE: Duration = Duration::from_secs(20);

/// What happens to a leader.
const FAULTS: [&str; 3] = ["killed", "stopped", "cut off"];

/// A process of two candidates, with ways of its own to all nodes, so that it can be cut off.
struct Seat {
    ways: Vec<Proxy>,
    candidates: (Process, Client),
}

impl Seat {
    fn new(heard: &Heard, servers: &[RedisServer]) -> Self {
        let ways: Vec<Proxy> = servers.iter().map(|server| Proxy::start(server.port())).collect();
        let candidates = Self::candidates(heard, &ways);
        Self { ways, candidates }
    }

    fn candidates(heard: &Heard, ways: &[Proxy]) -> (Process, Client) {
        let urls: Vec<String> = ways.iter().map(|way| format!("redis://127.0.0.1:{}", way.port())).collect();
        heard.start(&["candidates", "2", &TTL_MS.to_string()], &urls)
    }

    fn suffer(&mut self, fault: &str, heard: &Heard) {
        match fault {
            "killed" => {
                let new = Self::candidates(heard, &self.ways);
                heard.kill(std::mem::replace(&mut self.candidates, new));
            }
            "stopped" => self.candidates.1.pause(),
            _ => self.ways.iter().for_each(|way| way.set_both(Mode::Stall)),
        }
    }

    fn recover(&self, fault: &str) {
        match fault {
            "killed" => {}
            "stopped" => self.candidates.1.resume(),
            _ => self.ways.iter().for_each(|way| way.set_both(Mode::Pass)),
        }
    }
}

/// Who leads: the last one that was elected, if it has not resigned since.
fn leader(heard: &Heard) -> Option<Line> {
    heard.last(|line| ["elected", "resigns"].contains(&line.verb())).filter(|line| line.verb() == "elected")
}

/// The first that is elected after this epoch.
fn next(heard: &Heard, epoch: u64) -> Line {
    let begun = Instant::now();
    loop {
        let elected = heard.lines("elected");
        if let Some(line) =
            elected.into_iter().filter(|line| line.number(1) > epoch).min_by_key(|line| line.number(1))
        {
            return line;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody leads after {epoch}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn longest(spans: &[u64]) -> Duration {
    Duration::from_micros(spans.iter().copied().max().unwrap_or(0))
}

/// The leader's process is killed, stopped or cut off from the nodes, again and again; one that was
/// stopped or cut off goes on while the next one leads.
#[test]
fn one_candidate_at_a_time_leads_though_leaders_are_killed_stopped_and_cut_off() {
    let _turn = crate::turn();
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let heard = Heard::default();
    let mut seats: Vec<Seat> = (0..5).map(|_| Seat::new(&heard, &servers)).collect();
    let mut dice = Dice::new(11);
    let (mut vacant, mut troubled): (BTreeMap<&str, Vec<u64>>, Vec<Range<u64>>) = Default::default();
    next(&heard, 0);
    let begun = Instant::now();
    let wanted = rounds(6);
    for round in 0.. {
        if vacant.values().map(Vec::len).sum::<usize>() >= wanted {
            break;
        }
        assert!(begun.elapsed() < PATIENCE * u32::try_from(wanted).unwrap(), "{round} tries");
        std::thread::sleep(Duration::from_millis(dice.below(600)));
        // Some resign by themselves: then another one leads in a moment.
        let Some(leads) = leader(&heard) else { continue };
        let seat = seats.iter_mut().find(|seat| seat.candidates.0 == leads.process);
        let seat = seat.expect("whoever was killed leads no more");
        let (fault, hit_us) = (dice.pick(&FAULTS), now_us());
        seat.suffer(fault, &heard);
        let successor = next(&heard, leads.number(1));
        std::thread::sleep(Duration::from_millis(dice.below(300)));
        seat.recover(fault);
        troubled.push(hit_us..now_us());
        let resigned = |line: &Line| line.verb() == "resigns" && line.number(1) == leads.number(1);
        // Unless it resigned just before it was hit.
        if heard.last(resigned).is_none() && successor.number(2) > hit_us {
            vacant.entry(fault).or_default().push(successor.number(2) - hit_us);
        }
    }
    drop(seats);
    let terms = terms(&heard);
    for pair in terms.windows(2) {
        assert!(pair[0].1.end <= pair[1].1.start, "two leaders, or epochs that do not grow: {pair:?}");
    }
    println!("{} terms, {wanted} of them ended by force", terms.len());
    for (fault, vacant) in &vacant {
        let (count, longest) = (vacant.len(), longest(vacant));
        println!("{fault} {count} times: the next one leads after {longest:?} at most");
        let bound_ms = TTL_MS + GUARD_BAND_MS + CLAIM_WINDOW_MS + SLACK_MS;
        assert!(longest < Duration::from_millis(bound_ms), "{fault}: {longest:?}");
    }
    let mut resigned = after_resigning(&heard, &troubled);
    resigned.sort_unstable();
    if let Some(middle) = resigned.get(resigned.len() / 2) {
        let (count, longest) = (resigned.len(), longest(&resigned));
        println!(
            "resigned {count} times: the next one leads after {middle} us in the middle, {longest:?} at most"
        );
        assert!(*middle < TTL_MS * 1_000 / 4, "{resigned:?}");
    }
}

/// Each term by its epoch: from its beginning to the end of the validity that it last told of,
/// unless it resigned or was killed before.
fn terms(heard: &Heard) -> Vec<(u64, Range<u64>)> {
    let mut terms: BTreeMap<u64, Range<u64>> = BTreeMap::new();
    for line in heard.lines("elected") {
        let epoch = line.number(1);
        assert!(terms.insert(epoch, line.number(2)..line.number(2)).is_none(), "two leaders of {epoch}");
    }
    for line in heard.lines("leads") {
        let term = terms.get_mut(&line.number(1)).expect("it was elected");
        term.end = term.end.max(line.number(3).min(heard.lived_until_us(line.process)));
    }
    for line in heard.lines("resigns") {
        let term = terms.get_mut(&line.number(1)).expect("it was elected");
        term.end = term.end.min(line.number(2));
    }
    terms.into_iter().collect()
}

/// How long after each that resigned the next one led, if nobody was in trouble at that moment.
fn after_resigning(heard: &Heard, troubled: &[Range<u64>]) -> Vec<u64> {
    const MOMENT_US: u64 = 50_000;
    let elected = heard.lines("elected");
    let next = |epoch| elected.iter().filter(|line| line.number(1) > epoch).min_by_key(|line| line.number(1));
    let calm = |line: &&Line| {
        let at_us = line.number(2);
        troubled.iter().all(|span| at_us + MOMENT_US < span.start || at_us > span.end + MOMENT_US)
    };
    let gap = |line: &Line| Some(next(line.number(1))?.number(2).saturating_sub(line.number(2)));
    heard.lines("resigns").iter().filter(calm).filter_map(gap).collect()
}
