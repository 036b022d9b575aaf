//! A job that many machines start, and that runs once per period.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tenure_testkit::{Client, Dice, MovedClock, RedisServer, nursery};

use crate::heard::{Heard, Process, seconds, urls};

/// Four machines whose clocks differ by up to 20 s start a job every five seconds (two in a short
/// run), each by its own clock. Now and then one is killed and another is started: half of the time
/// the one that runs the job at that moment.
#[test]
fn a_job_runs_once_per_period_on_machines_whose_clocks_differ() {
    let _turn = crate::turn();
    let took = seconds(12);
    let every_ms = if took > Duration::from_secs(60) { 5_000 } else { 2_000 };
    let at_least_ms = every_ms - 200;
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (heard, begun, urls) = (Heard::default(), Instant::now(), urls(&servers));
    // The first and the last start it at the same moment.
    let clocks = [-12_900, -700, 300, 7_100].map(|offset_ms| {
        let clock = MovedClock::new();
        clock.step(offset_ms);
        clock
    });
    let machine = |clock: &MovedClock| {
        let mut command = nursery::command(env!("CARGO_BIN_EXE_testclient"));
        command.args(["period", &every_ms.to_string(), &at_least_ms.to_string()]).args(&urls);
        command.envs(clock.environment()).stdout(Stdio::piped());
        heard.listen(Client::of(command))
    };
    let mut machines: Vec<(Process, Client)> = clocks.iter().map(machine).collect();
    let (mut dice, mut killed, mut killed_at_work) = (Dice::new(3), 0, 0);
    while begun.elapsed() < took {
        let seen = heard.lines("ran").len();
        let until = Instant::now() + Duration::from_millis(1_000 + dice.below(2_500));
        while Instant::now() < until && heard.lines("ran").len() == seen {
            std::thread::sleep(Duration::from_millis(1));
        }
        let runs = heard.last(|line| line.verb() == "ran").filter(|_| heard.lines("ran").len() > seen);
        let at_work = runs.and_then(|line| machines.iter().position(|(process, _)| *process == line.process));
        let index = match at_work {
            Some(index) if dice.chance(50) => {
                killed_at_work += 1;
                index
            }
            _ => dice.index(4),
        };
        heard.kill(std::mem::replace(&mut machines[index], machine(&clocks[index])));
        killed += 1;
    }
    drop(machines);
    let mut runs: Vec<(u64, u64)> =
        heard.lines("ran").iter().map(|line| (line.number(2), line.number(1))).collect();
    runs.sort_unstable();
    let gaps: Vec<u64> = runs.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    println!("{} runs, {:?} to {:?} us apart", runs.len(), gaps.iter().min(), gaps.iter().max());
    println!("{killed} machines killed, {killed_at_work} of them at work");
    assert!(runs.len() > 2, "{runs:?}");
    assert!(runs.is_sorted_by(|one, other| one.1 < other.1), "fences: {runs:?}");
    // By the nodes' clocks, which run like this one.
    assert!(gaps.iter().all(|gap| *gap >= at_least_ms * 990), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 2 * every_ms * 1_000 + 1_500_000), "two periods without: {gaps:?}");
}
