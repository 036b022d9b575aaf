//! Tenure beside other lock libraries, and etcd.
//!
//! Each peer is installed from its package registry, and used by a small driver of ours in its own
//! language (`bench/peers/`), in its natural best usage, with the settings it comes with and with
//! tuned ones. All drivers speak one protocol (`bench/peers/README.md`) and only say when they
//! asked for a lock, had it and gave it up; every figure is computed here, and so is whether two
//! ever held one lock at once. Contenders take turns (`turns.rs`).

mod aims;
mod contender;
mod driver;
mod etcd;
mod figures;
mod install;
mod options;
mod ours;
mod plot;
#[path = "../peers/rust/src/protocol.rs"]
mod protocol;
mod results;
mod servers;
mod table;
#[path = "../peers/rust/src/tasks.rs"]
mod tasks;
mod turns;
mod workload;

pub(crate) use self::etcd::Etcd;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
pub(crate) use ours::run as run_driver;

use crate::peers::contender::{PEERS, REQUIRED};
use crate::peers::install::Installed;
use crate::peers::options::Options;
use crate::peers::results::Section;
use crate::peers::workload::{Bench, Workload};

pub(crate) fn run(words: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    if options.list {
        list();
        return Ok(());
    }
    let began = Instant::now();
    let installed = Installed::install(&options.peers)?;
    let mut skipped = vec![];
    for peer in PEERS {
        let why = if options.peers.contains(&peer) {
            installed.missing(peer)
        } else {
            Some("it was not asked for".to_owned())
        };
        skipped.extend(why.map(|why| (peer, why)));
    }
    for (peer, why) in &skipped {
        eprintln!("peers: {} is skipped: {why}", peer.title);
    }
    let is_there = |peer: &&'static contender::Peer| !skipped.iter().any(|(skipped, _)| skipped == peer);
    let peers = options.peers.iter().copied().filter(is_there).collect();
    let Options { time, rounds, quick, .. } = options;
    let bench = Bench { installed: &installed, peers, time, rounds, quick };

    let out = options.out.clone().unwrap_or_else(|| installed.results());
    fs::create_dir_all(&out).with_context(|| format!("{} cannot be made", out.display()))?;
    let notes = notes(&options, &skipped);
    let mut sections = vec![];
    for workload in &options.workloads {
        sections.push(workload.run(&bench).with_context(|| format!("workload {}", workload.name()))?);
        // A run that is interrupted leaves what it has seen.
        write(&out, &notes, &sections)?;
    }
    if options.json {
        sections.iter().flat_map(|section| &section.raw).for_each(|turn| println!("{turn}"));
    } else {
        println!("{}", markdown(&notes, &sections));
    }
    eprintln!("peers: {} s; results are in {}", began.elapsed().as_secs(), out.display());
    verdict(&sections, &skipped)
}

/// What a run can have.
fn list() {
    println!("peers:");
    PEERS.iter().for_each(|peer| println!("  {:18} {} ({})", peer.name, peer.title, peer.stores.name()));
    println!("workloads:");
    Workload::ALL.iter().for_each(|workload| println!("  {:18} {}", workload.name(), workload.title()));
}

/// What has to be known to read the tables.
fn notes(options: &Options, skipped: &[(&contender::Peer, String)]) -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "{} rounds of {:?} for each contender in each cell, in turns; medians over the rounds, and the distance \
         of the best from the worst round in per cent. {cpus} CPUs for clients and servers. Times in \
         microseconds, CPU per cycle; in parentheses: times the floor.\n",
        options.rounds, options.time
    );
    for (peer, why) in skipped {
        text += &format!("\nSkipped: {} ({why}).\n", peer.title);
    }
    text
}

fn markdown(notes: &str, sections: &[Section]) -> String {
    let tables: String = sections.iter().map(table::of).collect();
    format!("# Tenure beside its peers\n\n{notes}\n{}{tables}", aims::table(sections))
}

fn write(out: &Path, notes: &str, sections: &[Section]) -> Result<()> {
    fs::write(out.join("table.md"), markdown(notes, sections))?;
    let raw: String =
        sections.iter().flat_map(|section| &section.raw).map(|turn| format!("{turn}\n")).collect();
    fs::write(out.join("raw.jsonl"), raw)?;
    for section in sections {
        for (name, picture) in plot::of(section) {
            fs::write(out.join(format!("{name}.svg")), picture)?;
        }
    }
    Ok(())
}

/// What has to be said last.
fn verdict(sections: &[Section], skipped: &[(&contender::Peer, String)]) -> Result<()> {
    let overlaps: Vec<_> = sections.iter().flat_map(Section::overlaps).collect();
    for (who, cell, count) in &overlaps {
        eprintln!("peers: TWO HOLDERS AT ONCE, {count} times: {who}, {cell}");
    }
    let missing: Vec<&str> =
        skipped.iter().map(|(peer, _)| peer.name).filter(|name| REQUIRED.contains(name)).collect();
    if !missing.is_empty() {
        eprintln!("peers: this run does not count: it is without {}", missing.join(", "));
    }
    let ours = overlaps.iter().any(|(who, ..)| who.peer.is_tenure());
    ensure!(!ours, "Tenure let two hold one lock at once");
    Ok(())
}
