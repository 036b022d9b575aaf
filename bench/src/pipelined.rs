//! What one server spends on an acquire alone, pipelined by 64: its own `SET NX PX`, ours without
//! and with a fence. Every lock is new to it, which is the dearest case.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use tenure_testkit::{RedisServer, cmd, pipe};

use crate::cpu_time;
use crate::report::{Ratio, Target};
use crate::settings::Settings;

const PIPELINE: usize = 64;

/// The script that Tenure acquires with. Its names are replaced as the library does it.
fn acquire_script() -> String {
    const TEXT: &str = include_str!("../../crates/tenure/src/node/redis/script/acquire.lua");
    // In this order: `parameters.rs` beside it.
    const ARGUMENTS: [&str; 12] = [
        "owner",
        "ttl",
        "fence",
        "ends",
        "nonce",
        "life",
        "looks_at_record",
        "ticket",
        "fresh",
        "label",
        "span",
        "holding",
    ];
    let limits = [("SLACK", "10000000"), ("AGE", "43200000000"), ("RESERVED", "'rsv:'")];
    let mut text = TEXT.to_owned();
    for (name, value) in limits {
        text = text.replace(&format!("LIMIT.{name}"), value);
    }
    // One name begins with another: the longer one first.
    for (place, key) in [(3, "fences"), (1, "lock"), (2, "fence"), (4, "record"), (5, "line")] {
        text = text.replace(&format!("KEYS.{key}"), &format!("KEYS[{place}]"));
    }
    for (place, name) in (1..).zip(ARGUMENTS) {
        let argument = format!("ARGV[{place}]");
        text = text.replace(&format!("GIVEN.{name}"), &format!("({argument} ~= '' and {argument})"));
        text = text.replace(&format!("ARGV.{name}"), &argument);
    }
    text
}

const NONCE: &str = "0123456789abcdef";
const OWNER: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Unfenced,
    Fenced,
}

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let server = RedisServer::start(&["--save", "", "--appendonly", "no"]);
    server.execute(&["SET", "tenure~node:{tenure:}", &format!("{NONCE} a record")]);
    let ways = [Way::Plain, Way::Unfenced, Way::Fenced];
    let (mut spent, mut done) = ([Duration::ZERO; 3], [0_u32; 3]);
    for round in 0..settings.rounds {
        for (index, way) in ways.into_iter().enumerate() {
            let before = cpu_time::of_process(server.pid())?;
            done[index] += acquire(&server, way, &format!("{round}"), settings.time)?;
            spent[index] += cpu_time::of_process(server.pid())?.saturating_sub(before);
        }
    }
    let micros = |index: usize| spent[index].as_secs_f64() * 1e6 / f64::from(done[index]);
    if !settings.json {
        println!("\nserver CPU per acquire in microseconds, one server, pipelined by {PIPELINE}");
        println!("  SET NX PX {:.2}   unfenced {:.2}   fenced {:.2}\n", micros(0), micros(1), micros(2));
    }
    let name = "server CPU per acquire, fenced / SET NX PX";
    let ratio = Ratio { name, value: micros(2) / micros(0), target: Target::AtMost(3.0) };
    if settings.json {
        println!("{}", ratio.json());
    } else {
        println!("  {ratio}");
    }
    Ok(())
}

/// Acquires one new lock after another for this time. Returns how many.
fn acquire(server: &RedisServer, way: Way, names: &str, time: Duration) -> Result<u32> {
    let mut connection = server.connection();
    let sha: String = cmd("SCRIPT").arg("LOAD").arg(acquire_script()).query(&mut connection)?;
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < time {
        let mut batch = pipe();
        for _ in 0..PIPELINE {
            let key = format!("tenure:{names}:{way:?}:{count}");
            count += 1;
            match way {
                Way::Plain => {
                    batch.cmd("SET").arg(key).arg(OWNER).arg("NX").arg("PX").arg(500).ignore();
                }
                Way::Unfenced => {
                    batch.cmd("SET").arg(&key).arg(OWNER).arg(&["NX", "GET", "PX", "500"]).ignore();
                    batch.cmd("PEXPIRETIME").arg(key).ignore();
                }
                Way::Fenced => {
                    let fence = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
                    let fence_key = format!("tenure~fence:{{{key}}}");
                    batch
                        .cmd("EVALSHA")
                        .arg(&sha)
                        .arg(4)
                        .arg(key)
                        .arg(fence_key)
                        .arg(&["tenure~fences:{tenure:}", "tenure~node:{tenure:}"]);
                    batch.arg(OWNER).arg(500).arg(fence.to_string());
                    batch.arg((fence / 1_000 + 60_000).to_string()).arg(NONCE);
                    batch.arg(format!(":{}", &NONCE[..8])).ignore();
                }
            }
        }
        batch.query::<()>(&mut connection)?;
    }
    Ok(count)
}
