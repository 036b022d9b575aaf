//! The play: ann is stopped between her read and her write, and bob works meanwhile.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tenure_testkit::{Client, RedisServer};

use crate::worker::{PATIENCE, Resource, TASK, TTL, Task};

/// Five servers, and how to start a worker.
pub(crate) struct Play {
    servers: [RedisServer; 5],
    program: String,
    arguments: Vec<String>,
}

/// What is left at the end.
pub(crate) struct Outcome {
    /// The names in the file.
    pub(crate) names: Vec<String>,
    /// What happened, line by line.
    #[allow(dead_code, reason = "the test looks at it; the example has shown it")]
    pub(crate) events: Vec<String>,
}

impl Play {
    /// Starts the servers. Workers are this program with these arguments, and their task in the
    /// environment.
    pub(crate) fn new(program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { servers: RedisServer::start_many(&[]), program: program.to_owned(), arguments }
    }

    /// Plays it once, and shows every event as it comes.
    pub(crate) fn run(&self, resource: Resource, show: impl FnMut(&str)) -> Result<Outcome, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("list"), "")?;
        let mut events = Events { folder: folder.path(), told: 0, seen: vec![], show };

        // Workers end when they are dropped, also on the way out with an error, and also stopped
        // ones.
        let mut ann = self.worker("ann", resource, folder.path());
        events.wait_for("ann has the lock")?;
        ann.pause();
        events.add("ann is stopped with SIGSTOP, for longer than the lock lasts");
        fs::write(folder.path().join("write"), "")?;

        let mut bob = self.worker("bob", resource, folder.path());
        events.wait_for("bob has the lock")?;
        events.wait_for("bob has written")?;
        end(&mut bob, "bob")?;

        ann.resume();
        events.add("ann goes on where she was, with SIGCONT");
        events.wait_for("ann has written")?;
        end(&mut ann, "ann")?;

        let list = fs::read_to_string(folder.path().join("list"))?;
        Ok(Outcome { names: list.lines().map(str::to_owned).collect(), events: events.seen })
    }

    fn worker(&self, name: &str, resource: Resource, folder: &Path) -> Client {
        let urls = self.servers.iter().map(RedisServer::url).collect();
        let task = Task { name: name.to_owned(), resource, folder: folder.to_owned(), urls };
        let arguments = self.arguments.iter().map(String::as_str);
        Client::start_quiet(&self.program, arguments, [(TASK, task.to_text().as_str())])
    }
}

fn end(worker: &mut Client, name: &str) -> Result<(), Box<dyn Error>> {
    // A worker on its way out tells its nodes that it is done, which cannot take longer than a few
    // terms.
    if worker.succeeds_within(PATIENCE + TTL) { Ok(()) } else { Err(format!("{name} failed").into()) }
}

/// What the workers tell, in the order they told it.
struct Events<'a, S> {
    folder: &'a Path,
    /// How many the workers told.
    told: usize,
    /// All, with those that the play itself added.
    seen: Vec<String>,
    show: S,
}

impl<S: FnMut(&str)> Events<'_, S> {
    fn add(&mut self, event: &str) {
        (self.show)(event);
        self.seen.push(event.to_owned());
    }

    /// Waits for an event that begins so.
    fn wait_for(&mut self, beginning: &str) -> Result<(), Box<dyn Error>> {
        let start = Instant::now();
        loop {
            let text = fs::read_to_string(self.folder.join("events")).unwrap_or_default();
            let complete = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            for event in complete.skip(self.told) {
                self.told += 1;
                self.add(event);
            }
            if self.seen.iter().any(|event| event.starts_with(beginning)) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("it did not come to pass that {beginning:?}").into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
