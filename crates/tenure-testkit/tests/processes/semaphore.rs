//! Permits that are wanted by many workers, while the number of permits changes, and while nodes
//! and clients fail.

use std::time::{Duration, Instant};

use tenure_testkit::{Client, Dice, RedisServer};

use crate::heard::{Heard, Process, most_at_once, now_us, seconds, take_turns, tell, urls};

#[test]
fn a_semaphore_lets_in_so_many_and_no_more_however_it_is_resized() {
    let _turn = crate::turn();
    let part = seconds(1);
    let mut rates = vec![];
    for permits in [1, 8] {
        // New ones each time: what was killed before holds its permits for a while.
        let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
        let heard = Heard::default();
        let client = heard.start(&["slots", "64", "5", &permits.to_string()], &urls(&servers));
        std::thread::sleep(part);
        heard.kill(client);
        let holds = heard.holds();
        rates.push(tell(&format!("a semaphore of {permits}"), &holds, part));
        take_turns(&holds);
        assert!(most_at_once(&holds, &(0..u64::MAX)) <= permits);
    }
    println!("8 permits beside 1: {:.2} times", rates[1] as f64 / rates[0] as f64);
    assert!(rates[1] > 2 * rates[0], "{rates:?}");
    let servers: [RedisServer; 5] = RedisServer::start_many(&[]);
    let (heard, urls) = (Heard::default(), urls(&servers));
    let mut clients: Vec<(Process, Client)> =
        (0..2).map(|_| heard.start(&["slots", "32", "5", "8"], &urls)).collect();
    let mut bounds = vec![];
    for permits in [8, 3, 16] {
        clients.iter_mut().for_each(|(_, client)| client.say(&permits.to_string()));
        // Who asked before, with another number, has an answer by now.
        std::thread::sleep(Duration::from_secs(2) + Duration::from_millis(300));
        let begun = now_us();
        std::thread::sleep(part);
        bounds.push((permits, begun..now_us()));
    }
    clients.into_iter().for_each(|client| heard.kill(client));
    let holds = heard.holds();
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
    let process = || heard.start(&["slots", "16", "5", &PERMITS.to_string()], &urls);
    let mut clients: Vec<(Process, Client)> = (0..6).map(|_| process()).collect();
    std::thread::sleep(Duration::from_secs(1));
    let (mut dice, mut faults, mut emptied) = (Dice::new(23), [0; 5], begun);
    while begun.elapsed() < took {
        let (fault, node, client) = (dice.index(5), dice.index(5), dice.index(6));
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
            3 => heard.kill(std::mem::replace(&mut clients[client], process())),
            4 => {
                clients[client].1.pause();
                std::thread::sleep(moment(&mut dice, 2_500));
                clients[client].1.resume();
            }
            _ => continue,
        }
        faults[fault] += 1;
        std::thread::sleep(moment(&mut dice, 200));
    }
    clients.into_iter().for_each(|client| heard.kill(client));
    let holds = heard.holds();
    let count = tell("a semaphore of 4 among failures", &holds, begun.elapsed());
    let most = most_at_once(&holds, &(0..u64::MAX));
    println!(
        "{most} of {PERMITS} at once at most; nodes killed, stopped, emptied, clients killed, stopped: {faults:?}"
    );
    take_turns(&holds);
    assert!(most <= PERMITS && count > 20, "{most} at once, {count} holds");
}
