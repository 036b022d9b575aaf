//! The client processes: started, halted, killed and listened to.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_testkit::Client;

use super::Options;
use super::nodes::{Node, SIDES};
use crate::history::{Entry, History, Ns, Process, now};

pub(super) struct Cast {
    program: String,
    /// What every client is told: settings, and for each half the addresses of the nodes.
    settings: String,
    urls: [Vec<String>; SIDES],
    /// For each client the process that it is at present, if it runs.
    running: Vec<Option<Running>>,
    history: Arc<Mutex<History>>,
    /// How many entries have been looked at.
    looked: usize,
    /// Every listener has a sender; when the last one has heard the end of its client, the receiver
    /// is told.
    listening: Option<Sender<()>>,
    heard_all: Receiver<()>,
    lives: u64,
    seed: u64,
}

struct Running {
    client: Client,
    process: usize,
}

impl Cast {
    pub(super) fn new(options: &Options, nodes: &[Node], resource: &str) -> Self {
        let (guard, hold) = (
            if options.guarded { "on" } else { "off" },
            if options.kind.is_steady() { "steady" } else { "mixed" },
        );
        let settings = format!(
            "workers={} locks={} max_ttl_ms={} guard={guard} hold={hold} resource={resource}",
            options.workers,
            options.locks,
            options.max_ttl.as_millis()
        );
        let urls = std::array::from_fn(|side| nodes.iter().map(|node| node.proxies[side].url()).collect());
        let (listening, heard_all) = channel();
        Self {
            program: options.contender.display().to_string(),
            settings,
            urls,
            running: (0..options.clients).map(|_| None).collect(),
            history: Arc::default(),
            looked: 0,
            listening: Some(listening),
            heard_all,
            lives: 0,
            seed: options.seed,
        }
    }

    pub(super) fn start(&mut self, client: usize) {
        self.lives += 1;
        let seed = format!("seed={}", self.seed.wrapping_mul(10_000).wrapping_add(self.lives));
        let words = [seed.as_str()].into_iter().chain(self.settings.split(' '));
        let urls = self.urls[client % SIDES].iter().map(String::as_str);
        let started = now();
        let mut process = Client::start_talking(&self.program, words.chain(urls));
        let mut history = lock(&self.history);
        let index = history.processes.len();
        history.processes.push(Process { client, started, ..Process::default() });
        drop(history);
        let (history, listening) = (Arc::clone(&self.history), self.listening.clone());
        process.hear_all(move |text| {
            // What was cut off in the middle by a kill was not said.
            if let Ok(entry) = text.parse() {
                lock(&history).entries.push((index, entry));
            }
            let _ = &listening;
        });
        self.running[client] = Some(Running { client: process, process: index });
    }

    pub(super) fn kill(&mut self, client: usize) {
        self.bury();
        if let Some(mut running) = self.running[client].take() {
            lock(&self.history).processes[running.process].killed = Some(now());
            running.client.kill();
        }
    }

    /// Writes down who has ended without having been killed.
    fn bury(&mut self) {
        for slot in &mut self.running {
            if let Some(dead) = slot.take_if(|running| running.client.has_ended()) {
                lock(&self.history).processes[dead.process].died = Some(now());
            }
        }
    }

    /// Halts it; it is not known before [`Cast::resume`] for how long.
    pub(super) fn pause(&mut self, client: usize) {
        if let Some(running) = &self.running[client] {
            lock(&self.history).processes[running.process].halts.push((now(), Ns::MAX));
            running.client.pause();
        }
    }

    pub(super) fn resume(&mut self, client: usize) {
        if let Some(running) = &self.running[client] {
            running.client.resume();
            if let Some(halt) = lock(&self.history).processes[running.process].halts.last_mut() {
                halt.1 = now();
            }
        }
    }

    pub(super) fn is_running(&self, client: usize) -> bool {
        self.running[client].is_some()
    }

    /// The clients that run or are halted.
    pub(super) fn running(&self) -> Vec<usize> {
        (0..self.running.len()).filter(|client| self.is_running(*client)).collect()
    }

    /// What running clients have said since the last look, and which of them.
    pub(super) fn news(&mut self) -> Vec<(usize, Entry)> {
        self.bury();
        let history = lock(&self.history);
        let fresh = &history.entries[self.looked..];
        self.looked = history.entries.len();
        let of = |process: usize| {
            let client = history.processes[process].client;
            self.running[client].as_ref().filter(|running| running.process == process).map(|_| client)
        };
        fresh.iter().filter_map(|(process, entry)| Some((of(*process)?, *entry))).collect()
    }

    /// Ends them all, and returns all that they did.
    pub(super) fn end(mut self) -> History {
        for client in 0..self.running.len() {
            self.kill(client);
        }
        drop(self.listening.take());
        // It fails when the last listener is done.
        let _ = self.heard_all.recv();
        std::mem::take(&mut lock(&self.history))
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_client_that_ends_by_itself_is_noticed_and_one_that_is_killed_is_not_blamed() {
        let options = |program: &str| Options { contender: program.into(), ..Options::default() };
        let mut cast = Cast::new(&options("true"), &[], "");
        cast.start(0);
        let start = Instant::now();
        while cast.is_running(0) {
            assert!(start.elapsed() < Duration::from_secs(10), "it is taken for alive");
            cast.news();
        }
        let process = &cast.end().processes[0];
        assert!(process.died.is_some() && process.killed.is_none(), "{process:?}");

        let mut cast = Cast::new(&options("yes"), &[], "");
        cast.start(0);
        let process = &cast.end().processes[0];
        assert!(process.died.is_none() && process.killed.is_some(), "{process:?}");
    }
}
