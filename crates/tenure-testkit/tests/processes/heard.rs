//! What clients in processes of their own say of the locks they have, and what must be true of it.
//!
//! A client says what it has before it relies on it. So a kill takes back nothing: a hold whose end
//! was never told lasted until the kill, or as long as it was valid.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_testkit::{Client, RedisServer};

/// A process that talks, by number: one that is started in place of another has a new one.
pub(crate) type Process = usize;

/// What all of them have said, and when some of them were killed.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    lines: Vec<Line>,
    processes: usize,
    killed_us: BTreeMap<Process, u64>,
}

/// A line that one of them has said.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) process: Process,
    words: Vec<String>,
}

impl Line {
    pub(crate) fn verb(&self) -> &str {
        &self.words[0]
    }

    pub(crate) fn word(&self, index: usize) -> &str {
        &self.words[index]
    }

    pub(crate) fn number(&self, index: usize) -> u64 {
        self.words[index].parse().unwrap()
    }
}

impl Heard {
    /// Starts a test client with these words, and listens to it.
    pub(crate) fn start(&self, words: &[&str], urls: &[String]) -> (Process, Client) {
        let words = words.iter().copied().chain(urls.iter().map(String::as_str));
        self.listen(Client::start_talking(env!("CARGO_BIN_EXE_testclient"), words))
    }

    pub(crate) fn listen(&self, mut client: Client) -> (Process, Client) {
        let process = {
            let mut told = self.0.lock().unwrap();
            told.processes += 1;
            told.processes
        };
        let heard = Arc::clone(&self.0);
        client.hear_all(move |line| {
            let words = line.split(' ').map(str::to_owned).collect();
            heard.lock().unwrap().lines.push(Line { process, words });
        });
        (process, client)
    }

    /// Kills it. Until now it relied on what it had.
    pub(crate) fn kill(&self, (process, mut client): (Process, Client)) {
        self.0.lock().unwrap().killed_us.insert(process, now_us());
        client.kill();
    }

    /// The last moment at which it certainly lived: for ever, unless it was killed.
    pub(crate) fn lived_until_us(&self, process: Process) -> u64 {
        self.0.lock().unwrap().killed_us.get(&process).copied().unwrap_or(u64::MAX)
    }

    /// All lines with this first word.
    pub(crate) fn lines(&self, verb: &str) -> Vec<Line> {
        self.0.lock().unwrap().lines.iter().filter(|line| line.verb() == verb).cloned().collect()
    }

    /// The last line of which this is true.
    pub(crate) fn last(&self, is_it: impl Fn(&Line) -> bool) -> Option<Line> {
        self.0.lock().unwrap().lines.iter().rev().find(|line| is_it(line)).cloned()
    }

    /// All holds that testclient's `tell_hold` told of.
    pub(crate) fn holds(&self) -> Vec<Held> {
        let ended: BTreeMap<(String, u64), u64> = self
            .lines("had")
            .iter()
            .map(|line| ((line.word(1).to_owned(), line.number(2)), line.number(3)))
            .collect();
        let hold = |line: &Line| {
            let (names, fence) = (line.word(1).to_owned(), line.number(2));
            let (begun, valid_until) = (line.number(3), line.number(4));
            let end = ended
                .get(&(names.clone(), fence))
                .copied()
                .unwrap_or_else(|| valid_until.min(self.lived_until_us(line.process)).max(begun));
            let worker = (line.process, line.number(5));
            Held { names, fence, span: begun..end, worker, waited_us: line.number(6) }
        };
        self.lines("has").iter().map(hold).collect()
    }
}

/// One hold, of one lock or of several at once.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) names: String,
    pub(crate) fence: u64,
    /// From when to when it was relied on, in microseconds.
    pub(crate) span: Range<u64>,
    /// Which worker of which process.
    pub(crate) worker: (Process, u64),
    pub(crate) waited_us: u64,
}

/// Nobody has a name while another one does, and fences grow. How many names there are.
pub(crate) fn take_turns(holds: &[Held]) -> usize {
    let by_name = by_name(holds);
    assert_eq!(out_of_turn(&by_name), None);
    by_name.len()
}

fn by_name(holds: &[Held]) -> BTreeMap<&str, Vec<&Held>> {
    let mut by_name: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
    for held in holds {
        for name in held.names.split(',') {
            by_name.entry(name).or_default().push(held);
        }
    }
    by_name.values_mut().for_each(|holds| holds.sort_by_key(|held| held.span.start));
    by_name
}

/// A name that two had at once, or with fences that do not grow.
fn out_of_turn(by_name: &BTreeMap<&str, Vec<&Held>>) -> Option<String> {
    let in_turn = |pair: &&[&Held]| pair[0].span.end <= pair[1].span.start && pair[0].fence < pair[1].fence;
    by_name.iter().find_map(|(name, holds)| {
        let pair = holds.windows(2).find(|pair| !in_turn(pair))?;
        Some(format!("{name}: {pair:?}"))
    })
}

/// How many hold at once, at most, of those that began within this time.
pub(crate) fn most_at_once(holds: &[Held], within: &Range<u64>) -> usize {
    let begun = holds.iter().filter(|held| within.contains(&held.span.start));
    let mut edges: Vec<(u64, i64)> =
        begun.flat_map(|held| [(held.span.start, 1), (held.span.end, -1)]).collect();
    edges.sort_unstable();
    let mut now = 0_i64;
    let counts = edges.into_iter().map(|(_, change)| {
        now += change;
        now
    });
    usize::try_from(counts.max().unwrap_or(0)).unwrap()
}

/// The longest time for which one of so many workers had nothing, up to `ended_us`: those who were
/// never served count from `begun_us`.
pub(crate) fn longest_without(holds: &[Held], workers: usize, begun_us: u64, ended_us: u64) -> Duration {
    let mut last: BTreeMap<(Process, u64), u64> = BTreeMap::new();
    let mut sorted: Vec<&Held> = holds.iter().collect();
    sorted.sort_by_key(|held| held.span.start);
    let mut longest = 0;
    for held in sorted {
        let before = last.insert(held.worker, held.span.end).unwrap_or(begun_us);
        longest = longest.max(held.span.start.saturating_sub(before));
    }
    let until_the_end = last.values().map(|served| ended_us.saturating_sub(*served)).max();
    let never = if last.len() < workers { ended_us - begun_us } else { 0 };
    Duration::from_micros(longest.max(until_the_end.unwrap_or(0)).max(never))
}

/// Says how many holds there were a second, and how long they were waited for. How many in all.
pub(crate) fn tell(what: &str, holds: &[Held], took: Duration) -> usize {
    let mut waits: Vec<u64> = holds.iter().map(|held| held.waited_us).collect();
    waits.sort_unstable();
    let longest = waits.last().copied().unwrap_or(0);
    let middle = waits.get(waits.len() / 2).copied().unwrap_or(0);
    let rate = holds.len() as f64 / took.as_secs_f64();
    println!("{what}: {rate:.0}/s, waits of {middle} us in the middle and {longest} us at most");
    holds.len()
}

pub(crate) fn urls(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(RedisServer::url).collect()
}

/// By the clock that clients tell the time by.
pub(crate) fn now_us() -> u64 {
    u64::try_from(tenure::machine_time().as_micros()).unwrap()
}

/// How long to go on: so many seconds, or what `TENURE_KINDS_SECONDS` says, for a campaign.
pub(crate) fn seconds(default: u64) -> Duration {
    let seconds = std::env::var("TENURE_KINDS_SECONDS").ok().map(|seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(default))
}

/// How often: so many times, or what `TENURE_KINDS_ROUNDS` says, for a campaign.
pub(crate) fn rounds(default: usize) -> usize {
    std::env::var("TENURE_KINDS_ROUNDS").ok().map_or(default, |rounds| rounds.parse().unwrap())
}

mod tests {
    use super::*;

    fn held(names: &str, fence: u64, span: Range<u64>) -> Held {
        Held { names: names.to_owned(), fence, span, worker: (0, 0), waited_us: 0 }
    }

    #[test]
    fn two_at_once_and_fences_that_do_not_grow_are_seen_on_one_name_of_several() {
        let seen = |first: Held, second: Held| out_of_turn(&by_name(&[second, first]));
        assert_eq!(seen(held("a,b", 1, 0..10), held("b,c", 2, 10..12)), None);
        assert!(seen(held("a,b", 1, 0..10), held("b,c", 2, 9..12)).unwrap().starts_with("b: "));
        assert!(seen(held("a", 2, 0..10), held("a", 2, 10..12)).unwrap().starts_with("a: "));
    }

    #[test]
    fn the_most_at_once_are_counted_to_the_moment() {
        let holds = [held("a", 1, 0..10), held("b", 2, 5..15), held("c", 3, 10..20)];
        assert_eq!(most_at_once(&holds, &(0..u64::MAX)), 2);
        assert_eq!(
            most_at_once(&[held("a", 1, 0..11), held("b", 2, 9..15), held("c", 3, 10..20)], &(0..99)),
            3
        );
    }

    #[test]
    fn who_is_never_served_counts_from_the_beginning() {
        let holds = [held("a", 1, 10..20), held("a", 2, 30..40)];
        assert_eq!(longest_without(&holds, 1, 0, 45), Duration::from_micros(10));
        assert_eq!(longest_without(&holds, 1, 0, 95), Duration::from_micros(55));
        assert_eq!(longest_without(&holds, 2, 0, 95), Duration::from_micros(95));
    }
}
